"""The runs that tools make: what their command line names, with results of their own, and what is said of a fault."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from pypto_build.artifact.snapshot import REFERENCE, is_reference
from pypto_build.diagnose.console import run_tool
from pypto_build.replay import Request
from pypto_build.replay.faults import RunFault
from pypto_build.replay.verdict import EXIT_STATUS


def request_of(given: argparse.Namespace, results: Path) -> Request:
    """A run of what the flags of `console.add_run_options` name, and `--seed`. No golden is made for it."""
    return Request(
        artifact_dir=given.artifact,
        build_dir=given.build_dir,
        binaries=given.binaries,
        results=results,
        embedded=given.embedded,
        platform=given.platform,
        data=given.data,
        seed=given.seed,
        timeout_s=given.timeout,
        all_goldens=False,
    )


def once_more(request: Request) -> Request:
    """The request of a run that follows: DATA=reference is what the first one has made."""
    made = request.results_dir / REFERENCE
    return replace(request, data=made) if is_reference(request.data) and made.is_dir() else request


def run_tool_on_runs(name: str, tool: Callable[[], int]) -> int:
    """`run_tool` for one that runs what was built: a fault of a run is a line too, and its status the tool's."""

    def whole() -> int:
        try:
            return tool()
        except RunFault as fault:
            hint = f"; {fault.error.hint}" if fault.error.hint else ""
            print(f"{name}: {fault.error.message}{hint}", file=sys.stderr)
            return EXIT_STATUS[fault.status]

    return run_tool(name, whole)
