"""What an instruction wants of its scratch tile (`tmp`), and when it has to have one.

Facts: the constraints that the manual of the operations states, as ptoas 0.48 enforces them. The extents are those of
a2a3; on a5 the operand is kept but not used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ..attributes import case_of
from ..model import Module, Operation
from ..ops import TABLE
from ..resolve import Problem, Resolved
from ..types import ScalarType, TileType, element_bytes

Messages = Iterator[str]
Rule = Callable[["_Scratch"], Messages]
_REPEAT, _BLOCK = 256, 32  # bytes that a vector instruction takes at once, and of the blocks it writes


class _Scratch:
    """One operation with a tile for `tmp`, and what is known of its tiles."""

    def __init__(self, resolved: Resolved, op: Operation, tile: TileType) -> None:
        self.resolved, self.op, self.tile = resolved, op, tile
        self.rows, self.cols = self.extents("tmp")

    def type(self, role: str) -> TileType | None:
        value = self.resolved.value(self.op, role) if role in self.op.operands else None
        return value.type if value is not None and isinstance(value.type, TileType) else None

    def extents(self, role: str) -> tuple[int | None, int | None]:
        value = self.resolved.value(self.op, role) if role in self.op.operands else None
        return self.resolved.extents(value) if value is not None else (None, None)


def check_scratch(resolved: Resolved, module: Module, arch: str) -> Iterator[Problem]:
    assert resolved.function.body is not None
    for op in resolved.function.body.walk():
        for message in _messages(resolved, op, arch):
            yield Problem(op, message, resolved.function)


def _messages(resolved: Resolved, op: Operation, arch: str) -> Messages:
    yield from _presence(resolved, op)
    value = resolved.value(op, "tmp") if "tmp" in op.operands else None
    if value is not None and isinstance(value.type, TileType):
        scratch = _Scratch(resolved, op, value.type)
        for rule in _ALWAYS.get(op.name, ()):
            yield from rule(scratch)
        if arch == "a2a3":
            for rule in _A2A3.get(op.name, ()):
                yield from rule(scratch)


_PRECISE = ("pto.trsqrt", "pto.trowexpanddiv")
_POWERS = {"pto.tpow": "src0", "pto.tpows": "src"}


def _presence(resolved: Resolved, op: Operation) -> Messages:
    """Operations that take `tmp` only sometimes."""
    there = "tmp" in op.operands
    if op.name in _PRECISE and case_of(op.attrs.get("precisionType")) == "high_precision" and not there:
        yield "needs a tmp for precisionType high_precision"
    if op.name in _POWERS:
        base = resolved.value(op, _POWERS[op.name])
        if base is not None and isinstance(base.type, TileType) and isinstance(base.type.dtype, ScalarType):
            if base.type.dtype.is_float and not there:
                yield f"needs a tmp for elements {base.type.dtype}"
            elif there and not base.type.dtype.is_float:
                yield f"takes no tmp for elements {base.type.dtype}"
    if op.name == "pto.tcolsum" and there != ("isBinary" in op.attrs):
        yield "has a tmp without isBinary" if there else "needs a tmp for isBinary"


def _like(role: str) -> Rule:
    """Elements as those of another operand."""

    def rule(scratch: _Scratch) -> Messages:
        other = scratch.type(role)
        if other is not None and other.dtype != scratch.tile.dtype:
            yield f"tmp has elements {scratch.tile.dtype}, {role} has {other.dtype}"

    return rule


def _covers(role: str, rows: int) -> Rule:
    """At least so many valid rows, as wide as another operand."""

    def rule(scratch: _Scratch) -> Messages:
        if scratch.rows is not None and scratch.rows < rows:
            yield f"tmp has {scratch.rows} valid rows, expected at least {rows}"
        wanted = scratch.extents(role)[1]
        if scratch.cols is not None and wanted is not None and scratch.cols < wanted:
            yield f"tmp has {scratch.cols} valid columns, {role} has {wanted}"

    return rule


def _same_extents(role: str) -> Rule:
    def rule(scratch: _Scratch) -> Messages:
        for axis, mine, other in zip(("rows", "columns"), scratch.extents("tmp"), scratch.extents(role), strict=True):
            if mine is not None and other is not None and mine != other:
                yield f"tmp has {mine} valid {axis}, {role} has {other}"

    return rule


def _mask(scratch: _Scratch) -> Messages:
    """A bit for each element, and a physical row more than there are."""
    if element_bytes(scratch.tile.dtype) != 1:
        yield f"tmp holds a mask of 8-bit integers, found elements {scratch.tile.dtype}"
    rows, cols = scratch.extents("dst")
    if rows is not None and scratch.tile.rows < rows + 1:
        yield f"tmp has {scratch.tile.rows} rows, expected one more than the {rows} of dst"
    if cols is not None and scratch.cols is not None and scratch.cols < -(-cols // 8):
        yield f"tmp has {scratch.cols} valid columns, expected {-(-cols // 8)}, a bit for each of dst"


def _stride(scratch: _Scratch, cols: int) -> int:
    """Columns in which the partial positions and values of one row lie."""
    size = max(element_bytes(scratch.tile.dtype), 1)
    block, repeats = _BLOCK // size, -(-cols * size // _REPEAT)
    return (-(-repeats * 2 // block) + -(-repeats // block)) * block


def _positions(axis: str) -> Rule:
    """argmax and argmin: as large as src, or room for the partial results."""

    def rule(scratch: _Scratch) -> Messages:
        rows, cols = scratch.extents("src")
        if rows is None or cols is None or scratch.rows is None or scratch.cols is None:
            return
        if (scratch.rows, scratch.cols) == (rows, cols):
            return
        size = max(element_bytes(scratch.tile.dtype), 1)
        least_rows = rows if axis == "row" else 1
        if axis == "row" and cols * size <= _REPEAT:
            if scratch.cols == 1 and scratch.tile.blayout == "col_major":
                least_rows, least_cols = 2 * rows, 1
            else:
                least_cols = 2
        else:
            least_cols = _stride(scratch, cols)
        if scratch.rows < least_rows:
            yield f"tmp has {scratch.rows} valid rows, expected at least {least_rows}"
        if scratch.cols < least_cols:
            yield f"tmp has {scratch.cols} valid columns, expected at least {least_cols} for {cols} of src"

    return rule


def _wide(role: str, columns: Callable[[_Scratch, str], int | None]) -> Rule:
    def rule(scratch: _Scratch) -> Messages:
        wanted = columns(scratch, role)
        if wanted is not None and scratch.tile.cols < wanted:
            yield f"tmp has {scratch.tile.cols} columns, expected at least the {wanted} of {role}"

    return rule


def _all_columns(scratch: _Scratch, role: str) -> int | None:
    other = scratch.type(role)
    return other.cols if other is not None else None


def _valid_columns(scratch: _Scratch, role: str) -> int | None:
    return scratch.extents(role)[1]


_EXPAND = {f"pto.trowexpand{fn}": (_like("dst"),) for fn in ("max", "min", "expdif")}
_ALWAYS: dict[str, tuple[Rule, ...]] = {
    **{f"pto.trow{fn}": (_like("src"),) for fn in ("max", "min", "prod")},
    "pto.tcolsum": (_like("src"), _wide("src", _valid_columns)),
    "pto.tmrgsort": (_wide("dst", _all_columns),),
    "pto.tpow": (_same_extents("dst"),),
    "pto.tpows": (_same_extents("dst"),),
    **_EXPAND,
}
_A2A3: dict[str, tuple[Rule, ...]] = {
    "pto.trem": (_like("dst"), _covers("dst", 2)),
    "pto.trems": (_like("dst"), _covers("dst", 1)),
    "pto.txor": (_like("dst"), _same_extents("dst")),
    "pto.txors": (_like("dst"),),
    "pto.tprelu": (_mask,),
    "pto.tgather": (_like("idx"), _same_extents("idx")),
    "pto.tquant": (_like("src"), _same_extents("src")),
    **{f"pto.t{axis}arg{fn}": (_like("src"), _positions(axis)) for axis in ("row", "col") for fn in ("max", "min")},
}
assert {*_ALWAYS, *_A2A3} <= TABLE.keys()
