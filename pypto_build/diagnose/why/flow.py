"""Which elements of an instruction's operands flow into an element that it writes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from pypto_build.diagnose.why.trace import Array, Instruction, Tile

#: (tile, rows, columns): elements of an operand, in the order in which they are combined.
Contribution = tuple[Tile, Array, Array]

_L0A, _L0B, _L0C, _BIAS = 2, 3, 4, 5
#: What element of these operands it is depends on values.
_BY_VALUE = {
    "TGATHER", "TGATHERB", "TSCATTER", "TSORT32", "TMRGSORT", "THISTOGRAM", "TCONCAT", "TINTERLEAVE", "TDEINTERLEAVE",
    "TPAIRREDUCESUM", "TPACK", "MGATHER",
}  # fmt: skip


def contributions(instruction: Instruction, result: Tile, row: int, col: int) -> Iterator[Contribution]:
    """For each tile that the instruction read, the elements that went into element (`row`, `col`) of its result."""
    for tile in instruction.read:
        rows, cols = _elements(instruction.name, tile, result, row, col)
        yield tile, rows, cols


def _elements(name: str, tile: Tile, result: Tile, row: int, col: int) -> tuple[Array, Array]:
    high, wide = tile.operand.height, tile.operand.width
    every_row, every_col = np.arange(high), np.arange(wide)
    if name.startswith(("TMATMUL", "TGEMV")):
        if tile.space == _L0A:
            return np.full(wide, min(row, high - 1)), every_col
        if tile.space == _L0B:
            return every_row, np.full(high, min(col, wide - 1))
        return _one(0 if tile.space == _BIAS else row, col, tile)
    if name == "TTRANS":
        return _one(col, row, tile)
    alike = (high, wide) == (result.operand.height, result.operand.width)
    if name in _BY_VALUE:
        return _one(row, col, tile) if alike else _all(high, wide)
    if name.startswith("TROW") and "EXPAND" not in name:
        return np.full(wide, min(row, high - 1)), every_col
    if name.startswith("TCOL") and "EXPAND" not in name:
        return every_row, np.full(high, min(col, wide - 1))
    if name.startswith("TROWEXPAND") and not alike:
        return _one(0, row, tile) if high == 1 and wide > 1 else _one(row, 0, tile)
    if name.startswith("TSEL") and not alike:
        bits = 8 * tile.operand.element
        return _one(row, col // bits, tile)
    return _one(row, col, tile)


def _one(row: int, col: int, tile: Tile) -> tuple[Array, Array]:
    """One element; of an operand that is a single row, column or value, the one that is used for all."""
    high, wide = tile.operand.height, tile.operand.width
    return np.array([row if row < high else 0]), np.array([col if col < wide else 0])


def _all(high: int, wide: int) -> tuple[Array, Array]:
    rows, cols = np.indices((high, wide))
    return rows.reshape(-1), cols.reshape(-1)


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
    """Which instruction stored to an address of global memory last, and of which row and column of its tile."""
    for number in range(before - 1, -1, -1):
        for view in instructions[number].views:
            if view.writes:
                hit = np.argwhere((view.addresses <= address) & (address < view.addresses + view.element))
                if len(hit):
                    return number, int(hit[-1][0]), int(hit[-1][1])
    return None
