"""The work of `diverge`: compare a lockstep run or a recorded dump, then search for the cause of a difference."""

from __future__ import annotations

import argparse

from pypto_build.artifact.compiled_files import program_of
from pypto_build.diagnose.diverge.compare import Limits
from pypto_build.diagnose.diverge.findings import describe_run
from pypto_build.diagnose.diverge.kernel import KernelParting, locate
from pypto_build.diagnose.diverge.lockstep import Lockstep, Outcome, ReferenceInputs, Stop, TaskFinding
from pypto_build.diagnose.findings import deliver
from pypto_build.pto.torch.followed import line_on
from pypto_build.replay.reference.launch import Launch, Progress, in_child, open_launch


def diverge(given: argparse.Namespace) -> int:
    """Do what the options ask for, and return the exit status."""
    limits = Limits(given.rtol, given.atol)
    built = (given.artifact, given.build_dir, given.embedded, given.platform)
    launch = open_launch(*built, given.data, given.seed, given.binaries, given.numerics)
    partings: dict[int, list[KernelParting]] = {}
    if given.against is not None:
        from pypto_build.diagnose.diverge.recorded import examine_dump

        outcome = examine_dump(launch, given.against, limits, given.timeout)
    else:
        outcome, partings = examine_run(launch, limits, given.timeout)
    findings = describe_run(launch, outcome, partings)
    if not outcome.findings and given.against is None:
        from pypto_build.diagnose.diverge.golden import golden_findings
        from pypto_build.diagnose.diverge.program import check_program

        program = given.program or program_of(launch.artifact)
        findings += check_program(launch, program, limits, given.timeout) if program else []
        if not any(finding.level == "error" for finding in findings):
            findings += golden_findings(launch, given.data, limits, given.timeout, program)
    how = "in lockstep with the reference" if given.against is None else f"of {given.against} against the reference"
    print(f"[diverge] {outcome.tasks} tasks {how}")
    if line := line_on(launch.numerics, launch.artifact):
        print(f"[diverge] {line}")
    return deliver("diverge", given.artifact, findings, given, given.build_dir)


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
