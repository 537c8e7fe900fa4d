"""Text reports of the task graph and the timeline."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

from pypto_build.diagnose.console import counted, table
from pypto_build.diagnose.recorded.chrome_trace import ChromeTrace
from pypto_build.diagnose.recorded.critical_path import GAP_KINDS, IDLE_CAUSES, Analysis, occupancy
from pypto_build.diagnose.recorded.evidence import SIMULATED, Evidence, spread_text
from pypto_build.diagnose.recorded.graph import Edge, Task, TaskGraph

# Export of the graph to Graphviz DOT, and of the timeline to Chrome's trace format for Perfetto.

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
    return re.sub(r'["\\]', r"\\\g<0>", text)


_CORES, _ORCHESTRATION = 1, 2


def trace(evidence: Evidence) -> str:
    """Return the timeline in Chrome's trace format, with a track for each core and an arrow for each dependency."""
    timeline = evidence.timeline
    assert timeline is not None
    events = ChromeTrace()
    events.name_process(_CORES, f"cores of {evidence.platform}" + (" (simulated)" if evidence.simulated else ""))
    for row in timeline.rows:
        track = (_CORES, row.core)
        events.name_thread(track, timeline.core_name(row.core))
        title, label = evidence.title(row.task).removeprefix("task "), evidence.order.label(row.task)
        values = {"task": label, "dispatch_us": row.dispatch, "finish_us": row.finish}
        events.span(track, title, row.start, row.end, "task", **values)
    first = {row.task: row for row in reversed(timeline.rows)}
    last = {row.task: row for row in sorted(timeline.rows, key=lambda row: row.end)}
    for pred, succ in evidence.graph.pairs() if evidence.graph else ():
        if pred in last and succ in first:
            begin, end = last[pred], first[succ]
            ends = ((_CORES, begin.core), begin.end), ((_CORES, end.core), end.start)
            events.arrow("dependency", "dependency", *ends)
    if timeline.submitted:
        events.name_process(_ORCHESTRATION, "orchestration")
    for task, time in sorted(timeline.submitted.items(), key=lambda item: item[1]):
        events.instant((_ORCHESTRATION, 0), f"submit {evidence.title(task)}", time)
    return events.text(note=SIMULATED if evidence.simulated else "", measured=evidence.measured.line)


_SHOWN_STEPS = 25
_SHOWN_KERNELS = 20


def task_lines(evidence: Evidence, raw: int) -> list[str]:
    """Return the lines about one task: its predecessors and successors, the tensors between them, and its times."""
    graph = evidence.graph
    assert graph is not None
    task = graph.by_id[raw]
    lines = [evidence.title(raw) + (f", {task.block_num} blocks" if task.block_num > 1 else "")]
    position = evidence.submitted_at(raw)
    lines += [f"  submitted at {position}"] if position else []
    lines += [f"  {line}" for line in _times(evidence, raw)]
    lines += _side(evidence, "waits for", graph.preds.get(raw, {}))
    lines += _side(evidence, "is waited for by", graph.succs.get(raw, {}))
    if task.args:
        lines += ["  arguments", *(f"    {line}" for line in _arguments(evidence, task))]
    return lines


def _side(evidence: Evidence, heading: str, others: dict[int, list[Edge]]) -> list[str]:
    if not others:
        return [f"  {heading} nobody"]
    lines = [f"  {heading}"]
    for other, edges in others.items():
        lines.append(f"    {evidence.title(other)}")
        lines += [f"      {evidence.reason(edge)}" for edge in edges]
    return lines


def _times(evidence: Evidence, raw: int) -> list[str]:
    analysis = evidence.analysis
    interval = analysis.intervals.get(raw) if analysis else None
    if analysis is None or interval is None:
        return []
    path = {step.task: step for step in analysis.observed}
    words = [f"ran from {interval.start:.1f} to {interval.end:.1f} us ({interval.duration:.1f} us)"]
    words += [f"{path[raw].kind} of {path[raw].stall:.1f} us before it"] if raw in path else []
    if raw in evidence.measured.tasks:
        words.append(f"over the rounds {spread_text(evidence.measured.tasks[raw])}")
    words += ["on the critical path" if raw in path else f"slack {analysis.slack[raw]:.1f} us"]
    return [", ".join(words) + (" [simulated]" if evidence.simulated else "")]


def _arguments(evidence: Evidence, task: Task) -> list[str]:
    rows = []
    for arg in task.args:
        name = evidence.names.argument(task.func_ids, arg.index)
        shape = "x".join(map(str, arg.shape))
        span = "{}..{}".format(*arg.span) if arg.shape else "allocated by the runtime"
        rows.append([str(arg.index), name or "-", arg.kind, evidence.tensor(arg.tensor) or "-", arg.dtype, shape, span])
    return table(rows, ("arg", "name", "kind", "tensor", "dtype", "shape", "bytes"))


