"""Command lines of gdb, lldb and rr for a debug session."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pypto_build.artifact import ArtifactError
from pypto_build.diagnose.debug.given import TASK_FILE
from pypto_build.facts.places import HEADERS

_INSTALL = {"gdb": "apt-get install gdb", "lldb": "apt-get install lldb", "rr": "apt-get install rr"}
#: The commands of a batch without a script.
DEFAULT_SCRIPT = {"gdb": ("bt 8", "pypto-args", "info locals"), "lldb": ("bt 8", "frame variable")}


#: Headers of the runtime, which `step` does not stop in.
_SKIPPED = [f"{HEADERS}/{headers}" for headers in ("pto/*.hpp", "pto/detail/*.hpp", "pypto/*.h", "*.h")]


@dataclass(frozen=True)
class DebugSession:
    """A debug session: the program, breakpoints as (file, line or function, condition), and commands.

    Without `commands` the session is interactive. It writes its files to `work`. `sources` maps directory names in the
    debug information to real directories.
    """

    program: Sequence[str]
    breakpoints: Sequence[tuple[str, str, str]]
    work: Path
    sources: Mapping[str, Path]
    commands: Sequence[str] | None = None
    core: Path | None = None


def require(name: str) -> str:
    """Return the path of a program. If it is missing, raises a usage error that says what to install."""
    found = shutil.which(name)
    if found is None:
        other = " (or DEBUGGER=lldb)" if name == "gdb" and shutil.which("lldb") else ""
        raise ArtifactError("", f"{name} is not installed", f"{_INSTALL[name]}{other}")
    return found


def gdb_words(wanted: DebugSession) -> list[str]:
    """Return the command line of gdb on the program, or on its core."""
    words = [require("gdb"), "-q", *(["-nx", "-batch"] if wanted.commands is not None else [])]
    words += _gdb_setup(wanted, core="" if wanted.core else str(wanted.work / "core"))
    if wanted.core:
        words += _execute(f"core-file {wanted.core}", *_script(wanted, "gdb"))
        words += _execute("python session.over()") if wanted.commands is not None else []
        return [*words, wanted.program[0]]
    words += _execute("pypto-run batch" if wanted.commands is not None else "pypto-run", *_script(wanted, "gdb"))
    words += _execute("python session.over()") if wanted.commands is not None else []
    return [*words, "--args", *wanted.program]


def _gdb_setup(wanted: DebugSession, core: str) -> list[str]:
    printers = Path(__file__).with_name("gdb_printers.py")
    quiet = ["-iex", "set auto-load no"]  # skips the gdb extensions of Python itself
    return quiet + _execute(
        "set confirm off",
        "set breakpoint pending on",
        "set print thread-events off",
        "set print inferior-events off",
        "set debuginfod enabled off",
        "set filename-display absolute",
        *(f"set substitute-path {name} {shlex.quote(str(path))}" for name, path in wanted.sources.items()),
        "set pagination off" if wanted.commands is not None else "set pagination on",
        f"source {printers}",
        f"python session = begin({str(wanted.work / TASK_FILE)!r}, {core!r})",
        f"python session.prepare({_SKIPPED!r}, {[place(*one) for one in wanted.breakpoints]!r})",
    )


def place(file: str, where: str, condition: str) -> str:
    """Return a breakpoint in gdb's syntax, such as `kernel_mul.cpp:69 if v19 == 128`."""
    return f"{file}:{where}" + (f" if {condition}" if condition else "")


def _script(wanted: DebugSession, debugger: str) -> Sequence[str]:
    if wanted.commands is None:
        return ()
    return wanted.commands or DEFAULT_SCRIPT[debugger]


def _execute(*commands: str) -> list[str]:
    return [word for command in commands for word in ("-ex", command)]


def rr_words(wanted: DebugSession) -> tuple[list[str], list[str]]:
    """Return two command lines of rr: one records the run, the other replays it under gdb, forward and back."""
    rr, trace = require("rr"), wanted.work / "rr"
    require("gdb")
    batch = ["-nx", "-batch"] if wanted.commands is not None else []
    words = [*batch, *_gdb_setup(wanted, core="")]
    words += _execute("continue", *_script(wanted, "gdb"))
    return [rr, "record", "-o", str(trace), *wanted.program], [rr, "replay", str(trace), "--", *words]


def lldb_words(wanted: DebugSession) -> list[str]:
    """Return the command line of lldb on the program, or on its core."""
    words = [require("lldb"), *(["--no-lldbinit", "--batch"] if wanted.commands is not None else [])]
    named = " ".join(f"{name} {shlex.quote(str(path))}" for name, path in wanted.sources.items())
    words += ["-O", f"settings set target.source-map {named}"]
    commands = [_lldb_breakpoint(*one) for one in wanted.breakpoints] if wanted.core is None else []
    commands += ["run"] if wanted.core is None else []
    commands += _script(wanted, "lldb")
    words += [word for command in commands for word in ("-o", command)]
    if wanted.commands is not None:  # after a crash, a batch executes only the commands of -k
        words += [word for command in _script(wanted, "lldb") for word in ("-k", command)]
    if wanted.core:
        return [*words, "-c", str(wanted.core), wanted.program[0]]
    return [*words, "--", *wanted.program]


def _lldb_breakpoint(file: str, where: str, condition: str) -> str:
    at = f"-l {where}" if where.isdecimal() else f"-n {where}"
    more = f" -c '{condition}'" if condition else ""
    return f"breakpoint set -f {file} {at}{more}"
