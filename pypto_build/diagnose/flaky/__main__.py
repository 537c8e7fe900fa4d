"""`scons flaky`: runs seeded random legal orders and says which outputs depend on the order, and on which two tasks.

python -m pypto_build.diagnose.flaky ARTIFACT_DIR --platform P --build-dir OUT --embedded PATH [--rounds N] [--seed N]
"""

from __future__ import annotations

import argparse
import heapq
import random
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from pypto_build.artifact.interface import relative_source
from pypto_build.artifact.pt import read_pt
from pypto_build.diagnose.console import (
    add_chips,
    add_options_of,
    add_run_options,
    command,
    counted,
    progress,
    tool_parser,
)
from pypto_build.diagnose.findings import Finding, Related, deliver
from pypto_build.diagnose.recorded.evidence import Evidence
from pypto_build.diagnose.requests import once_more, request_of
from pypto_build.facts.dtypes import ITEMSIZE
from pypto_build.replay import replay
from pypto_build.replay.compare import coordinates
from pypto_build.replay.run_options import SettingValue
from pypto_build.replay.verdict import Verdict

# Legal orders of the tasks of a run: random orders, and steps from one order to another.
# Swaps of neighbours lead from one legal order to another. Each swap is legal: the second order has the two tasks
# the other way round, so no dependency orders them.


def random_order(tasks: Sequence[int], pairs: Iterable[tuple[int, int]], seed: int) -> list[int]:
    """Return `tasks` in a random order that keeps the first task of each pair before the second.

    The same seed gives the same order.
    """
    waits = dict.fromkeys(tasks, 0)
    then: dict[int, list[int]] = {}
    for first, second in set(pairs):
        if first in waits and second in waits:
            waits[second] += 1
            then.setdefault(first, []).append(second)
    chance = random.Random(seed)
    ready = [(chance.random(), task) for task in tasks if not waits[task]]
    heapq.heapify(ready)
    order: list[int] = []
    while ready:
        _, task = heapq.heappop(ready)
        order.append(task)
        for other in then.get(task, ()):
            waits[other] -= 1
            if not waits[other]:
                heapq.heappush(ready, (chance.random(), other))
    return order


def flipping_swap(
    good: Sequence[int], bad: Sequence[int], differs: Callable[[list[int]], bool]
) -> tuple[list[int], int] | None:
    """Return an order with the result of `good`, and a position where a swap with the next task changes the result.

    `differs(order)` runs an order. The search takes about 2 * log2(tasks) runs. Returns None if the results do not
    lead to a single swap.
    """
    steps = _between(0, len(bad), lambda count: differs(_moved(good, bad, count)))
    if steps is None:
        return None
    start = _moved(good, bad, steps)
    at = start.index(bad[steps])
    swaps = _between(0, at - steps, lambda count: differs(_shifted(start, at, count)))
    if swaps is None:
        return None
    return _shifted(start, at, swaps), at - swaps - 1


def _between(low: int, high: int, differs: Callable[[int], bool]) -> int | None:
    """Return a number with the result of `low` whose successor differs. `high` must differ from `low`."""
    while high - low > 1:
        middle = (low + high) // 2
        if differs(middle):
            high = middle
        else:
            low = middle
    return low if high > low else None


def _moved(good: Sequence[int], bad: Sequence[int], count: int) -> list[int]:
    """Return the first `count` tasks of `bad`, then the others in the order of `good`."""
    head = list(bad[:count])
    taken = set(head)
    return head + [task for task in good if task not in taken]


def _shifted(order: Sequence[int], at: int, count: int) -> list[int]:
    """Return the order with the task at `at` moved forward by `count` neighbours."""
    rest = [*order[:at], *order[at + 1 :]]
    return [*rest[: at - count], order[at], *rest[at - count :]]


_TOLD_INDICES = 4
_TOLD_WRITERS = 6
_NOT_SHARED = "; they share no argument, so what they race for is passed in another way"


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    options = tool_parser("flaky", __doc__)
    add_run_options(options)
    add_options_of(options, "flaky", ROUNDS=50)
    add_chips(options)
    return options


#: The hint on outputs that depend on the schedule of the ranks.
_HINT = "scons hazards names accesses that no notify and wait order; SHUFFLE=1 SEED={seed} replays this schedule's seed"


class Failed(Exception):
    """A run without a result. The verdict has the reason."""

    def __init__(self, verdict: Verdict) -> None:
        super().__init__(str(verdict.error or verdict.status))
        self.verdict = verdict


@dataclass
class Outputs:
    """The bytes of every output of a run."""

    values: dict[str, bytes] = field(default_factory=dict)
    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    dtypes: dict[str, str] = field(default_factory=dict)

    def varying(self, other: Outputs) -> dict[str, Any]:
        """Return the flat indices of differing elements, for each output that differs."""
        differing = {}
        for name, value in self.values.items():
            if value != other.values[name]:
                size = ITEMSIZE[self.dtypes[name]]
                one, two = (np.frombuffer(v, dtype=np.uint8).reshape(-1, size) for v in (value, other.values[name]))
                differing[name] = np.flatnonzero((one != two).any(axis=1))
        return differing


