"""The ``NAME=value`` options: one table from which parsing, checking and the help text follow."""

from __future__ import annotations

import difflib
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from pypto_build.facts.platforms import PLATFORMS
from pypto_build.facts.run_options import (
    NOT_NEGATIVE,
    OF_ITS_RECORDS,
    OF_SIMPLER,
    OF_THE_RUN,
    RUN_OPTIONS,
    SWITCH,
    TEXT,
    Option,
    ValueKind,
    one_of,
    whole,
)
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
    MANY = "Many artifacts: JIT= a glob, names with commas, @LIST; PLATFORM= with commas"


_SWITCHED = {word: on for on, words in ((True, "1 yes true on"), (False, "0 no false off")) for word in words.split()}
_SWITCHED[""] = False

_TABLE: dict[Group, tuple[Option, ...]] = {
    Group.COMMON: (
        Option("JIT", TEXT, "", "the artifact: a directory name, a path, a glob or 'latest'"),
        Option(
            "SCENE", TEXT, "", "in its place: scene tests, FILE[::CLASS[::CASE]] or a directory, several with commas"
        ),
        Option(
            "PLATFORM",
            one_of(*PLATFORMS),
            "a2a3sim",
            "a2a3sim, a5sim; a2a3, a5: hardware, or its semantics on the CPU where there is none",
            ("-p", "--platform"),
        ),
        Option("BUILD_OUTPUT", TEXT, "", "where artifacts are looked for ($PYPTO_PROG_BUILD_DIR, else build_output)"),
        Option("BUILD_DIR", TEXT, "build", "where everything built goes"),
        Option(
            "VERBOSE",
            SWITCH,
            False,
            "1: every step with its reason, full command lines, the whole log of a run",
            ("-v", "--verbose"),
        ),
        Option("STORE_SIZE", NOT_NEGATIVE, 5.0, "gigabytes that the store of results may take; 0: it keeps nothing"),
        Option("STORE_REMOTE", TEXT, "", "a store that others use too: a directory, http(s)://, redis(s)://"),
        Option(
            "STORE_UPLOAD",
            one_of("no", "background", "wait"),
            "background",
            "when results are sent there: never, while you go on, before scons ends",
        ),
        Option("PROFILE", SWITCH, False, "1: say where the time went; BUILD_DIR/profile.json is a Chrome trace of it"),
        Option("WATCH", SWITCH, False, "1: again whenever a source or the data are saved, until Ctrl-C"),
    ),
    Group.BUILD: (
        Option("CXX", TEXT, "", "the C++ compiler (g++, else clang++)"),
        Option("ARCH", TEXT, "", "-march of the kernels (x86-64-v3 on x86-64; 'native' for this machine)"),
        Option("KERNEL_FLAGS", TEXT, "", "more flags for the kernels' compiler"),
        Option("CHECK", SWITCH, False, "1: kernels record and check what every instruction touches"),
        Option("CASE", TEXT, "", "SCENE=: only these cases: NAME, CLASS::NAME, CLASS:: or ::NAME, with commas"),
        Option("MANUAL", one_of("exclude", "include", "only"), "exclude", "SCENE=: cases that run only when asked for"),
        Option("SKIP_GOLDEN", SWITCH, False, "1: SCENE=: run without making and comparing goldens", ("--skip-golden",)),
        Option("SANDBOX", SWITCH, False, "1: compile and replay under bubblewrap: no network, only OUT writable"),
        Option("LAUNCHER", one_of("", *LAUNCHERS), "", f"run compilations through {', '.join(LAUNCHERS)}"),
        Option("PTOAS", TEXT, "", "the assembler of edited .pto modules ($PTOAS_ROOT, PATH, else 'own')"),
        Option("PREFER", one_of("", "pto", "cpp"), "", "which counts when a module and its body were both edited"),
        *OF_SIMPLER.values(),
    ),
    Group.RUN: (
        *OF_THE_RUN.values(),
        Option("PACK", one_of("", "onfail"), "", "onfail: a replay that fails leaves its pack in OUT: OUT/x.tar.zst"),
        Option("HARDWARE", SWITCH, False, "1: PLATFORM=a2a3 and a5 mean hardware, never this machine's CPU"),
    ),
    Group.RECORDS: tuple(OF_ITS_RECORDS.values()),
    Group.PROGRAMS: (
        Option(
            "PROGRAM",
            TEXT,
            "",
            "the program: compile makes an artifact of it; diverge: where the artifact does not name it",
        ),
        Option("COMPILER", one_of("", "pypto"), "", "pypto: compile runs PyPTO itself on the program"),
        Option("PYTHON", TEXT, "", "the interpreter that has PyPTO, for COMPILER=pypto (default: this one)"),
        Option(
            "VARIABLES",
            TEXT,
            "",
            "compile: names of further environment variables that the program sees (comma separated)",
        ),
        Option("VINTAGE", one_of("", "2026-05", "2026-06", "2026-08"), "", "the C++ API that compile writes for"),
        Option("SKIP_PTOAS", SWITCH, False, "1: compile stops after the .pto modules"),
        Option("DUMP_PASSES", SWITCH, False, "1: compile writes the program after each pass"),
    ),
    Group.MANY: (
        Option("SHARD", TEXT, "", "2/8: only the second of eight shares, which are the same on every machine"),
        Option("MEM", NOT_NEGATIVE, 0.0, "gigabytes that jobs may take together (0: nine tenths of what is free)"),
        Option(
            "SCHEDULER",
            TEXT,
            "",
            "who does the jobs: local (workers on this machine), tcp://, tls:// (a Dask cluster)",
        ),
        Option("HTML", TEXT, "", "a file for a page on all runs: what fails since when, what flipped, times"),
    ),
    Group.TOOLS: (
        Option("DAYS", NOT_NEGATIVE, 0.0, "gc: also builds and results that were not used for so many days (0: none)"),
        Option("WRITE", SWITCH, False, "1: splice writes into the artifact, keeping the previous files as .bak"),
        Option("OTHER", TEXT, "", "the artifact that pto_diff compares with"),
        Option(
            "TASK",
            TEXT,
            "",
            "dump, deps: a task by number, ring:count or id, several with commas; extract: also 3-7; step, debug: one",
        ),
        Option("BLOCK", whole(0), 0, "step, debug: the task's block"),
        Option("TO", TEXT, "", "deps: a second task; says what orders the two"),
        Option("RANK", TEXT, "", "deps, dump: a rank of a distributed program (1), or one of its dispatches (1/d0)"),
        Option(
            "KERNEL",
            TEXT,
            "",
            "dump, extract: a kernel by name or func_id; passes: a function; step: a name, aic, aiv0 or aiv1",
        ),
        Option(
            "FROM",
            TEXT,
            "",
            "extract: the first task, all after it are taken too; why: a tensor, whose elements are followed on",
        ),
        Option(
            "KEEP",
            TEXT,
            "",
            "reduce: what stays: mismatch:OUTPUT, crash, hang, build_error[:KERNEL], golden_error, or a finding's rule",
        ),
        Option("CVISE", SWITCH, False, "1: reduce: then C-Vise on kernels without a module; takes minutes"),
        Option("SEEDS", TEXT, "1-200", "sweep: one case a seed: 1-200, several with commas"),
        Option("VALUES", TEXT, "", "sweep: kinds of inputs: random, edge, structured (the usual), special (inf, nan)"),
        Option("SHAPES", TEXT, "", "sweep: sizes of the dynamic dimensions: 1,7,64; 1x16,7x32 where two are; auto"),
        Option("CASES", TEXT, "", "sweep: of its cases only these, counted from 1: 51-100, or 17"),
        Option("GOLDEN", one_of("run", "reference"), "run", "extract: who made data/out: the kernels, or PyTorch"),
        Option("PASS", TEXT, "", "passes: a pass by name or number, whose changes are shown"),
        Option("FORMAT", one_of("text", "json", "dot"), "text", "query: how the answer is printed"),
        Option("ARG", TEXT, "", "dump: an argument by name or index"),
        Option("ROLE", one_of("", "input", "output", "inout"), "", "dump: input, output or inout"),
        Option("STAGE", one_of("", "before", "after"), "", "dump: before or after the task ran"),
        Option(
            "EXPORT",
            one_of("", "pt", "npy", "txt", "dot", "html", "trace"),
            "",
            "dump: pt, npy, txt; deps: dot, html, trace; step: html",
        ),
        Option(
            "AGAINST",
            TEXT,
            "",
            "dump: a .pt file to compare with; diverge: a recorded dump to examine; reduce: an artifact that is right",
        ),
        Option("TRAP", TEXT, "", "hazards: end at the instruction that makes nan, inf, saturate or denormal (commas)"),
        Option("OUT", TEXT, "", "why: an output of the program by name; the only one needs none"),
        Option(
            "AT",
            TEXT,
            "",
            "why: the element of OUT, I,J; of ranges (I:J) the one that is most wrong; step: 69, TADD#4, v17",
        ),
        Option("SCRIPT", TEXT, "", "step, debug: commands such as 'next 3; print v17', or a file of them"),
        Option("BREAK", TEXT, "", "debug: k.cpp:69, 69 or a function, with commas (the kernel's begin)"),
        Option("DEBUGGER", one_of("gdb", "lldb"), "gdb", "debug: which debugger"),
        Option("RR", SWITCH, False, "debug: 1: record the run with rr, and go through it forward and back"),
        Option("CORE", SWITCH, False, "debug: 1: open the core that the last crash left"),
        Option("LOG", TEXT, "", "hang: a log, or the directory of the host's and the device's logs"),
        Option(
            "AXIS",
            one_of("", "simpler", "pto_isa", "kernel", "hunk", "ptoas", "flags"),
            "",
            "bisect: what to search: simpler, pto_isa, kernel, hunk, ptoas or flags",
        ),
        Option("GOOD", TEXT, "", "bisect: an end that passes"),
        Option("BAD", TEXT, "", "bisect: an end that fails"),
        Option("REPEATS", whole(1), 1, "bisect: runs of each step"),
        Option("JSON", TEXT, "", "a file for findings, or what came of replays and tests, as JSON"),
        Option("SARIF", TEXT, "", "the same as SARIF, for editors and CI"),
        Option("TAGS", TEXT, "", "scons test: only replay tests with one of these tags (comma separated)"),
        Option(
            "NAMES", TEXT, "", "scons test: only tests with such names, also as scons test 'NAME*' (comma separated)"
        ),
        Option("LIST", SWITCH, False, "1: scons test: list the tests that it would run, with their tags"),
        Option("TEST", TEXT, "", "triage: a declared test, with its data, golden and tolerances, in place of JIT="),
        Option("FAILED", SWITCH, False, "1: scons test: only the tests that failed when they last ran"),
        Option("JUNIT", TEXT, "", "a file for what came of replays and tests, as JUnit's XML"),
        Option(
            "ANNOTATE",
            one_of("", "0", "1", "github", "gitlab"),
            "",
            "1: what is wrong as annotations of GitHub or GitLab (where they run it, unless it is 0)",
        ),
    ),
}
OPTIONS: dict[str, Option] = {option.name: option for options in _TABLE.values() for option in options}
GROUP: dict[str, Group] = {option.name: group for group, options in _TABLE.items() for option in options}


