"""The ``NAME=value`` options of all verbs, a row each: parsing, checks, help and the tools' flags follow from them."""

from __future__ import annotations

from enum import Enum

from pypto_build.facts.platforms import PLATFORMS
from pypto_build.facts.run_options import (
    FLAGS,
    NOT_NEGATIVE,
    OF_ITS_RECORDS,
    OF_SIMPLER,
    OF_THE_RUN,
    PATH,
    SECONDS,
    SWITCH,
    TEXT,
    Option,
    Use,
    one_of,
    whole,
)

#: Compiler launchers that users bring.
LAUNCHERS: tuple[str, ...] = ("ccache", "sccache", "distcc", "icecc")


class Group(Enum):
    """Options that the same targets take; the value is their heading in the help."""

    COMMON = "For every verb"
    BUILD = "For the build"
    RUN = "For the run and the comparison"
    RECORDS = "For what the run records in dfx_outputs/"
    PROGRAMS = "For compile"
    TOOLS = "For some verbs"
    MANY = "For many artifacts (JIT= names, a glob or @LIST; PLATFORM= names)"


# fmt: off
_TABLE: dict[Group, tuple[Option, ...]] = {
    Group.COMMON: (
        Option("JIT", TEXT, "", "the artifact: a name, a path, a glob, or 'latest'"),
        Option("SCENE", TEXT, "",
            "in place of JIT=: scene tests, as FILE[::CLASS[::CASE]] or a directory, with commas"),
        Option("PLATFORM", one_of(*PLATFORMS), "a2a3sim",
            "a2a3sim, a5sim; a2a3, a5 run on hardware, or on the CPU where there is none", ("-p", "--platform")),
        Option("BUILD_OUTPUT", PATH, "",
            "the directory with artifacts (default: $PYPTO_PROG_BUILD_DIR, else build_output)"),
        Option("BUILD_DIR", TEXT, "build", "the directory for everything that is built"),
        Option("VERBOSE", SWITCH, False,
            "1: show every step with its reason and command line, and the whole log of a run", ("-v", "--verbose")),
        Option("STORE_SIZE", NOT_NEGATIVE, 5.0, "the gigabytes that the store of results may take; 0 keeps nothing"),
        Option("STORE_REMOTE", TEXT, "", "a store that other machines use too: a directory, http(s):// or redis(s)://"),
        Option("STORE_UPLOAD", one_of("no", "background", "wait"), "background",
            "when to send results there: never (no), while you go on, or before scons ends (wait)"),
        Option("PROFILE", SWITCH, False,
            "1: say where the time went, and write BUILD_DIR/profile.json, a Chrome trace"),
        Option("WATCH", SWITCH, False, "1: run again at every save of a source or of data, until Ctrl-C"),
    ),
    Group.BUILD: (
        Option("CXX", TEXT, "", "the C++ compiler (default: g++, else clang++)"),
        Option("ARCH", TEXT, "",
            "the processor that kernels are compiled for; 'native' is this one (default: x86-64-v3)"),
        Option("KERNEL_FLAGS", FLAGS, "", "more flags for the compiler of kernels"),
        Option("COMPILE_TIMEOUT", SECONDS, 600.0, "the seconds that the compilation of one kernel may take"),
        Option("CHECK", SWITCH, False, "1: check what every instruction of a kernel touches"),
        Option("CASE", TEXT, "", "with SCENE=, only these cases: NAME, CLASS::NAME, CLASS:: or ::NAME, with commas"),
        Option("MANUAL", one_of("exclude", "include", "only"), "exclude", "with SCENE=, what to do with manual cases"),
        Option("SKIP_GOLDEN", SWITCH, False, "1: with SCENE=, make and compare no golden", ("--skip-golden",)),
        Option("SANDBOX", SWITCH, False,
            "1: compile and replay without network, with only OUT writable (needs bubblewrap)"),
        Option("LAUNCHER", one_of("", *LAUNCHERS), "", f"the program that runs compilations: {', '.join(LAUNCHERS)}"),
        Option("PTOAS", TEXT, "",
            "the assembler of .pto modules (default: $PTOAS_ROOT, PATH, else 'own', the built-in one)"),
        Option("PREFER", one_of("", "pto", "cpp"), "", "what counts if a module and its kernel were both edited"),
        *OF_SIMPLER.values(),
    ),
    Group.RUN: (
        *OF_THE_RUN.values(),
        Option("PACK", one_of("", "onfail"), "",
            "onfail: a replay that fails leaves an archive of itself, OUT/x.tar.zst"),
        Option("HARDWARE", SWITCH, False, "1: fail if PLATFORM=a2a3 or a5 finds no hardware"),
    ),
    Group.RECORDS: tuple(OF_ITS_RECORDS.values()),
    Group.PROGRAMS: (
        Option("PROGRAM", PATH, "", "the program, a Python file"),
        Option("COMPILER", one_of("", "pypto"), "", "pypto: compile with PyPTO itself"),
        Option("PYTHON", TEXT, "", "the Python that has PyPTO, for COMPILER=pypto (default: this one)"),
        Option("VARIABLES", TEXT, "", "more environment variables that the program sees, by name, with commas"),
        Option("VINTAGE", one_of("", "2026-05", "2026-06", "2026-08"), "",
            "the month of the C++ API to write for (default: the newest)"),
        Option("SKIP_PTOAS", SWITCH, False, "1: stop after the .pto modules"),
        Option("DUMP_PASSES", SWITCH, False, "1: write the program after each pass"),
    ),
    Group.MANY: (
        Option("SHARD", TEXT, "", "one share of the artifacts: 2/8 is the second of eight"),
        Option("MEM", NOT_NEGATIVE, 0.0, "the gigabytes that jobs may take together (0: nine tenths of what is free)"),
        Option("SCHEDULER", TEXT, "", "the address of a Dask scheduler that runs the jobs, or 'local'"),
        Option("HTML", TEXT, "", "a file for a page on all runs so far"),
    ),
    Group.TOOLS: (
        Option("WRITE", SWITCH, False, "1: write, else only show", uses={
            "splice": Use("1: write into the artifact, and keep the old files as .bak"),
            "gc": Use("1: remove, else only show")}),
        Option("DAYS", NOT_NEGATIVE, 0.0, "also remove what was not used for so many days (0: nothing)"),
        Option("OTHER", TEXT, "", "the artifact to compare with"),
        Option("TASK", TEXT, "", "a task: its number, ring:count or id", uses={
            "dump": Use("tasks, by number, ring:count or id, with commas"),
            "deps": Use("tasks, by number, ring:count or id, with commas"),
            "extract": Use("tasks, by number, ring:count or id, with commas, or a range: 3-7")}),
        Option("BLOCK", whole(0), 0, "the block of the task"),
        Option("TO", TEXT, "", "a second task: show what orders the two"),
        Option("RANK", TEXT, "", "a rank of a distributed program (1), or a dispatch of it (1/d0)"),
        Option("KERNEL", TEXT, "", "a kernel, by name or func_id", uses={
            "passes": Use("a function, by name"),
            "step": Use("a kernel of the task, by name or func_id, or aic, aiv0, aiv1")}),
        Option("FROM", TEXT, "", "where to begin", uses={
            "extract": Use("the first of the tasks, up to the last"),
            "why": Use("a tensor to follow forward")}),
        Option("KEEP", TEXT, "",
            "the failure to keep: mismatch:OUTPUT, crash, hang, build_error[:KERNEL], golden_error, or a rule"),
        Option("CVISE", SWITCH, False, "1: also run C-Vise on kernels without a module, for minutes"),
        Option("SEEDS", TEXT, "1-200", "the seeds, one for each case, such as 1-200,300"),
        Option("VALUES", TEXT, "", "the kinds of inputs: random, edge, structured, special (inf, nan)"),
        Option("SHAPES", TEXT, "", "the sizes of dynamic dimensions: 1,7,64, or 1x16,7x32 for two, or auto"),
        Option("CASES", TEXT, "", "only these of its cases: 51-100, or 17"),
        Option("GOLDEN", one_of("run", "reference"), "run",
            "what makes data/out: the kernels (run), or PyTorch (reference)"),
        Option("PASS", TEXT, "", "the pass to show, by name or number"),
        Option("FORMAT", one_of("text", "json", "dot"), "text", "the form of the answer"),
        Option("ARG", TEXT, "", "the argument, by name or index"),
        Option("ROLE", one_of("", "input", "output", "inout"), "", "only arguments with this role"),
        Option("STAGE", one_of("", "before", "after"), "", "only values from before or after the task"),
        Option("EXPORT", one_of("", "pt", "npy", "txt", "dot", "html", "trace", "swimlane"), "", "the form to write",
            uses={
                "dump": Use("the form to write: pt, npy or txt", ("pt", "npy", "txt")),
                "deps": Use("the form to write: dot, html or trace", ("dot", "html", "trace")),
                "step": Use("the form to write: html", ("html",)),
                "speed": Use("the form to write: trace or swimlane", ("trace", "swimlane"))}),
        Option("AGAINST", PATH, "", "what to compare with", uses={
            "dump": Use("a .pt file to compare with"),
            "diverge": Use("a recorded dump to compare with"),
            "reduce": Use("an artifact that is right, to compare with")}),
        Option("TRAP", TEXT, "", "end at the first instruction that makes one of nan, inf, saturate, denormal"),
        Option("CHIP", one_of("", "910B1", "910B2", "910B3", "910B4", "950PR", "950DT"), "",
            "the chip to predict for (default: 910B2, or 950PR on a5)"),
        Option("CALIBRATE", PATH, "", "a measured chip_swimlane_records.json or pmu.csv to fit rates to"),
        Option("WHATIF", TEXT, "", "changes to predict: double, nobanks, nodispatch, cores=N, l2=all"),
        Option("RATES", PATH, "", "a TOML file whose rows replace rates of the model"),
        Option("OUT", TEXT, "", "the output, by name (default: the only one)"),
        Option("AT", TEXT, "", "where to look", uses={
            "why": Use("the element, as 3,4, or the worst of ranges, as 0:64,7"),
            "step": Use("where to start, as 69, TADD#4 or v17")}),
        Option("SCRIPT", TEXT, "", "commands to run, such as 'next 3; print v17', or a file of them"),
        Option("BREAK", TEXT, "",
            "where to stop: k.cpp:69, 69 or a function, with commas (default: where the kernel begins)"),
        Option("DEBUGGER", one_of("gdb", "lldb"), "gdb", "the debugger"),
        Option("RR", SWITCH, False, "1: record the run with rr, to go back in it"),
        Option("CORE", SWITCH, False, "1: open the core that the last crash left"),
        Option("LOG", PATH, "", "a log, or the directory with the logs of host and device"),
        Option("AXIS", one_of("", "simpler", "pto_isa", "kernel", "hunk", "ptoas", "flags"), "",
            "what differs between the two ends"),
        Option("GOOD", TEXT, "", "the end that passes"),
        Option("BAD", TEXT, "", "the end that fails"),
        Option("REPEATS", whole(1), 1, "how often to run each step"),
        Option("JSON", PATH, "", "a file for findings or outcomes, as JSON"),
        Option("SARIF", PATH, "", "a file for findings or outcomes, as SARIF, for editors and CI"),
        Option("TAGS", TEXT, "", "only tests, or lines of a list, with one of these tags, with commas"),
        Option("NAMES", TEXT, "", "only tests with such names, with commas; also as scons test 'NAME*'"),
        Option("LIST", SWITCH, False, "1: list the tests that it would run, with their tags"),
        Option("TEST", TEXT, "", "a declared test, in place of JIT="),
        Option("FAILED", SWITCH, False, "1: run only the tests that failed the last time"),
        Option("JUNIT", PATH, "", "a file for outcomes, as JUnit's XML"),
        Option("ANNOTATE", one_of("", "0", "1", "github", "gitlab"), "",
            "annotate failures for GitHub or GitLab: 0, 1, github, gitlab (default: where they run it)"),
    ),
}
# fmt: on
OPTIONS: dict[str, Option] = {option.name: option for options in _TABLE.values() for option in options}
GROUP: dict[str, Group] = {option.name: group for group, options in _TABLE.items() for option in options}
