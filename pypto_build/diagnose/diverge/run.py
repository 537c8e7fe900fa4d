"""The work of `diverge`: compare a lockstep run or a recorded dump, then search for the cause of a difference."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pypto_build.artifact.compiled_files import program_of
from pypto_build.artifact.errors import ArtifactError
from pypto_build.diagnose.diverge.findings import describe_run
from pypto_build.diagnose.diverge.lockstep import (
    Element,
    Limits,
    Lockstep,
    Outcome,
    ReferenceInputs,
    Stop,
    TaskFinding,
    describe,
    mask_of,
    window,
)
from pypto_build.diagnose.diverge.probe import KernelParting, locate
from pypto_build.diagnose.findings import deliver
from pypto_build.diagnose.recorded.args_dump import ArgsDump, DumpedArg, find_manifest, read_dump
from pypto_build.facts.tasks import Slot, TensorView, slots_of
from pypto_build.pto.torch.followed import line_on
from pypto_build.replay.compare import coordinates
from pypto_build.replay.reference.hook import References
from pypto_build.replay.reference.launch import Launch, Progress, in_child, open_launch
from pypto_build.replay.reference.tasks import run_blocks
from pypto_build.replay.values import STORAGE, Array

# Comparison of a recorded run with the reference, which computes each task of a dump again from its inputs.
# The artifact also runs here, which gives the kernels, blocks and inputs of each task. The reference runs on the
# bytes of the dump, so a run on hardware can be examined on any machine.


def examine_dump(launch: Launch, directory: Path, limits: Limits, timeout_s: float) -> Outcome:
    """Return the tasks of a dump whose outputs differ from their modules'. Raises a usage error without a dump."""
    manifest = find_manifest(directory)
    if manifest is None:
        raise ArtifactError(f"AGAINST={directory}", "contains no dump of arguments", "record one with DUMP=2")
    dump, progress = read_dump(manifest), Progress()

    def work() -> Outcome:
        callback = _DumpHook(launch.artifact, dump, limits, progress.set)
        launch.run(callback)
        if not callback.matched:
            raise ArtifactError(
                manifest,
                "contains no task of this artifact's run",
                "name a dump of the same artifact with the same data",
            )
        return callback.outcome

    return in_child(work, progress, timeout_s)


class _DumpHook:
    def __init__(self, artifact: Path, dump: ArgsDump, limits: Limits, started: Callable[[int], None]) -> None:
        self.references, self.dump, self.limits, self.started = References(artifact), dump, limits, started
        self.records: dict[int, list[DumpedArg]] = {}
        for record in dump.records:
            self.records.setdefault(record.task_id, []).append(record)
        self.outcome, self.matched = Outcome(), 0
        self.keep: list[Array] = []

    def __call__(self, call: Any) -> None:
        self.started(call.number)
        records = self.records.get(call.task_id, [])
        if records and not call.block:
            self.matched += 1
            self.outcome.tasks += 1
            self._examine(call, records)
        call.run()

    def _examine(self, call: Any, records: Sequence[DumpedArg]) -> None:
        finding = TaskFinding(call.number, None, 1, tuple(tuple(k) for k in call.kernels))
        members = self.references.members(call)
        if members is None:
            self.outcome.unchecked.add(finding.kernel)
            return
        local = slots_of(call)
        before = {r.index: r for r in records if r.stage == "before" and r.kind == "tensor"}
        after = {r.index: r for r in records if r.stage == "after" and r.kind == "tensor"}
        runs = [self._slots(local, before, after, fill) for fill in (0, 0xFF)]
        try:
            for slots in runs:
                run_blocks(members, slots, call.block_num)
        except (RuntimeError, IndexError, ValueError) as error:
            finding.fault = str(error)
            self.outcome.findings.append(finding)
            return
        for index, record in sorted(after.items()):
            if self._differs(finding, index, record, [slots[index] for slots in runs]):
                finding.inputs_differed = self._inputs(local, before)
                self.outcome.findings.append(finding)
                return

    def _slots(
        self, local: Sequence[Slot], before: dict[int, DumpedArg], after: dict[int, DumpedArg], fill: int
    ) -> list[Slot]:
        """Return the task's arguments with the dump's content. Arguments without content get the byte ``fill``."""
        slots: list[Slot] = []
        for index, slot in enumerate(local):
            record = before.get(index) or after.get(index)
            if not isinstance(slot, TensorView) or record is None:
                slots.append(slot)
                continue
            strides = record.strides or slot.strides
            item = np.dtype(STORAGE[record.dtype])
            extent = sum((n - 1) * s for n, s in zip(record.shape, strides, strict=True)) + 1
            buffer = np.full(max(extent * item.itemsize, item.itemsize), fill, dtype=np.uint8)
            self.keep.append(buffer)
            shape, strides = tuple(record.shape), tuple(strides)
            tensor = TensorView(buffer.ctypes.data, buffer.nbytes, 0, record.dtype, shape, strides)
            if index in before:
                window(tensor)[...] = self.dump.stored(before[index])
            slots.append(tensor)
        return slots

    def _differs(self, finding: TaskFinding, index: int, record: DumpedArg, slots: Sequence[Slot]) -> bool:
        recorded = np.ascontiguousarray(self.dump.stored(record))
        one, other = (np.ascontiguousarray(window(slot)) for slot in slots if isinstance(slot, TensorView))
        mask = mask_of(recorded, one, record.dtype, self.limits)
        mask &= ~(one.view(np.uint8).reshape(*one.shape, -1) != other.view(np.uint8).reshape(*one.shape, -1)).any(-1)
        if not mask.any():
            return False
        finding.difference = describe(recorded, one, record.dtype, mask)
        at = coordinates(finding.difference.first, record.shape)
        finding.element, finding.dtype, finding.shape = Element(index, at, 0), record.dtype, tuple(record.shape)
        return True

    def _inputs(self, local: Sequence[Slot], before: dict[int, DumpedArg]) -> list[int]:
        """Return the indices of recorded inputs that differ from the task's inputs in the run here."""
        differing = []
        for index, record in sorted(before.items()):
            slot = local[index]
            if not isinstance(slot, TensorView) or record.role == "output":
                continue
            recorded, here = np.ascontiguousarray(self.dump.stored(record)), np.ascontiguousarray(window(slot))
            if mask_of(recorded, here, record.dtype, self.limits).any():
                differing.append(index)
        return differing


