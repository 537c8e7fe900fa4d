"""What single operations want beyond shapes, element types and layouts: attributes that go together, extents that may
not be empty, slots that are there, and where a store takes its tile from.

Facts: what ptoas 0.48 accepts, and the manual of the operations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import prod

from ..attributes import case_of
from ..model import Module, Operation
from ..ops import TABLE
from ..resolve import Problem, Resolved
from ..types import DYNAMIC, MultiTileType, TileType, ViewType

Messages = Iterator[str]
_REDUCTIONS = {"rowreduce": 1, "colreduce": 0}  # family -> the axis of dst that is 1
_AXES = ("rows", "columns")


def check_operands(resolved: Resolved, module: Module, arch: str) -> Iterator[Problem]:
    assert resolved.function.body is not None
    for op in resolved.function.body.walk():
        rule = _RULES.get(op.name) or _FAMILIES.get(TABLE[op.name].family)
        for message in rule(resolved, op, arch) if rule else ():
            yield Problem(op, message, resolved.function)


def _extents(resolved: Resolved, op: Operation, role: str) -> tuple[int | None, int | None]:
    value = resolved.value(op, role) if role in op.operands else None
    return resolved.extents(value) if value is not None else (None, None)


def _alloc(resolved: Resolved, op: Operation, arch: str) -> Messages:
    type_ = op.result_types[0] if op.result_types else None
    if isinstance(type_, TileType):
        if type_.rows < 1 or type_.cols < 1:
            yield f"a tile has 1 row and 1 column at least, found {type_.rows} x {type_.cols}"
        for role, extent, axis in (("valid_row", type_.v_row, "rows"), ("valid_col", type_.v_col, "columns")):
            if extent == DYNAMIC and role not in op.operands:
                yield f"{role} is missing: the type has ? valid {axis}"


def _slots(resolved: Resolved, op: Operation, arch: str) -> Messages:
    type_ = op.result_types[0] if op.result_types else None
    if isinstance(type_, MultiTileType) and type_.count < 2:
        yield f"has 2 tiles at least, found count={type_.count}"


def _slot(resolved: Resolved, op: Operation, arch: str) -> Messages:
    tiles, slot = resolved.value(op, "tiles"), resolved.constant(op, "slot")
    if tiles is None or slot is None or not isinstance(tiles.type, MultiTileType):
        return
    if not 0 <= slot < tiles.type.count:
        yield f"slot {slot} of {tiles.type.count}"


def _reduction(resolved: Resolved, op: Operation, arch: str) -> Messages:
    """A position needs something to be found in; sums of nothing are fine."""
    if not TABLE[op.name].fn.startswith("arg"):
        return
    for axis, extent in enumerate(_extents(resolved, op, "src")):
        if extent == 0:
            yield f"src has no valid {_AXES[axis]}"
    axis = _REDUCTIONS[TABLE[op.name].family]
    if _extents(resolved, op, "dst")[axis] == 0:
        yield f"dst has 0 valid {_AXES[axis]}, expected 1"


def _window(resolved: Resolved, op: Operation, arch: str) -> Messages:
    """The type of a window says what is valid in it, as the operands do where they are given."""
    result, given = op.result_types[0] if op.result_types else None, resolved.values(op, "valid")
    if isinstance(result, TileType) and len(given) == 2:
        for axis, written in enumerate((result.v_row, result.v_col)):
            if given[axis].constant is not None and written not in (DYNAMIC, given[axis].constant):
                yield f"the window has {given[axis].constant} valid {_AXES[axis]}, its type {written}"


def _store(resolved: Resolved, op: Operation, arch: str) -> Messages:
    tile, part = resolved.value(op, "src"), resolved.value(op, "dst")
    if tile is None or part is None or not isinstance(tile.type, TileType) or not isinstance(part.type, ViewType):
        return
    if tile.type.loc == "mat" and arch == "a5":
        yield "src is a tile in vec or acc on a5, found mat"
    rows, cols = resolved.extents(tile)
    shape = part.type.shape
    if rows is None or cols is None or part.type.kind != "partition_tensor_view" or DYNAMIC in shape or not shape:
        return
    if rows * cols < prod(shape):  # more of them is what the rule for transfers finds
        yield f"the tile has {rows} x {cols} valid elements, the partition {'x'.join(map(str, shape))}"


def _gather_rows(resolved: Resolved, op: Operation, arch: str) -> Messages:
    if "coalesce" not in op.attrs:
        yield "attribute 'coalesce' is missing (row or elem)"


def _scatter_rows(resolved: Resolved, op: Operation, arch: str) -> Messages:
    more = [name for name in ("scatterAtomicOp", "scatterOob", "scatterConflict") if name in op.attrs]
    if more and "coalesce" not in op.attrs:
        yield f"attribute 'coalesce' is missing, which {more[0]} needs (row or elem)"


def _gather(resolved: Resolved, op: Operation, arch: str) -> Messages:
    src = resolved.value(op, "src")
    if "k" not in op.operands or src is None or not isinstance(src.type, TileType):
        return
    mode, dtype = case_of(op.attrs.get("cmpMode")) or "eq", str(src.type.dtype).removeprefix("u")
    allowed = {"": "", "a5": "i16 i32 f16 f32", "a2a3": "i32 f16 f32" if mode == "eq" else "f16 f32"}[arch].split()
    if allowed and dtype not in allowed:
        yield f"src has elements {src.type.dtype}, {arch} compares {', '.join(allowed)}"
    if mode not in ("eq", "gt"):
        yield f"attribute 'cmpMode' is eq or gt, found {mode}"


def _gemv(resolved: Resolved, op: Operation, arch: str) -> Messages:
    rows = _extents(resolved, op, "dst")[0]
    if rows is not None and rows != 1:
        yield f"dst has {rows} valid rows, expected 1"


_Rule = Callable[[Resolved, Operation, str], Messages]
_RULES: dict[str, _Rule] = {
    "pto.alloc_tile": _alloc,
    "pto.alloc_multi_tile": _slots,
    "pto.multi_tile_get": _slot,
    "pto.subview": _window,
    "pto.tstore": _store,
    "pto.mgather": _gather_rows,
    "pto.mscatter": _scatter_rows,
    "pto.tgather": _gather,
    **{f"pto.tgemv{form}": _gemv for form in ("", ".acc", ".bias")},
}
_FAMILIES: dict[str, _Rule] = dict.fromkeys(_REDUCTIONS, _reduction)
