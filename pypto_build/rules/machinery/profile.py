"""``PROFILE=1``: where the time of a run went, as a table and as a Chrome trace."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pypto_build import terminal
from pypto_build.artifact.atomic import write_bytes
from pypto_build.trace import VARIABLE

# Spans that are told; the trace has all of them.
_SHOWN = 12


@dataclass
class Span:
    """A span of the trace with those inside it; times in microseconds."""

    name: str
    start: float
    end: float
    process: int
    inside: float = 0.0  # of this time, what spans of the same thread inside it took

    @property
    def own(self) -> float:
        """The time that no span inside it explains."""
        return self.end - self.start - self.inside


class Profile:
    """The spans of this run, which end up in ``directory``/profile.json."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._file = directory / "profile.json"
        self._spans = directory / f".trace.{os.getpid()}"
        self._spans.unlink(missing_ok=True)
        os.environ[VARIABLE] = str(self._spans)

    def report(self) -> None:
        """Write the trace; print what took longest."""
        now = time.monotonic_ns() / 1000
        events = _read(self._spans)
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


def _read(path: Path) -> list[dict[str, Any]]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError:
        return []
    return [json.loads(line) for line in lines]


def _names(events: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """What the trace's viewer calls the processes."""
    first = {event["pid"]: event["name"] for event in reversed(events)}
    first[os.getpid()] = f"{Path(sys.argv[0]).name}"
    return [{"ph": "M", "name": "process_name", "pid": pid, "args": {"name": name}} for pid, name in first.items()]


def _nested(events: Sequence[dict[str, Any]]) -> list[Span]:
    """The spans, each knowing what those inside it took. A command's processes lie inside the span of the command."""
    spans: list[Span] = []
    open_spans: list[Span] = []
    for event in sorted(events, key=lambda event: (event["ts"], -event["dur"])):
        span = Span(event["name"], event["ts"], event["ts"] + event["dur"], event["pid"])
        while open_spans and open_spans[-1].end <= span.start:
            open_spans.pop()
        outer = next((other for other in reversed(open_spans) if other.end >= span.end), None)
        if outer is not None:
            outer.inside += span.end - span.start
        open_spans.append(span)
        spans.append(span)
    return spans
