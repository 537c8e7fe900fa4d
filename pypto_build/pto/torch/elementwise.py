"""Instructions on elements that stand at the same place: a row for most, with the expression of the result."""

from __future__ import annotations

from ..attributes import case_of, int_value
from ..model import Operation
from ..ops import TABLE
from ..types import ScalarType, TileType, Type
from . import dtypes
from .scalars import rounded, wrapped
from .writer import Unsupported, Writer

# function -> expression of floats, expression of integers; a and b are what the operands hold
BINARY: dict[str, tuple[str, str]] = {
    "add": ("{a} + {b}", "{a} + {b}"),
    "sub": ("{a} - {b}", "{a} - {b}"),
    "mul": ("{a} * {b}", "{a} * {b}"),
    "div": ("{a} / {b}", "divide({a}, {b})"),
    "max": ("torch.maximum({a}, {b})",) * 2,
    "min": ("torch.minimum({a}, {b})",) * 2,
    "fmod": ("torch.fmod({a}, {b})", "fmod({a}, {b})"),
    "rem": ("remainder({a}, {b})",) * 2,
    "pow": ("power({a}, {b})",) * 2,
    "and": ("", "{a} & {b}"),
    "or": ("", "{a} | {b}"),
    "xor": ("", "{a} ^ {b}"),
    "shl": ("", "shift_left({a}, {b}, {bits})"),
    "shr": ("", "shift_right({a}, {b}, {bits})"),
    "prelu": ("torch.where({a} > 0, {a}, {a} * {b})",) * 2,
    "expdif": ("torch.exp({a} - {b})", ""),
    "axpy": ("{d} + {a} * {b}",) * 2,
}  # fmt: skip
# with a number instead of the second tile, where that is written otherwise
_WITH_SCALAR: dict[str, tuple[str, str]] = {
    "max": ("{a}.clamp(min={b})",) * 2,
    "min": ("{a}.clamp(max={b})",) * 2,
    "fmod": ("torch.fmod({a}, {b})", "fmod({a}, torch.tensor({b}))"),
    "div": ("{a} / {b}", "divide({a}, torch.tensor({b}))"),
    "rem": ("remainder({a}, torch.tensor({b}))",) * 2,
    "pow": ("power({a}, torch.tensor({b}))",) * 2,
    "shl": ("", "shift_left({a}, torch.tensor({b}), {bits})"),
    "shr": ("", "shift_right({a}, torch.tensor({b}), {bits})"),
}
_UNARY: dict[str, tuple[str, str]] = {
    "abs": ("torch.abs({a})",) * 2,
    "neg": ("-{a}",) * 2,
    "exp": ("torch.exp({a})", ""),
    "log": ("torch.log({a})", ""),
    "sqrt": ("square_root({a})", ""),
    "rsqrt": ("torch.rsqrt({a})", ""),
    "recip": ("torch.reciprocal({a})", ""),
    "relu": ("torch.relu({a})",) * 2,
    "not": ("", "~{a}"),
}

#: Functions whose result has the element type of their operands.
_KEEPS = frozenset((
    "add", "sub", "mul", "max", "min", "and", "or", "xor", "expdif", "prelu", "axpy", "abs", "neg", "exp", "log",
    "sqrt", "rsqrt", "recip", "relu", "not",
))  # fmt: skip


def element(w: Writer, op: Operation, role: str = "dst") -> Type:
    return w.tile_type(op, role).dtype


def form(rows: dict[str, tuple[str, str]], fn: str, type_: Type) -> str:
    """The expression of a function for an element type."""
    name = dtypes.name_of(type_)
    if name not in dtypes.FLOATS and dtypes.is_float(type_):
        raise Unsupported(f"arithmetic on {type_}")
    found = rows[fn][0 if dtypes.is_float(type_) else 1]
    if not found:
        raise Unsupported(f"on elements of type {type_}")
    return found


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


def kept(w: Writer, op: Operation, fn: str) -> bool:
    """Whether the expression of a function has the element type of the destination."""
    type_ = element(w, op)
    same = all(element(w, op, role) == type_ for role in ("src", "src0", "src1") if role in op.operands)
    return same and (fn in _KEEPS or (fn in ("div", "fmod") and dtypes.is_float(type_)))


