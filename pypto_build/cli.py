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
from typing import Any

from pypto_build import __version__
from pypto_build.artifact import ArtifactError
from pypto_build.replay.verdict import EXIT_STATUS, Status
from pypto_build.rules import STATUS_VARIABLE
from pypto_build.rules.options import OPTIONS
from pypto_build.rules.targets import TARGETS

_SCONSTRUCT = Path(__file__).resolve().parent / "rules" / "SConstruct"

_VERBS = {name: target.doc for name, target in TARGETS.items() if name not in ("compile", "fetch", "test")}
# Verbs that are no targets on an artifact, and the tools that they are.
_TOOLS = {"wrap": "pypto_build.interop.wrap", "fetch": "pypto_build.toolchain.fetch"}

# Options whose flags have other names than their own in small letters: those that upstream's runners take, of all ages.
_FLAGS: dict[str, tuple[str, ...]] = {
    "PLATFORM": ("-p", "--platform"),
    "DATA": ("--golden-data", "--data"),
    "DEVICE": ("-d", "--device"),
    "PTO_ISA": ("--isa", "--pto-isa", "--pto-isa-commit"),
    "DUMP": ("--dump-args", "--dump-tensor", "--enable-dump-args", "--enable-dump-tensor"),
    "DUMP_ARGS": ("--dump-select",),
    "SWIMLANE": (
        "--enable-chip-swimlane",
        "--enable-l2-swimlane",
        "--swimlane",
        "--swimlane-level",
        "--enable-profiling",
    ),
    "PMU": ("--pmu", "--enable-pmu"),
    "DEP_GEN": ("--enable-dep-gen", "--dep-gen"),
    "SCOPE_STATS": ("--enable-scope-stats", "--scope-stats"),
    "FORCE": ("-f", "--force"),
    "VERBOSE": ("-v", "--verbose"),
}
# The level that a flag without one means.
_BARE = {"DUMP": 1, "SWIMLANE": 4}
_OPTIONS = [option for option in OPTIONS.values() if option.name != "JIT"]


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
    options = {option.name: getattr(given, option.name) for option in _OPTIONS}
    words = [f"{name}={int(value) if value is True else value}" for name, value in options.items() if value]
    jobs = [f"-j{given.jobs}"] if given.jobs else []
    jit = given.path or given.runtime_dir
    return [sys.executable, "-m", "SCons", "-Q", "-f", str(_SCONSTRUCT), *jobs, given.verb, f"JIT={jit}", *words]


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
    for option in _OPTIONS:
        names = _FLAGS.get(option.name, (f"--{option.name.lower().replace('_', '-')}",))
        switch = option.default is False
        doc = option.doc.removeprefix("1: ").replace("%", "%%")  # argparse formats it
        about: dict[str, Any] = {"dest": option.name, "help": f"{doc} ({option.name}={'1' if switch else ''})"}
        if switch:
            flags.add_argument(*names, action="store_true", **about)
        elif option.name in _BARE:
            flags.add_argument(*names, nargs="?", const=_BARE[option.name], metavar="LEVEL", **about)
        else:
            flags.add_argument(*names, metavar="VALUE", **about)
    return flags


if __name__ == "__main__":
    sys.exit(main())
