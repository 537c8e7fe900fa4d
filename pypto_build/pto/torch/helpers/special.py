"""Masks, gathers, scatters, sorts, and products with scales."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from .arithmetic import bits_of
from .memory import Tile, View


def put_mask(tile: Tile, mask: torch.Tensor) -> None:
    """Write truth values as bits, the first one lowest; each row starts a row of the tile."""
    rows, cols = mask.shape
    padded = torch.nn.functional.pad(mask.to(torch.int32), (0, -cols % 8)).reshape(rows, -1, 8)
    packed = (padded << torch.arange(8, dtype=torch.int32)).sum(-1).to(torch.uint8)
    row_bytes = tile.cols * tile.dtype.itemsize
    there = torch.as_strided(tile.memory.bytes, packed.shape, (row_bytes, 1), tile.address)
    there.copy_(packed)


def mask_of(tile: Tile, valid: tuple[int, int]) -> torch.Tensor:
    """Return `valid` rows and columns of truth values."""
    rows, cols = valid
    row_bytes = tile.cols * tile.dtype.itemsize
    packed = torch.as_strided(tile.memory.bytes, (rows, -(-cols // 8)), (row_bytes, 1), tile.address)
    bits = (packed.to(torch.int32)[:, :, None] >> torch.arange(8, dtype=torch.int32)) & 1
    return bits.reshape(rows, -1)[:, :cols].bool()


def per_row(tile: Tile, valid: tuple[int, int]) -> torch.Tensor:
    """Return the operand of a broadcast along rows: one value a row, or a block of 32 bytes that repeats along the
    row.
    """
    rows, cols = valid
    if tile.layout == "row" and tile.cols * tile.dtype.itemsize == 32 and tile.valid[1] > 1:
        return tile[rows, tile.cols].repeat(1, -(-cols // tile.cols))[:, :cols]
    return tile[rows, 1]


def partial(function: Any, a: Tile, b: Tile, valid: tuple[int, int], into: torch.Tensor) -> torch.Tensor:
    """Return the function where both tiles are valid, the valid element where one is, else the old element."""
    result = into.clone()
    for tile in (a, b):
        rows, cols = (min(size, limit) for size, limit in zip(tile.valid, valid, strict=True))
        result[:rows, :cols] = tile[rows, cols]
    rows, cols = (min(sizes) for sizes in zip(a.valid, b.valid, valid, strict=True))
    result[:rows, :cols] = function(a[rows, cols], b[rows, cols])
    return result


def partial_arg(value: Tile, index: Tile, a: Tile, b: Tile, a_index: Tile, b_index: Tile, *, largest: bool) -> None:
    """Write the greater (or smaller) of two tiles and its index, for equal values the first one's. Where only one
    tile is valid, its element is written.
    """
    rows, cols = value.valid
    inside = []
    for tile in (a, b):
        there = torch.zeros(rows, cols, dtype=torch.bool)
        there[: tile.valid[0], : tile.valid[1]] = True
        inside.append(there)
    x, y = a[rows, cols], b[rows, cols]
    take_a = inside[0] & (~inside[1] | (x >= y if largest else x <= y))
    either = inside[0] | inside[1]
    value[:] = torch.where(either, torch.where(take_a, x, y), value[:])
    chosen = torch.where(take_a, a_index[rows, cols], b_index[rows, cols])
    index[:] = torch.where(either, chosen, index[rows, cols])


def first_extreme(value: torch.Tensor, dim: int, *, largest: bool) -> torch.Tensor:
    """Return the position of the first extreme value; not-a-number is the most extreme."""
    if value.dtype.is_floating_point:
        value = value.double() if largest else -value.double()
        value = torch.where(value.isnan(), torch.inf, value)
    elif not largest:
        value = -1 - value
    size = value.shape[dim]
    shape = [1] * value.dim()
    shape[dim] = size
    position = torch.arange(size).reshape(shape)
    best = value.amax(dim, keepdim=True)
    return torch.where(value == best, position, size).amin(dim, keepdim=True)


def total(value: torch.Tensor, dim: int) -> torch.Tensor:
    """Return the sum of each row or column; empty without elements."""
    return value.sum(dim, keepdim=True) if value.numel() else value[:0]


def product(value: torch.Tensor, dim: int) -> torch.Tensor:
    """Return the product of each row or column; empty without elements."""
    return value.prod(dim, keepdim=True) if value.numel() else value[:0]


def highest(value: torch.Tensor, dim: int) -> torch.Tensor:
    """Return the largest of each row or column; empty without elements."""
    return value.amax(dim, keepdim=True) if value.numel() else value[:0]


def lowest(value: torch.Tensor, dim: int) -> torch.Tensor:
    """Return the smallest of each row or column; empty without elements."""
    return value.amin(dim, keepdim=True) if value.numel() else value[:0]


def gather(source: Tile, index: torch.Tensor) -> torch.Tensor:
    """Return elements by their position in memory, counted from the tile's first; zero beyond the memory."""
    elements = source.flat
    index = index.to(torch.int64)
    inside = (index >= 0) & (index < elements.numel())
    chosen = elements[torch.where(inside, index, 0)]
    return torch.where(inside, chosen, torch.zeros((), dtype=chosen.dtype)) if not bool(inside.all()) else chosen


