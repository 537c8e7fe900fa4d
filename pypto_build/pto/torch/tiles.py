"""Declarations of tiles and arrays, windows and reinterpretations of tiles to Python."""

from __future__ import annotations

from math import prod

from ..model import Operation
from ..types import DYNAMIC, LocalArrayType, MultiTileType, TileType
from . import dtypes
from .scalars import window
from .writer import LOWERINGS, Unsupported, Writer, extent_text, shape_text


def _tile_type(op: Operation) -> TileType:
    type_ = op.result_types[0]
    if not isinstance(type_, TileType):
        raise Unsupported(f"no tile of type {type_}")
    return type_


def _declare(w: Writer, op: Operation, type_: TileType, address: str, rows: str = "", cols: str = "") -> str:
    memory = w.memory(type_.loc)
    text = f"{memory}.tile({address}, {shape_text(type_)}{extent_text(type_, rows, cols)})"
    name = w.name_result(op)
    w.out.add(f"{name} = {text}")
    return name


def declare_popped(w: Writer, op: Operation, type_: TileType, address: str) -> str:
    """The tile that a pop fills, in the consumer's buffer."""
    return _declare(w, op, type_, address, w.operand(op, "valid_row"), w.operand(op, "valid_col"))


@LOWERINGS.of("tile:alloc", "tile:declare")
def alloc_tile(w: Writer, op: Operation) -> None:
    """Declare a tile. Without an address it lies in a memory of its own, until a pop or an assignment places it.

    A tile that is a variable lies in no memory.
    """
    type_, value = _tile_type(op), w.resolved.results(op)[0]
    if value in w.promotion:
        variable = w.promotion.variables[id(value)]
        w.bind(value, w.names.unique(value.name) if variable is value else w.text(variable))
        return
    rows, cols = w.operand(op, "valid_row"), w.operand(op, "valid_col")
    address = w.operand(op, "addr")
    if address:
        _declare(w, op, type_, address, rows, cols)
        return
    own = f'Memory("", {max(type_.bytes, 32)})'
    w.out.add(f"{w.name_result(op)} = {own}.tile(0, {shape_text(type_)}{extent_text(type_, rows, cols)})")


@LOWERINGS.of("tile:alloc_multi")
def alloc_multi(w: Writer, op: Operation) -> None:
    type_ = op.result_types[0]
    if not isinstance(type_, MultiTileType) or not isinstance(type_.tile, TileType):
        raise Unsupported(f"no tiles of type {type_}")
    tile, step = type_.tile, type_.tile.bytes
    address, memory = w.operand(op, "addr"), w.memory(type_.tile.loc)
    valid = extent_text(tile, w.operand(op, "valid_row"), w.operand(op, "valid_col"))
    name = w.name_result(op)
    if not address:
        address, memory = "0", w.names.unique(f"{name}_memory")
        w.out.add(f'{memory} = Memory("", {step * type_.count})')
    slot = f"{memory}.tile({address} + {step} * slot, {shape_text(tile)}{valid})"
    w.out.add(f"{name} = [{slot} for slot in range({type_.count})]")


@LOWERINGS.of("tile:subview")
def subview(w: Writer, op: Operation) -> None:
    """A window of a view, or of a tile, whose bytes it shares."""
    sizes = [getattr(item, "value", 1) for item in getattr(op.attrs["sizes"], "items", ())]
    if "view" in op.operands:
        window(w, op, w.operand(op, "view"), w.operands(op, "offsets"), [str(size) for size in sizes])
        return
    row, col = w.operands(op, "offsets")
    valid = w.operands(op, "valid")
    more = f", valid=({', '.join(valid)})" if valid and valid != [str(size) for size in sizes] else ""
    w.define(op, f"{w.operand(op, 'src')}.window({row}, {col}, {', '.join(map(str, sizes))}{more})")


@LOWERINGS.of("tile:reinterpret")
def reinterpret(w: Writer, op: Operation) -> None:
    type_ = _tile_type(op)
    valid = extent_text(type_, "", "") if DYNAMIC not in (type_.v_row, type_.v_col) else ""
    w.define(op, f"{w.operand(op, 'src')}.seen_as({shape_text(type_)}{valid})")


@LOWERINGS.of("tile:assign")
def assign_tile(w: Writer, op: Operation) -> None:
    """A tile at an address of its memory, wherever it was before."""
    type_ = _tile_type(op)
    where = f"{w.operand(op, 'addr')}, {shape_text(type_)}, valid={w.operand(op, 'src')}.valid"
    w.define(op, f"{w.memory(type_.loc)}.tile({where})")


@LOWERINGS.of("tile:get_valid")
def get_valid(w: Writer, op: Operation) -> None:
    tile = w.operand(op, "tile")
    names = [w.name_result(op, number) for number in range(2)]
    w.out.add(f"{', '.join(names)} = {tile}.valid")


@LOWERINGS.of("element:get")
def get_element(w: Writer, op: Operation) -> None:
    elements = f"{w.own(op, 'tile')}.flatten()" if w.is_variable(op, "tile") else f"{w.operand(op, 'tile')}.flat"
    w.define(op, f"{elements}[{w.operand(op, 'offset')}].item()")


@LOWERINGS.of("array:declare")
def declare_array(w: Writer, op: Operation) -> None:
    type_ = op.result_types[0]
    size = prod(type_.shape) if isinstance(type_, LocalArrayType) else 16
    zero = "0.0" if isinstance(type_, LocalArrayType) and dtypes.is_float(type_.element) else "0"
    w.out.add(f"{w.name_result(op)} = [{zero}] * {size}")


def _index(w: Writer, op: Operation) -> str:
    role = "indices" if "indices" in op.operands else "index"
    indices = w.operands(op, role)
    type_ = w.value(op, "array").type
    shape = type_.shape if isinstance(type_, LocalArrayType) else (16,)
    terms = []
    for number, index in enumerate(indices):
        step = prod(shape[number + 1 :])
        terms.append(index if step == 1 else f"{index} * {step}")
    return " + ".join(terms)


@LOWERINGS.of("array:get")
def get_array(w: Writer, op: Operation) -> None:
    w.define(op, f"{w.operand(op, 'array')}[{_index(w, op)}]")


@LOWERINGS.of("array:set")
def set_array(w: Writer, op: Operation) -> None:
    w.add(op, f"{w.operand(op, 'array')}[{_index(w, op)}] = {w.operand(op, 'value')}")
