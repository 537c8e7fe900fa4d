"""Which elements of an instruction's operands flow into an element that it writes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from pypto_build.diagnose.why.trace import Array, Instruction, Tile
from pypto_build.pto.ops import TABLE

#: (tile, rows, columns): elements of an operand, in the order in which they are combined.
Contribution = tuple[Tile, Array, Array]

_L0A, _L0B, _L0C, _BIAS = 2, 3, 4, 5
_FAMILIES = {row.cpp: row.family for row in TABLE.values()}
#: What element of an operand it is depends on values, by the family of the operation.
_BY_VALUE = {"gather", "scatter", "sort", "histogram", "concat", "pack"}
#: Instructions of which no operation is made that exchange elements too.
_FAMILIES |= dict.fromkeys(("TINTERLEAVE", "TDEINTERLEAVE", "TPAIRREDUCESUM"), "pack")


def contributions(instruction: Instruction, result: Tile, row: int, col: int) -> Iterator[Contribution]:
    """For each tile that the instruction read, the elements that went into element (`row`, `col`) of its result."""
    for tile in instruction.read:
        rows, cols = _elements(instruction.name, tile, result, row, col)
        yield tile, rows, cols


def _elements(name: str, tile: Tile, result: Tile, row: int, col: int) -> tuple[Array, Array]:
    family = _FAMILIES.get(name, "")
    high, wide = tile.operand.height, tile.operand.width
    every_row, every_col = np.arange(high), np.arange(wide)
    if family in ("matmul", "matmul_mx"):
        if tile.space == _L0A:
            return np.full(wide, min(row, high - 1)), every_col
        if tile.space == _L0B:
            return every_row, np.full(high, min(col, wide - 1))
        return _one(0 if tile.space == _BIAS else row, col, tile)
    if family == "transpose":
        return _one(col, row, tile)
    alike = (high, wide) == (result.operand.height, result.operand.width)
    if family in _BY_VALUE:
        return _one(row, col, tile) if alike else _all(high, wide)
    if family == "rowreduce":
        return np.full(wide, min(row, high - 1)), every_col
    if family == "colreduce":
        return every_row, np.full(high, min(col, wide - 1))
    if family == "rowexpand" and not alike:
        return _one(0, row, tile) if high == 1 and wide > 1 else _one(row, 0, tile)
    if family == "select" and not alike:
        bits = 8 * tile.operand.element
        return _one(row, col // bits, tile)
    return _one(row, col, tile)


def reached(name: str, tile: Tile, carries: Array, result: Tile) -> Array:
    """Which elements of a result have one of those in them that `carries` marks among an operand's."""
    family = _FAMILIES.get(name, "")
    high, wide = result.operand.height, result.operand.width
    if family in _BY_VALUE and carries.shape != (high, wide):
        return np.ones((high, wide), bool)
    by_row, by_col = (np.asarray(carries.any(axis=axis)) for axis in (1, 0))
    if family in ("matmul", "matmul_mx") and tile.space in (_L0A, _L0B):
        return _spread(by_row[:, None] if tile.space == _L0A else by_col[None, :], high, wide)
    if family == "transpose":
        return _spread(carries.T, high, wide)
    if family == "rowreduce":
        return _spread(by_row[:, None], high, wide)
    if family == "colreduce":
        return _spread(by_col[None, :], high, wide)
    if family == "rowexpand" and carries.shape[0] == 1 and carries.shape[1] > 1 and high > 1:
        return _spread(carries.T, high, wide)
    if family == "select" and carries.shape[1] < wide:
        return _spread(np.repeat(carries, 8 * tile.operand.element, axis=1), high, wide)
    return _spread(carries, high, wide)


def _spread(mask: Array, high: int, wide: int) -> Array:
    """A mask in the shape of a result: a single row or column stands for all."""
    found = np.zeros((high, wide), bool)
    rows = high if mask.shape[0] == 1 else min(high, mask.shape[0])
    cols = wide if mask.shape[1] == 1 else min(wide, mask.shape[1])
    found[:rows, :cols] = mask[:rows, :cols]
    return found


def _one(row: int, col: int, tile: Tile) -> tuple[Array, Array]:
    """One element; of an operand that is a single row, column or value, the one that is used for all."""
    high, wide = tile.operand.height, tile.operand.width
    return np.array([row if row < high else 0]), np.array([col if col < wide else 0])


def _all(high: int, wide: int) -> tuple[Array, Array]:
    rows, cols = np.indices((high, wide))
    return rows.reshape(-1), cols.reshape(-1)