def put_packed(target: Tile, chosen: torch.Tensor, *, rows: bool) -> None:
    """Write the elements that a mask pattern chose.

    With `rows`, the elements of all rows are packed contiguously, across the rows of the tile.
    """
    chosen = chosen.contiguous().view(target.dtype)
    if rows:
        target.flat[: chosen.numel()] = chosen.reshape(-1)
    else:
        target[:] = chosen


def concat_counted(target: Tile, a: Tile, b: Tile, a_counts: Tile, b_counts: Tile) -> None:
    """For each row, concatenate elements of both tiles; the counts are in the first columns of the other two.

    A count is in units of an element of the count tiles.
    """
    rows, cols = target.valid
    first, second = (tile[rows, 1].to(torch.int64) // tile.dtype.itemsize for tile in (a_counts, b_counts))
    first = first.clamp(0, min(a.valid[1], cols))
    second = torch.minimum(second.clamp(0, b.valid[1]), cols - first)
    column = torch.arange(cols).expand(rows, cols)
    parts = [bits_of(tile.read(rows, width)) for tile, width in ((a, a.valid[1]), (b, b.valid[1]), (target, cols))]
    position = torch.where(column < first, column, a.valid[1] + column - first)
    position = torch.where(column < first + second, position, a.valid[1] + b.valid[1] + column)
    target[:] = torch.cat(parts, dim=1).gather(1, position).view(target.dtype)


def gather_blocks(target: Tile, source: Tile, offsets: torch.Tensor) -> None:
    """Copy blocks of 32 bytes by their distance in bytes from the tile's first."""
    rows, cols = target.valid
    size = target.dtype.itemsize
    column = torch.arange(cols) * size
    first = offsets.to(torch.int64)[:rows].repeat_interleave(32 // size, dim=1)[:, :cols] + column % 32
    memory = source.memory.bytes[source.address :]
    inside = (first >= 0) & (first + size <= memory.numel())
    first = torch.where(inside, first, 0)[:, :, None] + torch.arange(size)
    blocks = memory[first].reshape(rows, -1).view(target.dtype)
    target[:] = torch.where(inside, blocks, target.read(rows, cols))


def gather_compared(target: Tile, count: Tile, source: Tile, threshold: Any, *, equal: bool, first: int) -> None:
    """For each row, write the positions of the elements greater than (or equal) the threshold, and their number.

    Positions count from `first` on along all rows.
    """
    for row, values in enumerate(source[:]):
        limit = threshold[row] if isinstance(threshold, torch.Tensor) else threshold
        positions = torch.nonzero(values == limit if equal else values > limit).reshape(-1)
        kept = positions[: target.cols] + first + row * source.cols
        target.window(row, 0, 1, max(kept.numel(), 1))[:] = kept[None]
        single = (0, row) if count.layout == "row" and count.rows == 1 else (row, 0)
        count.window(*single, 1, 1)[:] = torch.tensor([[positions.numel()]])


def scatter(target: Tile, source: torch.Tensor, index: torch.Tensor) -> None:
    """Write elements to positions in memory, counted from the tile's first; the last of equal positions wins."""
    elements = bits_of(target.flat)
    position, value = index.to(torch.int64).reshape(-1), bits_of(source).reshape(-1)
    inside = (position >= 0) & (position < elements.numel())
    position, value = position[inside], value[inside]
    last = {int(where): number for number, where in enumerate(position)}
    chosen = torch.tensor(list(last.values()), dtype=torch.int64)
    elements[position[chosen]] = value[chosen]


def spread(target: Tile, source: torch.Tensor, period: int, first: int, dim: int) -> None:
    """Write each element to one of every `period` columns or rows, and zeros elsewhere; a period of one copies."""
    if period == 1:
        target[:] = source
        return
    rows, cols = source.shape
    result = torch.zeros((target.rows, target.cols), dtype=source.dtype)
    if dim == 1:
        result[:rows, first : cols * period : period] = source
    else:
        result[first : rows * period : period, :cols] = source
    target[:] = result


def _positions(index: torch.Tensor, count: int, outside: str) -> torch.Tensor:
    """Return the indices limited to `count`; -1 for an access that is left out."""
    if outside == "clamp":
        return index.clamp(0, count - 1)
    if outside == "wrap":
        return index % count
    return torch.where((index >= 0) & (index < count), index, -1) if outside in ("zero", "skip") else index


_COMBINE: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "none": lambda old, new: new,
    "add": torch.add,
    "max": torch.maximum,
    "min": torch.minimum,
}


def gather_global(target: Tile, table: View, index: Tile, *, rows: bool, outside: str) -> None:
    """Gather rows of a table in global memory, or its elements in row-major order, by index."""
    height, width = target.valid
    elements = View(table.start, (table.start.elements.numel() - table.start.offset,), (1,)).elements()
    offsets = _table_offsets(table, index, (height, width), rows, outside)
    chosen = elements[offsets.clamp(min=0)]
    chosen = chosen if chosen.dtype == target.dtype else chosen.contiguous().view(target.dtype)
    target[:] = torch.where(offsets >= 0, chosen, torch.zeros((), dtype=chosen.dtype))


def scatter_global(table: View, source: Tile, index: Tile, *, rows: bool, outside: str, combine: str) -> None:
    """Scatter into a table, the inverse of `gather_global`. Elements of equal positions are combined: none (the last
    wins), add, max, min.
    """
    elements = View(table.start, (table.start.elements.numel() - table.start.offset,), (1,)).elements()
    offsets = _table_offsets(table, index, source.valid, rows, outside).reshape(-1)
    value = source[:].reshape(-1).to(elements.dtype)
    function = _COMBINE[combine]
    for position, item in zip(offsets.tolist(), value, strict=True):
        if position >= 0:  # torch has no arithmetic on unsigned elements of more than 8 bits
            wide = item.dtype if item.dtype.is_floating_point else torch.int64
            elements[position] = function(elements[position].to(wide), item.to(wide))


def _table_offsets(table: View, index: Tile, valid: tuple[int, int], rows: bool, outside: str) -> torch.Tensor:
    """Return, for each element of a tile, the offset of its counterpart in the table; -1 for none."""
    height, width = valid
    shape = (1,) * (5 - len(table.shape)) + tuple(table.shape)
    strides = (0,) * (5 - len(table.shape)) + tuple(table.strides)
    if table.layout == "nz":
        table_rows, table_cols = shape[2] * shape[3], shape[0] * shape[1] * shape[4]
    else:
        table_rows, table_cols = shape[0] * shape[1] * shape[2] * shape[3], shape[4]
    if rows:
        by_row = index.cols == 1 or (index.rows > 1 and index.layout == "row")
        row = (index[height, 1] if by_row else index[1, height].T).to(torch.int64)
        row = _positions(row, table_rows, outside).expand(height, width)
        col = torch.arange(width).expand(height, width)
    else:
        position = _positions(index[height, width].to(torch.int64), table_rows * table_cols, outside)
        row, col = torch.div(position, table_cols, rounding_mode="floor"), position % table_cols
    left_out = row < 0
    if table.layout == "nz":
        block = col // shape[4]
        offset = block // shape[1] * strides[0] + block % shape[1] * strides[1] + col % shape[4] * strides[4]
        offset = offset + row // shape[3] * strides[2] + row % shape[3] * strides[3]
        return torch.where(left_out, -1, offset)
    outermost = next((d for d in range(3) if shape[d] != 1), 3)
    offset = col * strides[4]
    for d in range(3, outermost, -1):
        offset = offset + row % shape[d] * strides[d]
        row = row // shape[d]
    return torch.where(left_out, -1, offset + row * strides[outermost])


def _records(values: torch.Tensor, bits: torch.Tensor) -> torch.Tensor:
    """Return the positions of the values in descending order; equal values keep their order, NaN comes first."""
    key = torch.where(values.isnan(), torch.inf, values.double())
    key = torch.where(values.isnan(), key, key + 0.0)
    first = torch.argsort(key, dim=-1, descending=True, stable=True)
    nan_first = torch.argsort(values.isnan().gather(-1, first).to(torch.int8), dim=-1, descending=True, stable=True)
    return first.gather(-1, nan_first)


def sort_groups(target: Tile, source: Tile, index: Tile) -> None:
    """Sort every 32 values of a row in descending order, as records of value and index, 8 bytes each."""
    rows, cols = source.valid
    values = source[:]
    names = index.read(1 if index.rows == 1 else rows, cols).expand(rows, cols).contiguous().view(torch.int32)
    for start in range(0, cols, 32):
        group = values[:, start : start + 32]
        order = _records(group, group)
        chosen = group.gather(1, order).contiguous()
        bits = chosen.view(torch.int32) if chosen.element_size() == 4 else chosen.view(torch.int16).to(torch.int32)
        bits = bits if chosen.element_size() == 4 else bits & 0xFFFF
        named = names[:, start : start + 32].gather(1, order)
        pairs = torch.stack((bits, named), dim=2).reshape(rows, -1)
        target.window(0, 2 * start * 4 // target.dtype.itemsize, *target.valid)[:] = pairs.view(target.dtype)


def _record_values(records: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Return the values of records, which are rows of two 32-bit words."""
    words = records[:, 0].contiguous()
    return words.view(torch.float32) if dtype == torch.float32 else words.view(torch.float16)[::2]


def merge_blocks(target: Tile, source: Tile, length: int) -> None:
    """Merge every four sorted blocks of `length` elements of a row into one."""
    size = source.dtype.itemsize
    records = source.valid[1] * size // 8
    block = length * size // 8
    words = source.flat[: records * 8 // size].clone().view(torch.int32).reshape(-1, 2)
    merged = []
    for start in range(0, records, 4 * block):
        part = words[start : start + 4 * block]
        values = _record_values(part, source.dtype)
        merged.append(part[_records(values[None], values)[0]])
    flat = torch.cat(merged).reshape(-1).view(target.dtype)
    target.flat[: flat.numel()] = flat


def merge_lists(target: Tile, sources: list[Tile], *, until_exhausted: bool) -> list[int]:
    """Merge sorted lists; with `until_exhausted`, stop when one list is used up. Return how many elements of each
    were used.
    """
    size = target.dtype.itemsize
    limit = target.valid[1] * size // 8
    lists = [tile.flat[: tile.valid[1]].clone().view(torch.int32).reshape(-1, 2) for tile in sources]
    words = torch.cat(lists)
    origin = torch.cat([torch.full((len(part),), number) for number, part in enumerate(lists)])
    values = _record_values(words, target.dtype)
    order = _records(values[None], values)[0][:limit]
    taken = [0] * len(lists)
    count = 0
    for number in origin[order].tolist():
        taken[number] += 1
        count += 1
        if until_exhausted and taken[number] == len(lists[number]):
            break
    flat = words[order[:count]].reshape(-1).view(target.dtype)
    target.flat[: flat.numel()] = flat
    return taken + [0] * (4 - len(taken))


def random_words(
    shape: tuple[int, int], stride: int, key: tuple[int, int], counter: tuple[int, ...], rounds: int
) -> torch.Tensor:
    """Return numbers of the counter-based generator Philox 4x32.

    64 blocks of four words are 256 columns, first words first. The next columns, or the next row, count on by a quarter
    of the tile's columns.
    """
    result, block = torch.zeros(shape, dtype=torch.int64), 0
    start = sum(word << (32 * index) for index, word in enumerate(counter))
    for row in range(shape[0]):
        for first in range(0, shape[1], 256):
            for lane in range(min(64, shape[1] - first)):
                words = [((start + block + lane) >> (32 * index)) & 0xFFFFFFFF for index in range(4)]
                low, high = key
                for _ in range(rounds):
                    a, b = 0xD2511F53 * words[0], 0xCD9E8D57 * words[2]
                    words = [(b >> 32) ^ words[1] ^ low, b & 0xFFFFFFFF, (a >> 32) ^ words[3] ^ high, a & 0xFFFFFFFF]
                    low, high = (low + 0x9E3779B9) & 0xFFFFFFFF, (high + 0xBB67AE85) & 0xFFFFFFFF
                line = result[row, first + lane : first + 256 : 64]
                line[:] = torch.tensor(words[: len(line)])
            block += stride // 4
    return result


def histogram(target: Tile, source: torch.Tensor, index: Tile, *, byte: int, width: int) -> None:
    """For each row and each value of a byte, count the elements with at most this value there.

    Only elements with the higher bytes in `index` count: for 16-bit elements a column, for 32-bit elements a row for
    each byte, the highest first.
    """
    rows, cols = source.shape
    wide = source.to(torch.int64)
    counts = torch.ones(rows, cols, dtype=torch.bool)
    for k in range(width - 1, byte, -1):
        higher = index.read(rows, 1) if width == 2 else index.read(width - k, cols)[-1:]
        counts &= ((wide >> (8 * k)) & 255) == (higher.to(torch.int64) & 255)
    bins = torch.zeros(rows, 256, dtype=torch.int64)
    bins.scatter_add_(1, (wide >> (8 * byte)) & 255, counts.to(torch.int64))
    target[:] = bins.cumsum(1)


def row_parameter(tile: Tile, valid: tuple[int, int]) -> torch.Tensor:
    """Return the scales for each row, or one for all rows."""
    rows, cols = valid
    have = tile.valid
    scales: torch.Tensor = tile[max(have[0], 1), max(have[1], 1)].float()
    scales = scales if have[0] > 1 else scales[:1]
    return scales[:, [min(col, scales.shape[1] - 1) for col in range(cols)]].expand(rows, cols)


def scaled(value: torch.Tensor, scale: Any, dtype: torch.dtype, *, relu: bool) -> torch.Tensor:
    """Return values converted as when leaving the accumulator: scaled, optionally clamped to zero, rounded to
    nearest, saturated.
    """
    result: torch.Tensor = value.float() * scale
    result = result.clamp(min=0) if relu else result
    if dtype.is_floating_point:
        return result
    limits = torch.iinfo(dtype)
    return torch.nan_to_num(result.double().round(), nan=0.0).clamp(limits.min, limits.max).to(torch.int64)


def column_scales(tile: Tile, cols: int) -> torch.Tensor:
    """Return one scale for each column; the low half of a 64-bit scale is the float."""
    raw = tile.flat[:cols]
    if raw.element_size() == 8:
        return raw.contiguous().view(torch.float32)[::2]
    return raw.float()
