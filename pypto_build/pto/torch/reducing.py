"""Reductions along rows or columns, and broadcasts of their results, to Python."""

from __future__ import annotations

from ..model import Operation
from ..ops import TABLE
from ..ops.functions import Reduction
from . import dtypes
from .effects import is_column, narrow_role, valid_extents
from .elementwise import element, expression, kept
from .writer import LOWERINGS, Writer


@LOWERINGS.of("rowreduce", "colreduce")
def reduce(w: Writer, op: Operation) -> None:
    """Along the rows or columns of the source's valid region."""
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
    """The reduction as NUMERICS= has it, where that is another; an element type is always the source's."""
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
