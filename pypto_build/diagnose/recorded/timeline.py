"""Reads the timeline of a run of every vintage: which core ran which task from when to when, in microseconds.

Since June 2026 a file holds clock cycles, with the frequency in the metadata. It has two streams, joined by (core,
register number). Older files hold microseconds, in one object for each task and core (``l2_perf_records.json``,
``perf_swimlane_*.json``).
Times count from the first dispatch, start or submission on record.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pypto_build.artifact import ArtifactError
from pypto_build.diagnose.recorded.graph import moment, newest, parse_id, read_document, whole

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
    """A task, or a block of it, on one core from start to end; `dispatch` and `finish` are the scheduler's, or None."""

    core: int
    task: int
    start: float
    end: float
    dispatch: float | None = None
    finish: float | None = None


@dataclass(frozen=True)
class Timeline:
    """All rows by start. `submitted` tells when the orchestration had submitted a task (level 4). `zero` is what the
    file calls the moment from which times count here."""

    path: Path
    level: int
    clock_hz: int | None
    core_types: tuple[str, ...]
    rows: tuple[Row, ...]
    submitted: Mapping[int, float]
    zero: float = 0.0

    @property
    def span(self) -> tuple[float, float]:
        """First start and last end; zeros if nothing ran."""
        if not self.rows:
            return 0.0, 0.0
        return min(row.start for row in self.rows), max(row.end for row in self.rows)

    def core_type(self, core: int) -> str:
        """`aic`, `aiv`, or nothing where the file does not tell."""
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
            if found := newest(base, _NAMES):
                return found
    return None


def read_timeline(path: Path) -> Timeline:
    """The timeline at `path`. Raises a usage error naming the file and what is wrong with it."""
    document = read_document(path, _AGAIN)
    try:
        if not isinstance(document, dict):
            raise ValueError("it is no object")
        found = _microseconds(path, document) if "tasks" in document else _cycles(path, document)
    except KeyError as error:
        raise ArtifactError(path, f"is no timeline: {error.args[0]} is missing", _AGAIN) from None
    except (TypeError, ValueError, IndexError, AttributeError) as error:
        raise ArtifactError(path, f"is no timeline: {str(error)[:200]}", _AGAIN) from None
    return _from_zero(found)


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
