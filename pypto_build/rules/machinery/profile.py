"""``PROFILE=1``: shows how a run spent its time, as a table and as a Chrome trace."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import msgspec

from pypto_build import terminal
from pypto_build.artifact.files import decode_json, read_bytes, write_bytes
from pypto_build.trace import VARIABLE

# Spans that are told; the trace has all of them.
_SHOWN = 12


@dataclass
class Span:
    """A span of the trace with those inside it; times in microseconds."""

    name: str
    start: float
    end: float
    inside: float = 0.0  # of this time, what spans of the same thread inside it took

    @property
    def own(self) -> float:
        """Return the time outside of all inner spans."""
        return self.end - self.start - self.inside


class Profile:
    """The spans of this run, which are written to ``directory``/profile.json."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._file = directory / "profile.json"
        self._spans = directory / f".trace.{os.getpid()}"
        self._spans.unlink(missing_ok=True)
        os.environ[VARIABLE] = str(self._spans)

    def report(self) -> None:
        """Write the trace; print the longest spans."""
        now = time.monotonic_ns() / 1000
        events = list(read_spans(self._spans))
        with suppress(OSError):
            self._spans.unlink(missing_ok=True)
            write_bytes(self._file, json.dumps({"traceEvents": [*_names(events), *events]}).encode())
        spans = _nested(events)
        if not spans:
            return
        start = min(span.start for span in spans)
        lines = [f"[profile] {(now - start) / 1e6:.3f} s; {self._file} opens in ui.perfetto.dev"]
        longest = sorted(spans, key=lambda span: -span.own)[:_SHOWN]
        terminal.say(
            *lines, *(f"[profile] {s.own / 1e6:8.3f} s  at {(s.start - start) / 1e6:7.3f}  {s.name}" for s in longest)
        )


class _Event(msgspec.Struct):
    """A line of the file of spans; kernels can write to that file too."""

    name: str
    cat: str
    ph: Literal["X"]
    ts: float
    dur: float
    pid: int
    tid: int
    tdur: float = 0.0


def read_spans(path: Path) -> Iterator[dict[str, Any]]:
    """Return the spans of a file; damaged lines are left out."""
    lines: list[bytes] = []
    with suppress(OSError):
        lines = read_bytes(path).splitlines()
    for line in lines:
        with suppress(msgspec.DecodeError):
            yield msgspec.to_builtins(decode_json(line, _Event))


def _names(events: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the trace events that name processes: each by its first span."""
    first = {event["pid"]: event for event in sorted(events, key=lambda event: -event["ts"])}
    names = {pid: event["name"].partition(": ")[0] for pid, event in first.items()}
    names[os.getpid()] = Path(sys.argv[0]).name
    return [{"ph": "M", "name": "process_name", "pid": pid, "args": {"name": name}} for pid, name in names.items()]


def _nested(events: Sequence[dict[str, Any]]) -> list[Span]:
    """Return the spans, each with the time of the spans inside it.

    A command's processes lie inside the span of the command.
    """
    spans: list[Span] = []
    open_spans: list[Span] = []
    for event in sorted(events, key=lambda event: (event["ts"], -event["dur"])):
        span = Span(event["name"], event["ts"], event["ts"] + event["dur"])
        while open_spans and open_spans[-1].end <= span.start:
            open_spans.pop()
        outer = next((other for other in reversed(open_spans) if other.end >= span.end), None)
        if outer is not None:
            outer.inside += span.end - span.start
        open_spans.append(span)
        spans.append(span)
    return spans
