"""Translates declarations of tiles and arrays, windows and reinterpretations of tiles to Python."""

from __future__ import annotations

import math
from math import prod

from ..model import FloatAttr, Operation, case_of, round_real
from ..ops import TABLE
from ..ops.spec import COMPARE
from ..types import DYNAMIC, LocalArrayType, MultiTileType, TileType, Type
from . import dtypes
from .writer import LOWERINGS, Unsupported, Writer, extent_text, joined, shape_text

# Scalar arithmetic, pointers and views of global memory to Python.


def real(value: float, type_: Type | None) -> str:
    """Return a constant rounded to its type."""
    if math.isinf(value) or math.isnan(value):
        return f'float("{value}")'
    rounded = round_real(value, dtypes.name_of(type_))
    return f'float("{rounded}")' if math.isinf(rounded) else repr(rounded)


@LOWERINGS.of("constant")
def constant(w: Writer, op: Operation) -> None:
    value = w.resolved.results(op)[0]
    attribute = op.attrs["value"]
    if value.constant is not None:
        w.bind(value, str(value.constant))
    elif isinstance(attribute, FloatAttr):
        w.bind(value, real(attribute.value, value.type))
    elif str(attribute) in ("true", "false"):
        w.bind(value, str(attribute).capitalize())
    else:
        w.bind(value, "None")  # a vector: only seen by instructions that ignore it


def wrapped(text: str, type_: Type | None) -> str:
    """Return an integer wrapped to its type; `index` is assumed to be wide enough."""
    name = dtypes.name_of(type_)
    if name in ("index", ""):
        return text
    if name == "i1":
        return f"bool(({text}) % 2)"
    return f"{'natural' if name.startswith('u') else 'whole'}({text}, {dtypes.bits(type_)})"


def rounded(text: str, type_: Type | None) -> str:
    """Return a number rounded to its floating-point type."""
    name = dtypes.name_of(type_)
    return f"{'float' if name == 'f64' else name}({text})"


@LOWERINGS.of("arith")
def arithmetic(w: Writer, op: Operation) -> None:
    type_, function = w.resolved.results(op)[0].type, TABLE[op.name].meaning
    texts = {role: _inner(w.operand(op, role)) for role in op.operands}
    names = {"a": texts.get("lhs", ""), "b": texts.get("rhs", ""), "x": texts.get("in", "")}
    size = dtypes.bits(type_)
    unsigned = {f"u{k}": f"natural({_outer(names[k])}, {size})" for k in ("a", "b")}
    text = function.floats.format(**names, **unsigned)
    if dtypes.is_float(type_):
        w.define(op, rounded(text, type_) if function.converts else text)
        return
    if function.name in ("and", "or", "xor") and dtypes.name_of(type_) == "i1":
        text = f"bool({text})"
    w.define(op, wrapped(text, type_) if function.converts else text)


def _inner(text: str) -> str:
    """Return an operand as part of a larger expression."""
    return f"({text})" if text.startswith("-") else text


def _outer(text: str) -> str:
    return text[1:-1] if text.startswith("(-") else text


@LOWERINGS.of("arith_compare")
def compare(w: Writer, op: Operation) -> None:
    predicate, a, b = case_of(op.attrs["predicate"]), w.operand(op, "lhs"), w.operand(op, "rhs")
    if TABLE[op.name].fn == "float":
        w.define(op, _compare_floats(predicate, a, b))
        return
    if predicate[0] == "u":
        size = dtypes.bits(w.value(op, "lhs").type)
        a, b = (f"natural({text}, {size})" for text in (a, b))
    w.define(op, f"{a} {COMPARE[predicate if predicate in COMPARE else predicate[1:]]} {b}")


def _compare_floats(predicate: str, a: str, b: str) -> str:
    if predicate in ("true", "false"):
        return predicate.capitalize()
    unordered = f"math.isnan({a}) or math.isnan({b})"
    if predicate in ("ord", "uno"):
        return f"not ({unordered})" if predicate == "ord" else unordered
    test = f"{a} {COMPARE[predicate[1:]]} {b}"
    if predicate[0] == "u":
        return test if predicate == "une" else f"{unordered} or {test}"
    return f"not ({unordered}) and {test}" if predicate == "one" else test


