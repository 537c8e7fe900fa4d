"""The ``NAME=value`` options: one table from which parsing, checking and the help text follow."""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from pypto_build.facts.platforms import PLATFORMS
from pypto_build.toolchain.launchers import LAUNCHERS


class OptionError(Exception):
    """An option that does not exist or does not take the value given. ``str()`` is one line."""


class Group(Enum):
    """Options that the same targets take; the value is their heading in the help."""

    COMMON = "Every target"
    BUILD = "What is built, and how"
    RUN = "The run and its comparison"
    RECORDS = "What the run leaves in dfx_outputs/"
    PROGRAMS = "compile"
    TOOLS = "Other targets"


@dataclass(frozen=True)
class Option:
    """One option. One with a ``flag`` changes what a run does: it goes to the replay tool and into the run's key.

    One with a ``runtime`` is for replays on that runtime only.
    """

    name: str
    default: Any
    parse: Callable[[str], Any]
    doc: str
    flag: str = ""
    runtime: str = ""


def _text(value: str) -> str:
    return value


def _choice(*allowed: str) -> Callable[[str], str]:
    def parse(value: str) -> str:
        if value not in allowed:
            raise ValueError(f"is not one of {', '.join(filter(None, allowed))}")
        return value

    return parse


def _number(kind: type[int] | type[float], least: float, what: str) -> Callable[[str], Any]:
    def parse(value: str) -> int | float:
        try:
            number = kind(value)
        except ValueError:
            raise ValueError(f"is not {what}") from None
        if not number >= least:
            raise ValueError(f"is not {what}")
        return number

    return parse


def _switch(value: str) -> bool:
    if value.lower() in ("1", "yes", "true", "on"):
        return True
    if value.lower() in ("0", "no", "false", "off", ""):
        return False
    raise ValueError("is not 0 or 1")


def _level(highest: int) -> Callable[[str], int]:
    def parse(value: str) -> int:
        if value not in map(str, range(highest + 1)):
            raise ValueError(f"is not a level from 0 to {highest}")
        return int(value)

    return parse


_LOG_LEVELS = ("debug", "info", "timing", "warn", "error", "null", *(f"v{number}" for number in range(10)))
_SIZE = _number(float, 0.0, "a number that is 0 or more")
_TOLERANCE = _number(float, 0.0, "a number that is 0 or more")