def elementwise(w: Writer, op: Operation) -> None:
    """Of one tile, two tiles, or a tile and a number, over the destination's valid region."""
    fn, type_ = TABLE[op.name].fn, element(w, op)
    more = {"bits": str(dtypes.bits(type_)), "dtype": dtypes.torch_dtype(type_)}
    if "scalar" in op.operands:
        number, src = within(scalar(w, op)), w.read(op, "src")
        if fn == "axpy":
            text = form(BINARY, fn, type_).format(d=w.own(op, "dst"), a=src, b=number, **more)
        elif next(iter(op.operands)) == "scalar":  # number / tile
            text = form(BINARY, fn, type_).format(a=_tensor(number, type_), b=src, **more)
        else:
            rows = _WITH_SCALAR if fn in _WITH_SCALAR else BINARY
            text = form(rows, fn, type_).format(a=src, b=number, **more)
        w.assign(op, text, kept=kept(w, op, fn))
        return
    if "src1" in op.operands:
        a, b = w.read(op, "src0"), w.read(op, "src1")
        w.assign(op, form(BINARY, fn, type_).format(a=a, b=b, **more), kept=kept(w, op, fn))
        return
    if fn == "rsqrt" and dtypes.bits(type_) == 16:  # torch rounds in between, or not, as elements lie in memory
        w.assign(op, f"torch.rsqrt({w.read(op, 'src')}.float())", kept=False)
        return
    w.assign(op, form(_UNARY, fn, type_).format(a=w.read(op, "src")), kept=kept(w, op, fn))


def _tensor(number: str, type_: Type) -> str:
    """A number as the left operand: torch divides a plain one by multiplying with the reciprocal, which rounds twice,
    and has no division of integers for it."""
    return f"torch.tensor({number}{f', dtype={dtypes.torch_dtype(type_)}' if dtypes.is_float(type_) else ''})"


def ternary(w: Writer, op: Operation) -> None:
    """src0 + src1 + src2, or src0 - src1 + src2; the second one may be a number."""
    first = "-" if TABLE[op.name].fn.startswith("sub") else "+"
    middle = within(scalar(w, op)) if "scalar" in op.operands else w.read(op, "src1")
    last = w.read(op, "src1" if "scalar" in op.operands else "src2")
    w.assign(op, f"{w.read(op, 'src0')} {first} {middle} + {last}")


def fill(w: Writer, op: Operation) -> None:
    value = w.value(op, "dst")
    if value not in w.promotion:
        w.assign(op, scalar(w, op))
        return
    dtype = dtypes.torch_dtype(element(w, op))
    w.assign(op, f"torch.full({w.valid(op, 'dst')}, {scalar(w, op)}, dtype={dtype})")


def sequence(w: Writer, op: Operation) -> None:
    start, type_ = w.operand(op, "start"), w.tile_type(op, "dst")
    sign = "-" if int_value(op.attrs.get("descending")) else "+"
    count = f"{w.operand(op, 'dst')}.valid[1]"
    known = w.resolved.extents(w.value(op, "dst"))[1]
    steps = f"torch.arange({count if known is None else known})"
    if type_.rows > 1 and type_.blayout == "row_major":
        w.add(op, f"{w.operand(op, 'dst')}[:] = ({start} {sign} {steps})[None]")
        return
    w.assign(op, f"({start} {sign} {steps})[None]")


def triangle(w: Writer, op: Operation) -> None:
    dst = w.operand(op, "dst")
    function = "triu" if int_value(op.attrs.get("upperOrLower")) else "tril"
    diagonal = w.operand(op, "diagonal")
    w.assign(op, f"torch.ones({dst}.valid).{function}({diagonal})")


def random(w: Writer, op: Operation) -> None:
    words = [f"natural({w.operand(op, role)}, 32)" for role in ("key0", "key1", "ctr0", "ctr1", "ctr2", "ctr3")]
    dst, rounds = w.operand(op, "dst"), int_value(op.attrs.get("rounds"), 10)
    key, counter = ", ".join(words[:2]), ", ".join(words[2:])
    w.assign(op, f"random_words({dst}.valid, {dst}.cols, ({key}), ({counter}), {rounds})")


_COMPARE = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}


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
    w.add(op, f"put_mask({w.operand(op, 'dst')}, {a} {_COMPARE[mode]} {b})")


def select(w: Writer, op: Operation) -> None:
    mask = f"mask_of({w.operand(op, 'mask')}, {w.valid(op, 'dst')})"
    if "scalar" in op.operands:
        dtype = dtypes.torch_dtype(element(w, op))
        w.assign(op, f"torch.where({mask}, {w.read(op, 'src')}, torch.tensor({scalar(w, op)}).to({dtype}))")
    else:
        w.assign(op, f"torch.where({mask}, {w.read(op, 'src0')}, {w.read(op, 'src1')})")
