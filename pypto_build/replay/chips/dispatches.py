"""The dispatches of a driver and their dependencies: edges come from tags of host tensors alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

from pypto_build.replay.chips.memory import HostTensor, Windows


class TensorArgType(IntEnum):
    """The use of a tensor by a dispatch, with simpler's name and number."""

    INPUT = 0
    OUTPUT = 1
    INOUT = 2
    OUTPUT_EXISTING = 3
    NO_DEP = 4


_LOOKS_UP = (TensorArgType.INPUT, TensorArgType.INOUT)
_REGISTERS = (TensorArgType.OUTPUT, TensorArgType.INOUT, TensorArgType.OUTPUT_EXISTING)
_DIRECTIONS = {TensorArgType.INPUT: "IN", TensorArgType.OUTPUT: "OUT", TensorArgType.OUTPUT_EXISTING: "OUT"}


@dataclass(frozen=True)
class DispatchTensor:
    """A tensor of a dispatch. A tensor in a window is `windowed` and makes no edge."""

    tensor: HostTensor
    tag: TensorArgType
    windowed: bool = False

    @property
    def direction(self) -> str:
        """Return IN, OUT or INOUT."""
        return _DIRECTIONS.get(self.tag, "INOUT")


@dataclass
class Dispatch:
    """One call of a chip program on a rank, the `index`-th there, or of a host callable (`rank` None).

    `line` is that of the driver. Members of a `group` start together. The graph adds the others: `number` counts all in
    the order of submission, and it waits for `producers`.
    """

    program: str
    rank: int | None
    tensors: tuple[DispatchTensor, ...]
    scalars: tuple[int, ...]
    line: int = 0
    group: int | None = None
    number: int = 0
    index: int = 0
    producers: set[int] = field(default_factory=set)

    def __str__(self) -> str:
        where = "host" if self.rank is None else f"rank {self.rank} d{self.index}"
        return f"{where} '{self.program}'"


class DispatchGraph:
    """Dispatches in the order of submission; each learns its producers when it is added."""

    def __init__(self) -> None:
        self.all: list[Dispatch] = []
        self._writers: dict[int, int] = {}  # address of a storage -> the dispatch that wrote it last
        self._per_rank = Counter[int | None]()

    def add(self, dispatch: Dispatch) -> Dispatch:
        """Append a dispatch, and return it."""
        dispatch.number, dispatch.index = len(self.all), self._per_rank[dispatch.rank]
        self._per_rank[dispatch.rank] += 1
        hosted = [item for item in dispatch.tensors if not item.windowed]
        for item in hosted:
            if item.tag in _LOOKS_UP and (writer := self._writers.get(item.tensor.storage.address)) is not None:
                dispatch.producers.add(writer)
        for item in hosted:
            if item.tag in _REGISTERS:
                self._writers[item.tensor.storage.address] = dispatch.number
        self.all.append(dispatch)
        return dispatch


@dataclass(frozen=True)
class Plan:
    """The work of a driver: its dispatches in order, and the domains in which they communicate.

    `tensors` are all host tensors by the driver's names; their memory is shared by the ranks.
    """

    dispatches: list[Dispatch]
    domains: list[Windows]
    tensors: Mapping[str, Any]


class Queue:
    """Hands out dispatches: ready ones go to idle ranks, in the order of submission."""

    def __init__(self, dispatches: Sequence[Dispatch], ranks: int, sub_workers: int) -> None:
        self._all = dispatches
        self._open = {item.number: set(item.producers) for item in dispatches}
        self._ready: dict[int | None, list[int]] = {None: [], **{rank: [] for rank in range(ranks)}}
        self._free: dict[int | None, int] = {None: sub_workers, **dict.fromkeys(range(ranks), 1)}
        self.left = len(dispatches)
        for item in dispatches:
            if not self._open[item.number]:
                self._ready[item.rank].append(item.number)

    def take(self) -> Dispatch | None:
        """Return a ready dispatch whose rank is idle, and mark that rank as busy; None if there is none."""
        for rank, ready in self._ready.items():
            if ready and self._free[rank]:
                self._free[rank] -= 1
                return self._all[ready.pop(0)]
        return None

    def finish(self, done: Dispatch) -> None:
        """Mark a dispatch as finished: its rank becomes idle, and dispatches that waited only for it become ready."""
        self.left -= 1
        self._free[done.rank] += 1
        del self._open[done.number]
        for item in self._all:
            waits = self._open.get(item.number)
            if waits and done.number in waits:
                waits.discard(done.number)
                if not waits:
                    self._ready[item.rank].append(item.number)

    def waiting(self) -> list[tuple[Dispatch, list[Dispatch]]]:
        """Return the dispatches that have not begun, each with those that it waits for (none if its rank is busy)."""
        started = {number for number, waits in self._open.items() if not waits} - {
            number for ready in self._ready.values() for number in ready
        }
        return [
            (self._all[number], [self._all[producer] for producer in sorted(waits)])
            for number, waits in self._open.items()
            if number not in started
        ]