_TABLE: dict[Group, tuple[Option, ...]] = {
    Group.COMMON: (
        Option("JIT", "", _text, "the artifact: a directory name, a path, a glob or 'latest'"),
        Option("PLATFORM", "a2a3sim", _choice(*PLATFORMS), "a2a3sim, a5sim, a2a3 or a5"),
        Option("BUILD_OUTPUT", "", _text, "where artifacts are looked for ($PYPTO_PROG_BUILD_DIR, else build_output)"),
        Option("BUILD_DIR", "build", _text, "where everything built goes"),
        Option("VERBOSE", False, _switch, "1: print full command lines"),
        Option("STORE_SIZE", 5.0, _SIZE, "gigabytes that the store of results may take; 0: it keeps nothing"),
        Option("WATCH", False, _switch, "1: again whenever a source or the data are saved, until Ctrl-C"),
    ),
    Group.BUILD: (
        Option("CXX", "", _text, "the C++ compiler (g++, else clang++)"),
        Option("ARCH", "", _text, "-march of the kernels (x86-64-v3 on x86-64; 'native' for this machine)"),
        Option("KERNEL_FLAGS", "", _text, "more flags for the kernels' compiler"),
        Option("CHECK", False, _switch, "1: kernels record and check what every instruction touches"),
        Option("SANDBOX", False, _switch, "1: compile and replay under bubblewrap: no network, only OUT writable"),
        Option("LAUNCHER", "", _choice("", *LAUNCHERS), f"run compilations through {', '.join(LAUNCHERS)}"),
        Option("PTOAS", "", _text, "the assembler of edited .pto modules ($PTOAS_ROOT, PATH, else 'own')"),
        Option("PREFER", "", _choice("", "pto", "cpp"), "which counts when a module and its body were both edited"),
        Option(
            "SIMPLER",
            "",
            _text,
            "RUNTIME=simpler: a checkout, an environment or a revision of simpler",
            "--simpler",
            "simpler",
        ),
        Option("PTO_ISA", "", _text, "RUNTIME=simpler: a checkout or a revision of pto-isa", "--isa", "simpler"),
    ),
    Group.RUN: (
        Option(
            "DATA",
            "",
            _text,
            "another directory with in/ and out/ than the artifact's data/, or 'reference': goldens by PyTorch",
        ),
        Option("RTOL", None, _TOLERANCE, "relative tolerance (1e-5, or what the artifact says)", flag="--rtol"),
        Option("ATOL", None, _TOLERANCE, "absolute tolerance (1e-5, or what the artifact says)", flag="--atol"),
        Option("SEED", 0, _number(int, 0, "a whole number that is 0 or more"), "seed of made-up inputs", flag="--seed"),
        Option("ROUNDS", 1, _number(int, 1, "a whole number that is 1 or more"), "how often to run", flag="--rounds"),
        Option("TIMEOUT", 60.0, _number(float, 0.001, "a number of seconds above 0"), "seconds a run may take"),
        Option(
            "RUNTIME", "embedded", _choice("embedded", "torch", "simpler"), "what executes the replay", flag="--runtime"
        ),
        Option(
            "STRICT", False, _switch, "1: also order readers before writers and overlapping outputs", flag="--strict"
        ),
        Option(
            "SHUFFLE", False, _switch, "1: run ready tasks in a random legal order, seeded by SEED", flag="--shuffle"
        ),
        Option("SERIAL", False, _switch, "1: run tasks one by one in submission order", flag="--serial"),
        Option("ZERO_FILL", False, _switch, "1: outputs start as zeros, not as NaN", flag="--zero-fill"),
        Option("ALLOW_UNCHECKED", False, _switch, "1: a replay without a golden to compare with is no failure"),
        Option("FORCE", False, _switch, "1: replay though nothing changed"),
        Option("DEVICE", 0, _number(int, 0, "the number of a device"), "the device of hardware", "--device", "simpler"),
        Option(
            "SKIP_COMPILE",
            False,
            _switch,
            "1: RUNTIME=simpler takes the binaries beside the artifact's sources as they are",
            "--skip-compile",
            "simpler",
        ),
    ),
    Group.RECORDS: (
        Option(
            "DUMP", 0, _level(3), "dump arguments: 1 those marked, 2 all, 3 all without content", flag="--dump-args"
        ),
        Option("DUMP_ARGS", "", _text, "dump only KERNEL or KERNEL:INDEX; several with commas", flag="--dump-select"),
        Option("DUMP_TASKS", "", _text, "dump only tasks N, N-M or 0xID; several with commas", flag="--dump-tasks"),
        Option("DUMP_FORMAT", "", _choice("", "args", "tensor"), "tensor: names before 2026-06-18", "--dump-format"),
        Option("DEP_GEN", False, _switch, "1: write dfx_outputs/deps.json", flag="--dep-gen"),
        Option("SWIMLANE", 0, _level(4), "write the timeline, level 1 to 4", flag="--swimlane"),
        Option("SCOPE_STATS", False, _switch, "1: write dfx_outputs/scope_stats", flag="--scope-stats"),
        Option("PMU", 0, _level(8), "count hardware events: 1 arithmetic, 2 pipes, 4 memory, ...", "--pmu", "simpler"),
        Option("LOG_LEVEL", "", _choice("", *_LOG_LEVELS), "what the runtime logs", flag="--log-level"),
    ),
    Group.PROGRAMS: (
        Option(
            "PROGRAM",
            "",
            _text,
            "the program: compile makes an artifact of it; diverge: where the artifact does not name it",
        ),
        Option("COMPILER", "", _choice("", "pypto"), "pypto: compile runs PyPTO itself on the program"),
        Option("PYTHON", "", _text, "the interpreter that has PyPTO, for COMPILER=pypto (default: this one)"),
        Option("VINTAGE", "", _choice("", "2026-05", "2026-06", "2026-08"), "the C++ API that compile writes for"),
        Option("SKIP_PTOAS", False, _switch, "1: compile stops after the .pto modules"),
        Option("DUMP_PASSES", False, _switch, "1: compile writes the program after each pass"),
    ),
    Group.TOOLS: (
        Option("WRITE", False, _switch, "1: splice writes into the artifact, keeping the previous files as .bak"),
        Option("OTHER", "", _text, "the artifact that pto_diff compares with"),
        Option("TASK", "", _text, "dump, deps: a task by number, ring:count or id; several with commas"),
        Option("TO", "", _text, "deps: a second task; says what orders the two"),
        Option("KERNEL", "", _text, "dump: a kernel by name or func_id; passes: a function"),
        Option("PASS", "", _text, "passes: a pass by name or number, whose changes are shown"),
        Option("ARG", "", _text, "dump: an argument by name or index"),
        Option("ROLE", "", _choice("", "input", "output", "inout"), "dump: input, output or inout"),
        Option("STAGE", "", _choice("", "before", "after"), "dump: before or after the task ran"),
        Option(
            "EXPORT",
            "",
            _choice("", "pt", "npy", "txt", "dot", "html", "trace"),
            "dump: pt, npy, txt; deps: dot, html, trace",
        ),
        Option("AGAINST", "", _text, "dump: a .pt file to compare with; diverge: a recorded dump to examine"),
        Option("LOG", "", _text, "hang: a log, or the directory of the host's and the device's logs"),
        Option(
            "AXIS",
            "",
            _choice("", "simpler", "pto_isa", "kernel", "flags"),
            "bisect: what to search: simpler, pto_isa, kernel or flags",
        ),
        Option("GOOD", "", _text, "bisect: an end that passes"),
        Option("BAD", "", _text, "bisect: an end that fails"),
        Option("REPEATS", 1, _number(int, 1, "a whole number that is 1 or more"), "bisect: runs of each step"),
        Option("JSON", "", _text, "a file for the findings as JSON"),
        Option("SARIF", "", _text, "a file for the findings as SARIF, for editors and CI"),
        Option("TAGS", "", _text, "scons test: only replay tests with one of these tags (comma separated)"),
    ),
}
OPTIONS: dict[str, Option] = {option.name: option for options in _TABLE.values() for option in options}
GROUP: dict[str, Group] = {option.name: group for group, options in _TABLE.items() for option in options}


