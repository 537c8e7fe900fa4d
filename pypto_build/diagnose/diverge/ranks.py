"""`scons diverge` on a distributed artifact: the first rank, dispatch and task whose output leaves the reference.

The program runs twice with all arguments dumped: as compiled, and as PyTorch made from the .pto modules, collectives
of the host program by what torch.distributed says of them. What tasks wrote is compared, dispatch by dispatch in the
order in which they began. The kernels of the first task that leaves the reference run again with probes, which tell the
line. Where all tasks agree and the golden does not, modules, orchestrations or the driver are wrong.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from pypto_build.artifact import load_artifact
from pypto_build.artifact.errors import ArtifactError
from pypto_build.artifact.files import read_bytes
from pypto_build.diagnose.console import taking_long
from pypto_build.diagnose.diverge.findings import hint_of, line_of, relative
from pypto_build.diagnose.diverge.lockstep import Difference, Limits, compare
from pypto_build.diagnose.diverge.probe import (
    Event,
    KernelParting,
    Recorder,
    compile_probe,
    find_parting,
    read_events,
    run_probed,
)
from pypto_build.diagnose.dump.viewer import Viewer, open_viewer
from pypto_build.diagnose.findings import Finding, deliver
from pypto_build.diagnose.recorded.args_dump import DumpedArg
from pypto_build.diagnose.recorded.ranks import RanksRun
from pypto_build.diagnose.requests import engine_of, request_of
from pypto_build.facts.run_options import TORCH
from pypto_build.facts.tasks import Slot, TensorView
from pypto_build.replay import replay
from pypto_build.replay.chips.collectives import collective_of, inputs_of, signal_of
from pypto_build.replay.chips.dispatches import Dispatch
from pypto_build.replay.chips.engine import ChipsEngine
from pypto_build.replay.chips.memory import Windows
from pypto_build.replay.chips.records import HOST, DispatchRow
from pypto_build.replay.chips.reference import RankHook
from pypto_build.replay.reference.hook import ReferenceFault, References
from pypto_build.replay.run_options import SettingValue
from pypto_build.replay.values import is_float
from pypto_build.replay.verdict import Verdict

# Search for the line at which a task of one rank diverges from its module.
# The program runs twice more, as compiled and by PyTorch, with probes in the kernels of that task alone. All other
# tasks and ranks run unchanged, so that a kernel that communicates with other ranks finds them.

OnTask = Callable[[Any], None]
_TOLD = "module"


class ReferenceMember(msgspec.Struct):
    """Events of one kernel's module in a block of the task: `lane` is its vector core, `module` its file."""

    kernel: str
    lane: int
    module: str
    events: list[Event]
    dtypes: list[str]


class ReferenceBlock(msgspec.Struct):
    """A block of the task by its modules: tensors as [buffer, size, offset, dtype, shape, strides]."""

    tensors: list[tuple[int, int, int, str, tuple[int, ...], tuple[int, ...]]]
    members: list[ReferenceMember]


@dataclass(frozen=True)
class At:
    """A task: the `task`-th of the `dispatch`-th dispatch on a rank, which runs `program` as it lies in `root`."""

    rank: int
    dispatch: int
    task: int
    program: str
    root: Path
    kernels: tuple[str, ...]


def partings(
    options: argparse.Namespace, at: At, limits: Limits, run: Callable[[ChipsEngine, str], object]
) -> list[KernelParting]:
    """Find where the kernels of a task diverge from their modules, block by block up to the first block that does.

    `run` executes the program by an engine, under a name.
    Raises ArtifactError if a kernel does not compile with probes.
    """
    directory = options.build_dir / "diverge" / "probes"
    shutil.rmtree(directory, ignore_errors=True)
    kernels = {kernel.name: kernel for kernel in load_artifact(at.root).kernels if kernel.name in at.kernels}
    libraries = {
        (at.program, name): compile_probe(kernel.source, name, kernel.core_type, options.platform, directory)
        for name, kernel in kernels.items()
    }
    compiled = replace(engine_of(options), libraries=libraries, watch=_Compiled(at, directory))
    run(compiled, "probed")
    run(replace(engine_of(options, reference=True), by_modules=True, watch=_Modules(at, directory)), "torch-probed")
    for path in sorted(directory.glob(f"{_TOLD}.*"), key=lambda path: int(path.suffix[1:])):
        block = msgspec.msgpack.decode(read_bytes(path), type=ReferenceBlock)
        tensors = [TensorView(*tensor) for tensor in block.tensors]
        partings = []
        for member in block.members:
            events = read_events(directory / f"{member.kernel}.{member.lane}{path.suffix}", tensors)
            parting = find_parting(events, member.events, member.dtypes, limits)
            if parting is not None:
                source = kernels[member.kernel].source
                partings.append(KernelParting(member.kernel, member.lane, Path(member.module), source, parting))
        if partings:
            return sorted(partings, key=lambda each: each.parting.instruction == "TPOP")
    return []


