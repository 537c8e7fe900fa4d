"""Reads the board, on which ranks record their waits; its layout is in ``facts/layouts.py``."""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from pypto_build.facts import layouts
from pypto_build.facts.comparisons import COMPARISONS, holds
from pypto_build.runtime.faults import printable


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
        """Return the current value of the signal."""
        return ctypes.c_int32.from_address(self.address).value

    @property
    def is_over(self) -> bool:
        """Return whether the condition holds, so that the kernel goes on as soon as it checks again."""
        return holds(self.value, self.expected, self.comparison)


@dataclass(frozen=True)
class Notes:
    """All notifications of a signal by one rank: their number, the sum of added values, and the number of sets. `last`
    is the last value that was set or added; `last_ns` (CLOCK_MONOTONIC) and `task` say when and by which task."""

    rank: int
    count: int
    added: int
    sets: int
    last: int
    kernel: str
    last_ns: int = 0
    task: int = 0


class Board:
    """Shared memory for all ranks of a run; the runtime gets `memory`."""

    def __init__(self) -> None:
        shared = mmap.mmap(-1, layouts.BOARD_BYTES)
        self.memory = memoryview(shared)
        self._board = layouts.Board.from_buffer(shared)
        for rank in range(layouts.BOARD_RANKS):
            self._board.ranks[rank].clock[rank] = 1

    @property
    def epoch(self) -> int:
        """Return a counter that grows with every notification."""
        return int(self._board.epoch)

    def busy(self, rank: int) -> int:
        """Return how many activities of a rank can still go on without another rank."""
        return int(self._board.ranks[rank].busy)

    def other_waits(self, rank: int) -> int:
        """Return how many kernels of a rank wait for members of their group."""
        return int(self._board.ranks[rank].other_waits)

    def release(self, rank: int) -> tuple[int, ...]:
        """Return the vector clock of the dispatch that a rank has just ended, and advance the clock of that rank.
        Everything with this clock happens before the work that waits for the dispatch."""
        clock = tuple(self._board.ranks[rank].clock)
        self._board.ranks[rank].clock[rank] += 1
        return clock

    def acquire(self, rank: int, clock: Iterable[int]) -> None:
        """Merge `clock` into the rank's clock: the events of `clock` happen before the dispatch that the rank begins
        next."""
        own = self._board.ranks[rank].clock
        own[:] = list(map(max, own, clock))

    def signals(self) -> set[int]:
        """Return the addresses of all signals that were notified."""
        return {note.address for note in self._board.notes} - {0}

    def waits(self, rank: int) -> list[Wait]:
        """Return the waiting kernels of a rank."""
        return [
            Wait(rank, wait.address, wait.expected, wait.comparison, wait.task, _text(wait.kernel), wait.block)
            for wait in self._board.ranks[rank].waits
            if wait.state == layouts.COMPLETE and wait.comparison < len(COMPARISONS)
        ]

    def notes(self, address: int) -> Iterator[Notes]:
        """Yield the notifications of the signal at `address`, one record for each rank."""
        for note in self._board.notes:
            if note.address == address and note.rank:
                numbers = note.rank - 1, note.count, note.sum, note.sets, note.last
                yield Notes(*numbers, _text(note.kernel), note.last_ns, note.task)


def _text(raw: bytes) -> str:
    return printable(raw.decode("utf-8", "replace"))
