"""Scalar arithmetic, pointers and views of global memory to Python."""

from __future__ import annotations

import math

from ..attributes import FloatAttr, case_of, round_real
from ..model import Operation
from ..ops import TABLE
from ..ops.functions import COMPARE
from ..types import Type
from . import dtypes
from .writer import LOWERINGS, Unsupported, Writer, joined


def real(value: float, type_: Type | None) -> str:
    """A constant, rounded to its type."""
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
    """An integer as its type holds it; `index` is taken to be wide enough."""
    name = dtypes.name_of(type_)
    if name in ("index", ""):
        return text
    if name == "i1":
        return f"bool(({text}) % 2)"
    return f"{'natural' if name.startswith('u') else 'whole'}({text}, {dtypes.bits(type_)})"


def rounded(text: str, type_: Type | None) -> str:
    """A number as its floating-point type holds it."""
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
    """An operand within an expression."""
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
    """A view of the tensor itself: where it starts, and its last two extents."""
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
