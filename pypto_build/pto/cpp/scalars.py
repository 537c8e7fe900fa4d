"""Scalar arithmetic, pointers and views of global memory to C++."""

from __future__ import annotations

from ..attributes import FloatAttr, case_of
from ..model import Operation
from ..ops import TABLE
from ..ops.functions import COMPARE
from . import spell
from .emitter import LOWERINGS, Emitter, GlobalView, Scalar


@LOWERINGS.of("constant")
def constant(e: Emitter, op: Operation) -> None:
    value = e.resolved.results(op)[0]
    if value.constant is not None:
        e.bind(op, Scalar(spell.integer(value.constant, value.type), spell.scalar(value.type)))
        return
    attribute = op.attrs["value"]
    if isinstance(attribute, FloatAttr) and value.type is not None:
        e.define(op, spell.real(attribute.value, value.type))
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
    """Write an expression of the operands, from here or from the operation's row."""
    definition = TABLE[op.name]
    ctype = spell.scalar(e.resolved.results(op)[0].type)
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
        ctype = spell.scalar(value.type if value else None)
        cast = f"({ctype if ctype.startswith('u') else 'u' + ctype})"
        lhs, rhs = cast + lhs, cast + rhs
    e.define(op, f"{lhs} {operator} {rhs}")


def _compare_floats(predicate: str, lhs: str, rhs: str) -> str:
    """Ordered predicates are false, unordered ones true when an operand is not a number."""
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
    target = spell.scalar(e.resolved.results(op)[0].type)
    text = e.text(op, "in")
    source = spell.scalar(value.type if value else None)
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
    element = spell.scalar(getattr(type_, "element", None))
    e.bind(op, GlobalView(e.text(op, "ptr"), element, e.extents(op, "shape"), e.extents(op, "strides"), layout))


@LOWERINGS.of("view:partition")
def partition_view(e: Emitter, op: Operation) -> None:
    view = e.bound.get(id(e.resolved.value(op, "view")))
    if not isinstance(view, GlobalView):
        e.fail(op, "the view is not a tensor_view this assembler knows")
    e.bind(op, view.window(e.extents(op, "offsets"), e.extents(op, "sizes")))


@LOWERINGS.of("view:dim")
def view_dim(e: Emitter, op: Operation) -> None:
    view = e.bound.get(id(e.resolved.value(op, "view")))
    dim = e.resolved.constant(op, "dim")
    if not isinstance(view, GlobalView) or dim is None or not 0 <= dim < len(view.shape):
        e.fail(op, "the dimension of this view is not known")
    e.define(op, str(view.shape[dim]))


@LOWERINGS.of("scalar:store")
def store_scalar(e: Emitter, op: Operation) -> None:
    e.out.add(f"{e.text(op, 'ptr')}[{e.text(op, 'index')}] = {e.text(op, 'value')};")
