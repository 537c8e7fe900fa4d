"""Timelines in Chrome's trace format, which Perfetto opens: spans on the threads of processes, and arrows."""

from __future__ import annotations

import json
from typing import Any

#: Process and thread.
Track = tuple[int, int]


class ChromeTrace:
    """The events of a file. Times are microseconds."""

    def __init__(self) -> None:
        self._names: dict[tuple[str, int, int], str] = {}
        self._events: list[dict[str, Any]] = []
        self._arrows = 0

    def name_process(self, process: int, name: str) -> None:
        """Name a process."""
        self._names["process_name", process, 0] = name

    def name_thread(self, track: Track, name: str) -> None:
        """Name a thread."""
        self._names["thread_name", track[0], track[1]] = name

    def span(self, track: Track, name: str, begun: float, ended: float, category: str = "", **args: Any) -> None:
        """Add a span with arguments. Arguments that are None are omitted."""
        more: dict[str, Any] = {"cat": category} if category else {}
        shown = {key: value for key, value in args.items() if value is not None}
        more |= {"args": shown} if shown else {}
        self._add(track, begun, name=name, ph="X", dur=ended - begun, **more)

    def instant(self, track: Track, name: str, time: float) -> None:
        """Add a mark at a time."""
        self._add(track, time, name=name, ph="i", s="t")

    def arrow(self, name: str, category: str, begin: tuple[Track, float], end: tuple[Track, float]) -> None:
        """Add an arrow from a track at a time to another."""
        shared: dict[str, Any] = {"name": name, "cat": category, "id": self._arrows}
        self._arrows += 1
        self._add(*begin, **shared, ph="s")
        self._add(*end, **shared, ph="f", bp="e")

    def _add(self, track: Track, time: float, **fields: Any) -> None:
        self._events.append({**fields, "pid": track[0], "tid": track[1], "ts": time})

    def text(self, **other: str) -> str:
        """Return the file, with other data that is not empty."""
        heads = [
            {"name": what, "ph": "M", "pid": process, "tid": thread, "args": {"name": name}}
            for (what, process, thread), name in sorted(self._names.items())
        ]
        data = {key: value for key, value in other.items() if value}
        return json.dumps({"displayTimeUnit": "ns", "otherData": data, "traceEvents": heads + self._events}) + "\n"
