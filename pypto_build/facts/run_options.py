"""Options of a run, a row each: parsing, command lines, help and settings follow from the table.

A user types ``NAME=value`` after a target of SCons, or a flag of ``pypto-build``, under upstream's names of all ages.
The tools that run an artifact (``python -m pypto_build.replay``, and for simpler ``python -m pypto_build.interop.run``)
take ``flag``. They hand ``SETTINGS`` to the embedded runtime, which knows them by the same names in C++.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping

import msgspec

#: Among comparators, in the place of an output: all outputs that have none of their own.
ALL_OUTPUTS = "*"
#: Runtimes that execute a replay.
EMBEDDED, TORCH, SIMPLER = RUNTIMES = ("embedded", "torch", "simpler")
_OURS = (EMBEDDED, TORCH)

#: Results of an instruction where device and upstream's simulator differ: the device's where they cost no time (fast),
#: always the device's, or the simulator's.
NUMERICS = ("fast", "device", "simulator")
FAST, DEVICE_RESULTS, SIMULATOR = NUMERICS

#: The variable with the directory of logs; the runtime writes there at the log level of the run.
LOG_PATH = "ASCEND_PROCESS_LOG_PATH"
#: The variable with a file of memory that a program outside of a replay shares with its chips.
REGIONS = "PYPTO_REGIONS"

#: Reactions to a kernel that breaks a rule of the device.
RULES = ("show", "error", "off")
RULES_SHOW, RULES_ERROR, RULES_OFF = RULES

#: Numbers of simpler's log levels: those since August 2026, and v0 to v9 from before.
LOG_LEVELS: dict[str, int] = {
    "debug": 10,
    "info": 20,
    "timing": 25,
    "warn": 30,
    "error": 40,
    "null": 60,
    **{f"v{number}": 15 + number for number in range(10)},
}


#: The largest whole number that the runtime takes.
LARGEST = 2**63 - 1


class ValueKind(msgspec.Struct, frozen=True):
    """The values that an option accepts; ``what`` describes them in words."""

    type: type[bool] | type[int] | type[float] | type[str] = str
    what: str = ""
    min: float | None = None
    max: int | None = None
    choices: tuple[str, ...] = ()
    listed: bool = False  # several, with commas between them
    is_path: bool = False
    quoted: bool = False  # words as a shell splits them


def one_of(*choices: str) -> ValueKind:
    """Return a kind that accepts one of these words; an empty word stands for none."""
    return ValueKind(what=f"one of {', '.join(filter(None, choices))}", choices=choices)


def level(highest: int) -> ValueKind:
    """Return a kind that accepts a level from 0 to ``highest``."""
    return ValueKind(int, f"a level from 0 to {highest}", 0, highest)


def whole(lowest: int) -> ValueKind:
    """Return a kind that accepts a whole number of at least ``lowest``."""
    return ValueKind(int, f"a whole number from {lowest} to {LARGEST}", lowest)


TEXT, LIST, SWITCH = ValueKind(), ValueKind(listed=True), ValueKind(bool, "0 or 1")
PATH = ValueKind(is_path=True)
FLAGS = ValueKind(what="flags with quotation marks in pairs", quoted=True)
NOT_NEGATIVE = ValueKind(float, "a finite number of 0 or more", 0)
SECONDS = ValueKind(float, "a number of seconds above 0", 0.001)
DEVICE = ValueKind(int, "the number of a device", 0)


def is_tolerance(value: object) -> bool:
    """Return whether ``value`` can be a tolerance: a finite number of 0 or more."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    return 0 <= value <= sys.float_info.max  # also false for NaN


class Use(msgspec.Struct, frozen=True):
    """The meaning of an option for one verb, and the values that this verb accepts; any value if ``choices`` is
    empty.
    """

    doc: str
    choices: tuple[str, ...] = ()


