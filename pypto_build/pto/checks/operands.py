"""Checks of single operations beyond shapes, element types and layouts.

They cover attributes that depend on each other, extents that must not be empty, existing slots, and the source of a
store. Facts: what ptoas 0.48 accepts, and the manual of the operations.
"""

from __future__ import annotations

from math import prod

from ..errors import DeviceRule
from ..model import Operation, case_of
from ..resolve import Resolved
from ..types import DYNAMIC, LocalArrayType, MultiTileType, PtrType, TileType, ViewType
from .rules import AXES, Messages, RuleFunction, extents_of, tile_of


def _alloc(resolved: Resolved, op: Operation) -> Messages:
    type_ = op.result_types[0] if op.result_types else None
    if isinstance(type_, TileType):
        if type_.rows < 1 or type_.cols < 1:
            yield f"a tile has 1 row and 1 column at least, found {type_.rows} x {type_.cols}"
        for role, extent, axis in (("valid_row", type_.v_row, "rows"), ("valid_col", type_.v_col, "columns")):
            if extent == DYNAMIC and role not in op.operands:
                yield f"{role} is missing: the type has ? valid {axis}"


def _slots(resolved: Resolved, op: Operation) -> Messages:
    type_ = op.result_types[0] if op.result_types else None
    if isinstance(type_, MultiTileType) and type_.count < 2:
        yield f"has 2 tiles at least, found count={type_.count}"


def _slot(resolved: Resolved, op: Operation) -> Messages:
    tiles, slot = resolved.value(op, "tiles"), resolved.constant(op, "slot")
    if tiles is None or slot is None or not isinstance(tiles.type, MultiTileType):
        return
    if not 0 <= slot < tiles.type.count:
        yield f"slot {slot} of {tiles.type.count}"


def _something_valid(resolved: Resolved, op: Operation, line: str) -> Messages:
    """Check that a search for a position has at least one element; an empty sum is allowed."""
    for axis, extent in enumerate(extents_of(resolved, op, "src")):
        if extent == 0:
            yield f"src has no valid {AXES[axis]}"
    axis = 1 if line == "row" else 0
    if extents_of(resolved, op, "dst")[axis] == 0:
        yield f"dst has 0 valid {AXES[axis]}, expected 1"


def _window(resolved: Resolved, op: Operation) -> Messages:
    """Check that the type of a window has the valid extents of its operands, if they are present."""
    result, valid = op.result_types[0] if op.result_types else None, resolved.values(op, "valid")
    if isinstance(result, TileType) and len(valid) == 2:
        for axis, written in enumerate((result.v_row, result.v_col)):
            if valid[axis].constant is not None and written not in (DYNAMIC, valid[axis].constant):
                yield f"the window has {valid[axis].constant} valid {AXES[axis]}, its type {written}"


def _store(resolved: Resolved, op: Operation) -> Messages:
    tile, part = resolved.value(op, "src"), resolved.value(op, "dst")
    if tile is None or part is None or not isinstance(tile.type, TileType) or not isinstance(part.type, ViewType):
        return
    rows, cols = resolved.extents(tile)
    shape = part.type.shape
    if rows is None or cols is None or part.type.kind != "partition_tensor_view" or DYNAMIC in shape or not shape:
        return
    if rows * cols < prod(shape):  # more of them is what the rule for transfers finds
        yield f"the tile has {rows} x {cols} valid elements, the partition {'x'.join(map(str, shape))}"


def _not_from_mat(resolved: Resolved, op: Operation) -> Messages:
    tile = tile_of(resolved, op, "src")
    if tile is not None and tile.loc == "mat":
        yield "src is a tile in vec or acc on a5, found mat"


def _gather_rows(resolved: Resolved, op: Operation) -> Messages:
    if "coalesce" not in op.attrs:
        yield "attribute 'coalesce' is missing (row or elem)"


def _scatter_rows(resolved: Resolved, op: Operation) -> Messages:
    more = [name for name in ("scatterAtomicOp", "scatterOob", "scatterConflict") if name in op.attrs]
    if more and "coalesce" not in op.attrs:
        yield f"attribute 'coalesce' is missing, which {more[0]} needs (row or elem)"


def _compared(resolved: Resolved, op: Operation, arch: str, how: str, *allowed: str) -> Messages:
    """Check the element types that the comparing form accepts in its mode: `eq`, or any `other`."""
    src, mode = tile_of(resolved, op, "src"), case_of(op.attrs.get("cmpMode")) or "eq"
    if "k" not in op.operands or src is None or (mode == "eq") != (how == "eq"):
        return
    if str(src.dtype).removeprefix("u") not in allowed:
        yield f"src has elements {src.dtype}, {arch} compares {', '.join(allowed)}"


def _compare_mode(resolved: Resolved, op: Operation) -> Messages:
    mode = case_of(op.attrs.get("cmpMode")) or "eq"
    if "k" in op.operands and tile_of(resolved, op, "src") is not None and mode not in ("eq", "gt"):
        yield f"attribute 'cmpMode' is eq or gt, found {mode}"


def _gemv(resolved: Resolved, op: Operation) -> Messages:
    rows = extents_of(resolved, op, "dst")[0]
    if rows is not None and rows != 1:
        yield f"dst has {rows} valid rows, expected 1"


def _resized(resolved: Resolved, op: Operation) -> Messages:
    """Check that new valid extents lie within the tile, and that its type leaves them open."""
    value = resolved.value(op, "tile")
    if value is None or not isinstance(value.type, TileType):
        return
    open_ = (value.type.v_row, value.type.v_col)
    for axis, role, extent, is_set in zip(AXES, ("row", "col"), (value.type.rows, value.type.cols), open_, strict=True):
        number = resolved.constant(op, role)
        if number is not None and not 0 <= number <= extent:
            yield f"sets {number} valid {axis} of a tile with {extent}"
        if is_set not in (DYNAMIC, number):
            yield f"sets the valid {axis} of a tile whose type has {is_set}"


def _stored_scalar(resolved: Resolved, op: Operation) -> Messages:
    """Check that a number is stored to memory of its own type, at a position inside it."""
    value, where = resolved.value(op, "value"), resolved.value(op, "array" if "array" in op.operands else "ptr")
    if value is None or where is None or not isinstance(where.type, (PtrType, LocalArrayType)):
        return
    if value.type is not None and value.type != where.type.element:
        yield f"stores {value.type} into elements {where.type.element}"
    if isinstance(where.type, LocalArrayType):
        for index, extent in zip(resolved.values(op, "indices"), where.type.shape, strict=False):
            if index.constant is not None and not 0 <= index.constant < extent:
                yield DeviceRule(f"element {index.constant} lies outside of the array, which has {extent}")


RULES: dict[str, RuleFunction] = {
    "resized": _resized,
    "stored_scalar": _stored_scalar,
    "not_empty": _alloc,
    "several_tiles": _slots,
    "slot_there": _slot,
    "something_valid": _something_valid,
    "window_valid": _window,
    "not_from_mat": _not_from_mat,
    "stored": _store,
    "coalesced": _gather_rows,
    "coalesced_where_refined": _scatter_rows,
    "compared": _compared,
    "compare_mode": _compare_mode,
    "one_row": _gemv,
}
