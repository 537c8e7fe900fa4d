"""Declarations of tiles and arrays, windows and reinterpretations of tiles to C++."""

from __future__ import annotations

from dataclasses import replace

from ..model import Operation
from ..types import DYNAMIC, LocalArrayType, MultiTileType, TileType
from . import spell
from .emitter import LOWERINGS, Emitter, GlobalView, MultiTile, Scalar, times


def _tile_type(op: Operation) -> TileType:
    type_ = op.result_types[0]
    if not isinstance(type_, TileType):
        raise spell.UnsupportedCppType(f"no tile of type {type_}")
    return type_


@LOWERINGS.of("tile:alloc")
def alloc_tile(e: Emitter, op: Operation) -> None:
    tile = e.declare_tile(op, _tile_type(op), e.text(op, "valid_row"), e.text(op, "valid_col"))
    address = e.text(op, "addr") or str(e.addresses.get(id(op), 0))
    e.out.add(f"TASSIGN({tile.name}, {address});")


@LOWERINGS.of("tile:declare")
def declare_tile(e: Emitter, op: Operation) -> None:
    e.declare_tile(op, _tile_type(op))


@LOWERINGS.of("tile:alloc_multi")
def alloc_multi(e: Emitter, op: Operation) -> None:
    type_ = op.result_types[0]
    if not isinstance(type_, MultiTileType) or not isinstance(type_.tile, TileType):
        raise spell.UnsupportedCppType(f"no tiles of type {type_}")
    e.bind(op, MultiTile(e.text(op, "addr") or str(e.addresses.get(id(op), 0)), type_.tile, type_.count))


@LOWERINGS.of("tile:slot")
def multi_slot(e: Emitter, op: Operation) -> None:
    tiles = e.bound.get(id(e.resolved.value(op, "tiles")))
    assert isinstance(tiles, MultiTile)
    tile = e.declare_tile(op, tiles.type)
    step = times(e.extents(op, "slot")[0], tiles.type.bytes)
    e.out.add(f"TASSIGN({tile.name}, {tiles.address} + {step});")


@LOWERINGS.of("tile:subview")
def subview(e: Emitter, op: Operation) -> None:
    """A window keeps the pitch of the tile it lies in, so it is declared with that tile's extents."""
    sizes = tuple(getattr(item, "value", 1) for item in getattr(op.attrs["sizes"], "items", ()))
    if "view" in op.operands:
        view = e.bound.get(id(e.resolved.value(op, "view")))
        assert isinstance(view, GlobalView)
        e.bind(op, view.window(e.extents(op, "offsets"), sizes))
        return
    src = e.tile(op, "src")
    valid = [str(extent) for extent in e.extents(op, "valid")] or [str(size) for size in sizes]
    tile = e.declare_tile(op, replace(src.type, v_row=DYNAMIC, v_col=DYNAMIC), *valid)
    row, col = e.extents(op, "offsets")
    e.out.add(f"TASSIGN({tile.name}, (uint64_t)({src.name}.data() + decltype({src.name})::GetOffset({row}, {col})));")


@LOWERINGS.of("tile:reinterpret")
def reinterpret(e: Emitter, op: Operation) -> None:
    src, tile = e.tile(op, "src"), e.declare_tile(op, _tile_type(op))
    e.out.add(f"TASSIGN({tile.name}, (uint64_t){src.name}.data());")


@LOWERINGS.of("tile:assign")
def assign_tile(e: Emitter, op: Operation) -> None:
    src = e.tile(op, "src")
    name = e.names.new(e.resolved.results(op)[0].name)
    e.out.add(f"auto {name} = {src.name};")
    e.out.add(f"TASSIGN({name}, {e.text(op, 'addr')});")
    e.bind(op, replace(src, name=name))


@LOWERINGS.of("tile:set_valid")
def set_valid(e: Emitter, op: Operation) -> None:
    e.out.add(f"{e.text(op, 'tile')}.SetValidShape({e.text(op, 'row')}, {e.text(op, 'col')});")


@LOWERINGS.of("tile:get_valid")
def get_valid(e: Emitter, op: Operation) -> None:
    tile = e.text(op, "tile")
    for value, part in zip(e.resolved.results(op), ("Row", "Col"), strict=True):
        name = e.names.new(value.name)
        e.out.add(f"const int64_t {name} = {tile}.GetValid{part}();")
        e.bound[id(value)] = Scalar(name, "int64_t")


@LOWERINGS.of("array:declare")
def declare_array(e: Emitter, op: Operation) -> None:
    type_ = op.result_types[0]
    name = e.names.new(op.results[0])
    if isinstance(type_, LocalArrayType):
        e.out.add(f"{spell.scalar(type_.element)} {name}{''.join(f'[{n}]' for n in type_.shape)};")
    else:
        e.out.add(f"int64_t {name}[16] = {{}};")
    e.bind(op, Scalar(name, ""))


def _array_element(e: Emitter, op: Operation) -> str:
    role = "indices" if "indices" in op.operands else "index"
    return e.text(op, "array") + "".join(f"[{i}]" for i in e.extents(op, role))


@LOWERINGS.of("array:get")
def get_array(e: Emitter, op: Operation) -> None:
    e.define(op, _array_element(e, op))


@LOWERINGS.of("array:set")
def set_array(e: Emitter, op: Operation) -> None:
    e.out.add(f"{_array_element(e, op)} = {e.text(op, 'value')};")
