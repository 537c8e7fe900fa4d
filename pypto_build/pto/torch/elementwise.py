"""Instructions on elements that stand at the same place to Python."""

from __future__ import annotations

from ..attributes import case_of, int_value
from ..model import Operation
from ..ops import TABLE
from ..ops.functions import COMPARE, Meaning
from ..types import ScalarType, TileType, Type
from . import dtypes
from .scalars import rounded, wrapped
from .writer import LOWERINGS, Unsupported, Writer


def element(w: Writer, op: Operation, role: str = "dst") -> Type:
    return w.tile_type(op, role).dtype


def expression(function: Meaning, type_: Type, *, number: bool = False) -> str:
    """Return the expression of a function for an element type; `number`: its second operand is one."""
    is_float = dtypes.is_float(type_)
    if is_float and dtypes.name_of(type_) not in dtypes.FLOATS:
        raise Unsupported(f"arithmetic on {type_}")
    text = function.expression(is_float=is_float, number=number)
    if not text:
        raise Unsupported(f"on elements of type {type_}")
    return text


def scalar(w: Writer, op: Operation, role: str = "scalar", type_: Type | None = None) -> str:
    """A number operand, converted to the tile's element type where it has another."""
    value, text = w.value(op, role), w.operand(op, role)
    type_ = type_ or element(w, op)
    if isinstance(value.type, TileType):
        return f"{text}[1, 1]"
    if value.constant is not None or value.type == type_ or not isinstance(value.type, ScalarType):
        return f"float({text})" if dtypes.is_float(type_) and text.lstrip("-").isdigit() else _fit(text, type_)
    if dtypes.is_float(type_):
        return rounded(text, type_)
    return wrapped(f"int({text})" if dtypes.is_float(value.type) else text, type_)


def _fit(text: str, type_: Type) -> str:
    """A constant within the range of an unsigned type."""
    if dtypes.is_unsigned(type_) and text.startswith("-") and text[1:].isdigit():
        return str(int(text) % (1 << dtypes.bits(type_)))
    return text


def within(text: str) -> str:
    return f"({text})" if text.startswith("-") else text


def kept(w: Writer, op: Operation) -> bool:
    """Return whether the expression of an operation's function has the element type of the destination."""
    type_ = element(w, op)
    same = all(element(w, op, role) == type_ for role in ("src", "src0", "src1") if role in op.operands)
    return same and TABLE[op.name].meaning.keeps(is_float=dtypes.is_float(type_))


@LOWERINGS.of("elementwise")
def elementwise(w: Writer, op: Operation) -> None:
    """Translate a function of one tile, two tiles, or a tile and a number, over the destination's valid region."""
    function, type_ = TABLE[op.name].meaning, element(w, op)
    number_first = next(iter(op.operands)) == "scalar"
    number = within(scalar(w, op)) if "scalar" in op.operands else ""
    text = expression(function, type_, number=bool(number) and not number_first)
    if number_first:
        a, b = _tensor(number, type_), w.read(op, "src")
    elif "src1" in op.operands:
        a, b = w.read(op, "src0"), w.read(op, "src1")
    else:
        a, b = w.read(op, "src"), number
    if function.halves and dtypes.bits(type_) == 16:
        w.assign(op, function.halves.format(a=a), kept=False)
        return
    held = w.own(op, "dst") if "{d}" in text else ""
    w.assign(op, text.format(a=a, b=b, d=held, bits=dtypes.bits(type_)), kept=kept(w, op))


def _tensor(number: str, type_: Type) -> str:
    """Return a number as the left operand.

    torch divides a plain number by multiplying with the reciprocal, which rounds twice, and cannot divide it by
    integers.
    """
    return f"torch.tensor({number}{f', dtype={dtypes.torch_dtype(type_)}' if dtypes.is_float(type_) else ''})"


@LOWERINGS.of("ternary")
def ternary(w: Writer, op: Operation) -> None:
    """Translate a function of three tiles; the second one may be a number."""
    number = "scalar" in op.operands
    b = within(scalar(w, op)) if number else w.read(op, "src1")
    c = w.read(op, "src1" if number else "src2")
    w.assign(op, TABLE[op.name].meaning.floats.format(a=w.read(op, "src0"), b=b, c=c))


@LOWERINGS.of("fill:scalar")
def fill(w: Writer, op: Operation) -> None:
    value = w.value(op, "dst")
    if value not in w.promotion:
        w.assign(op, scalar(w, op))
        return
    dtype = dtypes.torch_dtype(element(w, op))
    w.assign(op, f"torch.full({w.valid(op, 'dst')}, {scalar(w, op)}, dtype={dtype})")


@LOWERINGS.of("fill:sequence")
def sequence(w: Writer, op: Operation) -> None:
    start, type_ = w.operand(op, "start"), w.tile_type(op, "dst")
    sign = "-" if int_value(op.attrs.get("descending")) else "+"
    count = f"{w.operand(op, 'dst')}.valid[1]"
    columns = w.resolved.extents(w.value(op, "dst"))[1]
    steps = f"torch.arange({count if columns is None else columns})"
    if type_.rows > 1 and type_.blayout == "row_major":
        w.add(op, f"{w.operand(op, 'dst')}[:] = ({start} {sign} {steps})[None]")
        return
    w.assign(op, f"({start} {sign} {steps})[None]")


@LOWERINGS.of("fill:triangle")
def triangle(w: Writer, op: Operation) -> None:
    dst = w.operand(op, "dst")
    function = "triu" if int_value(op.attrs.get("upperOrLower")) else "tril"
    diagonal = w.operand(op, "diagonal")
    w.assign(op, f"torch.ones({dst}.valid).{function}({diagonal})")


@LOWERINGS.of("fill:random")
def random(w: Writer, op: Operation) -> None:
    words = [f"natural({w.operand(op, role)}, 32)" for role in ("key0", "key1", "ctr0", "ctr1", "ctr2", "ctr3")]
    dst, rounds = w.operand(op, "dst"), int_value(op.attrs.get("rounds"), 10)
    key, counter = ", ".join(words[:2]), ", ".join(words[2:])
    w.assign(op, f"random_words({dst}.valid, {dst}.cols, ({key}), ({counter}), {rounds})")


@LOWERINGS.of("compare")
def compare(w: Writer, op: Operation) -> None:
    """To bits of a mask, over the valid region of the first operand."""
    mode = case_of(op.attrs.get("cmpMode"), "eq")
    if "scalar" in op.operands:
        a, b = w.own(op, "src"), within(scalar(w, op, type_=element(w, op, "src")))
    else:
        a, b = w.own(op, "src0"), w.read(op, "src1", "src0")
    source = "src" if "scalar" in op.operands else "src0"
    if w.arch == "a2a3" and dtypes.name_of(element(w, op, source)) == "i32" and mode != "eq":
        w.out.add("# the vector unit of a2a3 compares int32 for equality only, whatever the mode")
        mode = "eq"
    w.add(op, f"put_mask({w.operand(op, 'dst')}, {a} {COMPARE[mode]} {b})")


@LOWERINGS.of("select")
def select(w: Writer, op: Operation) -> None:
    mask = f"mask_of({w.operand(op, 'mask')}, {w.valid(op, 'dst')})"
    if "scalar" in op.operands:
        dtype = dtypes.torch_dtype(element(w, op))
        w.assign(op, f"torch.where({mask}, {w.read(op, 'src')}, torch.tensor({scalar(w, op)}).to({dtype}))")
    else:
        w.assign(op, f"torch.where({mask}, {w.read(op, 'src0')}, {w.read(op, 'src1')})")
