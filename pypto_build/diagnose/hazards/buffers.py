"""Assignment of regions to buffers, and division of a buffer's bytes at the ends of regions.

The arguments of a region's task determine its buffer. Address and allocation identify a buffer, since the runtime
reuses memory when its tasks have ended.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from pypto_build.diagnose.hazards.record import WRITE, Record

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Buffers:
    """`keys[i]` is (address, owner) of buffer i. `of_region` has the buffer of each region, -1 for none."""

    keys: list[tuple[int, int]]
    of_region: Array

    def shared_and_written(self, record: Record) -> Iterator[tuple[int, Array, bool]]:
        """Yield the buffers that are written, and that more than one task accesses.

        Yields the buffer, its regions in task order, and True if all regions are the same contiguous bytes.
        """
        known = np.flatnonzero(self.of_region >= 0)
        if not len(known):
            return
        order = known[np.argsort(self.of_region[known], kind="stable")]
        numbers, regions = self.of_region[order], record.regions[order]
        starts = np.concatenate(([0], np.flatnonzero(np.diff(numbers)) + 1))
        ends = np.append(starts[1:], len(order))
        alike = regions["rows"] == 1
        for name in ("base", "length"):
            alike &= regions[name] == np.repeat(regions[name][starts], ends - starts)
        whole = np.logical_and.reduceat(alike, starts)
        written = np.logical_or.reduceat((regions["kind"] & WRITE) > 0, starts)
        wanted = written & (regions["task"][starts] != regions["task"][ends - 1])
        for at in np.flatnonzero(wanted).tolist():
            yield int(numbers[starts[at]]), order[starts[at] : ends[at]], bool(whole[at])


def find_buffers(record: Record) -> Buffers:
    """Find the buffer of every region: the innermost buffer of its task's arguments that contains its first byte."""
    table, bases = record.arguments, record.regions["base"]
    chosen = np.full(len(bases), -1, dtype=np.int64)  # a row of the table
    for some, rows in record.with_arguments():
        inside = (table.low[rows] <= bases[some]) & (bases[some] < table.high[rows])
        some, rows = some[inside], rows[inside]
        known = chosen[some]
        nearer = table.low[rows] > table.low[known]
        later = (table.low[rows] == table.low[known]) & (table.owner[rows] > table.owner[known])
        better = (known < 0) | nearer | later
        chosen[some[better]] = rows[better]
    held = np.flatnonzero(chosen >= 0)
    rows = chosen[held]
    pairs = np.stack((table.low[rows], table.owner[rows]), axis=1)
    keys, first, numbers = np.unique(pairs, axis=0, return_index=True, return_inverse=True)
    by_use = np.argsort(first)  # buffers are numbered in the order of first use
    of_region = np.full(len(bases), -1, dtype=np.int64)
    of_region[held] = np.argsort(by_use)[numbers.reshape(-1)]
    return Buffers([(int(low), int(owner)) for low, owner in keys[by_use].tolist()], of_region)


@dataclass(frozen=True)
class Segments:
    """A buffer's bytes in pieces, each covered completely or not at all by a region.

    Piece i reaches from `edges[i]` to `edges[i + 1]`. `pieces` has the pieces of each region.
    """

    edges: Array
    pieces: list[Array]

    def span(self, pieces: Array) -> tuple[int, int, int]:
        """Return the address of the first byte of some pieces, one past the last, and the number of bytes."""
        sizes = self.edges[pieces + 1] - self.edges[pieces]
        return int(self.edges[pieces.min()]), int(self.edges[pieces.max() + 1]), int(sizes.sum())

    def left_over(self, count: int) -> Array:
        """Return the pieces of the first `count` regions that no other region has."""
        return np.setdiff1d(np.concatenate(self.pieces[:count]), np.concatenate((*self.pieces[count:], self.edges[:0])))


def cut(regions: Array) -> Segments:
    """Divide a buffer into pieces at the ends of `regions`, which all lie in it."""
    first = regions[0]
    alike = (regions["base"] == first["base"]) & (regions["length"] == first["length"]) & (regions["rows"] == 1)
    if alike.all():  # by far the most frequent case
        begin = int(first["base"])
        return Segments(np.array([begin, begin + int(first["length"])]), [np.zeros(1, np.int64)] * len(regions))
    rows = regions["rows"].astype(np.int64)
    offsets = np.concatenate(([0], np.cumsum(rows)[:-1]))
    step = np.arange(int(rows.sum())) - np.repeat(offsets, rows)
    starts = np.repeat(regions["base"], rows).astype(np.int64) + step * np.repeat(regions["stride"], rows).astype(
        np.int64
    )
    ends = starts + np.repeat(regions["length"], rows).astype(np.int64)
    edges = np.unique(np.concatenate((starts, ends)))
    low, high = np.searchsorted(edges, starts), np.searchsorted(edges, ends)
    pieces = []
    for begin, count in zip(offsets.tolist(), rows.tolist(), strict=True):
        a, b = low[begin : begin + count], high[begin : begin + count]
        lengths = b - a
        if (lengths == 1).all():
            pieces.append(a)
        else:
            shift = np.concatenate(([0], np.cumsum(lengths)[:-1]))
            pieces.append(np.repeat(a - shift, lengths) + np.arange(int(lengths.sum())))
    return Segments(edges, pieces)
