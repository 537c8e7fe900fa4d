"""``pypto-build VERB PATH [flags]``: what ``scons VERB JIT=PATH NAME=value`` does, in any directory.

The flags are the ones that PyPTO's and simpler's runners take, under their old and their new names. The exit status
says what happened: 0 pass or unchecked, 1 mismatch, 2 usage, 3 build, 4 golden, 5 runtime fault, 6 hang.

PATH may be an archive that ``scons pack`` wrote: it is unpacked below the build directory, and its options hold too.

``pypto-build wrap [flags] -- COMMAND`` runs a script of PyPTO's or pypto-lib's and keeps what a replay needs;
``pypto-build fetch`` brings revisions of simpler and pto-isa into the cache.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from pypto_build import __version__
from pypto_build.artifact import ArtifactError
from pypto_build.replay.verdict import EXIT_STATUS, Status
from pypto_build.rules.options import OPTIONS
from pypto_build.rules.targets import TARGETS

# Where SCons is to write how the run ended.
STATUS_VARIABLE = "PYPTO_BUILD_STATUS_FILE"
_SCONSTRUCT = Path(__file__).resolve().parent / "rules" / "SConstruct"

_VERBS = {name: target.doc for name, target in TARGETS.items() if name not in ("compile", "fetch", "test")}
# Verbs that are no targets on an artifact, and the tools that they are.
_TOOLS = {"wrap": "pypto_build.interop.wrap", "fetch": "pypto_build.toolchain.fetch"}

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
    (("-d", "--device"), "DEVICE", "the device of a hardware platform; a simulated one has none"),
    (("--isa", "--pto-isa", "--pto-isa-commit"), "PTO_ISA", "a checkout or a revision of pto-isa"),
    (("--dump-select",), "DUMP_ARGS", "which arguments a dump holds"),
    (("--pmu", "--enable-pmu"), "PMU", "count hardware events"),
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
_NAMED = [row[1] for rows in (_FLAGS, _LEVELS, _SWITCHES) for row in rows]
# Options without a flag in the tables above have the one that their name makes.
_OTHERS = [option for option in OPTIONS.values() if option.name not in (*_NAMED, "JIT")]


def main(argv: Sequence[str] | None = None) -> int:
    """Run one verb; returns the exit status."""
    words = list(sys.argv[1:] if argv is None else argv)
    if words and words[0] in _TOOLS:
        return subprocess.run([sys.executable, "-m", _TOOLS[words[0]], *words[1:]], check=False).returncode
    given = parser().parse_args(words)
    if (given.path is None) == (given.runtime_dir is None):
        print("pypto-build: name one artifact, as PATH or with --runtime-dir", file=sys.stderr)
        return 2
    if given.DEVICE is not None and (given.PLATFORM or "a2a3sim").endswith("sim"):
        no_effect = f"--device {given.DEVICE} has no effect: a simulated platform has no devices"
        print(f"pypto-build: {no_effect}", file=sys.stderr)
        given.DEVICE = None
    try:
        packed = _open_pack(given)
    except ArtifactError as error:
        print(f"pypto-build: {error}", file=sys.stderr)
        return error.exit_status
    sys.stdout.flush()
    with tempfile.TemporaryDirectory(prefix="pypto-build-") as directory:
        file = Path(directory, "status")
        environment = {**os.environ, STATUS_VARIABLE: str(file)}
        status = subprocess.run(scons_command(given), env=environment, check=False).returncode
        # SCons fails with 2 whatever happened; the file says what.
        status = int(file.read_text(encoding="utf-8")) if status and file.exists() else status
    if packed and given.verb == "replay" and status != EXIT_STATUS[packed]:
        print(f"[pack] the packed run ended otherwise: {packed}")
    return status


def _open_pack(given: argparse.Namespace) -> Status | None:
    """Let ``given`` name what is in an archive, and take its options; how the packed run ended."""
    from pypto_build.diagnose.pack.opened import is_pack, open_pack

    if not given.path or not is_pack(given.path):
        return None
    opened = open_pack(Path(given.path), Path(given.BUILD_DIR or "build"))
    for note in opened.notes:
        print(f"[pack] {note}")
    given.path = str(opened.artifact)
    taken = {"PLATFORM", *TARGETS[given.verb].options}
    for name, value in opened.options.items():
        if name in taken and not getattr(given, name):
            setattr(given, name, value)
    return opened.pack.status


def scons_command(given: argparse.Namespace) -> list[str]:
    """The SCons run that does what ``given`` asks for."""
    options = {name: getattr(given, name) for name in _option_names()}
    words = [f"{name}={int(value) if value is True else value}" for name, value in options.items() if value]
    jobs = [f"-j{given.jobs}"] if given.jobs else []
    jit = given.path or given.runtime_dir
    return [sys.executable, "-m", "SCons", "-Q", "-f", str(_SCONSTRUCT), *jobs, given.verb, f"JIT={jit}", *words]


def _option_names() -> list[str]:
    return [*_NAMED, *(option.name for option in _OTHERS)]


def parser() -> argparse.ArgumentParser:
    """The command line's flags."""
    flags = argparse.ArgumentParser(
        prog="pypto-build", description=__doc__.split("\n\n")[0], epilog=__doc__.split("\n\n")[-1], allow_abbrev=False
    )
    flags.add_argument("--version", action="version", version=f"pypto-build {__version__}")
    flags.add_argument("verb", choices=_VERBS, help="; ".join(f"{verb}: {doc}" for verb, doc in _VERBS.items()))
    flags.add_argument("path", nargs="?", help="the artifact: a directory, a name, a glob or 'latest'")
    flags.add_argument("--runtime-dir", help="the artifact, by the name of upstream's flag")
    flags.add_argument("-j", dest="jobs", type=int, help="compilations at a time (default: this machine's processors)")
    for names, option, doc in _FLAGS:
        flags.add_argument(*names, dest=option, metavar="VALUE", help=f"{doc} ({option}=)")
    for names, option, bare, doc in _LEVELS:
        flags.add_argument(*names, dest=option, nargs="?", const=bare, metavar="LEVEL", help=f"{doc} ({option}=)")
    for names, option, doc in _SWITCHES:
        flags.add_argument(*names, dest=option, action="store_true", help=f"{doc} ({option}=1)")
    for other in _OTHERS:
        name = f"--{other.name.lower().replace('_', '-')}"
        if other.default is False:
            flags.add_argument(name, dest=other.name, action="store_true", help=f"{_plain(other.doc)} ({other.name}=1)")
        else:
            flags.add_argument(name, dest=other.name, metavar="VALUE", help=f"{_plain(other.doc)} ({other.name}=)")
    return flags


def _plain(text: str) -> str:
    """An option's text for argparse, which formats it."""
    return text.removeprefix("1: ").replace("%", "%%")


if __name__ == "__main__":
    sys.exit(main())
