"""The first task whose output leaves the reference: `python -m pypto_build.diagnose.diverge ARTIFACT_DIR …`.

Every task runs twice on the same bytes, as compiled and as PyTorch made from its `.pto` module; what it wrote is
compared. A kernel that computes something else is run again with probes, which tell the line of the module and the
line of the kernel. Where all kernels agree with their modules and the golden does not, the module or the orchestration
is wrong: `--program` tells which. `--against` examines a recorded dump instead of a run.

Exit status: 0 nothing found, 1 something was, 2 usage, 3 build, 4 golden, 5 runtime fault, 6 hang.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from pypto_build.diagnose.console import run_tool
from pypto_build.diagnose.diverge_compare import Limits
from pypto_build.diagnose.diverge_findings import describe_run
from pypto_build.diagnose.diverge_kernel import KernelParting, locate
from pypto_build.diagnose.diverge_lockstep import Lockstep, Outcome, ReferenceInputs, Stop, TaskFinding
from pypto_build.diagnose.findings import add_output_options, deliver
from pypto_build.replay.faults import RunFault
from pypto_build.replay.reference.launch import Launch, Progress, in_child, open_launch
from pypto_build.replay.verdict import EXIT_STATUS


def parser() -> argparse.ArgumentParser:
    """The command line's options."""
    options = argparse.ArgumentParser(
        prog="python -m pypto_build.diagnose.diverge",
        description="The first task whose output leaves the PyTorch reference, and the lines that made it.",
        allow_abbrev=False,
    )
    add = options.add_argument
    add("artifact", type=Path, metavar="ARTIFACT_DIR")
    add("--platform", required=True, metavar="P")
    add("--build-dir", type=Path, required=True, metavar="OUT", help="what was built")
    add("--embedded", type=Path, required=True, metavar="PATH", help="the embedded runtime's extension module")
    add("--data", type=Path, metavar="DIR", help="another directory with in/ and out/ than the artifact's data/")
    add("--seed", type=int, default=0, metavar="N", help="seed of inputs made up without data/in (0)")
    add("--rtol", type=float, metavar="R", help="relative tolerance (what the element type's rounding explains)")
    add("--atol", type=float, metavar="A", help="absolute tolerance")
    add("--timeout", type=float, default=600.0, metavar="S", help="seconds the run may take (600)")
    add("--against", type=Path, metavar="DUMP_DIR", help="examine this dump of arguments instead of a run")
    add("--program", type=Path, metavar="P.py", help="the program, when the artifact does not name it")
    add_output_options(options)
    return options


def main(argv: Sequence[str] | None = None) -> int:
    given = parser().parse_args(argv)
    return run_tool("diverge", lambda: _diverge(given))


def _diverge(given: argparse.Namespace) -> int:
    limits = Limits(given.rtol, given.atol)
    launch = open_launch(given.artifact, given.build_dir, given.embedded, given.platform, given.data, given.seed)
    partings: dict[int, list[KernelParting]] = {}
    try:
        if given.against is not None:
            from pypto_build.diagnose.diverge_dump import examine_dump

            outcome = examine_dump(launch, given.against, limits, given.timeout)
        else:
            outcome, partings = examine_run(launch, limits, given.timeout)
    except RunFault as fault:
        print(f"diverge: {fault.error.message}{f'; {fault.error.hint}' if fault.error.hint else ''}", file=sys.stderr)
        return EXIT_STATUS[fault.status]
    findings = describe_run(launch, outcome, partings)
    if not outcome.findings and given.against is None:
        from pypto_build.diagnose.diverge_program import examine_program

        findings += examine_program(launch, given.data, given.program, limits, given.timeout)
    how = "in lockstep with the reference" if given.against is None else f"of {given.against} against the reference"
    print(f"[diverge] {outcome.tasks} tasks {how}")
    return deliver("diverge", given.artifact, findings, given, given.build_dir)


def examine_run(launch: Launch, limits: Limits, timeout_s: float) -> tuple[Outcome, dict[int, list[KernelParting]]]:
    """The findings of a lockstep run, and for each of them where its kernels part from their modules."""
    progress = Progress()

    def lockstep() -> Outcome:
        callback = Lockstep(launch.artifact, limits, progress.set)
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
    """Which inputs of a task a run by the reference alone had otherwise."""
    callback = ReferenceInputs(launch.artifact, finding, limits)
    try:
        launch.run(callback)
    except Stop:
        return finding.inputs_differed
    return None


if __name__ == "__main__":
    sys.exit(main())
