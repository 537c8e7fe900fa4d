"""Translates instructions on elements at the same position to Python."""

from __future__ import annotations

from ..model import EnumAttr, IntAttr, Operation, StrAttr, case_of, int_value
from ..ops import TABLE
from ..ops.spec import COMPARE, Meaning, Reduction
from ..types import ScalarType, TileType, Type
from . import dtypes
from .effects import is_column, narrow_role, valid_extents
from .tiles import rounded, wrapped
from .writer import LOWERINGS, Unsupported, Writer

# Reductions along rows or columns, and broadcasts of their results, to Python.


@LOWERINGS.of("rowreduce", "colreduce")
def reduce(w: Writer, op: Operation) -> None:
    """Write a reduction along the rows or columns of the source's valid region."""
    definition = TABLE[op.name]
    fn, dim = definition.fn, 1 if definition.family == "rowreduce" else 0
    source = w.own(op, "src")
    extents = valid_extents(w.resolved, w.value(op, "src")) or (None, None)
    if 0 in extents:
        w.add(op, "pass")  # nothing of the source is valid
        return
    if fn.startswith("arg"):
        largest = fn == "argmax"
        index = "dstidx" if "dstidx" in op.operands else "dst"
        name = w.names.unique("where_extreme")
        w.add(op, f"{name} = first_extreme({source}, {dim}, largest={largest})")
        if "dstidx" in op.operands:
            w.add(op, f"{w.operand(op, 'dst')}[:] = {source}.gather({dim}, {name})")
        w.add(op, f"{w.operand(op, index)}[:] = {name}")
        return
    if fn == "prod" and dtypes.name_of(element(w, op, "src")) in ("f16", "bf16"):
        source += ".float()"
    static = all(isinstance(extent, int) for extent in extents)
    reduction = definition.computes
    assert isinstance(reduction, Reduction)
    text = (reduction.torch if static else reduction.maybe_empty).format(a=source, dim=dim)
    if otherwise := _otherwise(w, op, fn, dim):
        w.assign(op, otherwise, kept=True)
        return
    same = element(w, op, "src") == element(w, op) and not source.endswith(".float()")
    w.assign(op, text, kept=same and reduction.keeps(is_float=dtypes.is_float(element(w, op))))


def _otherwise(w: Writer, op: Operation, fn: str, dim: int) -> str:
    """Return the reduction that NUMERICS= selects, if it differs from the default; the element type is the source's."""
    numerics, type_ = w.scope.numerics, element(w, op, "src")
    of_half = dtypes.name_of(type_) == "f16"
    if not numerics or dtypes.name_of(type_) not in ("f16", "f32"):
        return ""
    if numerics == "device" and (fn in ("max", "min") or (dim == 0 and not (of_half and fn == "sum"))):
        return ""
    if numerics == "simulator" and dim == 0 and fn in ("sum", "prod") and not of_half:
        return ""
    pairs = "tmp" in op.operands and dim == 0
    return f'_numerics.reduce({w.own(op, "src")}, {dim}, "{fn}", {pairs})'


@LOWERINGS.of("rowexpand")
def row_expand(w: Writer, op: Operation) -> None:
    fn, type_, valid = TABLE[op.name].fn, element(w, op), w.valid(op, "dst")
    if fn == "copy":
        same = element(w, op, "src") == type_
        w.assign(op, f"{w.part(op, 'src', w.valid_texts(op, 'dst')[0], '1')}.expand({valid})", kept=same, view_of="src")
        return
    first, second = w.tile_type(op, "src0"), w.tile_type(op, "src1")
    narrow = narrow_role(first, second)
    wide = "src1" if narrow == "src0" else "src0"
    tile = w.tile_type(op, narrow)
    one = is_column(tile) and tile.cols == 1 and w.resolved.extents(w.value(op, narrow))[1] == 1
    if w.is_variable(op, narrow) or (one and _same_rows(w, op, narrow)):
        texts = {narrow: w.own(op, narrow)}
    else:
        texts = {narrow: f"per_row({w.operand(op, narrow)}, {valid})"}
    texts[wide] = w.read(op, wide)
    w.assign(op, expression(TABLE[op.name].meaning, type_).format(a=texts["src0"], b=texts["src1"]), kept=kept(w, op))


def _same_rows(w: Writer, op: Operation, role: str) -> bool:
    rows = w.resolved.extents(w.value(op, role))[0]
    return rows is not None and rows == w.resolved.extents(w.value(op, "dst"))[0]


