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
    (("--log-level",), "LOG_LEVEL", "debug, info, timing, warn, error or null"),
    (("--build-dir",), "BUILD_DIR", "where everything built goes"),
    (("--build-output",), "BUILD_OUTPUT", "where artifacts are looked for"),
    (("--cxx",), "CXX", "the C++ compiler"),
    (("--arch",), "ARCH", "-march of the kernels"),
    (("--launcher",), "LAUNCHER", "ccache, sccache, distcc or icecc"),
)
# Flags that take an optional level, and the level a bare flag means.
_LEVELS: tuple[tuple[tuple[str, ...], str, int, str], ...] = (
    (("--dump-args", "--dump-tensor", "--enable-dump-args", "--enable-dump-tensor"), "DUMP", 1, "dump arguments"),
    (
        ("--enable-chip-swimlane", "--enable-l2-swimlane", "--swimlane", "--swimlane-level", "--enable-profiling"),
        "SWIMLANE",
        4,
        "write the timeline",
    ),
)
_SWITCHES: tuple[tuple[tuple[str, ...], str, str], ...] = (
    (("-f", "--force"), "FORCE", "replay though nothing changed"),
    (("-v", "--verbose"), "VERBOSE", "full commands"),
    (("--enable-dep-gen", "--dep-gen"), "DEP_GEN", "write the task graph"),
    (("--enable-scope-stats", "--scope-stats"), "SCOPE_STATS", "write the fill of the rings"),
    (("--strict",), "STRICT", "also order readers before writers and overlapping outputs"),
    (("--zero-fill",), "ZERO_FILL", "outputs start as zeros, not as NaN"),
    (("--shuffle",), "SHUFFLE", "run ready tasks in a random legal order"),
    (("--serial",), "SERIAL", "run tasks in submission order"),
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one verb; returns the exit status."""
    given = parser().parse_args(argv)
    if (given.path is None) == (given.runtime_dir is None):
        print("pypto-build: name one artifact, as PATH or with --runtime-dir", file=sys.stderr)
        return 2
    if given.device is not None and (given.PLATFORM or "a2a3sim").endswith("sim"):
        no_effect = f"--device {given.device} has no effect: a simulated platform has no devices"
        print(f"pypto-build: {no_effect}", file=sys.stderr)
    sys.stdout.flush()
    status = subprocess.run(scons_command(given), check=False).returncode
    return _exit_status(status, given)


def scons_command(given: argparse.Namespace) -> list[str]:
    """The SCons run that does what ``given`` asks for."""
    options = {name: getattr(given, name) for name in _option_names()}
    words = [f"{name}={int(value) if value is True else value}" for name, value in options.items() if value]
    jobs = [f"-j{given.jobs}"] if given.jobs else []
    jit = given.path or given.runtime_dir
    return [sys.executable, "-m", "SCons", "-Q", "-f", str(_SCONSTRUCT), *jobs, given.verb, f"JIT={jit}", *words]


def _option_names() -> list[str]:
    return [*(row[1] for row in _FLAGS), *(row[1] for row in _LEVELS), *(row[1] for row in _SWITCHES)]


def _exit_status(status: int, given: argparse.Namespace) -> int:
    """SCons fails with 2 whatever happened; the verdict knows."""
    if status == 0:
        return 0
    build_output = given.BUILD_OUTPUT or os.environ.get("PYPTO_PROG_BUILD_DIR") or "build_output"
    try:
        root = resolve_jit(given.path or given.runtime_dir, build_output, Path("examples", "artifacts"))
        output = Path(given.BUILD_DIR or "build", given.PLATFORM or "a2a3sim", artifact_name(root))
        return read_verdict(output / "verdict.json").exit_status or status
    except (ArtifactError, OSError, ValueError):
        return 2


def parser() -> argparse.ArgumentParser:
    """The command line's flags."""
    flags = argparse.ArgumentParser(prog="pypto-build", description=__doc__.split("\n\n")[0], allow_abbrev=False)
    flags.add_argument("--version", action="version", version=f"pypto-build {__version__}")
    flags.add_argument("verb", choices=VERBS, help="; ".join(f"{verb}: {doc}" for verb, doc in VERBS.items()))
    flags.add_argument("path", nargs="?", help="the artifact: a directory, a name, a glob or 'latest'")
    flags.add_argument("--runtime-dir", help="the artifact, by the name of upstream's flag")
    flags.add_argument("-d", "--device", help="the device of a hardware platform; a simulated one has none")
    flags.add_argument("-j", dest="jobs", type=int, help="compilations at a time (default: this machine's processors)")
    for names, option, doc in _FLAGS:
        flags.add_argument(*names, dest=option, metavar="VALUE", help=f"{doc} ({option}=)")
    for names, option, bare, doc in _LEVELS:
        flags.add_argument(*names, dest=option, nargs="?", const=bare, metavar="LEVEL", help=f"{doc} ({option}=)")
    for names, option, doc in _SWITCHES:
        flags.add_argument(*names, dest=option, action="store_true", help=f"{doc} ({option}=1)")
    return flags


if __name__ == "__main__":
    sys.exit(main())
