"""Schedule of a run on the cores of a chip: ready order, costs of dispatch, groups and blocks.

A task is submitted after those before it. It is ready when the tasks that it waits for are over and the scheduler has
seen that. Its blocks then take the cores that are free first; a group takes a cube core and its vector cores.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pypto_build.diagnose.speed.rates import Rates

DATA, CORE, SUBMISSION = "dependencies", "cores", "dispatch"


@dataclass(frozen=True)
class Block:
    """A block of a task before it has a time: microseconds, and whether each of its members exists."""

    task: int
    block: int
    time: float
    members: tuple[int, ...]


@dataclass(frozen=True)
class Placed:
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


def place(tasks: Mapping[int, Sequence[Block]], after: Mapping[int, frozenset[int]], rates: Rates) -> list[Placed]:
    """Return the blocks of all tasks in time, in the order in which they start."""
    pickup, wait, submit = rates["dispatch.pickup"], rates["dispatch.dependency"], rates["dispatch.submit"]
    begin = rates["dispatch.preamble"]
    cube_cores = rates.cores["aic"]
    free = {
        "aic": [(0.0, core, -1) for core in range(cube_cores)],
        "aiv": [(0.0, cube_cores + core, -1) for core in range(rates.cores["aiv"])],
    }
    submitted = {task: begin + submit * (number + 1) for number, task in enumerate(tasks)}
    open_edges = {task: len(after.get(task, frozenset()) & tasks.keys()) for task in tasks}
    followers: dict[int, list[int]] = {}
    for task in tasks:
        for before in after.get(task, ()):
            followers.setdefault(before, []).append(task)
    ready = [(submitted[task], not _is_group(tasks[task]), task, -1) for task, left in open_edges.items() if not left]
    heapq.heapify(ready)
    latest: dict[int, tuple[float, int]] = {}
    placed: list[Placed] = []
    while ready:
        at, _, task, cause = heapq.heappop(ready)
        end_of_task, last = at, cause
        for block in tasks[task]:
            heaps = ["aiv" if member else "aic" for member in block.members]
            taken = [heapq.heappop(free[heap]) for heap in heaps]
            core_free, _, earlier = max(taken) if taken else (0.0, 0, -1)
            start = max(at, core_free) + pickup
            end = start + block.time
            if core_free > at:
                reason, before, since = CORE, earlier, core_free
            elif cause >= 0:
                reason, before, since = DATA, cause, placed[cause].end
            else:
                reason, before, since = SUBMISSION, -1, 0.0
            placed.append(Placed(block, start, end, tuple(core for _, core, _ in taken), reason, before, start - since))
            number = len(placed) - 1
            for heap, (_, core, _) in zip(heaps, taken, strict=True):
                heapq.heappush(free[heap], (end, core, number))
            if end >= end_of_task:
                end_of_task, last = end, number
        for follower in followers.get(task, ()):
            open_edges[follower] -= 1
            kept = latest.get(follower, (-1.0, -1))
            latest[follower] = max(kept, (end_of_task, last))
            if not open_edges[follower]:
                over, by = latest[follower]
                seen = over + wait
                by_data = seen >= submitted[follower]
                when = max(seen, submitted[follower])
                heapq.heappush(ready, (when, not _is_group(tasks[follower]), follower, by if by_data else -1))
    return placed


def _is_group(blocks: Sequence[Block]) -> bool:
    return bool(blocks) and len(blocks[0].members) > 1


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
