"""The memory a replay runs on: one shared mapping of all tensors, seen by the parent and by the child.

Every tensor owns its pages, so the runtime can protect inputs. Around the tensors lie red zones with a known pattern.
After the run, a changed pattern reveals a kernel that wrote past a tensor. The run itself is not slower for it.
"""

from __future__ import annotations

import copy
import mmap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

ALIGNMENT = mmap.PAGESIZE
RED_ZONE = ALIGNMENT
_PATTERN = 0xA5


def _round_up(value: int) -> int:
    return -(-value // ALIGNMENT) * ALIGNMENT


@dataclass(frozen=True)
class Overrun:
    """A write outside a tensor: `index` of the nearest tensor, byte `offset` in that tensor."""

    index: int
    offset: int


class Arena:
    """Shared memory for tensors of the given sizes in bytes, page-aligned and zero-filled.

    With `at_ends`, tensors end at the ends of pages. Those that are `lent`, by index, stay
    where they are, as in a mapped file: no process writes there.
    """

    def __init__(
        self, sizes: Sequence[int], *, at_ends: bool = False, lent: Mapping[int, memoryview] | None = None
    ) -> None:
        self._lent = dict(lent or {})
        self._sizes = {index: size for index, size in enumerate(sizes) if index not in self._lent}
        self._offsets: dict[int, int] = {}
        position = RED_ZONE
        for index, size in self._sizes.items():
            self._offsets[index] = _round_up(position + size) - size if at_ends else position
            position = _round_up(position + size) + RED_ZONE
        self._map = mmap.mmap(-1, position)
        self.memory = memoryview(self._map)
        self._end = position
        self._written: set[int] = set()
        for start, stop in self.zones():
            self.memory[start:stop] = bytes([_PATTERN]) * (stop - start)

    def zones(self) -> list[tuple[int, int]]:
        """Return the begin and end of each red zone in `memory`: one before each tensor, and one after the last."""
        starts = [0, *(offset + size for offset, size in self.layout)]
        stops = [*self._offsets.values(), self._end]
        return list(zip(starts, stops, strict=True))

    @property
    def layout(self) -> list[tuple[int, int]]:
        """Return offset in `memory` and size in bytes of each tensor that is not lent."""
        return [(offset, self._sizes[index]) for index, offset in self._offsets.items()]

    def tensor(self, index: int) -> memoryview:
        """Return the bytes of tensor `index`, writable unless it is lent."""
        if index in self._lent:
            return self._lent[index]
        offset = self._offsets[index]
        return self.memory[offset : offset + self._sizes[index]]

    def fill(self, index: int, data: memoryview | bytes | None) -> None:
        """Set tensor `index` to `data`, or to zeros. A lent tensor has its data already."""
        if index in self._lent:
            return
        if data is not None:
            self.tensor(index)[:] = data
        elif index in self._written:
            self._clear(index)
        self._written.add(index)

    def _clear(self, index: int) -> None:
        """Zero a tensor. Whole pages are returned to the system, so that untouched pages cost neither memory nor
        time.
        """
        start, stop = self._offsets[index], self._offsets[index] + self._sizes[index]
        first, last = _round_up(start), stop // ALIGNMENT * ALIGNMENT
        if first < last:
            self._map.madvise(mmap.MADV_REMOVE, first, last - first)
            self.memory[start:first] = bytes(first - start)
            start = last
        self.memory[start:stop] = bytes(stop - start)

    def copy(self) -> Arena:
        """Return a copy of the arena that no other process writes to."""
        twin = copy.copy(self)
        twin.memory = memoryview(bytes(self.memory))
        return twin

    def overrun(self) -> Overrun | None:
        """Return the first write that hit a red zone, restoring nothing; None when all are intact."""
        indices = [*self._offsets]
        for zone, (start, stop) in enumerate(self.zones()):
            guard = bytes(self.memory[start:stop])
            stripped = guard.lstrip(bytes([_PATTERN]))
            if not stripped:
                continue
            position = stop - len(stripped)
            if zone == 0 or (zone < len(indices) and stop - position < position - start):
                return Overrun(indices[zone], position - stop)
            before = indices[zone - 1]
            return Overrun(before, position - start + self._sizes[before])
        return None
