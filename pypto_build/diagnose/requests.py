"""The runs that tools make: what their command line names, with results of their own, and what is said of a fault."""

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
    """A run of what the flags of `console.add_run_options` name, and `--seed`. No golden is made for it.

    With `--chip`, the chip programs have their own binaries, in directories named as that of `--binaries`.
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