@dataclass(frozen=True)
class _Watcher:
    """Replaces the runtime's callback for the tasks of one dispatch."""

    at: At
    directory: Path

    def __call__(
        self, rank: int, dispatch: Dispatch, domains: Sequence[Windows], usual: OnTask | None
    ) -> OnTask | None:
        if (rank, dispatch.index) != (self.at.rank, self.at.dispatch):
            return usual
        there = self.watching(domains)

        def on_task(call: Any) -> None:
            if call.number == self.at.task:
                there(call)
            elif usual is not None:
                usual(call)
            else:
                call.run()

        return on_task

    def watching(self, domains: Sequence[Windows]) -> OnTask:
        """Return the function to call for the task itself."""
        raise NotImplementedError


class _Compiled(_Watcher):
    """Lets the probes of compiled kernels write."""

    def watching(self, domains: Sequence[Windows]) -> OnTask:
        return lambda call: run_probed(call, self.directory)


class _Modules(_Watcher):
    """Executes the task with the PyTorch of its modules, and records what the probes in them print."""

    def watching(self, domains: Sequence[Windows]) -> OnTask:
        recorder = Recorder()
        hook = RankHook(References(self.at.root, recorder), domains)

        def run(call: Any) -> None:
            recorder.clear()
            slots: list[Slot] = hook.slots(call)
            try:
                with suppress(ReferenceFault):  # what it had written until then counts
                    hook(call)
            finally:
                block = ReferenceBlock([slot for slot in slots if isinstance(slot, TensorView)], [])
                for member in hook.members(call):
                    wrote, unit = recorder.of(member), str(member.body.unit.path)
                    block.members.append(ReferenceMember(member.name, member.lane, unit, wrote.events, wrote.dtypes))
                self.directory.mkdir(parents=True, exist_ok=True)
                (self.directory / f"{_TOLD}.{call.block or 0}").write_bytes(msgspec.msgpack.encode(block))

        return run


_ENDED = ("pass", "mismatch", "unchecked")


@dataclass(frozen=True)
class Departure:
    """A task whose output differs from the reference. `follows` is true if one of its inputs differs too."""

    row: DispatchRow
    viewer: Viewer
    record: DumpedArg
    difference: Difference
    follows: bool


def _replayed(
    options: argparse.Namespace, name: str, engine: ChipsEngine, **settings: SettingValue
) -> tuple[Verdict, RanksRun]:
    """One run, below OUT/diverge."""
    results = options.build_dir / "diverge" / name
    request = replace(
        request_of(options, results),
        runtime=TORCH if engine.reference else "embedded",
        rtol=options.rtol,
        atol=options.atol,
        options=settings,
        engine=engine,
    )
    return replay(request, write=None), RanksRun(options.artifact, results, options.platform)


def departures(compiled: RanksRun, reference: RanksRun, limits: Limits) -> Iterator[Departure]:
    """Yield the outputs that differ, ordered by the start of their dispatch and by task.

    Integers of INOUT arguments are signals. Their values depend on the schedule, so they are not compared. Integers of
    a collective are compared, except for its signals.
    """
    for row in sorted(compiled.dispatches, key=lambda row: (row.begun_s, row.number)):
        if row.rank == HOST:
            continue
        viewer = open_viewer(compiled.program_of(row), compiled.directory_of(row))
        other = open_viewer(reference.program_of(row), reference.directory_of(row))
        collective = collective_of(row.program)
        signal = None if collective is None else signal_of(collective)
        expected_records = {(one.task_id, one.index, one.stage): one for one in other.dump.records}
        differing: set[int] = set()  # tasks that were given something else
        for record in viewer.dump.records:
            if record.stage != "before" or (collective is not None and record.index not in inputs_of(collective)):
                continue
            expected = expected_records.get((record.task_id, record.index, record.stage))
            if (
                expected is not None
                and not _is_signal(record, signal)
                and _difference(viewer, record, other, expected, limits) is not None
            ):
                differing.add(record.task_id)
        for record in viewer.select(argparse.Namespace(task="", kernel="", arg="", role="", stage="after")):
            expected = expected_records.get((record.task_id, record.index, record.stage))
            if expected is None or _is_signal(record, signal):
                continue
            difference = _difference(viewer, record, other, expected, limits)
            if difference is not None:
                yield Departure(row, viewer, record, difference, record.task_id in differing)


def _is_signal(record: DumpedArg, signal: int | None) -> bool:
    """Return whether an argument holds signals; in a collective it is argument number `signal`."""
    return record.role == "inout" and not is_float(record.dtype) and signal in (None, record.index)