@LOWERINGS.of("colexpand")
def col_expand(w: Writer, op: Operation) -> None:
    fn, role = TABLE[op.name].fn, "src" if TABLE[op.name].fn == "copy" else "src1"
    operand_extents, result_extents = (w.resolved.extents(w.value(op, r)) for r in (role, "dst"))
    if fn != "copy" and operand_extents == (1, result_extents[1]):
        row = w.own(op, role)
    else:
        row = w.part(op, role, "1", w.valid_texts(op, "dst")[1])
    if fn == "copy":
        same = element(w, op, "src") == element(w, op)
        w.assign(op, f"{row}.expand({w.valid(op, 'dst')})", kept=same, view_of="src")
        return
    w.assign(
        op, expression(TABLE[op.name].meaning, element(w, op)).format(a=w.read(op, "src0"), b=row), kept=kept(w, op)
    )


@LOWERINGS.of("partial")
def partial(w: Writer, op: Operation) -> None:
    a, b, d = (w.operand(op, role) for role in ("src0", "src1", "dst"))
    w.assign(op, f"partial({TABLE[op.name].meaning.callable}, {a}, {b}, {d}.valid, {d}[:])")


@LOWERINGS.of("partialarg")
def partial_arg(w: Writer, op: Operation) -> None:
    tiles = [w.operand(op, role) for role in ("dst", "dstidx", "src0", "src1", "idx0", "idx1")]
    w.add(op, f"partial_arg({', '.join(tiles)}, largest={TABLE[op.name].fn == 'max'})")


# Conversions between element types to Python.

_ROUND = {"RINT": "rint", "CAST_RINT": "rint", "ROUND": "round", "FLOOR": "floor", "CEIL": "ceil", "TRUNC": "trunc",
          "ODD": "odd", "NONE": ""}  # fmt: skip
_NOT_CONVERTED = {"ui64", "f8E8M0"}  # no platform has an instruction for them


@LOWERINGS.of("convert")
def convert(w: Writer, op: Operation) -> None:
    """Write a conversion of the source's valid region. The default mode is RINT; with NONE, conversions to integers
    truncate and others round to nearest.
    """
    source, target = element(w, op, "src"), element(w, op)
    if {dtypes.name_of(source), dtypes.name_of(target)} & _NOT_CONVERTED:
        raise Unsupported(f"from {source} to {target}")
    mode = _ROUND[_mode(op.attrs.get("rmode"))]
    saturate = "ON" in (case_of(op.attrs.get("sat_mode")), case_of(op.attrs.get("satmode")))
    text = converted(w.own(op, "src"), source, target, mode, saturate)
    if w.scope.numerics == "simulator" and text.startswith(("round_to(", "to_whole(")):
        text = f"_numerics.{text}"
    w.assign(op, text, kept=text.endswith(f".to({dtypes.torch_dtype(target)})"), view_of="src")


def _mode(attribute: object) -> str:
    if isinstance(attribute, IntAttr):
        return ("NONE", "RINT", "ROUND", "FLOOR", "CEIL", "TRUNC", "ODD", "CAST_RINT")[attribute.value]
    return case_of(attribute, "RINT") if isinstance(attribute, (EnumAttr, StrAttr)) else "RINT"


def converted(text: str, source: Type, target: Type, mode: str, saturate: bool) -> str:
    """Return an expression converted to another element type."""
    name, to = dtypes.name_of(target), dtypes.torch_dtype(target)
    dtypes.torch_dtype(source)
    if dtypes.is_float(source) and not dtypes.is_float(target):
        return f'to_integer({text}, {to}, "{mode or "trunc"}", {saturate})'
    if not dtypes.is_float(target):
        return f"saturated({text}, {to})" if saturate else text
    if name.startswith("f8"):
        return f'to_float8({text}, {to}, "{mode or "rint"}", {saturate})'
    if source == target:
        return text if not mode else f'to_whole({text}, "{mode}")' if name == "f32" else text
    exact = dtypes.bits(source) < dtypes.bits(target) or (name == "f32" and dtypes.bits(source) <= 16)
    if exact or (mode in ("", "rint") and dtypes.name_of(source) == "f32"):
        return f"{text}.to({to})"
    return f'round_to({text}, {to}, "{mode or "rint"}")'


def element(w: Writer, op: Operation, role: str = "dst") -> Type:
    return w.tile_type(op, role).dtype


def expression(function: Meaning, type_: Type, *, number: bool = False) -> str:
    """Return the expression of a function for an element type; with `number`, its second operand is a number."""
    is_float = dtypes.is_float(type_)
    if is_float and dtypes.name_of(type_) not in dtypes.FLOATS:
        raise Unsupported(f"arithmetic on {type_}")
    text = function.expression(is_float=is_float, number=number)
    if not text:
        raise Unsupported(f"on elements of type {type_}")
    return text


def scalar(w: Writer, op: Operation, role: str = "scalar", type_: Type | None = None) -> str:
    """Return a number operand, converted to the tile's element type if necessary."""
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
    """Return a constant reduced to the range of an unsigned type."""
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
    """Write a comparison over the valid region of the first operand; the result is bits of a mask."""
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
