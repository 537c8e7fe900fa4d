"""All ranks in the forms of other tools: Chrome's trace format, a process a rank; Graphviz DOT of the dispatches."""

from __future__ import annotations

import json
from typing import Any

from pypto_build.diagnose.deps.export import track
from pypto_build.diagnose.ranks.messages import messages_of
from pypto_build.diagnose.ranks.run import RanksRun
from pypto_build.diagnose.recorded.evidence import SIMULATED
from pypto_build.replay.chips.records import HOST

_DISPATCHES = 0  # the thread of a rank's dispatches; cores follow


def trace(run: RanksRun) -> str:
    """A process a rank with a track for its dispatches and one a core; messages are flows between cores."""
    events: list[dict[str, Any]] = []
    for rank in dict.fromkeys(row.rank for row in run.dispatches):
        name = "host callables" if rank == HOST else f"rank {rank}" + (" (simulated)" if run.simulated else "")
        events.append(track(_process(run, rank), "process_name", name))
        events.append(track(_process(run, rank), "thread_name", "dispatches", _DISPATCHES))
    cores: dict[tuple[int, int], int] = {}  # process and task -> the thread of its first row
    for row in run.dispatches:
        begun, ended = run.span(row)
        process = _process(run, row.rank)
        events.append(_slice(f"d{row.index} {row.program}", process, _DISPATCHES, begun, ended))
        evidence = run.evidence(row)
        timeline, messages = evidence.timeline, run.messages.get(row.number)
        if timeline is None or messages is None:
            continue
        shift = run.at(messages.origin_ns) + timeline.zero
        for one in timeline.rows:
            thread = one.core + 1
            cores.setdefault((row.number, one.task), thread)
            events.append(track(process, "thread_name", timeline.core_name(one.core), thread))
            name = evidence.label(one.task)
            events.append(_slice(name, process, thread, one.start + shift, one.end + shift))
    for number, message in enumerate(messages_of(run)):
        if not message.between_ranks:
            continue
        shared = {"name": run.signal(message.taken.address), "cat": "message", "id": number}
        for phase, end, time in (("s", message.sent, message.sent.at), ("f", message.taken, message.taken.ended)):
            thread = cores.get((end.dispatch.number, end.task), _DISPATCHES)
            place = {"pid": _process(run, end.dispatch.rank), "tid": thread, "ts": time}
            events.append({**shared, "ph": phase, **({"bp": "e"} if phase == "f" else {}), **place})
    other = {"note": SIMULATED} if run.simulated else {}
    unique = {json.dumps(event): event for event in events}
    return json.dumps({"displayTimeUnit": "ns", "otherData": other, "traceEvents": list(unique.values())}) + "\n"


def _process(run: RanksRun, rank: int) -> int:
    """Processes are numbered from 1, the host's last."""
    return run.record.world + 1 if rank == HOST else rank + 1


def _slice(name: str, process: int, thread: int, begun: float, ended: float) -> dict[str, Any]:
    return {
        "name": name,
        "ph": "X",
        "pid": process,
        "tid": thread,
        "ts": round(begun, 3),
        "dur": round(ended - begun, 3),
    }


def dot(run: RanksRun) -> str:
    """The dispatches, a column a rank: solid arrows for host tensors, dashed ones for messages with their number."""
    lines = ["digraph ranks {", "  rankdir=TB;", '  node [shape=box, style="rounded,filled", fillcolor="#d1f0d9"];']
    for rank in dict.fromkeys(row.rank for row in run.dispatches):
        title = "host" if rank == HOST else f"rank {rank}"
        lines.append(f'  subgraph "cluster_{title}" {{ label="{title}";')
        own = [row for row in run.dispatches if row.rank == rank]
        lines += [f'    d{row.number} [label="d{row.index} {row.program}"];' for row in own]
        lines.append("  }")
    for row in run.dispatches:
        lines += [f"  d{number} -> d{row.number};" for number in row.producers if number in run.by_number]
    sent: dict[tuple[int, int], int] = {}
    for message in messages_of(run):
        if message.between_ranks:
            ends = (message.sent.dispatch.number, message.taken.dispatch.number)
            sent[ends] = sent.get(ends, 0) + 1
    lines += [
        f'  d{one} -> d{other} [style=dashed, constraint=false, label="{n}"];' for (one, other), n in sent.items()
    ]
    return "\n".join([*lines, "}", ""])