def diverge(options: argparse.Namespace) -> int:
    """Run the command that the options name, and return its exit status."""
    limits = Limits(options.rtol, options.atol)
    built = (options.artifact, options.build_dir, options.embedded, options.platform)
    launch = open_launch(*built, options.data, options.seed, options.binaries, options.numerics)
    partings: dict[int, list[KernelParting]] = {}
    if options.against is not None:
        outcome = examine_dump(launch, options.against, limits, options.timeout)
    else:
        outcome, partings = examine_run(launch, limits, options.timeout)
    findings = describe_run(launch, outcome, partings)
    if not outcome.findings and options.against is None:
        from pypto_build.diagnose.diverge.golden import golden_findings
        from pypto_build.diagnose.diverge.program import check_program

        program = options.program or program_of(launch.artifact)
        findings += check_program(launch, program, limits, options.timeout) if program else []
        if not any(finding.level == "error" for finding in findings):
            findings += golden_findings(launch, options.data, limits, options.timeout, program)
    how = "in lockstep with the reference" if options.against is None else f"of {options.against} against the reference"
    print(f"[diverge] {outcome.tasks} tasks {how}")
    if line := line_on(launch.numerics, launch.artifact):
        print(f"[diverge] {line}")
    return deliver("diverge", options.artifact, findings, options, options.build_dir)


def examine_run(launch: Launch, limits: Limits, timeout_s: float) -> tuple[Outcome, dict[int, list[KernelParting]]]:
    """Return the outcome of a lockstep run, and for each finding the point where kernel and module differ."""
    progress = Progress()

    def lockstep() -> Outcome:
        callback = Lockstep(launch.artifact, limits, progress.set, launch.numerics)
        launch.run(callback)
        return callback.outcome

    outcome = in_child(lockstep, progress, timeout_s)
    partings: dict[int, list[KernelParting]] = {}
    for number, finding in enumerate(outcome.findings):
        if number == 0:
            finding.inputs_differed = in_child(
                lambda: _inputs(launch, outcome.findings[0], limits), progress, timeout_s
            )
        partings[number] = in_child(lambda f=finding: locate(launch, f, limits), progress, timeout_s)  # type: ignore[misc]
    return outcome, partings


def _inputs(launch: Launch, finding: TaskFinding, limits: Limits) -> list[int] | None:
    """Return the inputs of a task that differ from a run by the reference alone."""
    callback = ReferenceInputs(launch.artifact, finding, limits, launch.numerics)
    try:
        launch.run(callback)
    except Stop:
        return finding.inputs_differed
    return None
