"""Tasks as the page shows them: graph and timeline as plain data for its scripts."""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping, Sequence, Set
from pathlib import Path
from typing import Any

import numpy as np

from pypto_build.diagnose.deps.text import graph_levels
from pypto_build.diagnose.findings import Finding
from pypto_build.diagnose.recorded.critical_path import GAP_KINDS, IDLE_CAUSES, occupancy
from pypto_build.diagnose.recorded.evidence import SIMULATED, Evidence
from pypto_build.diagnose.recorded.graph import Task, TaskGraph, id_text

# Places the tasks of a graph on a plane: levels from top to bottom, neighbours near each other, wide levels wrapped.
# Done here and not in the page, so that a graph of thousands of tasks is drawn at once and the same everywhere.

#: Sweeps of the barycenter rule; more change little.
_SWEEPS = 4

Point = tuple[float, float]


def place(levels: Mapping[int, int], pairs: Sequence[tuple[int, int]]) -> dict[int, Point]:
    """A position for every task: one unit between columns and between rows.

    `levels` are the tasks' levels, 0 at the top; `pairs` the edges between them.
    """
    rows: dict[int, list[int]] = {}
    for task, level in levels.items():
        rows.setdefault(level, []).append(task)
    above: dict[int, list[int]] = {}
    below: dict[int, list[int]] = {}
    for pred, succ in pairs:
        if pred in levels and succ in levels:
            above.setdefault(succ, []).append(pred)
            below.setdefault(pred, []).append(succ)
    _order(rows, above, below)
    width = _width(len(levels), max(map(len, rows.values()), default=1))
    points: dict[int, Point] = {}
    y = 0.0
    for level in sorted(rows):
        row = rows[level]
        for start in range(0, len(row), width):
            part = row[start : start + width]
            points.update({task: (column - (len(part) - 1) / 2, y) for column, task in enumerate(part)})
            y += 1
        y += 0.35 if len(row) > width else 0
    return points


def _order(rows: dict[int, list[int]], above: Mapping[int, list[int]], below: Mapping[int, list[int]]) -> None:
    """Sort each level by the positions of its neighbours in the next level, alternately from the top and from the
    bottom.
    """
    for sweep in range(_SWEEPS):
        neighbours = above if sweep % 2 == 0 else below
        levels = sorted(rows) if sweep % 2 == 0 else sorted(rows, reverse=True)
        at = {task: _relative(column, len(row)) for row in rows.values() for column, task in enumerate(row)}
        for level in levels:
            row = rows[level]
            key = {task: _mean([at[other] for other in neighbours.get(task, ())], at[task]) for task in row}
            row.sort(key=lambda task: key[task])
            at.update({task: _relative(column, len(row)) for column, task in enumerate(row)})


def _relative(column: int, count: int) -> float:
    return (column + 0.5) / count


def _mean(values: Sequence[float], otherwise: float) -> float:
    return sum(values) / len(values) if values else otherwise


def _width(tasks: int, widest: int) -> int:
    """Columns before a level is wrapped: the picture stays about as wide as high."""
    return max(1, min(widest, max(12, math.ceil(1.4 * math.sqrt(tasks)))))


#: Rows of the critical path on the page; the graph marks all of it.
_MOST_STEPS = 200
_FULL = 2**32 - 1


def graph_data(evidence: Evidence, findings: Sequence[Finding] = ()) -> dict[str, Any] | None:
    """Return tasks with their positions, and edges by index with their reasons. Returns None without a graph.

    A timeline without a graph gives tasks without edges.
    """
    graph = evidence.graph
    if graph is None:
        if evidence.timeline is None:
            return None
        ids = dict.fromkeys(row.task for row in evidence.timeline.rows)
        graph = TaskGraph(evidence.timeline.path, tuple(Task(raw) for raw in ids), ())
    tasks = list(graph.tasks)
    index = {task.id: number for number, task in enumerate(tasks)}
    pairs = [(pred, succ) for pred, succ in graph.pairs() if pred in index and succ in index]
    points = place(graph_levels(graph), pairs)
    wrong = _wrong(findings)
    critical = {step.task for step in evidence.analysis.observed} if evidence.analysis else set[int]()
    kernels: dict[str, int] = {}
    preds: list[list[int]] = [[] for _ in tasks]
    succs: list[list[int]] = [[] for _ in tasks]
    reasons: dict[str, str] = {}
    for pred, succ in pairs:
        preds[index[succ]].append(index[pred])
        succs[index[pred]].append(index[succ])
        because = dict.fromkeys(evidence.reason(edge) for edge in graph.preds[succ][pred])
        reasons[f"{index[pred]},{index[succ]}"] = "; ".join(because)
    return {
        "tasks": [_task(evidence, task, kernels, points[task.id], task.id in critical, wrong) for task in tasks],
        "kernels": [{"name": name, "core": _core(evidence, tasks, name)} for name in kernels],
        "edges": [(index[pred], index[succ]) for pred, succ in pairs],
        "preds": preds,
        "succs": succs,
        "reasons": reasons,
    }