class Runner:
    """Runs one artifact in any order, with a new process for each run."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.results = options.build_dir / "flaky"
        self.runs = 0

    def run(self, **settings: SettingValue) -> Outputs:
        """Run once and return the outputs. Raises `Failed`."""
        first = request_of(self.options, self.results)
        request = replace(once_more(first) if self.runs else first, options=settings)
        verdict = replay(request, write=None)
        self.runs += 1
        if verdict.status not in ("pass", "mismatch", "unchecked"):
            raise Failed(verdict)
        outputs = Outputs()
        for path in sorted((self.results / "actual").glob("*.pt")):
            tensor = read_pt(path)
            outputs.values[path.stem] = bytes(tensor.data)
            outputs.shapes[path.stem] = tuple(tensor.shape)
            outputs.dtypes[path.stem] = tensor.dtype
        return outputs


@command("flaky", parser)
def main(options: argparse.Namespace) -> int:
    """Return 0 if every order gives the same outputs, 1 if not, or the exit status of a failed run."""
    runner = Runner(options)
    try:
        findings = _schedules(runner, runner.run()) if options.chip else _of_one_chip(runner)
    except Failed as failed:
        print(f"flaky: one of the runs failed: {failed}", file=sys.stderr)
        return failed.verdict.exit_status
    return deliver("flaky", options.artifact, findings, options, options.build_dir)


def _of_one_chip(runner: Runner) -> list[Finding]:
    """Look for outputs that vary in one order, then with what stores show, or with the order."""
    options = runner.options
    base = runner.run(serial=True, dep_gen=True)
    evidence = Evidence(options.artifact, runner.results, options.platform)
    graph = evidence.graph
    assert graph is not None
    if again := base.varying(runner.run(serial=True)):
        return [_same_order(again, base)]
    if options.memory_model:
        return _visibility(runner, base)
    return _orders(runner, evidence, base, [task.id for task in graph.tasks], graph.pairs())


def _schedules(runner: Runner, base: Outputs) -> list[Finding]:
    """Run the schedules, up to the first that changes an output or does not come to its end."""
    options = runner.options
    for number in progress(range(options.rounds), "running schedules", options.rounds):
        seed = options.seed + number
        try:
            differing = base.varying(runner.run(shuffle=True, seed=seed, memory=options.memory_model))
        except Failed as failed:
            error = failed.verdict.error
            print(f"[flaky] schedule {number} (seed {seed}) of {options.rounds} failed: {failed.verdict.status}")
            reason = error.message if error else failed.verdict.status
            message = f"a run with the task order of SHUFFLE=1 SEED={seed} fails: {reason}"
            hint = error.hint if error else ""
            return [Finding("flaky/schedule-ends", message, hint=hint)]
        if differing:
            print(
                f"[flaky] schedule {number} (seed {seed}) of {options.rounds} gives other outputs, "
                f"{counted(runner.runs, 'run')}"
            )
            message = f"{varying(differing, base)} with the task order of all ranks (SHUFFLE=1 SEED={seed})"
            return [Finding("flaky/schedule", message, hint=_HINT.format(seed=seed))]
    print(f"[flaky] {counted(options.rounds, 'schedule')} of all ranks give the same outputs")
    return []


def _orders(
    runner: Runner, evidence: Evidence, base: Outputs, tasks: list[int], pairs: list[tuple[int, int]]
) -> list[Finding]:
    """Run orders up to the first that changes an output, then search for the two tasks that cause it."""
    options = runner.options
    refused = 0
    for number in progress(range(options.rounds), "running orders", options.rounds):
        order = random_order(tasks, pairs, options.seed + number)
        try:
            differing = base.varying(runner.run(order=list(order)))
        except Failed as failed:
            if failed.verdict.status == "hang":
                raise
            refused += 1  # the orchestration waits for a task that comes later in this order
            continue
        if differing:
            swap = flipping_swap(tasks, order, lambda o: _differs(runner, base, o))
            runs = counted(runner.runs, "run")
            print(
                f"[flaky] order {number} (seed {options.seed + number}) of {options.rounds} gives other outputs, {runs}"
            )
            return [_order_finding(evidence, base, differing, swap)]
    skipped = f", {refused} could not be kept" if refused else ""
    orders = counted(options.rounds, "order")
    print(f"[flaky] {orders} of {counted(len(tasks), 'task')}{skipped}")
    return []


def _visibility(runner: Runner, base: Outputs) -> list[Finding]:
    """Run one order with stores that become visible late, up to the first run whose outputs differ."""
    options = runner.options
    for number in progress(range(options.rounds), "running", options.rounds):
        seed = options.seed + number
        differing = base.varying(runner.run(memory=options.memory_model, seed=seed))
        if differing:
            print(f"[flaky] SEED={seed} of {options.rounds} gives other outputs")
            message = (
                f"{varying(differing, base)} with the time at which stores become visible (MEMORY=weak SEED={seed})"
            )
            return [
                Finding(
                    "flaky/memory",
                    message,
                    hint=("run 'scons hazards MEMORY=weak', which names the missing barrier or cache instruction"),
                )
            ]
    print(f"[flaky] {options.rounds} runs with delayed visibility of stores: the same outputs")
    return []


def _differs(runner: Runner, base: Outputs, order: list[int]) -> bool:
    try:
        return bool(base.varying(runner.run(order=list(order))))
    except Failed:
        return False


def _same_order(differing: dict[str, Any], base: Outputs) -> Finding:
    return Finding(
        rule="flaky/same-order",
        message=f"{varying(differing, base)} although the tasks ran one after the other in the same order",
        hint="run 'scons hazards': check kernels of one group, and memory that is read before it is written",
    )


def varying(differing: dict[str, Any], base: Outputs) -> str:
    """Return the text `output 'f' varies in 3 of 16 elements, first at (0, 1), (0, 2)`."""
    name, indices = next(iter(differing.items()))
    shape = base.shapes[name]
    total = int(np.prod(shape, dtype=np.int64))
    first = [str(coordinates(int(at), shape)) for at in indices[:_TOLD_INDICES]]
    others = [f"'{other}'" for other in list(differing)[1:]]
    more = f" (so do {', '.join(others)})" if others else ""
    return f"output '{name}' varies in {len(indices)} of {total} elements, first at {', '.join(first)}{more}"


def _order_finding(
    evidence: Evidence, base: Outputs, differing: dict[str, Any], swap: tuple[list[int], int] | None
) -> Finding:
    name, indices = next(iter(differing.items()))
    writers = _writers(evidence, name, int(indices[0]) * ITEMSIZE[base.dtypes[name]])
    detail = [f"written by {', '.join(map(evidence.title, writers[:_TOLD_WRITERS]))}"] if writers else []
    if swap is None:
        return Finding("flaky/order", f"{varying(differing, base)} with the order of the tasks", detail=tuple(detail))
    position = swap[1]
    one, other = swap[0][position], swap[0][position + 1]
    shared = _shared(evidence, one, other)
    path, line, related = _racing_position(evidence, one, other, shared)
    assert evidence.graph is not None
    numbers = tuple(evidence.graph.order.numbers.get(raw, -1) for raw in (one, other))
    return Finding(
        rule="flaky/order",
        message=(
            f"{varying(differing, base)}; the output changes if {evidence.title(other)} runs "
            f"before {evidence.title(one)}, "
            f"and nothing orders these two{'' if shared else _NOT_SHARED}"
        ),
        path=path,
        line=line,
        hint="order these two tasks: 'scons hazards' names the declaration to change",
        detail=tuple(detail),
        tasks=tuple(number for number in numbers if number >= 0),
        related=related,
    )


def _writers(evidence: Evidence, name: str, byte: int) -> list[int]:
    """Return the tasks whose written arguments contain a byte of an output."""
    assert evidence.graph is not None
    return [
        task.id
        for task in evidence.graph.tasks
        if any(
            arg.writes and evidence.tensor(arg.tensor) == name and arg.span[0] <= byte < arg.span[1]
            for arg in task.args
        )
    ]


def _shared(evidence: Evidence, one: int, other: int) -> list[tuple[int, int]]:
    """Return the pairs of arguments of two tasks in one buffer. Pairs with a written argument come first."""
    assert evidence.graph is not None
    first, second = evidence.graph.by_id[one].args, evidence.graph.by_id[other].args
    pairs = [
        (i, j)
        for i, a in enumerate(first)
        for j, b in enumerate(second)
        if a.tensor is not None and a.tensor == b.tensor
    ]
    return sorted(pairs, key=lambda pair: not (first[pair[0]].writes or second[pair[1]].writes))


def _racing_position(
    evidence: Evidence, one: int, other: int, shared: list[tuple[int, int]]
) -> tuple[str, int, tuple[Related, ...]]:
    """Return the line where the second task declares the shared argument, and that of the first task."""
    sites = [evidence.sites.get(raw) for raw in (one, other)]
    if evidence.artifact is None or sites[1] is None:
        return "", 0, ()
    source = evidence.artifact.orchestration.source
    path = relative_source(source, evidence.artifact.root)
    if not shared:
        return path, sites[1].line, ()
    lines = [
        site.tensors[index].line if site and index < len(site.tensors) else 0
        for site, index in zip(sites, shared[0], strict=True)
    ]
    related = (Related(path, lines[0], f"{evidence.title(one)} declares the argument here"),) if lines[0] else ()
    return path, lines[1] or sites[1].line, related


if __name__ == "__main__":
    sys.exit(main())
