"""Explicit dependencies of extracted tasks, and the names of their parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pypto_build.artifact import Artifact
from pypto_build.artifact.files import write_bytes
from pypto_build.compiler.cpp_scalars import RESERVED
from pypto_build.diagnose.extract.record import RecordedTask
from pypto_build.diagnose.extract.tensors import Parameter
from pypto_build.diagnose.recorded.graph import Edge, TaskGraph, read_graph
from pypto_build.diagnose.recorded.names import find_names
from pypto_build.diagnose.recorded.sites import aliases, match_tasks, read_sites, tensor_names


@dataclass(frozen=True)
class OrderBesides:
    """Dependencies that do not follow from tensors. ``manual`` are tasks whose tensors create no dependencies."""

    after: Mapping[int, Sequence[int]] = field(default_factory=dict)
    manual: frozenset[int] = frozenset()


def order_of(graph: TaskGraph, tasks: Sequence[RecordedTask], parameters: Sequence[Parameter]) -> OrderBesides:
    """Return the order of the run, as far as it does not follow from the tensors of the extracted tasks."""
    by_id = {task.task_id: task for task in tasks}
    together = _sharing(parameters)
    after: dict[int, list[int]] = {}
    for task in tasks:
        waits: set[int] = set()
        pending = [task.task_id]
        seen = set(pending)
        while pending:
            succ = pending.pop()
            for pred, edges in graph.preds.get(succ, {}).items():
                if pred in by_id:
                    number = by_id[pred].number
                    if not (succ == task.task_id and _implied(edges, (number, task.number), together)):
                        waits.add(number)
                elif pred not in seen:
                    seen.add(pred)
                    pending.append(pred)
        if waits:
            after[task.number] = sorted(waits)
    manual = frozenset(by_id[one.id].number for one in graph.tasks if one.manual and one.id in by_id)
    return OrderBesides(after, manual)


def _sharing(parameters: Sequence[Parameter]) -> set[tuple[int, int]]:
    """Return the pairs of tasks that use one parameter, with the earlier task first."""
    pairs = set()
    for one in parameters:
        users = sorted({number for number, _ in one.uses})
        pairs |= {(first, last) for at, first in enumerate(users) for last in users[at + 1 :]}
    return pairs


def _implied(edges: Sequence[Edge], pair: tuple[int, int], together: set[tuple[int, int]]) -> bool:
    """Return whether the runtime finds the dependency from the tensors."""
    return pair in together and any(edge.arg >= 0 for edge in edges)


def name_parameters(
    parameters: Sequence[Parameter], tasks: Sequence[RecordedTask], source: Artifact, graph: TaskGraph
) -> None:
    """Give each parameter the name of its variable in the orchestration, else that of the kernel's argument."""
    orchestration = source.orchestration.source
    sites = match_tasks(graph, read_sites(orchestration))
    variables = tensor_names(graph, sites, aliases(orchestration))
    by_id = {task.id: task for task in graph.tasks}
    ids = {task.number: task.task_id for task in tasks}
    kernels = {task.number: [func_id for _, func_id, _ in task.kernels] for task in tasks}
    named = find_names(source.root)
    taken: set[str] = set(RESERVED)
    for one in parameters:
        number, use = one.uses[0]
        task = by_id.get(ids[number])
        tensor = next((arg.tensor for arg in task.args if arg.index == use.index), None) if task else None
        name = variables.get(tensor, "") if tensor is not None else ""
        site = sites.get(ids[number])
        if not name and site is not None and use.index < len(site.args):
            name = site.args[use.index].variable.removeprefix("ext_")
        name = name or named.argument(kernels[number], use.index)
        stem = name if name.isidentifier() and name.isascii() else f"t{use.index}"
        chosen, count = stem, 2
        while chosen in taken:
            chosen, count = f"{stem}_{count}", count + 1
        taken.add(chosen)
        one.name = chosen


def kept_graph(text: str, directory: Path) -> TaskGraph:
    """Write the text of a run's graph to ``directory``, and return the graph."""
    write_bytes(directory / "deps.json", text.encode())
    return read_graph(directory / "deps.json")