@dataclass(frozen=True)
class Options:
    """The options of this invocation, parsed."""

    values: Mapping[str, Any] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Any:
        return self.values[name]

    @property
    def of_the_run(self) -> dict[str, Any]:
        """The options that go to the replay tool."""
        return {name: self.values[name] for name, option in OPTIONS.items() if option.flag}

    @property
    def build_output(self) -> str:
        """Where artifacts are looked for first and where ``compile`` writes."""
        return self["BUILD_OUTPUT"] or os.environ.get("PYPTO_PROG_BUILD_DIR") or "build_output"


def parse_options(arguments: Mapping[str, str]) -> Options:
    """Check ``arguments`` against the table.

    Raises:
        OptionError: a name that is no option (with the nearest one), or a value it does not take.
    """
    values = {option.name: option.default for option in OPTIONS.values()}
    for name, text in arguments.items():
        option = OPTIONS.get(name)
        if option is None:
            near = difflib.get_close_matches(name.upper(), OPTIONS, n=1, cutoff=0.6)
            way_out = f"did you mean {near[0]}=?" if near else "'scons' alone lists the options"
            raise OptionError(f"{name}={text}: no such option; {way_out}")
        try:
            values[name] = option.parse(text)
        except ValueError as error:
            raise OptionError(f"{name}={text}: {error}; {name} is {option.doc}") from None
    return Options(values)
