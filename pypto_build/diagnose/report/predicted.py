"""The section of the report on the time that `scons speed` predicted: its timeline and roofline, as plain data."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pypto_build.artifact import ArtifactError
from pypto_build.diagnose.report.collect import columns
from pypto_build.diagnose.speed.answer import KEPT, read_document
from pypto_build.diagnose.speed.document import PredictionDocument
from pypto_build.diagnose.speed.record import PIPES
from pypto_build.diagnose.speed.text import headline

#: Lanes that the timeline has: those of the first cores.
_MOST_LANES = 64


def predicted_data(build_dir: Path, state: str, graph: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return the last prediction in `build_dir`; None if there is none of the artifact in this `state`."""
    try:
        document = read_document(build_dir / KEPT)
    except ArtifactError:  # no prediction, or one of an earlier version
        return None
    if not document.state or document.state != state:
        return None
    return {
        "title": f"Predicted time on {document.prediction.chip}",
        "note": f"Predicted by scons speed, not measured. {headline(document.prediction)}.",
        "timeline": _timeline(document, graph),
        "roofline": _roofline(document),
    }


def _timeline(document: PredictionDocument, graph: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return a lane for the tasks of each core, and below it one for each of its pipes."""
    labels = {task["label"]: number for number, task in enumerate(graph["tasks"])} if graph else {}
    names: dict[tuple[int, int], str] = {}
    bars: list[tuple[tuple[int, int], int, float, float]] = []
    of_core = {core: member for task in document.prediction.tasks for core, member in _members(document, task.cores)}
    for task in document.prediction.tasks:
        for core in task.cores:
            names[core, -1] = f"{of_core[core]}_{core}"
            bars.append(((core, -1), labels.get(str(task.task), -1), task.start_us, task.end_us))
    for span in document.spans:
        names[span.core, span.pipe] = f"  {PIPES.get(span.pipe, span.pipe)}"
        bars.append(((span.core, span.pipe), labels.get(str(span.task), -1), span.start_us, span.end_us))
    shown = sorted(names)[:_MOST_LANES]
    lane = {key: number for number, key in enumerate(shown)}
    end = max((task.end_us for task in document.prediction.tasks), default=1.0)
    rows = [(lane[key], task, start, stop) for key, task, start, stop in bars if key in lane]
    return {"cores": [names[key] for key in shown], "start": 0.0, "end": end, "rows": columns(sorted(rows), 0.0, end)}


def _members(document: PredictionDocument, cores: tuple[int, ...]) -> list[tuple[int, str]]:
    cubes = next((rate.value for rate in document.rates if rate.name == "cores.aic"), 0)
    return [(core, "AIC" if core < cubes else "AIV") for core in cores]


def _roofline(document: PredictionDocument) -> list[dict[str, Any]]:
    """Return for each kernel its work by its bytes, where 1 is as much of both as the chip can do, and its share of
    the unit's full rate."""
    return [
        {
            "name": document.names.get(kernel.kernel, str(kernel.kernel)),
            "balance": kernel.compute_us / kernel.memory_us,
            "share": kernel.compute_us / kernel.time_us,
            "bound": kernel.bound,
        }
        for kernel in document.prediction.kernels
        if kernel.compute_us > 0 and kernel.memory_us > 0 and kernel.time_us > 0
    ]
