"""The memory a replay runs on: one shared mapping with every tensor in it, seen by the parent and by the child.

Every tensor owns its pages, so the runtime can guard inputs. Around the tensors lie red zones with a known pattern; a
kernel that writes past a tensor is found by the changed pattern after the run, without making the run slower.
"""

from __future__ import annotations

import copy
import mmap
from dataclasses import dataclass

ALIGNMENT = mmap.PAGESIZE
RED_ZONE = ALIGNMENT
_PATTERN = 0xA5


def _round_up(value: int) -> int:
    return -(-value // ALIGNMENT) * ALIGNMENT


@dataclass(frozen=True)
class Overrun:
    """A write outside a tensor: `index` of the tensor it is nearest to, byte `offset` in it."""

    index: int
    offset: int


class Arena:
    """Shared memory for tensors of the given sizes in bytes, page-aligned and zero-filled.

    With `at_ends`, tensors end where pages do, and begin where that leads to.
    """

    def __init__(self, sizes: list[int], *, at_ends: bool = False) -> None:
        self._sizes = sizes
        self._offsets: list[int] = []
        position = RED_ZONE
        for size in sizes:
            self._offsets.append(_round_up(position + size) - size if at_ends else position)
            position = _round_up(position + size) + RED_ZONE
        self._map = mmap.mmap(-1, position)
        self.memory = memoryview(self._map)
        self._end = position
        for start, stop in self.zones():
            self.memory[start:stop] = bytes([_PATTERN]) * (stop - start)

    def zones(self) -> list[tuple[int, int]]:
        """Where in `memory` the red zones begin and end: one before each tensor, and the last."""
        starts = [0, *(offset + size for offset, size in self.layout)]
        stops = [*self._offsets, self._end]
        return list(zip(starts, stops, strict=True))

    @property
    def layout(self) -> list[tuple[int, int]]:
        """Offset in `memory` and size in bytes of each tensor."""
        return list(zip(self._offsets, self._sizes, strict=True))

    def tensor(self, index: int) -> memoryview:
        """The bytes of tensor `index`, writable."""
        offset = self._offsets[index]
        return self.memory[offset : offset + self._sizes[index]]

    def fill(self, index: int, data: memoryview | bytes | None) -> None:
        """Set tensor `index` to `data`, or to zeros."""
        self.tensor(index)[:] = bytes(self._sizes[index]) if data is None else data

    def copy(self) -> Arena:
        """The same, in memory that nobody else writes to."""
        twin = copy.copy(self)
        twin.memory = memoryview(bytes(self.memory))
        return twin

    def overrun(self) -> Overrun | None:
        """The first write that hit a red zone, restoring nothing; None when all are intact."""
        for zone, (start, stop) in enumerate(self.zones()):
            found = bytes(self.memory[start:stop])
            stripped = found.lstrip(bytes([_PATTERN]))
            if not stripped:
                continue
            position = stop - len(stripped)
            if zone == 0 or (zone < len(self._sizes) and stop - position < position - start):
                return Overrun(zone, position - stop)
            return Overrun(zone - 1, position - start + self._sizes[zone - 1])
        return None