class Option(msgspec.Struct, frozen=True):
    """An option: a user gives it as ``NAME=value``, or to ``pypto-build`` by one of ``flags`` (else ``--name``).

    ``bare`` is the level that a flag without a value means. ``uses`` has the verbs for which it means more than
    ``doc``.
    """

    name: str
    kind: ValueKind
    default: bool | int | float | str | None
    doc: str
    flags: tuple[str, ...] = ()
    bare: int | None = None
    uses: Mapping[str, Use] = {}

    def doc_for(self, verb: str) -> str:
        """Return the description of the option for a verb."""
        return self.uses[verb].doc if verb in self.uses else self.doc

    def choices_for(self, verb: str) -> tuple[str, ...]:
        """Return the values that a verb accepts; empty if it accepts any value of the kind's type."""
        own = self.uses[verb].choices if verb in self.uses else ()
        return own or self.kind.choices


Value = bool | int | str | tuple[int, ...] | tuple[str, ...] | None


class Setting(msgspec.Struct, frozen=True):
    """A setting of a runtime: its name there, and its default."""

    name: str
    default: Value
    doc: str = ""


class RunOption(Option, frozen=True):
    """An option of a run.

    It goes to the run as ``flag``, and to the runtime as ``setting``. A switch whose setting is not True has that value
    in ``sets``. ``runtimes`` support the option. ``verbs`` accept it, besides those that build, replay, and inspect a
    replay. If it ``configures``, each value is a separate replay of the same artifact, with separate results. ``more``
    is text that the run's own help adds. ``fields`` are its names in PyPTO's and simpler's configurations of a run,
    ``scene_flags`` its names on the command line of a scene test, the newest first.
    """

    flag: str = ""
    setting: Setting | None = None
    sets: bool = True
    runtimes: tuple[str, ...] = RUNTIMES
    verbs: tuple[str, ...] = ()
    configures: bool = True
    more: str = ""
    fields: tuple[str, ...] = ()
    scene_flags: tuple[str, ...] = ()

    def words(self, value: object) -> list[str]:
        """Return the command-line words for this value; empty for None and for the default."""
        if value is True:
            return [self.flag]
        return [] if value is None or value == self.default else [self.flag, str(value)]


_ONE_RUN = (
    "diverge",
    "hazards",
    "speed",
    "flaky",
    "why",
    "step",
    "extract",
    "reduce",
)  # tools that make runs of their own
_WITH_DATA = ("debug", "sweep", *_ONE_RUN)
_COMPARING = ("bisect", "scene_test", "diverge", "why", "step", "reduce", "sweep")

