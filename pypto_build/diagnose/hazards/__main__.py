"""`scons hazards`: replays the checked build and reports accesses that are unordered, misdeclared or out of bounds.

python -m pypto_build.diagnose.hazards ARTIFACT_DIR --platform P --build-dir OUT --embedded PATH [--binaries DIR]
"""

from __future__ import annotations

import argparse
import gc
import os
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from pypto_build.artifact import ArtifactError, load_artifact
from pypto_build.diagnose.console import add_chips, add_options_of, add_run_options, command, taking_long, tool_parser
from pypto_build.diagnose.findings import Finding, Level, deliver
from pypto_build.diagnose.requests import request_of
from pypto_build.replay import replay
from pypto_build.replay.verdict import Verdict

# Kinds of values that can end a checked run.

TRAPS = ("nan", "inf", "saturate", "denormal")


def traps(text: str) -> tuple[str, ...]:
    """Parse the kinds of TRAP=, separated by commas. Raises a usage error for an unknown kind."""
    kinds = tuple(filter(None, (kind.strip() for kind in text.split(","))))
    for kind in kinds:
        if kind not in TRAPS:
            raise ArtifactError(f"TRAP={text}", f"there is no trap named '{kind}'", f"use one of {', '.join(TRAPS)}")
    return kinds


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    options = tool_parser("hazards", __doc__)
    add_run_options(options)
    add_options_of(options, "hazards")
    add_chips(options)
    return options


def checked_replay(options: argparse.Namespace, meanwhile: Callable[[], object]) -> tuple[Verdict, Path]:
    """Replay the checked binaries and record all accesses. Returns the verdict and the directory of the record.

    `meanwhile` is called while the replay runs.
    """
    binaries = options.binaries = options.binaries or options.build_dir / ("weak" if options.memory_model else "check")
    (binaries / "dfx_outputs" / "accesses.json").unlink(missing_ok=True)  # a run that hangs would leave an old record
    request = replace(
        request_of(options, binaries),
        options={"accesses": True, "trap": list(traps(options.trap)), "memory": options.memory_model},
        meanwhile=meanwhile,
    )
    return replay(request, write=None), binaries / "dfx_outputs"


def _wrong(verdict: Verdict) -> Level | None:
    """Return the level of findings on loads of unwritten memory, or None if the outputs are right.

    Unwritten memory is filled with NaN. If NaN appear in wrong outputs, such loads are errors, otherwise notes.
    """
    mismatches = [output for output in verdict.outputs if output.status == "mismatch"]
    shows = any(output.tainted or any(one.actual == "nan" for one in output.first) for output in mismatches)
    return "error" if shows else "note" if mismatches else None


@command("hazards", parser)
def main(options: argparse.Namespace) -> int:
    """Return 0 for no finding, 1 for findings, or the exit status of a replay that failed."""
    declared: list[Finding] = []

    def meanwhile() -> None:
        """Import numpy and the analysis, a third of the total time, and find what needs no record."""
        if options.chip:
            return
        from pypto_build.diagnose.hazards.analysis import declared_findings

        declared.extend(declared_findings(load_artifact(options.artifact)))

    with taking_long("replaying the checked build"):
        verdict, directory = checked_replay(options, meanwhile)
    if options.chip:
        from pypto_build.diagnose.hazards.ranks import examine_ranks

        return examine_ranks(options, verdict, directory)
    if verdict.status in ("usage_error", "build_error", "golden_error") and verdict.error:
        print(f"hazards: {verdict.error.message}; {verdict.error.hint}", file=sys.stderr)
        return verdict.exit_status
    from pypto_build.diagnose.hazards.analysis import analyse, has_errors
    from pypto_build.diagnose.hazards.faults import fault_finding
    from pypto_build.diagnose.hazards.record import read_record

    artifact = load_artifact(options.artifact)
    findings: list[Finding] = []
    complete = False
    if (directory / "accesses.json").is_file():
        record = read_record(directory)
        complete = record.document.complete
        wrong = _wrong(verdict)
        with taking_long(f"comparing the accesses of {len(record.tasks):,} tasks"):
            right = {output.name for output in verdict.outputs if output.status == "pass"}
            arch = options.platform.removesuffix("sim")
            findings = analyse(artifact, record, declared, wrong=wrong, right=right, arch=arch)
    if verdict.error and not has_errors(findings):
        ended = fault_finding(artifact, verdict)
        status = deliver(
            "hazards", options.artifact, [*findings, *([ended] if ended else [])], options, options.build_dir
        )
        return status if complete else verdict.exit_status
    return deliver("hazards", options.artifact, findings, options, options.build_dir)


if __name__ == "__main__":
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # numpy's library starts unused threads on import
    gc.disable()  # a record has many objects and no cycles: collection takes a third of the analysis and frees nothing
    sys.exit(main())
