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

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pypto_build.artifact import ArtifactError
from pypto_build.diagnose.recorded.graph import TaskGraph, moment, newest, parse_id, read_document, whole

# Reads the timeline of a run of every vintage: which core ran which task from when to when, in microseconds.
# Since June 2026 a file holds clock cycles, with the frequency in the metadata. It has two streams, joined by (core,
# register number). Older files hold microseconds, in one object for each task and core (``l2_perf_records.json``,
# ``perf_swimlane_*.json``). Times count from the first dispatch, start or submission on record.

_AGAIN = "run again with SWIMLANE=4"
#: Many times what any chip has.
_MOST_CORES = 65535
_NAMES = (
    "chip_swimlane_records.json",
    "l2_swimlane_records.json",
    "l2_perf_records.json",
    "l2_perf_records_*.json",
    "perf_swimlane_*.json",
)


@dataclass(frozen=True, slots=True)
class Row:
    """A task, or a block of a task, on one core from start to end. `dispatch` and `finish` are the scheduler's times,
    or None.
    """

    core: int
    task: int
    start: float
    end: float
    dispatch: float | None = None
    finish: float | None = None


@dataclass(frozen=True)
class Timeline:
    """All rows by start. `submitted` has the time of each task's submission (level 4). Times count from the moment that
    the file calls `zero`.
    """

    path: Path
    level: int
    clock_hz: int | None
    core_types: tuple[str, ...]
    rows: tuple[Row, ...]
    submitted: Mapping[int, float]
    zero: float = 0.0

    @property
    def span(self) -> tuple[float, float]:
        """Return the first start and the last end, or zeros if nothing ran."""
        if not self.rows:
            return 0.0, 0.0
        return min(row.start for row in self.rows), max(row.end for row in self.rows)

    def core_type(self, core: int) -> str:
        """Return `aic` or `aiv`, or an empty text if the file does not say."""
        return self.core_types[core] if core < len(self.core_types) else ""

    def core_name(self, core: int) -> str:
        """`AIV_9`, as simpler calls its cores."""
        return f"{self.core_type(core).upper() or 'CORE'}_{core}"


def find_timeline(*candidates: Path) -> Path | None:
    """The newest form of timeline at, in or beside one of `candidates`."""
    for candidate in candidates:
        if candidate.is_file() and candidate.suffix == ".json" and candidate.name != "deps.json":
            return candidate
        for base in (candidate, candidate / "dfx_outputs", candidate / "swimlane_data", candidate.parent):
            if path := newest(base, _NAMES):
                return path
    return None


def read_timeline(path: Path) -> Timeline:
    """Read the timeline at `path`. Raises a usage error that names the file and its fault."""
    document = read_document(path, _AGAIN)
    try:
        if not isinstance(document, dict):
            raise ValueError("it is not an object")
        timeline = _microseconds(path, document) if "tasks" in document else _cycles(path, document)
    except KeyError as error:
        raise ArtifactError(path, f"is not a timeline: {error.args[0]} is missing", _AGAIN) from None
    except (TypeError, ValueError, IndexError, AttributeError) as error:
        raise ArtifactError(path, f"is not a timeline: {str(error)[:200]}", _AGAIN) from None
    return _from_zero(timeline)


def _cycles(path: Path, document: Mapping[str, Any]) -> Timeline:
    metadata = document["metadata"]
    frequency = whole(metadata["clock_freq_hz"], 1)
    scale = 1e6 / frequency
    scheduled = {(whole(row[0]), whole(row[1])): row for row in document.get("aicpu_tasks", ())}
    rows = []
    for core, task, register, start, end, *_ in document["aicore_tasks"]:
        joined = scheduled.get((whole(core), whole(register)))
        times = (moment(joined[2]) * scale, moment(joined[3]) * scale) if joined else (None, None)
        rows.append(Row(_core(core), parse_id(task), moment(start) * scale, moment(end) * scale, *times))
    return Timeline(
        path=path,
        level=whole(document.get("chip_swimlane_level", document.get("l2_swimlane_level", 0))),
        clock_hz=frequency,
        core_types=tuple(str(word).lower() for word in metadata.get("core_types", ())),
        rows=tuple(rows),
        submitted={
            parse_id(phase["task_id"]): moment(phase["end_cycles"]) * scale
            for thread in document.get("aicpu_orchestrator_phases", ())
            for phase in thread
            if phase.get("task_id") is not None and "end_cycles" in phase
        },
    )