def handed_over(
    pushing: Sequence[Instruction], popped: Tile, turn: int, members: tuple[int, int], row: int, col: int
) -> tuple[int, Tile, int, int] | None:
    """Which push a member's `turn`-th pop (from 0) has its element from: its number, its tile, row and column there.

    `members` are who pushed and who popped. A cube's tile is one of both vector cores where it is split between them.
    Of several pipes, the push that holds what was popped.
    """
    value = popped.values[row, col]
    for one in in_turn(pushing, turn):
        at = _in_push(one.read[0], popped, members, row, col)
        if at is not None and _alike(one.read[0].values[at], value):
            return one.number, one.read[0], *at
    return None


def in_turn(pushing: Sequence[Instruction], turn: int) -> list[Instruction]:
    """The pushes of a member, those first that a pop by its turn is likely to have."""
    pushes = [one for one in pushing if one.name == "TPUSH" and one.read]
    return [*pushes[turn : turn + 1], *pushes[:turn], *pushes[turn + 1 :]]


def carried_over(push: Tile, carries: Array, popped: Tile, members: tuple[int, int]) -> Array | None:
    """Which elements of a popped tile carry what `carries` marks of a pushed one; None where that is not what was
    popped."""
    high, wide = popped.operand.height, popped.operand.width
    inside = [(r, c) for r in (0, high - 1) for c in (0, wide - 1) if _in_push(push, popped, members, r, c) is not None]
    for lane_row, lane_col in ((0, 0), (high // 2, 0), (0, wide // 2)):
        if _in_push(push, popped, members, lane_row, lane_col) is not None:
            inside.append((lane_row, lane_col))
    if not inside:
        return None
    row, col = inside[-1]
    there = _in_push(push, popped, members, row, col)
    assert there is not None
    down, right = there[0] - row, there[1] - col
    rows = slice(max(0, -down), min(high, push.operand.height - down))
    cols = slice(max(0, -right), min(wide, push.operand.width - right))
    source = slice(rows.start + down, rows.stop + down), slice(cols.start + right, cols.stop + right)
    if not _alike(push.values[source], popped.values[rows, cols]):
        return None
    mask = np.zeros((high, wide), bool)
    mask[rows, cols] = carries[source]
    return mask


def _alike(pushed: Array, popped: Array) -> bool:
    """Return whether all values are equal up to rounding."""
    return bool(
        np.isclose(pushed.astype(np.float64), popped.astype(np.float64), rtol=1e-2, atol=0.0, equal_nan=True).all()
    )


def _in_push(push: Tile, pop: Tile, members: tuple[int, int], row: int, col: int) -> tuple[int, int] | None:
    """Return the row and column of a popped element in the pushed tile; None if it came from another tile."""
    (high, wide), (rows, cols) = ((tile.operand.height, tile.operand.width) for tile in (push, pop))
    lane = max(members) - 1
    if (high, wide) == (rows, cols):
        return row, col
    down, right = (lane * rows, 0) if high == 2 * rows and wide == cols else (0, lane * cols)
    if (high, wide) in ((2 * rows, cols), (rows, 2 * cols)):
        return row + down, col + right
    up, left = (lane * high, 0) if rows == 2 * high and cols == wide else (0, lane * wide)
    inside = (rows, cols) in ((2 * high, wide), (high, 2 * wide))
    return (row - up, col - left) if inside and 0 <= row - up < high and 0 <= col - left < wide else None


def last_write(
    instructions: list[Instruction], before: int, space: int, addresses: Array
) -> list[tuple[int, Tile, int, int] | None]:
    """For each address of a memory who wrote it last before an instruction: its number, the tile, row and column."""
    found: list[tuple[int, Tile, int, int] | None] = [None] * len(addresses)
    left = np.arange(len(addresses))
    lowest, highest = int(addresses.min(initial=1 << 62)), int(addresses.max(initial=-1))
    for number in range(before - 1, -1, -1):
        for tile in instructions[number].written:
            low, high = tile.span
            if tile.space != space or not len(left) or high <= lowest or low > highest:
                continue
            flat = tile.addresses.reshape(-1)
            order = np.argsort(flat, kind="stable")
            at = np.searchsorted(flat, addresses[left], sorter=order)
            hit = np.flatnonzero(flat[order[np.minimum(at, len(flat) - 1)]] == addresses[left])
            for index in hit.tolist():
                row, col = divmod(int(order[at[index]]), tile.operand.width)
                found[int(left[index])] = (number, tile, row, col)
            left = np.delete(left, hit)
        if not len(left):
            break
    return found


def last_store(instructions: list[Instruction], before: int, address: int) -> tuple[int, int, int] | None:
    """Find the last instruction that stored to a global address, with the row and column in its tile."""
    for number in range(before - 1, -1, -1):
        for view in instructions[number].views:
            low, high = view.span
            if view.writes and low <= address < high:
                hit = np.argwhere((view.addresses <= address) & (address < view.addresses + view.element))
                if len(hit):
                    return number, int(hit[-1][0]), int(hit[-1][1])
    return None
