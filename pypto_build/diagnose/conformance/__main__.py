"""`pypto-build conformance DIR [--run]` or `--read PATH`: find which of the known answers a device gives.

DIR gets small artifacts whose outputs tell apart what docs/lookup/agreement.md has as answers. With --run they are
replayed on the platform of -p, what came out is read, and DIR/results.json is the file to send. Without it, run them
by hand:
`pypto-build replay 'DIR/_jit_*'`, or, where only simpler is, `python kernel_config_scene_test.py -p a2a3` in each.
Then `--read DIR` reads the outputs, and `--read results.json` reads a file of results.

Exit status: 0 every output is one of the answers, 1 some are neither or were not run, 2 usage.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from pypto_build.artifact import ArtifactError
from pypto_build.artifact.files import write_bytes
from pypto_build.diagnose.console import run_tool
from pypto_build.facts.platforms import PLATFORMS
from pypto_build.toolchain.python import own_environment, own_tool

if TYPE_CHECKING:
    from .results import Results

RESULTS = "results.json"
# Exit statuses of a replay that ran nothing: wrong usage, and a failed build.
_NOTHING_RAN = (2, 3)


class _Parser(argparse.ArgumentParser):
    """A parser that reports a usage error in one line."""

    def error(self, message: str) -> NoReturn:
        print(f"conformance: {message}; see pypto-build conformance --help", file=sys.stderr)
        raise SystemExit(2)


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    options = _Parser(prog="pypto-build conformance", description=(__doc__ or "").split("\n\n")[1], allow_abbrev=False)
    add = options.add_argument
    add("directory", nargs="?", type=Path, metavar="DIR", help="where the kit is written")
    add("-p", "--platform", choices=tuple(PLATFORMS), help="what it is for, and with --run what it runs on (a2a3)")
    add("--run", action="store_true", help="replay it, and read what came out")
    add("--read", type=Path, metavar="PATH", help="results that were sent, or a directory with what runs left")
    add("--json", type=Path, metavar="FILE", help="also write the results here, to send them")
    add("options", nargs="*", metavar="NAME=value", help="options of the replays of --run")
    return options


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status."""
    flags = parser()
    options, rest = flags.parse_known_args(argv)
    options.options += rest
    if wrong := [word for word in options.options if word.startswith("-") or "=" not in word]:
        flags.error(f"{wrong[0]}: {'no such flag' if wrong[0].startswith('-') else 'is no NAME=value'}")
    return run_tool("conformance", lambda: _read(options) if options.read else _write(options))


def _read(options: argparse.Namespace) -> int:
    from .results import collect, read_results

    if options.directory or options.run:
        raise ArtifactError(
            "",
            "--read only reads results, so it takes neither DIR nor --run",
            "leave out DIR and --run, or leave out --read",
        )
    results = collect(options.read, options.platform or "") if options.read.is_dir() else read_results(options.read)
    return _tell(results, options.json, options.read)


def _write(options: argparse.Namespace) -> int:
    from .results import collect, write_kit

    if options.directory is None:
        raise ArtifactError("", "DIR is missing", "name a directory to write the kit to, or read results with --read")
    platform = options.platform or "a2a3"
    written = write_kit(options.directory, platform)
    print(f"[conformance] wrote {len(written)} artifacts to {options.directory}")
    if not options.run:
        return 0
    builds = options.directory / "build"
    words = [*own_tool("pypto_build.cli"), "replay", f"{options.directory}/_jit_conformance_*"]
    words += ["-p", platform, f"BUILD_DIR={builds}", *options.options]
    for shown in builds.glob("*/_jit_conformance_*/actual"):  # an old link would show an earlier run's outputs
        if shown.is_symlink():
            shown.unlink()
    run = subprocess.run(words, env=own_environment(os.environ), stdout=subprocess.PIPE, text=True, check=False)
    if run.returncode not in (0, 1):  # 1 means that outputs differ, which is a result here
        print(run.stdout, end="")
        if run.returncode in _NOTHING_RAN:
            return run.returncode
    return _tell(collect(builds), options.json or options.directory / RESULTS, builds)


def _tell(results: Results, path: Path | None, source: Path) -> int:
    from .results import judge, lines_of, write_results

    judgements = judge(results, source)
    print(*lines_of(results, judgements), sep="\n")
    if path is not None:
        try:
            write_bytes(path, write_results(results))
        except OSError as error:
            raise ArtifactError(path, f"cannot be written: {error.strerror}", "name another file") from None
        print(f"[conformance] send this file: {path}")
    if results.platform.startswith(("a2a3sim", "a5sim")):
        print("[conformance] the kit ran on a CPU, so these results say nothing about a device")
    return 0 if all(judgement.fits for judgement in judgements) else 1


if __name__ == "__main__":
    sys.exit(main())