def _difference(
    viewer: Viewer, record: DumpedArg, other: Viewer, expected: DumpedArg, limits: Limits
) -> Difference | None:
    """Compare one argument of two runs. Returns None if it is equal, was not recorded, or has different shapes."""
    if record.kind != "tensor" or not record.size or not expected.size or record.shape != expected.shape:
        return None
    return compare(viewer.dump.stored(record), other.dump.stored(expected), record.dtype, limits)


def _partings(options: argparse.Namespace, run: RanksRun, first: Departure, limits: Limits) -> list[KernelParting]:
    """Find where the kernels of the task diverge from their modules; an empty list without modules."""
    names = first.viewer.names
    kernels = tuple(names.kernels[i].name for i in first.record.func_ids if i in names.kernels)
    number = first.viewer.order.numbers.get(first.record.task_id, -1)
    root = run.program_of(first.row)
    if number < 0 or not kernels or not list(root.glob("ptoas/*.pto")):
        return []
    at = At(first.row.rank, first.row.index, number, first.row.program, root, kernels)
    return partings(options, at, limits, lambda engine, name: _replayed(options, name, engine))


def _finding(run: RanksRun, first: Departure, others: int, parted: Sequence[KernelParting]) -> Finding:
    difference, names = first.difference, first.viewer.names
    kernel = names.joined(first.record.func_ids)
    number = first.viewer.order.numbers.get(first.record.task_id, -1)
    collective = collective_of(first.row.program)
    source = next((names.kernels[i].source for i in first.record.func_ids if i in names.kernels), None)
    at = parted[0] if parted else None
    source = at.source if at else source
    what = first.viewer.arg_name(first.record)
    follows = ", as one of its inputs does" if first.follows else ""
    by = f"by torch.distributed's {collective.name}" if collective else "by its .pto module"
    detail = [f"{others} later outputs differ too, here or on other ranks"] if others else []
    detail += [f"{one.kernel}: {one.parting.instruction or 'the kernel'}: {one.parting.what}" for one in parted]
    hint = hint_of(at)
    if at is None and collective:
        hint = (
            "the ranks together compute a different collective operation; check the whole kernel, because "
            "no single rank is at fault"
        )
    return Finding(
        rule="diverge/kernel",
        message=(
            f"{run.title(first.row)} task {number} '{kernel}' is the first task that differs from the "
            f"reference{follows}: argument '{what}' differs in {difference.count} of {difference.numel} "
            f"elements, first at {difference.first}: {difference.actual:.8g}, {by} {difference.expected:.8g}"
        ),
        path=relative(run.root, source) if source else "",
        line=at.parting.cpp_line if at else 0,
        hint=hint,
        detail=tuple(detail),
        tasks=(number,) if number >= 0 else (),
        kernel=kernel,
        related=tuple(line_of(run.root, one) for one in parted),
    )


def _golden(verdict: Verdict) -> Iterator[Finding]:
    """Host tensors that agree with the reference and not with the golden."""
    for output in verdict.outputs:
        if output.status != "mismatch":
            continue
        at = output.first[0] if output.first else None
        where = f", first at {at.index}: {at.actual}, expected {at.expected}" if at else ""
        yield Finding(
            rule="diverge/program",
            message=f"all tasks agree with their modules, but output '{output.name}' differs from the golden: "
            f"{output.mismatched} of {output.numel} elements{where}",
            hint="check what the modules compute, and which tensors the driver passes to each dispatch",
        )


def diverge_ranks(options: argparse.Namespace) -> int:
    """Compare a distributed run with its reference.

    Returns 0 if they agree, 1 if they differ, else the exit status of the run that failed.
    """
    if options.against or options.program:
        option = "AGAINST" if options.against else "PROGRAM"
        raise ArtifactError(f"{option}=", "works only for one chip program", "leave out PROGRAM=")
    with taking_long("running it twice, as compiled and by PyTorch"):
        whole: dict[str, SettingValue] = {"dump_args": 2, "dep_gen": True}
        verdict, compiled = _replayed(options, "compiled", engine_of(options), **whole)
        expected, reference = _replayed(options, "torch", engine_of(options, reference=True), **whole)
    for run in (verdict, expected):
        if run.status not in _ENDED:
            ending = run.error.message if run.error else run.status
            print(
                f"diverge: the run {'by PyTorch' if run is expected else 'as compiled'} ended: {ending}",
                file=sys.stderr,
            )
            return run.exit_status
    limits = Limits(options.rtol, options.atol)
    differing = list(departures(compiled, reference, limits))
    first = next((one for one in differing if not one.follows), differing[0] if differing else None)
    if first is not None:
        with taking_long("running it twice more, with probes in the kernels of one task"):
            parted = _partings(options, compiled, first, limits)
        findings = [_finding(compiled, first, len(differing) - 1, parted)]
    else:
        findings = list(_golden(verdict))
    return deliver("diverge", options.artifact, findings, options, options.build_dir)
