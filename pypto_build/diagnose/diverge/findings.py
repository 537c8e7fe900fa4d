"""Findings of a lockstep run as text: the task, the kernel, the element, the lines, and the likely cause."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from pypto_build.artifact import load_artifact
from pypto_build.artifact.files import read_source
from pypto_build.diagnose.diverge.lockstep import Difference, Outcome, TaskFinding
from pypto_build.diagnose.diverge.probe import KernelParting
from pypto_build.diagnose.findings import Finding, Related
from pypto_build.replay.reference.entry import read_entry
from pypto_build.replay.reference.launch import Launch

KERNEL, MODULE, ORCHESTRATION = "diverge/kernel", "diverge/module", "diverge/orchestration"
#: An edit after which the golden and the outputs agree. It is evidence, not proof.
TRIAL = "diverge/trial"


def describe_run(launch: Launch, outcome: Outcome, partings: Mapping[int, Sequence[KernelParting]]) -> list[Finding]:
    """Return a finding for each kernel that differs from its module, and a note for each kernel without a module."""
    sources = {kernel.func_id: kernel.source for kernel in load_artifact(launch.artifact).kernels}
    findings = [
        _kernel_finding(launch.artifact, finding, partings.get(number, ()), sources)
        for number, finding in enumerate(outcome.findings)
    ]
    text = "no .pto module defines it, so it was not compared"
    return findings + [
        Finding("diverge/unchecked", f"{name}: {text}", level="note", kernel=name) for name in sorted(outcome.unchecked)
    ]


def _kernel_finding(
    artifact: Path, finding: TaskFinding, partings: Sequence[KernelParting], sources: Mapping[int, Path]
) -> Finding:
    first = partings[0] if partings else None
    source = first.source if first is not None else sources.get(finding.kernels[0][1], artifact)
    detail = _element_lines(finding, sources) + _input_lines(finding, sources)
    for parting in partings:
        where = parting.parting
        lane = f" (vector core {parting.lane})" if parting.lane else ""
        detail.append(
            f"{parting.kernel}{lane}: {where.instruction or 'the kernel'}: {where.what}{_values(where.difference)}"
        )
    message = f"task {finding.task} {finding.kernel}{_block(finding)} computes something else than its module"
    if finding.fault:
        what = f"the kernel's .pto module fails here, but the kernel does not: {finding.fault}"
        message = f"task {finding.task} {finding.kernel}{_block(finding)}: {what}"
    return Finding(
        KERNEL,
        message,
        relative(artifact, source),
        first.parting.cpp_line if first is not None else 0,
        hint_of(first),
        detail=tuple(detail),
        tasks=(finding.task,),
        kernel=first.kernel if first is not None else finding.kernel,
        related=tuple(line_of(artifact, parting) for parting in partings),
    )


def line_of(artifact: Path, parting: KernelParting) -> Related:
    """Return the line of the module where its kernel first differs from it."""
    where = parting.parting
    return Related(relative(artifact, parting.module), where.pto_line, where.operation or "the module ends")


def hint_of(first: KernelParting | None) -> str:
    """Return the hint for a kernel that differs from its module. It names the module's line if there is one."""
    if first is None:
        return "the kernel's body differs from its .pto module: compare them, or splice the module again"
    line = f"{first.module.name}:{first.parting.pto_line}"
    return f"the kernel's body is wrong, not the module: compare this line with {line}, or splice the module again"


def _block(finding: TaskFinding) -> str:
    return f" (block {finding.block} of {finding.blocks})" if finding.blocks > 1 and finding.block is not None else ""


def argument_names(finding: TaskFinding, sources: Mapping[int, Path]) -> dict[int, str]:
    """Return the names of a task's arguments by number, as the entry of its kernel declares them."""
    names: dict[int, str] = {}
    for _, func_id, name in finding.kernels:
        source = sources.get(func_id)
        if source is None or not source.is_file():
            continue
        read = read_entry(read_source(source), [name])
        for passed in read[1] if read is not None else ():
            names.setdefault(passed.slot, passed.name) if passed.kind == "tensor" else None
    return names


def _element_lines(finding: TaskFinding, sources: Mapping[int, Path]) -> list[str]:
    if finding.element is None or finding.difference is None:
        return []
    element = finding.element
    name = argument_names(finding, sources).get(element.argument, "")
    return element_text(
        element.argument, name, finding.shape, finding.dtype, element.index, finding.difference, element.offset
    )


def element_text(
    number: int,
    name: str,
    shape: Sequence[int],
    dtype: str,
    index: Sequence[int],
    difference: Difference,
    offset: int = 0,
    sides: tuple[str, str] = ("kernel", "reference"),
) -> list[str]:
    """Return three lines: the argument with its first element that differs, and the values of both sides there."""
    width = len("reference")
    what = f"argument {number}{f' ({name})' if name else ''} {list(shape)} {dtype}"
    where = f"first at {tuple(index)}" if index else f"outside of its window, at element {offset} of its buffer"
    return [
        f"{what}: {difference.count} of {difference.numel} elements differ, {where}, "
        f"at most by {difference.max_abs:.6g}",
        f"{sides[0]:{width}} {_row(difference.near_actual)}    from element {difference.around} on",
        f"{sides[1]:{width}} {_row(difference.near_expected)}",
    ]


def _row(values: Sequence[float]) -> str:
    return "  ".join(f"{value:>12.6g}" for value in values)


def _input_lines(finding: TaskFinding, sources: Mapping[int, Path]) -> list[str]:
    if finding.inputs_differed is None:
        return []
    if not finding.inputs_differed:
        return ["inputs of the task: as in a run by the reference alone"]
    names = argument_names(finding, sources)
    listed = ", ".join(
        f"{number}{f' ({names[number]})' if number in names else ''}" for number in finding.inputs_differed
    )
    return [f"inputs of the task: argument {listed} differed already from a run by the reference alone"]


def _values(difference: Difference | None) -> str:
    if difference is None:
        return ""
    share = f", {difference.count} of {difference.numel} elements" if difference.numel > 1 else ""
    return f": {difference.actual:.6g}, the module {difference.expected:.6g}{share}"


def relative(artifact: Path, path: Path) -> str:
    """Return a path relative to the artifact, or the full path if it lies outside."""
    root, full = artifact.resolve(), path.resolve()
    return str(full.relative_to(root)) if full.is_relative_to(root) else str(full)
