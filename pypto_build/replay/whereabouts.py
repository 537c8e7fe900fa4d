"""Describes the state of every core when a run cannot go on: its kernel, since when, the source line, and polled
memory."""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from pypto_build.facts.faults import Nearness
from pypto_build.replay.lines import Recompiled, of_this_machine
from pypto_build.runtime.report import Frame, Report, Running, Sample, look_up

#: The number of successive samples at one address that make a poll.
_POLLS = 4


@dataclass(frozen=True)
class Whereabouts:
    """The state of a core: its kernel, its source line (empty if unknown), and a description of the memory it polls."""

    running: Running
    line: str = ""
    touches: str = ""

    def __str__(self) -> str:
        item = self.running
        since = max(time.monotonic_ns() - item.start_ns, 0) / 1e9
        doing = "waits in" if item.waits else "runs"
        at = f" at {self.line}" if self.line else ""
        task = f"task {item.task} block {item.block}, kernel '{item.kernel}'"
        touches = f": {self.touches}" if self.touches else ""
        return f"core {item.core} ({item.role}) {doing} {task}{at}, since {since:.1f} s{touches}"


def whereabouts(report: Report, binaries: Collection[str], ranks: int = 1) -> list[Whereabouts]:
    """Return the state of all cores that ran a kernel, longest first. Source lines are looked up in `binaries`; `ranks`
    is the number of ranks that share memory."""
    samples = {sample.running.core: sample for sample in report.samples}
    running = {sample.running.core: sample.running for sample in report.samples}
    running |= {item.core: item for item in report.running}
    lines = _lines(list(samples.values()), binaries)
    alone = ranks == 1 and report.open <= 1 and len(running) <= 1 and not report.orchestrating
    return [
        Whereabouts(item, lines.get(core, ""), _touches(samples.get(core), alone))
        for core, item in sorted(running.items(), key=lambda pair: pair[1].start_ns)
    ]


def _lines(samples: Sequence[Sample], binaries: Collection[str]) -> dict[int, str]:
    """Return the innermost line of the artifact's own code, by core."""
    with TemporaryDirectory(prefix="pypto-lines-") as directory:
        elsewhere = Recompiled(Path(directory)).place
        lines = {}
        for sample in samples:
            frames = look_up([(frame, frame.offset) for frame in sample.frames], elsewhere, binaries)
            lines[sample.running.core] = next(filter(None, map(_line, map(of_this_machine, frames))), "")
    return lines


def _line(frame: Frame) -> str:
    """Return the line of a frame; empty for a line of a header."""
    mapped = (
        os.path.normpath(frame.line) if frame.line.startswith("./") else ""
    )  # in a build that does not know the artifact's path
    return (frame.code or mapped).removeprefix(f"{os.getcwd()}/")


def _touches(sample: Sample | None, alone: bool) -> str:
    """Describe the memory that a loop polls: its address, its value, and whether any other code could still change
    it."""
    if sample is None or sample.polls < _POLLS or sample.running.waits:  # declared waits are reported elsewhere
        return ""
    is_named = sample.nearest.nearness not in (Nearness.UNKNOWN, Nearness.NOTHING)
    target = f"{sample.nearest} at 0x{sample.address:x}" if is_named else f"0x{sample.address:x}"
    others = ", and nothing else runs or is ready that could change it" if alone else ""
    return f"it polls {target}, which holds {sample.value} (int32){others}"