def _wrong(findings: Sequence[Finding]) -> set[str]:
    """Return the numbers of tasks that errors name; if no error names a task, the kernels whose files have errors."""
    errors = [finding for finding in findings if finding.level == "error"]
    files = [Path(finding.path) for finding in errors if finding.path.startswith(("kernels/", "ptoas/"))]
    return {str(number) for finding in errors for number in finding.tasks} or {path.stem for path in files}


def _task(
    evidence: Evidence,
    task: Task,
    kernels: dict[str, int],
    point: tuple[float, float],
    critical: bool,
    wrong: Set[str],
) -> dict[str, Any]:
    analysis = evidence.analysis
    interval = analysis.intervals.get(task.id) if analysis else None
    number = evidence.order.numbers.get(task.id)
    label = str(number) if number is not None else id_text(task.id)
    begin = evidence.timeline.span[0] if evidence.timeline else 0.0
    kernel = evidence.kernel(task)
    return {
        "label": label,
        "wrong": not wrong.isdisjoint((label, kernel)),
        "id": id_text(task.id),
        "kernel": kernels.setdefault(kernel, len(kernels)),
        "x": round(point[0], 3),
        "y": round(point[1], 3),
        "blocks": task.block_num,
        "critical": critical and interval is not None,
        "place": evidence.submitted_at(task.id),
        "time": f"{interval.start - begin:.1f} to {interval.end - begin:.1f} us" if interval else "",
        "args": [_arg(evidence, task, number) for number in range(len(task.args))],
    }


def _arg(evidence: Evidence, task: Task, number: int) -> list[str]:
    arg = task.args[number]
    name = evidence.names.argument(task.func_ids, arg.index)
    shape = f"{arg.dtype}[{', '.join(map(str, arg.shape))}]" if arg.shape else ""
    return [str(arg.index), name, arg.kind, evidence.tensor(arg.tensor), shape]


def _core(evidence: Evidence, tasks: list[Task], name: str) -> str:
    """Core type of the kernels of that name, `aic+aiv` for a group."""
    task = next(task for task in tasks if evidence.kernel(task) == name)
    return "+".join(dict.fromkeys(filter(None, map(evidence.names.core_type, task.func_ids))))


def columns(rows: list[tuple[int, int, float, float]], start: float, end: float) -> dict[str, Any]:
    """Rows as columns of whole numbers, in base64: a million rows take 19 MB and need no parsing.

    Times are fractions of the span from ``start`` to ``end``, 0 to 2 ** 32 - 1.
    """
    scale = _FULL / max(end - start, 1e-3)
    cores, tasks, begins, ends = zip(*rows, strict=True) if rows else ((), (), (), ())
    integers = {"core": ("<u2", cores), "task": ("<i4", tasks)}
    encoded = {name: _base64(np.asarray(values, kind)) for name, (kind, values) in integers.items()}
    at = [np.rint((np.asarray(times, "f8") - start) * scale).clip(0, _FULL) for times in (begins, ends)]
    return encoded | {
        "start": _base64(at[0].astype("<u4")),
        "length": _base64((at[1] - at[0]).clip(0, _FULL).astype("<u4")),
        "count": len(rows),
    }


def _base64(values: np.ndarray[Any, Any]) -> str:
    return base64.b64encode(values.tobytes()).decode("ascii")


def timeline_data(evidence: Evidence) -> dict[str, Any] | None:
    """Return rows by core and task index, the critical path and the cores. Returns None without a timeline."""
    timeline, analysis = evidence.timeline, evidence.analysis
    if timeline is None or analysis is None:
        return None
    tasks = evidence.graph.tasks if evidence.graph else [Task(raw) for raw in analysis.intervals]
    index = {task.id: number for number, task in enumerate(tasks)}
    cores = sorted({row.core for row in timeline.rows})
    lane = {core: number for number, core in enumerate(cores)}
    start, end = timeline.span
    makespan = analysis.makespan or 1.0
    notes = (SIMULATED if evidence.simulated else "", evidence.measured.line)
    shares = ", ".join(f"{kind} {analysis.stall(kind) / makespan:.1%}" for kind in GAP_KINDS)
    return {
        "note": " ".join(f"{text[0].upper()}{text[1:]}." for text in notes if text),
        "start": 0.0,
        "end": max(end - start, 1e-3),
        "cores": [timeline.core_name(core) for core in cores],
        "rows": columns(
            [(lane[row.core], index.get(row.task, -1), row.start, row.end) for row in timeline.rows], start, end
        ),
        "summary": f"Makespan {analysis.makespan:,.1f} us: compute {analysis.compute / makespan:.1%}, {shares}. "
        f"Longest path by durations {analysis.static_length:,.1f} us.",
        "path": [
            [index[step.task], *analysis.row(step, start)]
            for step in analysis.observed[:_MOST_STEPS]
            if step.task in index
        ],
        "pathLeftOut": max(0, len(analysis.observed) - _MOST_STEPS),
        "coreHeadings": ["core", "rows", "busy", "share", *IDLE_CAUSES],
        "coreRows": [
            [timeline.core_name(core.core), core.tasks, f"{core.busy:.1f}", f"{core.busy / makespan:.0%}"]
            + [f"{core.idle[cause]:.1f}" for cause in IDLE_CAUSES]
            for core in occupancy(timeline, evidence.graph)
        ],
    }