@dataclass(frozen=True)
class Options:
    """The options of this invocation, parsed."""

    values: Mapping[str, Any] = field(default_factory=dict)
    requested: str = ""  # the platform asked for, where another one is meant on this machine

    def __getitem__(self, name: str) -> Any:
        return self.values[name]

    @property
    def of_the_run(self) -> dict[str, Any]:
        """The options that go to the replay tool."""
        passed_on = {name for name, option in RUN_OPTIONS.items() if option.flag and option.configures}
        return {name: self.values[name] for name in OPTIONS if name in passed_on}

    @property
    def build_output(self) -> str:
        """Return the directory that is searched first for artifacts and that ``compile`` writes to."""
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
        if "," in text and not text.strip(" ,"):
            raise OptionError(f"{name}={text}: names nothing; write names with commas between them, or leave it out")
        if (value := _parse(option.kind, text)) is None:
            raise OptionError(f"{name}={text}: is not {option.kind.what}; {name}: {option.doc.removeprefix('1: ')}")
        values[name] = value
    return Options(values)


def _parse(kind: ValueKind, text: str) -> bool | int | float | str | None:
    """Return the value of a text; None if it has none."""
    if kind.type is bool:
        return _SWITCHED.get(text.lower())
    if kind.type is str:
        return text if text in (kind.choices or (text,)) else None
    if kind.max is not None and text not in map(str, range(kind.max + 1)):
        return None
    try:
        number = int(text) if kind.type is int else float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) and (kind.min is None or number >= kind.min) else None