# fmt: off
_ORDER_AND_DATA = (
    # The directory that DATA= names configures, not its spelling; a run that ends within its time has the same results.
    RunOption("DATA", PATH, "",
        "a directory with in/ and out/ to use in place of the artifact's data/; 'reference': PyTorch makes the golden",
        ("--golden-data", "--data"), flag="--data", verbs=("bisect", "scene_test", *_WITH_DATA), configures=False),
    RunOption("RTOL", NOT_NEGATIVE, None, "the relative tolerance (default: the artifact's, else 1e-5)", flag="--rtol",
        verbs=_COMPARING),
    RunOption("ATOL", NOT_NEGATIVE, None, "the absolute tolerance (default: the artifact's, else 1e-5)", flag="--atol",
        verbs=_COMPARING),
    RunOption("SEED", whole(0), 0, "the seed of random inputs and orders", flag="--seed",
        verbs=("compile", *_WITH_DATA)),
    RunOption("ROUNDS", whole(1), 1, "how often to run; a timeline then has medians", flag="--rounds",
        verbs=("flaky",)),
    RunOption("TIMEOUT", SECONDS, 60.0, "the seconds that a run may take", flag="--timeout",
        verbs=(*_ONE_RUN, "sweep"), configures=False),
    RunOption("WORLD", whole(0), 0, "the number of ranks of a distributed program (default: as compiled)", ("--world",),
        flag="--world", runtimes=_OURS, verbs=("hazards", "speed", "flaky", "diverge")),
    RunOption("DEVICES", TEXT, "",
        "the devices of a distributed program's ranks, such as 0,2 or 0-3; on a CPU they only name the ranks",
        flag="--devices", runtimes=_OURS, verbs=("hazards", "speed", "flaky", "diverge")),
    RunOption("RUNTIME", one_of(*RUNTIMES), EMBEDDED, "the runtime that executes the replay", flag="--runtime"),
    RunOption("NUMERICS", one_of(*NUMERICS), NUMERICS[0],
        "whose results count where they differ: the device's where that costs no time (fast), or one side's",
        flag="--numerics", runtimes=_OURS, verbs=(*_ONE_RUN, "sweep")),
    RunOption("RULES", one_of(*RULES), RULES[0],
        "what to do if a kernel breaks a device rule: show it, fail with exit status 8 (error), or nothing (off)",
        flag="--rules",
        runtimes=_OURS),
    RunOption("STRICT", SWITCH, False, "1: also order readers before the next writer, and outputs that overlap",
        flag="--strict", setting=Setting("strict", False), runtimes=_OURS),
    RunOption("SHUFFLE", SWITCH, False, "1: run tasks in a random order that the dependencies allow, by SEED",
        flag="--shuffle", setting=Setting("shuffle", False), runtimes=_OURS),
    RunOption("SERIAL", SWITCH, False, "1: run tasks one by one, in the order of submission", flag="--serial",
        setting=Setting("serial", False), runtimes=_OURS),
    RunOption("MEMORY", one_of("", "weak"), "",
        "weak: other cores and pipes see a store only when the device would show it to them",
        flag="--memory-model", setting=Setting("memory", ""), runtimes=(EMBEDDED,), verbs=("hazards", "flaky"),
        more="late as SEED says; 0: as late as is allowed"),
    RunOption("ZERO_FILL", SWITCH, False, "1: let outputs start as zeros, not as NaN", flag="--zero-fill",
        setting=Setting("poison", True, "outputs and allocated tensors start as NaN or a pattern"), sets=False,
        runtimes=_OURS, more="or a pattern that shows what nobody wrote"),
    RunOption("ALLOW_UNCHECKED", SWITCH, False, "1: do not fail if there is no golden",
        ("--allow-unchecked", "--no-validate")),
    RunOption("FORCE", SWITCH, False, "1: run again although nothing changed", ("-f", "--force"),
        verbs=("scene_test",)),
    RunOption("DEVICE", DEVICE, 0, "the number of the device, for hardware",
        ("-d", "--device", "--device-id"), flag="--device",
        runtimes=(SIMPLER,)),
    RunOption("SKIP_COMPILE", SWITCH, False,
        "1: with RUNTIME=simpler, take the binaries beside the artifact's sources", flag="--skip-compile",
        runtimes=(SIMPLER,)),
)

_WHICH_SIMPLER = (
    RunOption("SIMPLER", TEXT, "", "the simpler to use: a checkout, an environment or a revision",
        flag="--simpler", runtimes=(SIMPLER,), verbs=("bisect", "install", "fetch")),
    RunOption("PTO_ISA", TEXT, "", "the pto-isa to use with simpler: a checkout or a revision",
        ("--isa", "--pto-isa", "--pto-isa-commit"), flag="--isa", runtimes=(SIMPLER,), verbs=("install", "fetch")),
)

