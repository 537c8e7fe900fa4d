"""A replay of a distributed artifact: `python -m pypto_build.replay`'s options, and its chip programs.

python -m pypto_build.replay.chips ARTIFACT_DIR --platform P --build-dir OUT --embedded PATH --chip NAME=DIR ...
"""

from __future__ import annotations

import argparse
import dataclasses
import signal
import sys
from collections.abc import Sequence

from pypto_build.artifact.distributed import read_chips, read_devices
from pypto_build.artifact.errors import ArtifactError
from pypto_build.artifact.snapshot import is_reference
from pypto_build.facts.run_options import EMBEDDED, TORCH
from pypto_build.replay import cli
from pypto_build.replay.chips.engine import ChipsEngine
from pypto_build.replay.request import Request
from pypto_build.trace import note_start
from pypto_build.turn import await_turn


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit status."""
    words = list(sys.argv[1:] if argv is None else argv)
    signal.signal(signal.SIGTERM, cli.terminate)
    note_start("start Python and the replay")
    if not await_turn():
        return cli.INTERRUPTED
    try:
        return cli.run(request_from(words))
    except ArtifactError as error:
        return cli.usage_error(words, error)


def request_from(words: Sequence[str]) -> Request:
    """Return the request of a command line. Raises `ArtifactError` for an invalid one."""
    own, others = _parser().parse_known_args(words)
    request = cli.request_from(others)
    if request.runtime not in (EMBEDDED, TORCH):
        raise ArtifactError(
            f"RUNTIME={request.runtime}",
            "is not executed by this command but by pypto_build.interop.run",
            "use RUNTIME=embedded or torch",
        )
    if is_reference(request.data):
        raise ArtifactError(
            "DATA=reference",
            "works only for programs on one chip",
            "use RUNTIME=torch, which computes the outputs in PyTorch",
        )
    variant = request.binaries.name if request.binaries else ""
    devices = read_devices(request.devices, request.world)
    engine = ChipsEngine(read_chips(own.chip), request.world, variant, request.runtime == TORCH, devices=devices)
    return dataclasses.replace(request, engine=engine)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m pypto_build.replay.chips", allow_abbrev=False, add_help=False)
    parser.add_argument("--chip", action="append", default=[], metavar="NAME=DIR", help="where a program was built")
    return parser


if __name__ == "__main__":
    sys.exit(main())