def _core(value: object) -> int:
    return whole(value, 0, _MOST_CORES)


def _known(value: object) -> float | None:
    return None if value is None else moment(value)


def _microseconds(path: Path, document: Mapping[str, Any]) -> Timeline:
    rows = []
    types: dict[int, str] = {}
    for task in document["tasks"]:
        core = _core(task["core_id"])
        types[core] = str(task.get("core_type", "")).lower()
        rows.append(
            Row(
                core,
                parse_id(task["task_id"]),
                moment(task["start_time_us"]),
                moment(task["end_time_us"]),
                _known(task.get("dispatch_time_us")),
                _known(task.get("finish_time_us")),
            )
        )
    submitted = {
        parse_id(phase["task_id"]): moment(phase["end_time_us"])
        for thread in document.get("aicpu_orchestrator_phases", ())
        for phase in (thread if isinstance(thread, list) else [thread])
        if phase.get("task_id") is not None and "end_time_us" in phase
    }
    cores = tuple(types.get(core, "") for core in range(max(types, default=-1) + 1))
    return Timeline(path, whole(document.get("version", 0)), None, cores, tuple(rows), submitted)


def _from_zero(timeline: Timeline) -> Timeline:
    """The same with times that begin at zero."""
    times = [row.start if row.dispatch is None else min(row.start, row.dispatch) for row in timeline.rows]
    zero = min([*times, *timeline.submitted.values()], default=0.0)

    def moved(time: float | None) -> float | None:
        return None if time is None else time - zero

    rows = sorted(
        (
            Row(row.core, row.task, row.start - zero, row.end - zero, moved(row.dispatch), moved(row.finish))
            for row in timeline.rows
        ),
        key=lambda row: (row.start, row.end, row.core),
    )
    submitted = {task: time - zero for task, time in timeline.submitted.items()}
    return replace(timeline, rows=tuple(rows), submitted=submitted, zero=zero)


def by_core(rows: Iterable[Row]) -> dict[int, list[Row]]:
    """The rows of each core that ran anything, by start."""
    result: dict[int, list[Row]] = {}
    for row in rows:
        result.setdefault(row.core, []).append(row)
    return dict(sorted(result.items()))


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
    """One task of the observed path, with its contribution to the makespan and the reason for the wait before it."""

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
        interval = result.get(row.task)
        if interval is None:
            result[row.task] = Interval(row.task, row.start, row.end, 1)
        else:
            start, end = min(interval.start, row.start), max(interval.end, row.end)
            result[row.task] = Interval(row.task, start, end, interval.blocks + 1)
    return result


def timed_predecessors(graph: TaskGraph | None, intervals: Mapping[int, Interval]) -> dict[int, set[int]]:
    """Return the predecessors of each task that have times. An untimed task, such as a barrier, is replaced by its own
    predecessors.
    """
    if graph is None:
        return {task: set() for task in intervals}
    through: dict[int, set[int]] = {}
    for task in graph.topological():
        timed: set[int] = set()
        for pred in graph.preds.get(task, {}):
            timed |= {pred} if pred in intervals else through.get(pred, set())
        through[task] = timed
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
    """Return for each task the task that ended last before it, on the core on which the task started first."""
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
        candidates = [candidate for candidate in candidates if candidate[2] not in seen]
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
    ready = {task: max((intervals[pred].end for pred in earlier), default=0.0) for task, earlier in preds.items()}
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
    """Split the idle time before a row by the condition that the core was waiting for."""
    dispatched = row.start if row.dispatch is None else row.dispatch
    moments = (("submission", submitted), ("data", ready), ("dispatch", dispatched), ("start", row.start))
    for cause, at in moments:
        until = min(max(at, start), row.start)
        idle[cause] += until - start
        start = until
