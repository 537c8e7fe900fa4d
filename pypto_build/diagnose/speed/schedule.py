"""Schedule of a run on the cores of a chip: ready order, costs of dispatch, groups and blocks.

A task is submitted after those before it. It is ready when the tasks that it waits for are over and the scheduler has
seen that. Its blocks then take the cores that are free first; a group takes a cube core and its vector cores.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence

import msgspec

from pypto_build.diagnose.speed.rates import Rates

DATA, CORE, SUBMISSION = "dependencies", "cores", "dispatch"


class Block(msgspec.Struct, frozen=True, gc=False):
    """A block of a task before it has a time: its number in the run, and the members that exist."""

    task: int
    block: int
    number: int
    members: tuple[int, ...]


class Placed(msgspec.Struct, frozen=True):
    """A block in time. `cores` are by member: cube cores from 0 on, vector cores from the number of cube cores on.

    `reason` says what it waited for last, and `before` is the number of the block that ended that wait, or -1.
    `gap` are the microseconds between that block's end and the start.
    """

    block: Block
    start: float
    end: float
    cores: tuple[int, ...]
    reason: str
    before: int
    gap: float


class Schedule:
    """The tasks of a run with their order and costs of dispatch: places them as often as their times change."""

    def __init__(self, tasks: Mapping[int, Sequence[Block]], after: Mapping[int, frozenset[int]], rates: Rates) -> None:
        self.tasks, self.rates = tasks, rates
        begin, submit = rates["dispatch.preamble"], rates["dispatch.submit"]
        self.submitted = {task: begin + submit * (number + 1) for number, task in enumerate(tasks)}
        self.edges = {task: len(after.get(task, frozenset()) & tasks.keys()) for task in tasks}
        self.followers: dict[int, list[int]] = {}
        for task in tasks:
            for before in after.get(task, ()):
                self.followers.setdefault(before, []).append(task)
        self.single = {task: not blocks or len(blocks[0].members) == 1 for task, blocks in tasks.items()}

    def place(self, times: Sequence[float]) -> list[Placed]:
        """Return the blocks in time, in the order in which they start. `times` are their microseconds, by number."""
        wait = self.rates["dispatch.dependency"]
        cores = self.rates.cores
        free = [
            [(0.0, core, -1) for core in range(cores["aic"])],
            [(0.0, cores["aic"] + core, -1) for core in range(cores["aiv"])],
        ]
        open_edges = dict(self.edges)
        ready = [(self.submitted[task], self.single[task], task, -1) for task, left in open_edges.items() if not left]
        heapq.heapify(ready)
        latest: dict[int, tuple[float, int]] = {}
        placed: list[Placed] = []
        while ready:
            at, _, task, cause = heapq.heappop(ready)
            over = max(self._start(task, (at, cause), times, free, placed), (at, cause))
            for follower in self.followers.get(task, ()):
                open_edges[follower] -= 1
                latest[follower] = max(latest.get(follower, (-1.0, -1)), over)
                if not open_edges[follower]:
                    end, by = latest[follower]
                    seen, submitted = end + wait, self.submitted[follower]
                    cause = by if seen >= submitted else -1
                    heapq.heappush(ready, (max(seen, submitted), self.single[follower], follower, cause))
        return placed

    def _start(
        self,
        task: int,
        ready: tuple[float, int],
        times: Sequence[float],
        free: Sequence[list[tuple[float, int, int]]],
        placed: list[Placed],
    ) -> tuple[float, int]:
        """Let the blocks of a task take cores as these become free. Returns the last end, and the number of its block.

        `ready` is when the task may start, and the number of the block that it waited for. `free` are cores of each
        type by the time at which they are free.
        """
        at, cause = ready
        pickup = self.rates["dispatch.pickup"]
        reason, since = (DATA, placed[cause].end) if cause >= 0 else (SUBMISSION, 0.0)
        last = (-1.0, -1)
        for block in self.tasks[task]:
            number = len(placed)
            if len(block.members) == 1:
                heap = free[1 if block.members[0] else 0]
                core_free, core, earlier = heap[0]
                cores: tuple[int, ...] = (core,)
            else:
                heaps = [free[1 if member else 0] for member in block.members]
                taken = [heapq.heappop(heap) for heap in heaps]
                core_free, _, earlier = max(taken)
                cores = tuple([core for _, core, _ in taken])
            if core_free > at:
                start = core_free + pickup
                why, before, gap = CORE, earlier, start - core_free
            else:
                start = at + pickup
                why, before, gap = reason, cause, start - since
            end = start + times[block.number]
            placed.append(Placed(block, start, end, cores, why, before, gap))
            if len(cores) == 1:
                heapq.heapreplace(heap, (end, core, number))
            else:
                for heap, core in zip(heaps, cores, strict=True):
                    heapq.heappush(heap, (end, core, number))
            if end >= last[0]:
                last = end, number
        return last


def critical(placed: Sequence[Placed]) -> list[int]:
    """Return the numbers of the blocks on the critical path, the first one first."""
    if not placed:
        return []
    number = max(range(len(placed)), key=lambda index: placed[index].end)
    path = []
    while number >= 0:
        path.append(number)
        number = placed[number].before
    return path[::-1]