_RECORDS = (
    RunOption("DUMP", level(3), 0, "record arguments of tasks: 1 the marked ones, 2 all, 3 all without content",
        ("--dump-args", "--enable-dump-args"), 1, flag="--dump-args", setting=Setting("dump_args", 0),
        fields=("enable_dump_args", "enable_dump_tensor"), scene_flags=("--dump-args", "--dump-tensor")),
    RunOption("DUMP_ARGS", LIST, "", "record only these arguments: KERNEL or KERNEL:INDEX, with commas",
        ("--dump-select",),
        flag="--dump-select", setting=Setting("dump_select", ()), runtimes=_OURS,
        more="* and ? match; level 2 if none is given"),
    RunOption("DUMP_TASKS", LIST, "", "record only these tasks: N, N-M or 0xID, with commas", flag="--dump-tasks",
        setting=Setting("dump_tasks", ()), runtimes=_OURS, more="level 2 if none is given"),
    RunOption("DUMP_FORMAT", one_of("", "args", "tensor"), "", "tensor: use the file names from before June 2026",
        flag="--dump-format", setting=Setting("dump_format", "args"), runtimes=_OURS,
        more="tensor_dump/tensor_dump.json, else args_dump/args_dump.json"),
    RunOption("DEP_GEN", SWITCH, False, "1: record the task graph, in dfx_outputs/deps.json",
        ("--enable-dep-gen", "--dep-gen"),
        flag="--dep-gen", setting=Setting("dep_gen", False), fields=("enable_dep_gen",),
        scene_flags=("--enable-dep-gen",)),
    RunOption("SWIMLANE", level(4), 0, "record the timeline, at level 1 to 4",
        ("--enable-chip-swimlane", "--enable-l2-swimlane", "--swimlane", "--swimlane-level", "--enable-profiling"), 4,
        flag="--swimlane", setting=Setting("swimlane", 0),
        fields=("enable_chip_swimlane", "enable_l2_swimlane", "enable_profiling", "runtime_profiling"),
        scene_flags=("--enable-chip-swimlane", "--enable-l2-swimlane")),
    RunOption("SCOPE_STATS", SWITCH, False, "1: record the use of scopes, in dfx_outputs/scope_stats/",
        ("--enable-scope-stats", "--scope-stats"), flag="--scope-stats", setting=Setting("scope_stats", False),
        fields=("enable_scope_stats",)),
    RunOption("PMU", level(8), 0, "count hardware events: 1 arithmetic, 2 pipes, 4 memory and so on",
        ("--pmu", "--enable-pmu"), 2, flag="--pmu", setting=Setting("pmu", 0), runtimes=(SIMPLER,),
        fields=("enable_pmu",), scene_flags=("--enable-pmu",)),
    RunOption("LOG_LEVEL", one_of("", *LOG_LEVELS), "", "what the runtime logs; v0 logs every task", flag="--log-level",
        setting=Setting("log_level", LOG_LEVELS["warn"])),
)
# fmt: on

#: The options by name, and by the heading in the help under which they stand.
OF_THE_RUN, OF_SIMPLER, OF_ITS_RECORDS = (
    {option.name: option for option in options} for options in (_ORDER_AND_DATA, _WHICH_SIMPLER, _RECORDS)
)
RUN_OPTIONS: dict[str, RunOption] = OF_THE_RUN | OF_SIMPLER | OF_ITS_RECORDS

_WINDOW, _HEAP = (16384,) * 4, (256 << 20,) * 4

# Settings from the callers of the embedded runtime, without an option for users.
_TOLD = (
    Setting("seed", 0, "of the random order"),
    Setting("order", (), "ids of tasks: they run one by one in this order, those left out last"),
    Setting("on_task", None, "is called in place of every task's kernels"),
    Setting("protect_inputs", True, "notice writes to IN tensors"),
    Setting("parameter_order", "", "'t' and 's' in declaration order; empty: tensors first"),
    Setting("graph", False, "the text of deps.json in the result"),
    Setting("accesses", False, "write what checked kernels touch: accesses.json and accesses.bin"),
    Setting("operands", False, "write with which operands checked kernels executed instructions: executed.json"),
    Setting("trap", (), "nan, inf, saturate, denormal: checked kernels end where one of them is made"),
    Setting("judge", True, "checked kernels say what is wrong; else they record loads, stores and traces, no more"),
    Setting("instructions", False, "checked kernels leave their instructions without values: instructions.json, .bin"),
    Setting("trace", (), "task and block (-1: all) of each call that leaves every instruction with its values"),
    Setting("only", (), "task and block (-1: all) of the calls that are made, where not all are"),
    Setting("hooked", (), "task and block (-1: all) of the calls that on_task stands in for, where not for all"),
    Setting("output_dir", "", "of what a run leaves"),
    Setting("report", None, "shared memory for what is said of crashes and progress"),
    Setting("flight", None, "shared memory for the last events of every core"),
    Setting("board", None, "shared memory in which the ranks of several chips tell what they wait for"),
    Setting("windows", (), "address and size of the windows of all ranks"),
    Setting("rank", 0, "of this run, where there is a board"),
    Setting("ring_task_window", _WINDOW, "tasks at a time, for each ring"),
    Setting("ring_heap", _HEAP, "bytes for allocated tensors, for each ring"),
    Setting("ring_dep_pool", _WINDOW, "edges at a time, for each ring"),
)
_GIVEN = (option.setting for option in RUN_OPTIONS.values() if option.setting and EMBEDDED in option.runtimes)
SETTINGS: dict[str, Setting] = {setting.name: setting for setting in (*_GIVEN, *_TOLD)}
