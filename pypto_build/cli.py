"""``pypto-build VERB PATH [flags]``: what ``scons VERB JIT=PATH NAME=value`` does, in any directory.

The flags are the ones that PyPTO's and simpler's runners take, under their old and their new names. The exit status
says what happened: 0 pass or unchecked, 1 mismatch, 2 usage, 3 build, 4 golden, 5 runtime fault, 6 hang.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from pypto_build import __version__
from pypto_build.artifact import ArtifactError, artifact_name, resolve_jit
from pypto_build.replay.verdict import read_verdict

_SCONSTRUCT = Path(__file__).resolve().parent / "rules" / "SConstruct"

VERBS = {
    "build": "compile and link an artifact",
    "replay": "build what changed, run, compare with the golden, report",
}

# Flag names, the option they set, and what they mean.
_FLAGS: tuple[tuple[tuple[str, ...], str, str], ...] = (
    (("-p", "--platform"), "PLATFORM", "a2a3sim, a5sim, a2a3 or a5"),
    (("--golden-data", "--data"), "DATA", "a directory with in/ and out/ instead of the artifact's data/"),
    (("--rtol",), "RTOL", "relative tolerance"),
    (("--atol",), "ATOL", "absolute tolerance"),
    (("--seed",), "SEED", "seed of made-up inputs"),
    (("--rounds",), "ROUNDS", "how often to run"),
    (("--timeout",), "TIMEOUT", "seconds a run may take"),
    (("--runtime",), "RUNTIME", "what executes the replay"),
    (("--build-dir",), "BUILD_DIR", "where everything built goes"),
    (("--build-output",), "BUILD_OUTPUT", "where artifacts are looked for"),
    (("--cxx",), "CXX", "the C++ compiler"),
    (("--arch",), "ARCH", "-march of the kernels"),
    (("--launcher",), "LAUNCHER", "ccache, sccache, distcc or icecc"),
)
_SWITCHES = (
    (("-f", "--force"), "FORCE", "replay though nothing changed"),
    (("-v", "--verbose"), "VERBOSE", "full commands"),
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one verb; returns the exit status."""
    arguments = _parser().parse_args(argv)
    if (arguments.path is None) == (arguments.runtime_dir is None):
        print("pypto-build: name one artifact, as PATH or with --runtime-dir", file=sys.stderr)
        return 2
    jit = arguments.path or arguments.runtime_dir
    options = {name: getattr(arguments, name) for _, name, _ in (*_FLAGS, *_SWITCHES)}
    words = [
        f"{name}={int(value) if value is True else value}"
        for name, value in options.items()
        if value not in (None, False)
    ]
    jobs = [f"-j{arguments.jobs}"] if arguments.jobs else []
    command = [sys.executable, "-m", "SCons", "-Q", "-f", str(_SCONSTRUCT), *jobs, arguments.verb, f"JIT={jit}", *words]
    sys.stdout.flush()
    status = subprocess.run(command, check=False).returncode
    return _exit_status(arguments.verb, status, jit, options)


def _exit_status(verb: str, status: int, jit: str, options: dict[str, str | None]) -> int:
    """SCons fails with 2 whatever happened; the verdict knows."""
    if status == 0:
        return 0
    build_output = options["BUILD_OUTPUT"] or os.environ.get("PYPTO_PROG_BUILD_DIR") or "build_output"
    try:
        root = resolve_jit(jit, build_output, Path("examples", "artifacts"))
        output = Path(options["BUILD_DIR"] or "build", options["PLATFORM"] or "a2a3sim", artifact_name(root))
        return read_verdict(output / "verdict.json").exit_status or status
    except (ArtifactError, OSError, ValueError):
        return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="pypto-build", description=__doc__.split("\n\n")[0], allow_abbrev=False)
    parser.add_argument("--version", action="version", version=f"pypto-build {__version__}")
    parser.add_argument("verb", choices=VERBS, help="; ".join(f"{verb}: {doc}" for verb, doc in VERBS.items()))
    parser.add_argument("path", nargs="?", help="the artifact: a directory, a name, a glob or 'latest'")
    parser.add_argument("--runtime-dir", help="the artifact, by the name of upstream's flag")
    parser.add_argument("-j", dest="jobs", type=int, help="compilations at a time (default: this machine's processors)")
    for names, option, doc in _FLAGS:
        parser.add_argument(*names, dest=option, metavar="VALUE", help=f"{doc} ({option}=)")
    for names, option, doc in _SWITCHES:
        parser.add_argument(*names, dest=option, action="store_true", help=f"{doc} ({option}=1)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
