"""The tools that inspect one artifact: each row makes a target, its help and a ``pypto-build`` verb.

Each is a command line, ``python -m MODULE ARTIFACT_DIR --platform P [--build-dir OUT ...]``. It runs at each request,
after its prerequisites are built.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any

import msgspec

from pypto_build.facts.run_options import RUN_OPTIONS


class Needs(Enum):
    """Requirements of a tool before it runs, which also decide the arguments that it gets."""

    FILES = "files that an option names; the artifact where JIT= names one, and --build-dir where it was replayed"
    ARTIFACT = "nothing but the artifact: no --build-dir"
    INTERFACE = "the signed manifest and interface.json: --build-dir"
    BINARIES = "all that a replay needs: --build-dir, --embedded; --binaries where they are elsewhere"
    CHECKED = "the same with the binaries of CHECK=1: --build-dir, --embedded, --binaries"
    TRACED = "both: all that a replay needs, and in --binaries those of CHECK=1"
    DEBUGGED = "all that a replay needs, and in --binaries those for a debugger"
    FOR_SIMPLER = "the same with binaries that simpler loads: --build-dir, --binaries"
    TRIAGE = "a replay that ran, whatever came of it; the binaries of CHECK=1 when they are asked for"
    REPLAY = "a replay that ran, whatever came of it: --build-dir, --embedded"


class Verb(msgspec.Struct, frozen=True):
    """One tool.

    ``options`` maps its options to flags; options that name the tool in their own table are not listed. An option with
    its default is not passed on; options in ``required`` must be given. ``replay_with`` are options of the replay that
    a tool with Needs.REPLAY reads. A ``parallel`` tool gets -j as --jobs. A ``spread`` tool hands its work to the farm
    of SCHEDULER=, which it gets as --scheduler with --memory and --asked. If a required option has a value that is
    ``unbuilt``, or begins so, the tool reads the units that fail to build. A tool that ``looks`` gets the directory in
    which the artifact was built, if it was. A tool ``in_torch`` compares with the PyTorch reference, and is refused
    before anything is built if PyTorch is missing.
    """

    name: str
    module: str
    doc: str
    needs: Needs
    options: Mapping[str, str] = {}
    required: tuple[str, ...] = ()
    replay_with: Mapping[str, Any] = {}
    parallel: bool = False
    spread: bool = False
    looks: bool = False
    in_torch: bool = False
    unbuilt: tuple[str, ...] = ()

    def adapted_to(self, options: Any) -> Verb:
        """Return the tool adapted to ``options``, which may turn it into a tool for units that fail to build."""
        words = {str(options[name]).partition(":")[0] for name in self.required}
        return msgspec.structs.replace(self, needs=Needs.INTERFACE) if words & set(self.unbuilt) else self

    @property
    def usage(self) -> str:
        """Return the command that a user types for the target."""
        artifact = ["[JIT=x]" if self.needs is Needs.FILES else "JIT=x"]
        return " ".join([self.name, *artifact, *(f"{name}=..." for name in self.required)])

    @property
    def flags(self) -> dict[str, str]:
        """Return all options that the tool accepts, with their flags."""
        taken = {name: option.flag for name, option in RUN_OPTIONS.items() if self.name in option.verbs}
        return {name: flag or _flag(name) for name, flag in taken.items()} | dict(self.options)


def _flags(*names: str) -> dict[str, str]:
    """Return options whose flags are their own names in lower case."""
    return {name: _flag(name) for name in names}


def _flag(name: str) -> str:
    return f"--{name.lower().replace('_', '-')}"


def _of_a_replay() -> dict[str, str]:
    """Return all options of the replay, for tools that print the command that repeats it."""
    return {name: option.flag for name, option in RUN_OPTIONS.items() if option.flag}


VERBS: dict[str, Verb] = {
    verb.name: verb
    for verb in (
        Verb(
            "pto_check",
            "pypto_build.pto.check",
            "check the .pto modules, as the assembler and the device would",
            Needs.ARTIFACT,
            {"RULES": "--rules"},
        ),
        Verb(
            "bisect",
            "pypto_build.interop.bisect",
            "find the revision, file or compiler flag that flips the verdict",
            Needs.INTERFACE,
            _flags("AXIS", "GOOD", "BAD", "REPEATS"),
            required=("AXIS", "GOOD", "BAD"),
            parallel=True,
            spread=True,
        ),
        Verb(
            "scene_test",
            "pypto_build.interop.scene_test",
            "write the scene test by which simpler compiles and runs it",
            Needs.INTERFACE,
        ),
        Verb(
            "install",
            "pypto_build.interop.install",
            "put binaries where replays of PyPTO and pypto-lib find them",
            Needs.FOR_SIMPLER,
        ),
        Verb(
            "torch",
            "pypto_build.pto.torch",
            "write each module as PyTorch, to OUT/torch/",
            Needs.INTERFACE,
        ),
        Verb(
            "diverge",
            "pypto_build.diagnose.diverge",
            "find the first task whose output differs from PyTorch's",
            Needs.BINARIES,
            _flags("AGAINST", "PROGRAM", "JSON", "SARIF"),
            in_torch=True,
        ),
        Verb(
            "lint",
            "pypto_build.diagnose.lint",
            "find files that disagree, without a run",
            Needs.ARTIFACT,
            _flags("JSON", "SARIF"),
            looks=True,
        ),
        Verb(
            "passes",
            "pypto_build.diagnose.passes",
            "show what each compiler pass changed, and which broke it",
            Needs.ARTIFACT,
            _flags("PASS", "KERNEL", "JSON", "SARIF"),
        ),
        Verb(
            "hang",
            "pypto_build.diagnose.hang",
            "show the last events before a hang or a crash",
            Needs.FILES,
            _flags("LOG", "JSON", "SARIF"),
        ),
        Verb(
            "dump",
            "pypto_build.diagnose.dump",
            "list, show, export or compare the arguments of tasks",
            Needs.REPLAY,
            _flags("RANK", "TASK", "KERNEL", "ARG", "ROLE", "STAGE", "EXPORT", "AGAINST"),
            replay_with={"DUMP": 2},
        ),
        Verb(
            "deps",
            "pypto_build.diagnose.deps",
            "show the task graph, the critical path and idle cores",
            Needs.REPLAY,
            _flags("RANK", "TASK", "TO", "EXPORT"),
            replay_with={"DEP_GEN": True, "SWIMLANE": 4},
        ),
        Verb(
            "hazards",
            "pypto_build.diagnose.hazards",
            "find missing dependencies and flags, and bad accesses",
            Needs.CHECKED,
            _flags("TRAP", "JSON", "SARIF"),
        ),
        Verb(
            "speed",
            "pypto_build.diagnose.speed",
            "predict the time on a device, and what bounds it",
            Needs.CHECKED,
            {
                "CHIP": "--chip-name",
                "WHATIF": "--what-if",
                **_flags("RATES", "CALIBRATE", "OTHER", "EXPORT", "JSON", "SARIF"),
            },
        ),
        Verb(
            "why",
            "pypto_build.diagnose.why",
            "show how one element of an output was computed",
            Needs.TRACED,
            _flags("OUT", "FROM", "AT", "JSON"),
            required=("AT",),
            in_torch=True,
        ),
        Verb(
            "step",
            "pypto_build.diagnose.step",
            "step through a kernel, forward and back, beside PyTorch",
            Needs.TRACED,
            _flags("TASK", "BLOCK", "KERNEL", "AT", "SCRIPT", "EXPORT"),
            required=("TASK",),
            in_torch=True,
        ),
        Verb(
            "debug",
            "pypto_build.diagnose.debug",
            "open gdb or lldb on the kernels of a task",
            Needs.DEBUGGED,
            _flags("TASK", "BLOCK", "BREAK", "DEBUGGER", "RR", "CORE", "SCRIPT"),
        ),
        Verb(
            "extract",
            "pypto_build.diagnose.extract",
            "make an artifact of some tasks, with the arguments that they had",
            Needs.BINARIES,
            {**_flags("TASK", "KERNEL", "GOLDEN"), "FROM": "--from", "BUILD_OUTPUT": "--output"},
        ),
        Verb(
            "reduce",
            "pypto_build.diagnose.reduce",
            "make the smallest artifact that fails in the same way",
            Needs.BINARIES,
            {**_flags("KEEP", "AGAINST", "CVISE", "CXX", "ARCH", "KERNEL_FLAGS"), "BUILD_OUTPUT": "--output"},
            required=("KEEP",),
            parallel=True,
            spread=True,
            unbuilt=("build_error", "golden_error"),
        ),
        Verb(
            "sweep",
            "pypto_build.diagnose.sweep",
            "try many inputs and sizes, and say which tolerance fits",
            Needs.BINARIES,
            {**_flags("SEEDS", "VALUES", "SHAPES", "CASES", "JSON"), "BUILD_OUTPUT": "--output"},
            parallel=True,
            spread=True,
            in_torch=True,
        ),
        Verb(
            "flaky",
            "pypto_build.diagnose.flaky",
            "find outputs that depend on the order of tasks",
            Needs.BINARIES,
            _flags("JSON", "SARIF"),
        ),
        Verb(
            "report",
            "pypto_build.diagnose.report",
            "write one HTML page with verdict, graph and timeline",
            Needs.REPLAY,
            _of_a_replay(),
            replay_with={"DEP_GEN": True, "SWIMLANE": 4},
        ),
        Verb(
            "triage",
            "pypto_build.diagnose.triage",
            "find out why it fails: run the other tools in turn",
            Needs.TRIAGE,
            {**_of_a_replay(), **_flags("JSON", "SARIF", "JUNIT", "ANNOTATE")},
        ),
        Verb(
            "pack",
            "pypto_build.diagnose.pack",
            "put the whole run into an archive that replays elsewhere",
            Needs.REPLAY,
            {**_of_a_replay(), **_flags("ARCH", "KERNEL_FLAGS")},
        ),
    )
}
