"""Time of a run: critical path, slack, busy time of the cores, and reasons for idle time.

The definitions are those of simpler's critical-path report, so that numbers can be compared:

* a task's rows are folded: first start, last end;
* a dependency counts if its predecessor ended before the task started (up to a tolerance) and began before it;
* the *static* path is the longest by durations over those dependencies;
* the *observed* path walks back from the task that ended last, each time to the predecessor that ended last: a
  predecessor by data, or by the core it ran on;
* waits are `data-wait`, `core-wait`, or `front-gap` where there is no predecessor;
* a sweep over the observed path splits the makespan into compute and stall, exactly.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pypto_build.diagnose.recorded.graph import TaskGraph
from pypto_build.diagnose.recorded.timeline import Row, Timeline, by_core

#: Ticks of the clock by which a predecessor may seem to end late.
_TOLERANCE_TICKS = 2
GAP_KINDS = ("data-wait", "core-wait", "front-gap")


@dataclass(frozen=True)
class Interval:
    """A task in time: microseconds from the run's beginning, over `blocks` rows."""

    task: int
    start: float
    end: float
    blocks: int

    @property
    def duration(self) -> float:
        """Microseconds from first start to last end."""
        return self.end - self.start


@dataclass(frozen=True)
class Step:
    """One task of the observed path: what it added to the makespan, and what was waited for before it."""

    task: int
    start: float
    end: float
    stall: float
    compute: float
    kind: str


@dataclass(frozen=True)
class Analysis:
    """All times in microseconds; `slack` is how much longer a task could take before the static path grows."""

    intervals: Mapping[int, Interval]
    makespan: float
    static_length: float
    slack: Mapping[int, float]
    observed: tuple[Step, ...]

    @property
    def compute(self) -> float:
        """The part of the makespan in which a task of the observed path ran."""
        return sum(step.compute for step in self.observed)

    def stall(self, kind: str) -> float:
        """The part of the makespan lost to one kind of wait."""
        return sum(step.stall for step in self.observed if step.kind == kind)

    def row(self, step: Step, begin: float = 0.0) -> list[str]:
        """Start after ``begin``, span, compute, gap, kind of gap and slack, in microseconds."""
        times = [f"{us:.1f}" for us in (step.start - begin, step.end - step.start, step.compute, step.stall)]
        return [*times, step.kind if step.stall else "", f"{self.slack[step.task]:.1f}"]


def fold(timeline: Timeline) -> dict[int, Interval]:
    """Fold the rows of a timeline into one interval for each task."""
    result: dict[int, Interval] = {}
    for row in timeline.rows:
        known = result.get(row.task)
        if known is None:
            result[row.task] = Interval(row.task, row.start, row.end, 1)
        else:
            start, end = min(known.start, row.start), max(known.end, row.end)
            result[row.task] = Interval(row.task, start, end, known.blocks + 1)
    return result


def timed_predecessors(graph: TaskGraph | None, intervals: Mapping[int, Interval]) -> dict[int, set[int]]:
    """Return the timed predecessors of each task; those of an untimed task, such as a barrier, stand in for it."""
    if graph is None:
        return {task: set() for task in intervals}
    through: dict[int, set[int]] = {}
    for task in graph.topological():
        found: set[int] = set()
        for pred in graph.preds.get(task, {}):
            found |= {pred} if pred in intervals else through.get(pred, set())
        through[task] = found
    return {task: through.get(task, set()) for task in intervals}


def analyse(timeline: Timeline, graph: TaskGraph | None) -> Analysis:
    """Relate the timeline with the graph; without one only the cores relate tasks."""
    intervals = fold(timeline)
    tolerance = _TOLERANCE_TICKS * 1e6 / timeline.clock_hz if timeline.clock_hz else 0.0
    data = {
        task: {
            pred
            for pred in preds
            if intervals[pred].end <= intervals[task].start + tolerance
            and intervals[pred].start < intervals[task].start
        }
        for task, preds in timed_predecessors(graph, intervals).items()
    }
    length, slack = _longest(intervals, data)
    steps = _observed(intervals, data, _core_predecessors(timeline, intervals))
    start, end = timeline.span
    return Analysis(intervals, end - start, length, slack, tuple(_sweep(steps, start)))


