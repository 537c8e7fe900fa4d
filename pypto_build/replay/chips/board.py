"""Reads the board, on which ranks tell what they wait for; its layout is that of ``runtime/src/chips/board.h``."""

from __future__ import annotations

import ctypes
import mmap
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from pypto_build.facts.comparisons import COMPARISONS, holds
from pypto_build.runtime.printable import printable

_HEADER = struct.Struct("<QII")
_RANK = struct.Struct("<iI")
_WAIT = struct.Struct("<IiIiQQ64s")
_NOTE = struct.Struct("<QIIqIiqQ64s")
_RANKS, _WAITS, _NOTES, _SIGNALS, _HISTORY = 66, 128, 16384, 2048, 16
_CLOCK = struct.Struct(f"<{_RANKS}I")
_RANK_BYTES = _RANK.size + _CLOCK.size + _WAITS * _WAIT.size
_NOTES_OFFSET = _HEADER.size + _RANKS * _RANK_BYTES
BOARD_BYTES = _NOTES_OFFSET + _NOTES * _NOTE.size + _SIGNALS * (40 + _HISTORY * (8 + _CLOCK.size))

_WAITING = 2


@dataclass(frozen=True)
class Wait:
    """A kernel of a rank that waits for the signal at `address`."""

    rank: int
    address: int
    expected: int
    comparison: int
    task: int
    kernel: str
    block: int

    @property
    def value(self) -> int:
        """What the signal is now."""
        return ctypes.c_int32.from_address(self.address).value

    @property
    def is_over(self) -> bool:
        """Whether it holds, so that the kernel only has to notice."""
        return holds(self.value, self.expected, self.comparison)


@dataclass(frozen=True)
class Notes:
    """What a rank did to a signal: how often, what it added in all, how often it set it; what it set it to, or added
    at last, when (CLOCK_MONOTONIC) and in which task."""

    rank: int
    count: int
    added: int
    sets: int
    last: int
    kernel: str
    last_ns: int = 0
    task: int = 0


class Board:
    """Shared memory for all ranks of a run. `memory` is what the runtime is given."""

    def __init__(self) -> None:
        self._map = mmap.mmap(-1, BOARD_BYTES)
        self.memory = memoryview(self._map)
        for rank in range(_RANKS):
            self._set_clock(rank, [int(other == rank) for other in range(_RANKS)])

    @property
    def epoch(self) -> int:
        """Grows with every notification."""
        return int(_HEADER.unpack_from(self._map, 0)[1])

    def busy(self, rank: int) -> int:
        """How much of a rank can go on by itself."""
        return int(_RANK.unpack_from(self._map, _HEADER.size + rank * _RANK_BYTES)[0])

    def other_waits(self, rank: int) -> int:
        """How many of its kernels wait for members of their group."""
        return int(_RANK.unpack_from(self._map, _HEADER.size + rank * _RANK_BYTES)[1])

    def release(self, rank: int) -> tuple[int, ...]:
        """What comes before whatever follows the dispatch that a rank has just ended: its clock."""
        clock = self._clock(rank)
        self._set_clock(rank, [tick + (other == rank) for other, tick in enumerate(clock)])
        return clock

    def acquire(self, rank: int, clock: Iterable[int]) -> None:
        """What has `clock` comes before the dispatch that a rank is about to begin."""
        self._set_clock(rank, map(max, self._clock(rank), clock))

    def _clock(self, rank: int) -> tuple[int, ...]:
        return _CLOCK.unpack_from(self._map, _HEADER.size + rank * _RANK_BYTES + _RANK.size)

    def _set_clock(self, rank: int, clock: Iterable[int]) -> None:
        _CLOCK.pack_into(self._map, _HEADER.size + rank * _RANK_BYTES + _RANK.size, *clock)

    def signals(self) -> set[int]:
        """The addresses of all that were notified."""
        places = (_NOTE.unpack_from(self._map, _NOTES_OFFSET + slot * _NOTE.size)[0] for slot in range(_NOTES))
        return {place for place in places if place}

    def waits(self, rank: int) -> list[Wait]:
        """The kernels of a rank that wait."""
        start = _HEADER.size + rank * _RANK_BYTES + _RANK.size + _CLOCK.size
        found = []
        for slot in range(_WAITS):
            state, expected, comparison, block, address, task, kernel = _WAIT.unpack_from(
                self._map, start + slot * _WAIT.size
            )
            if state == _WAITING and comparison < len(COMPARISONS):
                found.append(Wait(rank, address, expected, comparison, task, _text(kernel), block))
        return found

    def notes(self, address: int) -> Iterator[Notes]:
        """Who notified the signal at `address`."""
        for slot in range(_NOTES):
            place, rank, count, added, sets, last, last_ns, task, kernel = _NOTE.unpack_from(
                self._map, _NOTES_OFFSET + slot * _NOTE.size
            )
            if place == address and rank:
                yield Notes(rank - 1, count, added, sets, last, _text(kernel), last_ns, task)


def _text(raw: bytes) -> str:
    return printable(raw.split(b"\0", 1)[0].decode("utf-8", "replace"))
