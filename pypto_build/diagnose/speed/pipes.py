"""Simulation of the pipes of one block's cores: instructions in order, flags, barriers, queues and slots.

A core's scalar unit issues instructions in the order of the program. Each waits in the queue of its pipe until those
before it are over and until the flags that the pipe waits for are set. Times are cycles from the start of the block.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pypto_build.diagnose.speed.cost import Cost
from pypto_build.diagnose.speed.rates import Rates
from pypto_build.diagnose.speed.record import (
    ALL,
    BARRIER,
    FIX,
    INSTRUCTION,
    MET,
    MTE2,
    MTE3,
    SET_FLAG,
    SLOT_ACQUIRED,
    SLOT_PASSED,
    WAIT_FLAG,
    EventRow,
    S,
)

_PIPES = 16


@dataclass(frozen=True)
class Shares:
    """Cycles that a byte of global memory takes a core: loads and stores, at HBM and at L2, and the shares of hits."""

    hbm_load: float
    hbm_store: float
    l2_load: float
    l2_store: float
    hits: float = 0.0
    store_hits: float = 0.0

    def load(self, moved: float) -> float:
        """Return the cycles in which a load of so many bytes is over."""
        return moved * ((1 - self.hits) * max(self.hbm_load, self.l2_load) + self.hits * self.l2_load)

    def store(self, moved: float) -> float:
        """Return the cycles in which a store of so many bytes is over."""
        return moved * ((1 - self.store_hits) * max(self.hbm_store, self.l2_store) + self.store_hits * self.l2_store)


@dataclass
class CoreTime:
    """The activity of a core: cycles in all and of each pipe, cycles waited at each row, and the times of meetings.

    `spans` lists what ran where, as row, pipe, begin and end; it is empty unless it was asked for.
    """

    cycles: float = 0.0
    busy: dict[int, float] = field(default_factory=dict)
    waits: dict[int, float] = field(default_factory=dict)
    met: list[float] = field(default_factory=list)
    spans: list[tuple[int, int, float, float]] = field(default_factory=list)


class _Core:
    """A core that executes a stream until it ends or waits for a slot of another core."""

    def __init__(self, member: int, stream: Sequence[int], chip: _Chip) -> None:
        self.member, self.stream, self.chip = member, stream, chip
        self.at = 0
        self.now = 0.0  # the scalar unit's
        self.free = [0.0] * _PIPES
        self.fresh = [True] * _PIPES
        self.starts: list[deque[float]] = [deque(maxlen=chip.depth) for _ in range(_PIPES)]
        self.flags: dict[tuple[int, int, int], deque[float]] = defaultdict(deque)
        if chip.spare:  # one more of each flag that tells of a free buffer
            flags_used = {(rows.pipe, rows.to, rows.id) for rows in (chip.rows[number] for number in set(stream))}
            self.flags.update({flag: deque([0.0]) for flag in flags_used if flag[:2] in chip.spare})
        self.slots: dict[tuple[int, bool, bool], int] = defaultdict(int)
        self.busy = [0.0] * _PIPES
        self.time = CoreTime()

    @property
    def done(self) -> bool:
        return self.at >= len(self.stream)

    def advance(
        self, rings: Mapping[tuple[int, bool, int], list[float]], parts: Mapping[int, set[tuple[int, bool]]]
    ) -> None:
        """Go on until the end, or until a slot is needed that another core has not passed on yet."""
        chip, free, fresh, starts, busy = self.chip, self.free, self.fresh, self.starts, self.busy
        rows, first, later, issue, depth = chip.rows, chip.first, chip.later, chip.issue, chip.depth
        stream, spans = self.stream, self.time.spans
        now, at, end = self.now, self.at, len(self.stream)
        while at < end:
            number = stream[at]
            row = rows[number]
            kind, pipe = row.kind, row.pipe
            if kind == INSTRUCTION:
                if pipe == S:
                    cycles = later[number]
                    busy[S] += cycles
                    now += cycles
                else:
                    now += issue
                    queue = starts[pipe]
                    if len(queue) == depth and queue[0] > now:
                        now = queue[0]
                    start = free[pipe]
                    if now > start:
                        start = now
                        fresh[pipe] = True
                    cycles = first[number] if fresh[pipe] else later[number]
                    fresh[pipe] = False
                    free[pipe] = start + cycles
                    busy[pipe] += cycles
                    queue.append(start)
                    if chip.traced:
                        spans.append((number, pipe, start, start + cycles))
            elif kind == SET_FLAG:
                self.flags[pipe, row.to, row.id].append(max(now if pipe == S else free[pipe], 0.0))
            elif kind == WAIT_FLAG:
                flag = self.flags[pipe, row.to, row.id]
                now = self._wait(number, row.to, flag.popleft() if flag else 0.0, now)
            elif kind == BARRIER:
                if pipe == ALL:
                    now = self._all(now)
                else:
                    fresh[pipe] = True
            elif kind == SLOT_ACQUIRED:
                time = self._slot(row, rings, parts)
                if time is None:
                    break
                waiting = MTE2 if row.name == "consumer" else MTE3 if self.member else FIX
                now = self._wait(number, waiting, time, now)
            elif kind == SLOT_PASSED:
                producing = row.name == "producer"
                pipe = (MTE3 if self.member else FIX) if producing else MTE2
                rings[row.id, producing, self.member].append(max(free[pipe], now))
            elif kind == MET:
                now = self._all(now)
                self.time.met.append(now)
            at += 1
        self.now, self.at = now, at

    def _wait(self, number: int, pipe: int, time: float, now: float) -> float:
        """Let a pipe wait, and note for how long it had nothing else to do."""
        begin = now if pipe == S else max(self.free[pipe], now)
        if time > begin:
            self.time.waits[number] = self.time.waits.get(number, 0.0) + time - begin
        if pipe == S:
            return max(now, time)
        if time > self.free[pipe]:
            self.free[pipe] = time
            self.fresh[pipe] = True
        return now

    def _all(self, now: float) -> float:
        now = max(now, *self.free)
        self.free[:] = [now] * _PIPES
        self.fresh[:] = [True] * _PIPES
        return now

    def _slot(
        self,
        row: EventRow,
        rings: Mapping[tuple[int, bool, int], list[float]],
        parts: Mapping[int, set[tuple[int, bool]]],
    ) -> float | None:
        """Return the time at which a slot is there; None if that is not known yet."""
        producing = row.name == "producer"
        count = self.slots[row.id, producing, True]
        needed = count - row.to if producing else count
        others = [other for other, is_producer in parts.get(row.id, ()) if is_producer != producing]
        latency = self.chip.slot
        time = 0.0
        if needed >= 0:
            for other in others:
                passed = rings[row.id, not producing, other]
                if len(passed) <= needed:
                    return None
                time = max(time, passed[needed] + latency)
        self.slots[row.id, producing, True] = count + 1
        return time

    def finish(self) -> CoreTime:
        time = self.time
        time.cycles = max(self.now, *self.free)
        time.busy = {pipe: cycles for pipe, cycles in enumerate(self.busy) if cycles}
        return time


@dataclass(frozen=True)
class _Chip:
    """The durations of all rows for cores that get certain shares of the memory."""

    rows: Sequence[EventRow]
    first: Sequence[float]
    later: Sequence[float]
    issue: float
    depth: int
    slot: float
    traced: bool
    spare: frozenset[tuple[int, int]]


def durations(costs: Sequence[Cost], shares: Shares) -> tuple[list[float], list[float]]:
    """Return the cycles of each row as the first of a run of its pipe, and as a later one."""
    first, later = [], []
    for cost in costs:
        at_memory = 0.0
        if cost.moved:
            at_memory = shares.store(cost.moved) if cost.writes else shares.load(cost.moved)
        first.append(max(cost.head + cost.work, at_memory))
        later.append(max(cost.work, at_memory))
    return first, later


def simulate(
    rows: Sequence[EventRow],
    costs: Sequence[Cost],
    members: Mapping[int, Sequence[int]],
    shares: Shares,
    rates: Rates,
    *,
    traced: bool = False,
    spare: frozenset[tuple[int, int]] = frozenset(),
) -> dict[int, CoreTime]:
    """Return what the cores of a block do, by member. `members` are their streams.

    Flags between the pipes of `spare` are set once more before the block begins, as if each buffer was there twice.
    """
    first, later = durations(costs, shares)
    chip = _Chip(rows, first, later, rates["issue"], int(rates["queue"]), rates["slot"], traced, spare)
    cores = [_Core(member, stream, chip) for member, stream in members.items()]
    rings: dict[tuple[int, bool, int], list[float]] = defaultdict(list)
    parts: dict[int, set[tuple[int, bool]]] = defaultdict(set)
    if len(cores) > 1:
        for core in cores:
            for number in set(core.stream):
                if rows[number].kind == SLOT_PASSED:
                    parts[rows[number].id].add((core.member, rows[number].name == "producer"))
    before = -1
    while (done := sum(core.at for core in cores)) != before and not all(core.done for core in cores):
        before = done
        for core in cores:
            core.advance(rings, parts)
    return {core.member: core.finish() for core in cores}
