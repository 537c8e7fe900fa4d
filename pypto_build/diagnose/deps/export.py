"""Export of the graph to Graphviz DOT, and of the timeline to Chrome's trace format for Perfetto."""

from __future__ import annotations

import json
from typing import Any

from pypto_build.diagnose.recorded.evidence import SIMULATED, Evidence
from pypto_build.diagnose.recorded.graph import TaskGraph

#: Fill colours by core type. A task on both core types has the colour of its first kernel.
_FILLS = {"aic": "#cfe2ff", "aiv": "#d1f0d9", "": "#f4f4f4"}


def dot(evidence: Evidence, graph: TaskGraph) -> str:
    """Return the graph in DOT. A node is a task with its kernel and number, and an edge is labelled with its tensor."""
    critical = {step.task for step in evidence.analysis.observed} if evidence.analysis else set()
    lines = ["digraph tasks {", "  rankdir=TB;", '  node [shape=box, style="rounded,filled", fontname="Helvetica"];']
    for task in graph.tasks:
        fill = _FILLS[next((evidence.names.core_type(i) for i in task.func_ids), "")]
        label = f"{evidence.order.label(task.id)}\\n{_quoted(evidence.kernel(task))}"
        label += f"\\n{task.block_num} blocks" if task.block_num > 1 else ""
        border = ", color=red, penwidth=2" if task.id in critical else ""
        lines.append(f'  t{task.id} [label="{label}", fillcolor="{fill}"{border}];')
    for pred, succ in graph.pairs():
        if pred in graph.by_id:
            names = dict.fromkeys(evidence.tensor(edge.tensor) for edge in graph.preds[succ][pred])
            label = ", ".join(filter(None, names))
            lines.append(f"  t{pred} -> t{succ}" + (f' [label="{_quoted(label)}"];' if label else ";"))
    return "\n".join([*lines, "}", ""])


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


_CORES, _ORCHESTRATION = 1, 2


def trace(evidence: Evidence) -> str:
    """Return the timeline in Chrome's trace format, with a track for each core and an arrow for each dependency."""
    timeline = evidence.timeline
    assert timeline is not None
    process = f"cores of {evidence.platform}" + (" (simulated)" if evidence.simulated else "")
    events: list[dict[str, Any]] = [track(_CORES, "process_name", process)]
    cores = sorted({row.core for row in timeline.rows})
    events += [track(_CORES, "thread_name", timeline.core_name(core), core) for core in cores]
    for row in timeline.rows:
        known = {"task": evidence.order.label(row.task), "dispatch_us": row.dispatch, "finish_us": row.finish}
        events.append(
            {
                "name": evidence.title(row.task).removeprefix("task "),
                "cat": "task",
                "ph": "X",
                "pid": _CORES,
                "tid": row.core,
                "ts": row.start,
                "dur": row.end - row.start,
                "args": {key: value for key, value in known.items() if value is not None},
            }
        )
    events += _flows(evidence)
    if timeline.submitted:
        events.append(track(_ORCHESTRATION, "process_name", "orchestration"))
        for task, time in sorted(timeline.submitted.items(), key=lambda item: item[1]):
            submit = {"name": f"submit {evidence.title(task)}", "ph": "i", "s": "t", "pid": _ORCHESTRATION, "tid": 0}
            events.append({**submit, "ts": time})
    other = {"note": SIMULATED} if evidence.simulated else {}
    other |= {"measured": evidence.measured.line} if evidence.measured.line else {}
    return json.dumps({"displayTimeUnit": "ns", "otherData": other, "traceEvents": events}) + "\n"


def track(process: int, what: str, name: str, thread: int = 0) -> dict[str, Any]:
    """Return the event that names a process or a thread."""
    return {"name": what, "ph": "M", "pid": process, "tid": thread, "args": {"name": name}}


def _flows(evidence: Evidence) -> list[dict[str, Any]]:
    """Return an arrow for every dependency between tasks that ran, from the end of one to the start of the other."""
    if evidence.graph is None or evidence.timeline is None:
        return []
    first = {row.task: row for row in reversed(evidence.timeline.rows)}
    last = {row.task: row for row in sorted(evidence.timeline.rows, key=lambda row: row.end)}
    events = []
    for number, (pred, succ) in enumerate(evidence.graph.pairs()):
        if pred in last and succ in first:
            shared = {"name": "dependency", "cat": "dependency", "id": number, "pid": _CORES}
            events.append({**shared, "ph": "s", "tid": last[pred].core, "ts": last[pred].end})
            events.append({**shared, "ph": "f", "bp": "e", "tid": first[succ].core, "ts": first[succ].start})
    return events
