"""Runs that tools start: requests from their command lines, separate results, and messages for faults."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from pypto_build.artifact.distributed import read_chips, read_devices
from pypto_build.artifact.snapshot import REFERENCE, is_reference
from pypto_build.diagnose.console import run_tool
from pypto_build.replay import Request
from pypto_build.replay.faults import RunFault
from pypto_build.replay.verdict import EXIT_STATUS

if TYPE_CHECKING:
    from pypto_build.replay.chips.engine import ChipsEngine


def engine_of(options: argparse.Namespace, variant: str = "", reference: bool = False) -> ChipsEngine:
    """Return the engine that runs a distributed artifact, by PyTorch if `reference` is set.

    Raises `ArtifactError` for a flag without a name.
    """
    from pypto_build.replay.chips.engine import ChipsEngine

    world = int(options.world or 0)
    return ChipsEngine(
        read_chips(options.chip), world, variant, reference, devices=read_devices(options.devices or "", world)
    )


def request_of(options: argparse.Namespace, results: Path) -> Request:
    """Return the request for a run from the flags of `console.add_run_options` and `--seed`. It creates no golden.

    With `--chip`, each chip program has its own binaries, in a directory with the name of `--binaries`.
    """
    binaries: Path | None = options.binaries
    chips = getattr(options, "chip", [])
    return Request(
        artifact_dir=options.artifact,
        build_dir=options.build_dir,
        binaries=None if chips else binaries,
        engine=engine_of(options, binaries.name if binaries else "") if chips else None,
        results=results,
        embedded=options.embedded,
        platform=options.platform,
        data=options.data,
        seed=options.seed,
        timeout_s=options.timeout,
        all_goldens=False,
    )


def once_more(request: Request) -> Request:
    """Return the request for a later run, in which DATA=reference is the data that the first run created."""
    made = request.results_dir / REFERENCE
    return replace(request, data=made) if is_reference(request.data) and made.is_dir() else request


def run_tool_on_runs(name: str, tool: Callable[[], int]) -> int:
    """Run a tool that runs artifacts, as `run_tool` does. A fault of a run is printed in one line and sets the exit
    status.
    """

    def whole() -> int:
        try:
            return tool()
        except RunFault as fault:
            hint = f"; {fault.error.hint}" if fault.error.hint else ""
            print(f"{name}: {fault.error.message}{hint}", file=sys.stderr)
            return EXIT_STATUS[fault.status]

    return run_tool(name, whole)