@LOWERINGS.of("cast")
def cast(w: Writer, op: Operation) -> None:
    value, result = w.value(op, "in"), w.resolved.results(op)[0]
    source, target, text = value.type, result.type, w.operand(op, "in")
    kind = TABLE[op.name].fn
    if kind == "bitcast":
        w.define(op, _bitcast(text, source, target))
    elif kind in ("sitofp", "uitofp", "truncf", "extf"):
        if kind == "uitofp" and dtypes.name_of(source) != "i1":
            text = f"natural({text}, {dtypes.bits(source)})"
        elif kind == "sitofp" and dtypes.name_of(source) == "i1":
            text = f"-int({text})"
        w.define(op, text if kind == "extf" else rounded(text, target))
    elif kind in ("fptosi", "fptoui"):
        w.define(op, wrapped(f"int({text})", target))
    elif kind == "trunci" or (kind.startswith("index_cast") and dtypes.bits(target) < dtypes.bits(source)):
        w.define(op, wrapped(text, target))
    elif kind in ("extui", "index_castui") and dtypes.bits(source) < dtypes.bits(target):
        if dtypes.name_of(source) == "i1":
            w.define(op, f"int({text})")
        else:
            w.define(op, f"natural({text}, {dtypes.bits(source)})")
    elif kind in ("extsi", "index_cast") and dtypes.name_of(source) == "i1":
        w.define(op, f"-int({text})")
    else:
        w.bind(result, text)


def _bitcast(text: str, source: Type | None, target: Type | None) -> str:
    names = dtypes.name_of(source), dtypes.name_of(target)
    if names == ("f32", "i32"):
        return f"float_bits({text})"
    if names == ("i32", "f32"):
        return f"bits_float({text})"
    if not dtypes.is_float(source) and not dtypes.is_float(target):
        return wrapped(text, target)
    return f"recast({text}, {dtypes.torch_dtype(source)}, {dtypes.torch_dtype(target)})"


def _tuple(items: list[str]) -> str:
    return f"({', '.join(items)}{',' if len(items) == 1 else ''})"


@LOWERINGS.of("view:tensor")
def tensor_view(w: Writer, op: Operation) -> None:
    if id(w.resolved.results(op)[0]) in w.plain:
        return
    layout = case_of(op.attrs.get("layout"), "nd")
    shape, strides = (_tuple(w.operands(op, role)) for role in ("shape", "strides"))
    more = f', "{layout}"' if layout != "nd" else ""
    w.define(op, f"View({w.operand(op, 'ptr')}, {shape}, {strides}{more})")


def _check_rank(offsets: int, dimensions: int) -> None:
    if offsets != dimensions:
        raise Unsupported(f"with {offsets} offsets for {dimensions} dimensions")


def window(w: Writer, op: Operation, view: str, offsets: list[str], sizes: list[str]) -> None:
    _check_rank(len(offsets), len(sizes))
    parts = [
        f"{o}:{int(o) + int(s)}" if o.isdigit() and s.isdigit() else f"{o}:{o} + {s}" if o != "0" else f"0:{s}"
        for o, s in zip(offsets, sizes, strict=True)
    ]
    w.define(op, f"{view}[{', '.join(parts)}]")


def plain_window(w: Writer, op: Operation) -> None:
    """Write a window as a view of the tensor itself: its start, and its last two extents."""
    view = w.value(op, "view").op
    assert view is not None
    strides = w.operands(view, "strides")
    sizes = w.operands(op, "sizes")[-2:]
    _check_rank(len(w.operands(op, "offsets")), len(strides))
    offset = joined(list(zip(w.operands(op, "offsets"), strides, strict=True)))
    if len(sizes) == 1:
        sizes, strides = ["1", *sizes], ["0", *strides]
    more = f", {offset}" if offset != "0" else ""
    w.define(op, f"window({w.operand(view, 'ptr')}, {_tuple(sizes)}, {_tuple(strides[-2:])}{more})")


@LOWERINGS.of("view:partition")
def partition_view(w: Writer, op: Operation) -> None:
    if id(w.resolved.results(op)[0]) in w.plain:
        plain_window(w, op)
        return
    window(w, op, w.operand(op, "view"), w.operands(op, "offsets"), w.operands(op, "sizes"))


@LOWERINGS.of("pointer:cast")
def cast_pointer(w: Writer, op: Operation) -> None:
    element = getattr(op.result_types[0], "element", None)
    source = getattr(w.value(op, "src").type, "element", None)
    if element is None or source is None:
        raise Unsupported("between pointers and integers")
    w.define(op, f"{w.operand(op, 'src')}.seen_as({dtypes.torch_dtype(element)})")


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
    """Declare the tile that a pop fills, in the consumer's buffer."""
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
    """Write a window of a view or tile, which shares its bytes."""
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
    """Place a tile at an address of its memory, in place of its earlier address."""
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