def _longest(intervals: Mapping[int, Interval], data: Mapping[int, set[int]]) -> tuple[float, dict[int, float]]:
    """The length of the longest path by durations, and every task's slack."""
    ordered = sorted(intervals, key=lambda task: (intervals[task].start, intervals[task].end))
    upto: dict[int, float] = {}
    for task in ordered:
        upto[task] = intervals[task].duration + max((upto.get(pred, 0.0) for pred in data[task]), default=0.0)
    after: dict[int, float] = dict.fromkeys(ordered, 0.0)
    for task in reversed(ordered):
        for pred in data[task]:
            after[pred] = max(after[pred], after[task] + intervals[task].duration)
    length = max(upto.values(), default=0.0)
    slack = {task: length - upto[task] - after[task] for task in ordered}
    return length, slack


def _core_predecessors(timeline: Timeline, intervals: Mapping[int, Interval]) -> dict[int, int]:
    """For each task the one whose row ended last, among the earlier rows, on the core where the task started first."""
    result: dict[int, int] = {}
    for rows in by_core(timeline.rows).values():
        last: Row | None = None
        for row in rows:
            if last is not None and row.start == intervals[row.task].start and last.task != row.task:
                result.setdefault(row.task, last.task)
            if last is None or row.end >= last.end:
                last = row
    return result


def _observed(
    intervals: Mapping[int, Interval], data: Mapping[int, set[int]], core: Mapping[int, int]
) -> list[tuple[Interval, str]]:
    """The walk from the end, in order of time, each task with how it was reached."""
    if not intervals:
        return []
    task = max(intervals, key=lambda raw: intervals[raw].end)
    walk: list[tuple[Interval, str]] = []
    seen: set[int] = set()
    while True:
        seen.add(task)
        candidates = [(intervals[pred].end, 1, pred) for pred in data[task]]
        if task in core:
            candidates.append((intervals[core[task]].end, 0, core[task]))
        candidates = [found for found in candidates if found[2] not in seen]
        if not candidates:
            walk.append((intervals[task], "front-gap"))
            return walk[::-1]
        _, by_data, pred = max(candidates)
        walk.append((intervals[task], "data-wait" if by_data else "core-wait"))
        task = pred


def _sweep(walk: list[tuple[Interval, str]], start: float) -> list[Step]:
    steps = []
    frontier = start
    for interval, kind in walk:
        stall = max(0.0, interval.start - frontier)
        compute = max(0.0, interval.end - max(interval.start, frontier))
        frontier = max(frontier, interval.end)
        steps.append(Step(interval.task, interval.start, interval.end, stall, compute, kind))
    return steps


# -- cores ---------------------------------------------------------------------------------------------------------

#: Why a core did nothing, in the order in which an idle stretch is divided.
IDLE_CAUSES = {
    "submission": "the next task was not submitted yet",
    "data": "the next task waited for a task on another core",
    "dispatch": "the next task was ready and not dispatched",
    "start": "the next task was dispatched and not started",
    "tail": "nothing more to do on this core",
}


@dataclass(frozen=True)
class Core:
    """Busy and idle time of one core over the makespan, in microseconds."""

    core: int
    tasks: int
    busy: float
    idle: Mapping[str, float]


def occupancy(timeline: Timeline, graph: TaskGraph | None) -> list[Core]:
    """All cores that ran anything. Busy and idle times of a core add up to the makespan."""
    intervals = fold(timeline)
    preds = timed_predecessors(graph, intervals)
    ready = {task: max((intervals[pred].end for pred in found), default=0.0) for task, found in preds.items()}
    first, last = timeline.span
    cores = []
    for core, rows in by_core(timeline.rows).items():
        idle = dict.fromkeys(IDLE_CAUSES, 0.0)
        frontier, busy = first, 0.0
        for row in rows:
            if row.start > frontier:
                _divide(idle, frontier, row, timeline.submitted.get(row.task, first), ready[row.task])
            busy += max(0.0, row.end - max(row.start, frontier))
            frontier = max(frontier, row.end)
        idle["tail"] += last - frontier
        cores.append(Core(core, len(rows), busy, idle))
    return cores


def _divide(idle: dict[str, float], start: float, row: Row, submitted: float, ready: float) -> None:
    """Split the idle stretch before a row at the moments at which each condition for running it was met."""
    dispatched = row.start if row.dispatch is None else row.dispatch
    moments = (("submission", submitted), ("data", ready), ("dispatch", dispatched), ("start", row.start))
    for cause, moment in moments:
        until = min(max(moment, start), row.start)
        idle[cause] += until - start
        start = until
