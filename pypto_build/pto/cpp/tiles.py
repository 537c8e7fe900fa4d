"""Converts declarations of tiles and arrays, windows and reinterpretations of tiles to C++."""

from __future__ import annotations

from dataclasses import replace

from ..model import FloatAttr, Operation, case_of
from ..ops import TABLE
from ..ops.spec import COMPARE
from ..types import DYNAMIC, LocalArrayType, MultiTileType, TileType
from . import emitter
from .emitter import LOWERINGS, Emitter, GlobalView, MultiTile, Scalar, times

# Scalar arithmetic, pointers and views of global memory to C++.


@LOWERINGS.of("constant")
def constant(e: Emitter, op: Operation) -> None:
    value = e.resolved.results(op)[0]
    if value.constant is not None:
        e.bind(op, Scalar(emitter.integer(value.constant, value.type), emitter.scalar(value.type)))
        return
    attribute = op.attrs["value"]
    if isinstance(attribute, FloatAttr) and value.type is not None:
        e.define(op, emitter.real(attribute.value, value.type))
    elif str(attribute) in ("true", "false"):
        e.bind(op, Scalar(str(attribute), "bool"))
    else:
        e.bind(op, Scalar("", ""))  # a vector constant: only seen by instructions that ignore it


_EXPRESSIONS = {
    "arith_select": "{cond} ? {on_true} : {on_false}",
    "element:get": "({type}){tile}.GetValue({offset})",
    "pointer:add": "{ptr} + {offset}",
    "pointer:cast": "({type}){src}",
    "scalar:load": "({type}){ptr}[{index}]",
}


@LOWERINGS.of("arith", "core_id", *_EXPRESSIONS)
def expression(e: Emitter, op: Operation) -> None:
    """Write an expression of the operands, from this module's table or from the operation's row."""
    definition = TABLE[op.name]
    ctype = emitter.scalar(e.resolved.results(op)[0].type)
    unsigned = {"bool": "bool"}.get(ctype, ctype if ctype.startswith("u") else f"u{ctype}")
    form = next((_EXPRESSIONS[key] for key in definition.keys if key in _EXPRESSIONS), definition.cpp)
    e.define(op, form.format(u=f"({unsigned})", type=ctype, **{role: e.text(op, role) for role in op.operands}))


@LOWERINGS.of("arith_compare")
def compare(e: Emitter, op: Operation) -> None:
    predicate = case_of(op.attrs["predicate"])
    lhs, rhs = e.text(op, "lhs"), e.text(op, "rhs")
    if TABLE[op.name].fn == "float":
        e.define(op, _compare_floats(predicate, lhs, rhs))
        return
    sign = predicate[0] if predicate[1:] in COMPARE and predicate not in COMPARE else ""
    operator = COMPARE[predicate.removeprefix(sign) if sign else predicate]
    if sign == "u":
        value = e.resolved.value(op, "lhs")
        ctype = emitter.scalar(value.type if value else None)
        cast = f"({ctype if ctype.startswith('u') else 'u' + ctype})"
        lhs, rhs = cast + lhs, cast + rhs
    e.define(op, f"{lhs} {operator} {rhs}")


def _compare_floats(predicate: str, lhs: str, rhs: str) -> str:
    """Return a comparison: with a NaN operand, ordered predicates are false and unordered ones true."""
    if predicate in ("true", "false"):
        return predicate
    unordered = f"({lhs} != {lhs} || {rhs} != {rhs})"
    if predicate in ("ord", "uno"):
        return unordered if predicate == "uno" else f"!{unordered}"
    test = f"{lhs} {COMPARE[predicate[1:]]} {rhs}"
    return f"{unordered} || {test}" if predicate[0] == "u" else f"!{unordered} && {test}"


@LOWERINGS.of("cast")
def cast(e: Emitter, op: Operation) -> None:
    value = e.resolved.value(op, "in")
    target = emitter.scalar(e.resolved.results(op)[0].type)
    text = e.text(op, "in")
    source = emitter.scalar(value.type if value else None)
    if TABLE[op.name].fn in ("extui", "index_castui", "uitofp") and source.startswith("int"):
        text = f"(u{source}){text}"
    if TABLE[op.name].fn == "bitcast":
        e.define(op, f"__builtin_bit_cast({target}, {text})")
        return
    e.define(op, f"({target}){text}")


@LOWERINGS.of("view:tensor")
def tensor_view(e: Emitter, op: Operation) -> None:
    type_ = op.result_types[0]
    layout = case_of(op.attrs.get("layout"), "nd").upper()
    element = emitter.scalar(getattr(type_, "element", None))
    e.bind(op, GlobalView(e.text(op, "ptr"), element, e.extents(op, "shape"), e.extents(op, "strides"), layout))


@LOWERINGS.of("view:partition")
def partition_view(e: Emitter, op: Operation) -> None:
    view = e.bound.get(id(e.resolved.value(op, "view")))
    if not isinstance(view, GlobalView):
        e.fail(op, "the view is not a tensor_view that the built-in assembler supports")
    e.bind(op, view.window(e.extents(op, "offsets"), e.extents(op, "sizes")))


@LOWERINGS.of("view:dim")
def view_dim(e: Emitter, op: Operation) -> None:
    view = e.bound.get(id(e.resolved.value(op, "view")))
    dim = e.resolved.constant(op, "dim")
    if not isinstance(view, GlobalView) or dim is None or not 0 <= dim < len(view.shape):
        e.fail(op, "the size of this dimension of the view is not known")
    e.define(op, str(view.shape[dim]))


@LOWERINGS.of("scalar:store")
def store_scalar(e: Emitter, op: Operation) -> None:
    e.out.add(f"{e.text(op, 'ptr')}[{e.text(op, 'index')}] = {e.text(op, 'value')};")


def _tile_type(op: Operation) -> TileType:
    type_ = op.result_types[0]
    if not isinstance(type_, TileType):
        raise emitter.UnsupportedCppType(f"a tile of the type {type_} is not supported")
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
        raise emitter.UnsupportedCppType(f"tiles of the type {type_} are not supported")
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
    """Write a window, which keeps the pitch of the enclosing tile and is declared with that tile's extents."""
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
        e.out.add(f"{emitter.scalar(type_.element)} {name}{''.join(f'[{n}]' for n in type_.shape)};")
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
