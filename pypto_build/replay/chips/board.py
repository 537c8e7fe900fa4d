"""Reads the board, on which ranks tell what they wait for; its layout is in ``facts/layouts.py``."""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from pypto_build.facts import layouts
from pypto_build.facts.comparisons import COMPARISONS, holds
from pypto_build.runtime.printable import printable


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
        shared = mmap.mmap(-1, layouts.BOARD_BYTES)
        self.memory = memoryview(shared)
        self._board = layouts.Board.from_buffer(shared)
        for rank in range(layouts.BOARD_RANKS):
            self._board.ranks[rank].clock[rank] = 1

    @property
    def epoch(self) -> int:
        """Grows with every notification."""
        return int(self._board.epoch)

    def busy(self, rank: int) -> int:
        """How much of a rank can go on by itself."""
        return int(self._board.ranks[rank].busy)

    def other_waits(self, rank: int) -> int:
        """How many of its kernels wait for members of their group."""
        return int(self._board.ranks[rank].other_waits)

    def release(self, rank: int) -> tuple[int, ...]:
        """What comes before whatever follows the dispatch that a rank has just ended: its clock."""
        clock = tuple(self._board.ranks[rank].clock)
        self._board.ranks[rank].clock[rank] += 1
        return clock

    def acquire(self, rank: int, clock: Iterable[int]) -> None:
        """What has `clock` comes before the dispatch that a rank is about to begin."""
        own = self._board.ranks[rank].clock
        own[:] = list(map(max, own, clock))

    def signals(self) -> set[int]:
        """The addresses of all that were notified."""
        return {note.address for note in self._board.notes} - {0}

    def waits(self, rank: int) -> list[Wait]:
        """The kernels of a rank that wait."""
        return [
            Wait(rank, wait.address, wait.expected, wait.comparison, wait.task, _text(wait.kernel), wait.block)
            for wait in self._board.ranks[rank].waits
            if wait.state == layouts.COMPLETE and wait.comparison < len(COMPARISONS)
        ]

    def notes(self, address: int) -> Iterator[Notes]:
        """Who notified the signal at `address`."""
        for note in self._board.notes:
            if note.address == address and note.rank:
                numbers = note.rank - 1, note.count, note.sum, note.sets, note.last
                yield Notes(*numbers, _text(note.kernel), note.last_ns, note.task)


def _text(raw: bytes) -> str:
    return printable(raw.decode("utf-8", "replace"))
