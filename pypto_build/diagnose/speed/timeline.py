"""The predicted timeline as files: Chrome's trace format for Perfetto, and simpler's swimlane records.

Both say that their times are predicted.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from pypto_build.artifact.files import write_bytes
from pypto_build.diagnose.recorded.chrome_trace import ChromeTrace
from pypto_build.diagnose.speed.document import PipeSpan
from pypto_build.diagnose.speed.model import Model, Shape
from pypto_build.diagnose.speed.pipes import CoreTime, simulate
from pypto_build.diagnose.speed.record import PIPES

NOTE = "predicted by scons speed, not measured"
#: Ticks of a second in the swimlane records.
_HERTZ = 1_000_000_000
#: Events of pipes above which a trace has the tasks alone.
_MOST_EVENTS = 1_000_000
#: Events of pipes that the report draws.
_DRAWN = 8_000


@dataclass(frozen=True)
class CoreSpan:
    """A block on one core: its task and kernel, when, and what each pipe executes in it (row, pipe, begin, end)."""

    core: int
    type: str
    task: int
    block: int
    kernel: int
    start_us: float
    end_us: float
    inside: list[tuple[int, int, float, float]]


def core_spans(model: Model, most: int = _MOST_EVENTS) -> Iterator[CoreSpan]:
    """Yield what each core executes, in the order in which blocks start. Times of pipes are microseconds of the run.

    Only the first blocks have spans of pipes: as many as `most` spans are room for.
    """
    recording, rates = model.recording, model.rates
    traced: dict[tuple[Shape, int], dict[int, CoreTime]] = {}
    kernels = {(call.task, call.block, call.member): call.kernel for call in recording.calls}
    for one, shape, step in zip(*model.run, strict=True):
        key = shape, step
        size = sum(len(model.streams[stream]) for _, stream in shape.streams)
        most -= size
        if most >= 0 and key not in traced:
            members = {member: model.streams[stream] for member, stream in shape.streams}
            traced[key] = simulate(recording.rows, model.costs, members, model.shares(shape, step), rates, traced=True)
        for core, (member, _) in zip(one.cores, shape.streams, strict=True):
            spans = traced[key][member].spans if most >= 0 else []
            inside = [
                (row, pipe, one.start + a / rates.clock, one.start + b / rates.clock) for row, pipe, a, b in spans
            ]
            kernel = kernels[one.block.task, one.block.block, member]
            kind = "aiv" if member else "aic"
            yield CoreSpan(core, kind, one.block.task, one.block.block, kernel, one.start, one.end, inside)


def pipe_spans(model: Model) -> tuple[PipeSpan, ...]:
    """Return what the pipes execute, of the first blocks: as many spans as a page can draw."""
    return tuple(
        PipeSpan(span.core, pipe, row, span.task, start, end)
        for span in core_spans(model, _DRAWN)
        for row, pipe, start, end in span.inside
    )


def trace(model: Model, names: Mapping[int, str]) -> str:
    """Return the timeline in Chrome's trace format: a process a core, a track for tasks and for each pipe."""
    events, recording = ChromeTrace(), model.recording
    for span in core_spans(model):
        events.name_process(span.core, f"{span.type.upper()}_{span.core} (predicted)")
        events.name_thread((span.core, 0), "tasks")
        title = f"{names.get(span.kernel, span.kernel)}, task {span.task}"
        title += f", block {span.block}" if span.block else ""
        events.span((span.core, 0), title, span.start_us, span.end_us, "task")
        for row, pipe, start, end in span.inside:
            track = (span.core, 1 + pipe)
            events.name_thread(track, PIPES.get(pipe, str(pipe)))
            events.span(track, recording.rows[row].name, start, end, "instruction")
    return events.text(note=NOTE, chip=model.rates.chip)


def swimlane(model: Model, names: Mapping[int, str]) -> str:
    """Return the timeline as simpler's swimlane records, in nanoseconds."""
    del names
    cores = model.rates.cores
    tasks: list[list[int]] = []
    times: list[list[int]] = []
    for register, span in enumerate(core_spans(model)):
        start, end = round(span.start_us * 1000), round(span.end_us * 1000)
        tasks.append([span.core, span.task, register, start, end])
        times.append([span.core, register, start, end])
    metadata = {
        "clock_freq_hz": _HERTZ,
        "core_types": ["aic"] * cores["aic"] + ["aiv"] * cores["aiv"],
        "predicted": NOTE,
        "chip": model.rates.chip,
    }
    document = {"chip_swimlane_level": 2, "metadata": metadata, "aicore_tasks": tasks, "aicpu_tasks": times}
    return json.dumps(document) + "\n"


#: The forms of `EXPORT=`: what writes each, and the name of the file in OUT.
FORMS = {"trace": (trace, "speed-trace.json"), "swimlane": (swimlane, "predicted_swimlane.json")}


def export(form: str, model: Model, names: Mapping[int, str], build_dir: Path) -> Path:
    """Write the predicted timeline in a form, and return the path of the file."""
    write, name = FORMS[form]
    write_bytes(build_dir / name, write(model, names).encode())
    return build_dir / name
