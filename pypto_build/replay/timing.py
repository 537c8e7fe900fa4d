"""Selects the timeline of a replay with several rounds, and measures the spread over the rounds.

The first round loads code, touches memory for the first time and starts threads. Its tasks take ten to three hundred
times as long as later. So an uncounted round precedes the recorded ones; without it, the record is marked as cold. Of
several rounds, the timeline with the median makespan is kept.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from pypto_build.artifact.files import decode_json, read_bytes, write_bytes

TIMELINE_NAME = "chip_swimlane_records.json"
TIMING_NAME = "timing.json"
SCHEMA = 1


class Spread(msgspec.Struct, frozen=True):
    """Microseconds over the rounds; `task` is its id, 0 for the whole run."""

    median: float
    least: float
    most: float
    task: int = 0


class Timing(msgspec.Struct, frozen=True):
    """`timing.json` beside a timeline. `shown` is the number of the shown round among those that count, from 1. `warm`:
    another round preceded it. `makespan` is the time from the first task's start to the last one's end."""

    warm: bool
    rounds: int
    shown: int
    makespan: Spread
    tasks: tuple[Spread, ...] = ()
    schema: int = SCHEMA


class Timelines:
    """Collects the timeline that each counted round leaves in `records`."""

    def __init__(self, records: Path) -> None:
        self._records = records
        self._rounds: list[tuple[int, bytes, dict[int, tuple[float, float]]]] = []

    def collect(self, number: int) -> None:
        """Keep the timeline of the round that just ended; the first has number 0. An unreadable timeline is left for
        its readers to report."""
        try:
            data = read_bytes(self._records / TIMELINE_NAME)
            intervals = _intervals(decode_json(data, dict[str, Any]))
        except (OSError, ValueError, LookupError, TypeError, ArithmeticError, RecursionError, msgspec.MsgspecError):
            return
        if intervals:
            self._rounds.append((number, data, intervals))

    def write(self) -> None:
        """Write the timeline of the median round, and the spread over the rounds."""
        if not self._rounds:
            return
        lengths = [_makespan(intervals) for _, _, intervals in self._rounds]
        shown = sorted(range(len(lengths)), key=lambda number: lengths[number])[len(lengths) // 2]
        tasks: dict[int, list[float]] = {}
        for _, _, intervals in self._rounds:
            for task, (start, end) in intervals.items():
                tasks.setdefault(task, []).append(end - start)
        timing = Timing(
            self._rounds[shown][0] > 0,
            len(lengths),
            shown + 1,
            _spread(lengths),
            tuple(_spread(times, task) for task, times in tasks.items()) if len(lengths) > 1 else (),
        )
        if shown != len(lengths) - 1:
            write_bytes(self._records / TIMELINE_NAME, self._rounds[shown][1])
        write_bytes(self._records / TIMING_NAME, msgspec.json.encode(timing) + b"\n")


def _intervals(document: Mapping[str, Any]) -> dict[int, tuple[float, float]]:
    """Return the first start and the last end of each task, in microseconds."""
    scale = 1e6 / float(document["metadata"]["clock_freq_hz"])
    intervals: dict[int, tuple[float, float]] = {}
    for _, task, _, start, end, *_ in document["aicore_tasks"]:
        first, last = intervals.get(task, (start, end))
        intervals[int(task)] = (min(first, start), max(last, end))
    return {task: (start * scale, end * scale) for task, (start, end) in intervals.items()}


def _makespan(intervals: Mapping[int, tuple[float, float]]) -> float:
    return max(end for _, end in intervals.values()) - min(start for start, _ in intervals.values())


def _spread(times: Sequence[float], task: int = 0) -> Spread:
    ordered = sorted(times)
    median, least, most = (round(time, 3) for time in (ordered[len(ordered) // 2], ordered[0], ordered[-1]))
    return Spread(median, least, most, task)