def summary_lines(evidence: Evidence) -> list[str]:
    """Return the lines about the whole run: size of the graph, kernels, critical path and cores."""
    lines = _graph_lines(evidence, evidence.graph) if evidence.graph else []
    if evidence.analysis:
        lines += ["", *_time_lines(evidence, evidence.analysis)]
    elif evidence.graph:
        lines += ["", "no timeline: SWIMLANE=4 records one"]
    return lines


def _graph_lines(evidence: Evidence, graph: TaskGraph) -> list[str]:
    depth = graph_levels(graph)
    widest = max(Counter(depth.values()).values(), default=0)
    pairs = sum(pred in graph.by_id for pred, _ in graph.pairs())
    lines = [
        f"task graph: {counted(len(graph.order.numbers), 'task')}, {counted(pairs, 'edge')}, "
        f"{counted(max(depth.values(), default=-1) + 1, 'level')}, up to {widest} tasks at a level"
    ]
    kernels = Counter(evidence.kernel(task) for task in graph.tasks if task.func_ids)
    shown = [f"{name} x{count}" for name, count in kernels.most_common(_SHOWN_KERNELS)]
    more = len(kernels) - len(shown)
    lines.append("kernels: " + ", ".join(shown) + (f" and {more} more" if more else ""))
    sources = Counter(edge.source for edge in graph.edges if edge.source)
    if sources:
        lines.append("edges by rule: " + ", ".join(f"{name} {count}" for name, count in sorted(sources.items())))
    return lines


def graph_levels(graph: TaskGraph) -> dict[int, int]:
    """For each task, return its level: the longest chain of tasks before it. Allocations do not count."""
    levels: dict[int, int] = {}
    for raw in graph.topological():
        before = [levels[pred] + (pred in graph.by_id) for pred in graph.preds.get(raw, {})]
        levels[raw] = max(before, default=0)
    return {raw: level for raw, level in levels.items() if raw in graph.by_id}


def _time_lines(evidence: Evidence, analysis: Analysis) -> list[str]:
    makespan = analysis.makespan or 1.0
    lines = [f"note: {SIMULATED}"] if evidence.simulated else []
    if line := evidence.measured.line:
        lines.append(f"{'note' if evidence.measured.is_cold else 'measured'}: {line}")
    shares = [f"compute {analysis.compute / makespan:.1%}"]
    shares += [f"{kind} {analysis.stall(kind) / makespan:.1%}" for kind in GAP_KINDS]
    static = f"longest path by durations {analysis.static_length:,.1f} us ({analysis.static_length / makespan:.1%})"
    lines.append(f"makespan {analysis.makespan:,.1f} us: {', '.join(shares)}; {static}")
    steps = analysis.observed
    cut = f", the first {_SHOWN_STEPS}" if len(steps) > _SHOWN_STEPS else ""
    lines += ["", f"critical path, {counted(len(steps), 'task')}{cut}"]
    shown = steps[:_SHOWN_STEPS]
    spreads = evidence.measured.tasks
    rows = [[evidence.title(step.task).removeprefix("task "), *analysis.row(step)] for step in shown]
    headings = ["task", "start us", "span us", "compute", "gap us", "gap kind", "slack us"]
    if spreads:
        headings.append("over the rounds")
        for row, step in zip(rows, shown, strict=True):
            row.append(spread_text(spreads[step.task]) if step.task in spreads else "")
    lines += table(rows, headings)
    lines += ["", "cores: busy and idle by cause, us"]
    return lines + _core_lines(evidence)


def _core_lines(evidence: Evidence) -> list[str]:
    timeline = evidence.timeline
    assert timeline is not None
    cores = occupancy(timeline, evidence.graph)
    total = max(sum((core.busy + sum(core.idle.values())) for core in cores), 1e-9)
    rows = [
        [
            timeline.core_name(core.core),
            str(core.tasks),
            f"{core.busy:.1f}",
            f"{core.busy / max(core.busy + sum(core.idle.values()), 1e-9):.0%}",
            *(f"{core.idle[cause]:.1f}" for cause in IDLE_CAUSES),
        ]
        for core in cores
    ]
    lines = table(rows, ("core", "rows", "busy", "share", *IDLE_CAUSES))
    shares = (f"{cause} {sum(core.idle[cause] for core in cores) / total:.1%}" for cause in IDLE_CAUSES)
    return [*lines, f"all: busy {sum(core.busy for core in cores) / total:.1%}, " + ", ".join(shares)]


def path_between(graph: TaskGraph, first: int, second: int) -> list[Edge]:
    """Return a shortest chain of edges from one task to another, or an empty list if nothing orders them."""
    reached: dict[int, Edge] = {}
    frontier: Iterable[int] = [first]
    while frontier:
        following = []
        for raw in frontier:
            for succ, edges in graph.succs.get(raw, {}).items():
                if succ not in reached and succ != first:
                    reached[succ] = edges[0]
                    following.append(succ)
        if second in reached:
            break
        frontier = following
    chain: list[Edge] = []
    while second in reached and (not chain or chain[-1].pred != first):
        chain.append(reached[second])
        second = chain[-1].pred
    return chain[::-1]
