"""Replays an artifact and lets a scene test's class judge it: `python -m pypto_build.replay`'s options, and the class.

python -m pypto_build.interop.scene.run ARTIFACT_DIR --judge FILE::CLASS::CASE [--by MODULE] --platform P ...

With --by, the options are those of another replay module: `pypto_build.interop.run`, `pypto_build.replay.chips`.

Exit status: as that of `python -m pypto_build.replay`.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from pypto_build.artifact import ArtifactError
from pypto_build.artifact.snapshot import DATA_DIR
from pypto_build.facts.run_options import EMBEDDED, SIMPLER
from pypto_build.interop import run as on_simpler
from pypto_build.replay import cli
from pypto_build.replay.chips import __main__ as on_chips
from pypto_build.replay.request import Request
from pypto_build.toolchain.forked import ADDRESS, ask, wait
from pypto_build.toolchain.python import own_environment, own_tool

_JUDGE = "pypto_build.interop.scene.judge"
#: The options that a class may read, by the names of upstream's flags, with the corresponding settings of the run.
_ASKED = {
    "dump_args": "dump_args",
    "enable_chip_swimlane": "swimlane",
    "enable_dep_gen": "dep_gen",
    "enable_scope_stats": "scope_stats",
}
#: The functions that read a request from a command line, by module.
_OF_A_CHIP, _ON_SIMPLER = "pypto_build.replay", "pypto_build.interop.run"
_REQUESTS = {
    _OF_A_CHIP: cli.request_from,
    _ON_SIMPLER: on_simpler.request_from,
    "pypto_build.replay.chips": on_chips.request_from,
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status."""
    words = list(sys.argv[1:] if argv is None else argv)
    address = os.environ.pop(ADDRESS, "")  # no business of kernels
    signal.signal(signal.SIGTERM, cli.terminate)
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--judge", required=True)
    parser.add_argument("--by", choices=tuple(_REQUESTS), default=_OF_A_CHIP)
    own, others = parser.parse_known_args(words)
    try:
        request = _REQUESTS[own.by](others)
    except ArtifactError as error:
        return cli.usage_error(words, error, SIMPLER if own.by == _ON_SIMPLER else EMBEDDED)
    return cli.run(dataclasses.replace(request, judge=_Judge(own.judge, request, address)))


class _Judge:
    """Asks the class in a process of its own: a fork of the server at ``address``, if there is one."""

    def __init__(self, case: str, request: Request, address: str) -> None:
        self._case, self._request, self._address = case, request, address

    def __call__(self) -> str:
        request = self._request
        options = {"platform": request.platform, "rounds": request.rounds}
        options |= {asked_name: request.options[name] for asked_name, name in _ASKED.items() if name in request.options}
        with tempfile.TemporaryDirectory() as directory:
            answer = Path(directory, "answer")
            data = request.data or request.artifact_dir / DATA_DIR
            words = [self._case, "--data", str(data), "--results", str(request.results_dir)]
            words += ["--answer", str(answer), "--options", json.dumps(options)]
            sys.stdout.flush()
            status = self._run(words)
            try:
                return answer.read_text(encoding="utf-8")
            except OSError:
                return f"the process of {self._case} ended with status {status} before it had judged"

    def _run(self, words: Sequence[str]) -> int:
        environment = own_environment()
        try:
            return wait(ask(self._address, [_JUDGE, *words], environment, sys.stdout.fileno()))
        except OSError:
            command = [*own_tool(_JUDGE), *words]
            return subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
