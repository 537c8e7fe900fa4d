"""The options of a run, and the commands that repeat it exactly."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pypto_build.facts.run_options import RUN_OPTIONS

_GIVEN = {name: option for name, option in RUN_OPTIONS.items() if option.flag}
_SWITCHES = {name: option.flag for name, option in _GIVEN.items() if option.kind.type is bool}
_VALUES = {name: option.flag for name, option in _GIVEN.items() if name not in _SWITCHES}

#: What a user may give to a tool that only passes it on: option on the command line of SCons -> flag of the replay.
PASSED_ON: dict[str, str] = _VALUES | _SWITCHES


@dataclass(frozen=True)
class Repeat:
    """The options that were given, as SCons takes them (`RTOL=1e-3`) and as flags."""

    assignments: tuple[str, ...]
    flags: tuple[str, ...]

    def scons(self, verb: str, artifact: Path, platform: str) -> str:
        """`scons replay JIT=… PLATFORM=… …`, with the options that `verb` takes."""
        # A tool that makes runs of its own takes some of them; what looks at a replay takes all.
        taken = {name for name, option in RUN_OPTIONS.items() if verb in option.verbs} or PASSED_ON.keys()
        assignments = [assignment for assignment in self.assignments if assignment.partition("=")[0] in taken]
        return shlex.join(["scons", verb, f"JIT={artifact}", f"PLATFORM={platform}", *assignments])

    def direct(self, artifact: Path, platform: str, build_dir: Path, embedded: str, chips: Sequence[str] = ()) -> str:
        """Return the command line of the replay tool for an artifact that is built. `chips` are the directories of a
        distributed artifact's programs.
        """
        words = ["python", "-m", "pypto_build.replay.chips" if chips else "pypto_build.replay", str(artifact)]
        words += ["--platform", platform, "--build-dir", str(build_dir), "--embedded", embedded, *self.flags]
        return shlex.join([*words, *(word for chip in chips for word in ("--chip", chip))])


def add_passed_on(parser: argparse.ArgumentParser) -> None:
    """Declare the replay's flags on a tool that only passes them on: the replay has checked their values."""
    for name, flag in _VALUES.items():
        kind = Path if name == "DATA" else str
        parser.add_argument(flag, type=kind, metavar="VALUE", help=f"what the replay was given as {name}=")
    for name, flag in _SWITCHES.items():
        parser.add_argument(flag, action="store_true", help=f"the replay ran with {name}=1")


def written_options(written: Sequence[str]) -> Repeat:
    """Return the options of a parsed command line from its words, which keep the spelling of values."""
    assignments, flags = [], []
    words = [part for word in written for part in (word.split("=", 1) if word.startswith("--") else [word])]
    for name, flag in PASSED_ON.items():
        if flag not in words:
            continue
        if name in _SWITCHES:
            assignments.append(f"{name}=1")
            flags.append(flag)
        else:
            value = words[words.index(flag) + 1]
            assignments.append(f"{name}={value}")
            flags += [flag, value]
    return Repeat(tuple(assignments), tuple(flags))
