"""A debugger on the kernels of a task: `python -m pypto_build.diagnose.debug ARTIFACT_DIR --task 3 --break 69 …`.

The task runs kernels compiled for a debugger (-O0 -g). Earlier tasks run the usual kernels. Without a task, all kernels
are compiled for a debugger. With SCRIPT=, the debugger executes commands and prints their output; otherwise it uses the
terminal. A crash leaves a core, which CORE=1 opens.

Exit status: 0; 1 if no breakpoint was reached, 2 usage, 3 build, 5 a crash or a fault of the run.
"""

from __future__ import annotations

import argparse
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pypto_build.artifact import ArtifactError, load_artifact
from pypto_build.artifact.files import read_source
from pypto_build.diagnose.console import (
    add_beside,
    add_options_of,
    add_run_options,
    command,
    commands_in,
    tool_parser,
)
from pypto_build.diagnose.debug.inferior import TASK_FILE
from pypto_build.facts import places
from pypto_build.facts.places import HEADERS
from pypto_build.toolchain.host import INCLUDE_DIR
from pypto_build.toolchain.python import own_tool

# Command lines of gdb, lldb and rr for a debug session.

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
    program = shutil.which(name)
    if program is None:
        other = " (or DEBUGGER=lldb)" if name == "gdb" and shutil.which("lldb") else ""
        raise ArtifactError("", f"{name} is not installed", f"{_INSTALL[name]}{other}")
    return program


def gdb_words(session: DebugSession) -> list[str]:
    """Return the command line of gdb on the program, or on its core."""
    words = [require("gdb"), "-q", *(["-nx", "-batch"] if session.commands is not None else [])]
    words += _gdb_setup(session, core="" if session.core else str(session.work / "core"))
    if session.core:
        words += _execute(f"core-file {session.core}", *_script(session, "gdb"))
        words += _execute("python session.over()") if session.commands is not None else []
        return [*words, session.program[0]]
    words += _execute("pypto-run batch" if session.commands is not None else "pypto-run", *_script(session, "gdb"))
    words += _execute("python session.over()") if session.commands is not None else []
    return [*words, "--args", *session.program]


def _gdb_setup(session: DebugSession, core: str) -> list[str]:
    printers = Path(__file__).with_name("gdb_printers.py")
    quiet = ["-iex", "set auto-load no"]  # skips the gdb extensions of Python itself
    return quiet + _execute(
        "set confirm off",
        "set breakpoint pending on",
        "set print thread-events off",
        "set print inferior-events off",
        "set debuginfod enabled off",
        "set filename-display absolute",
        *(f"set substitute-path {name} {shlex.quote(str(path))}" for name, path in session.sources.items()),
        "set pagination off" if session.commands is not None else "set pagination on",
        f"source {printers}",
        f"python session = begin({str(session.work / TASK_FILE)!r}, {core!r})",
        f"python session.prepare({_SKIPPED!r}, {[place(*one) for one in session.breakpoints]!r})",
    )


def place(file: str, where: str, condition: str) -> str:
    """Return a breakpoint in gdb's syntax, such as `kernel_mul.cpp:69 if v19 == 128`."""
    return f"{file}:{where}" + (f" if {condition}" if condition else "")


def _script(session: DebugSession, debugger: str) -> Sequence[str]:
    if session.commands is None:
        return ()
    return session.commands or DEFAULT_SCRIPT[debugger]


def _execute(*commands: str) -> list[str]:
    return [word for command in commands for word in ("-ex", command)]


def rr_words(session: DebugSession) -> tuple[list[str], list[str]]:
    """Return two command lines of rr: one records the run, the other replays it under gdb, forward and back."""
    rr, trace = require("rr"), session.work / "rr"
    require("gdb")
    batch = ["-nx", "-batch"] if session.commands is not None else []
    words = [*batch, *_gdb_setup(session, core="")]
    words += _execute("continue", *_script(session, "gdb"))
    return [rr, "record", "-o", str(trace), *session.program], [rr, "replay", str(trace), "--", *words]


def lldb_words(session: DebugSession) -> list[str]:
    """Return the command line of lldb on the program, or on its core."""
    words = [require("lldb"), *(["--no-lldbinit", "--batch"] if session.commands is not None else [])]
    named = " ".join(f"{name} {shlex.quote(str(path))}" for name, path in session.sources.items())
    words += ["-O", f"settings set target.source-map {named}"]
    commands = [_lldb_breakpoint(*one) for one in session.breakpoints] if session.core is None else []
    commands += ["run"] if session.core is None else []
    commands += _script(session, "lldb")
    words += [word for command in commands for word in ("-o", command)]
    if session.commands is not None:  # after a crash, a batch executes only the commands of -k
        words += [word for command in _script(session, "lldb") for word in ("-k", command)]
    if session.core:
        return [*words, "-c", str(session.core), session.program[0]]
    return [*words, "--", *session.program]


def _lldb_breakpoint(file: str, where: str, condition: str) -> str:
    at = f"-l {where}" if where.isdecimal() else f"-n {where}"
    more = f" -c '{condition}'" if condition else ""
    return f"breakpoint set -f {file} {at}{more}"


# Parser of `BREAK=`, which names lines and functions of kernels.

#: One breakpoint: `kernel_mul.cpp:69 if v19 == 128`, `69` or `kernel_mul`.
_ONE = re.compile(r"(?:(?P<file>[^:\s]+):)?(?P<where>\d{1,9}|[A-Za-z_][\w:~]*)(?:\s+if\s+(?P<condition>.+))?")
_ENTRY = "kernel_entry"
# Debuggers split and evaluate their commands: a file named `k if $_shell("ls").cpp` would become a condition that runs.
_PLAIN = re.compile(r"[\w.+-]+")


def breakpoints_of(artifact: Path, text: str, default: bool) -> list[tuple[str, str, str]]:
    """Return each breakpoint as (file, line or function, condition).

    If `text` is empty and `default` is true, return the entry of every kernel. Raises ArtifactError for a missing file
    or line, and for a file name that is unsafe in a debugger's command.
    """
    sources = {kernel.source.name: kernel.source for kernel in load_artifact(artifact).kernels}
    for name, path in sources.items():
        if not _PLAIN.fullmatch(name):
            raise ArtifactError(path, "the debugger would read this file name as a command", "rename the file")
    if not text:
        return [(file, _begin(path), "") for file, path in sources.items()] if default else []
    breakpoints = []
    for part in filter(None, (one.strip() for one in text.split(","))):
        match = _ONE.fullmatch(part)
        if match is None:
            raise ArtifactError(
                "",
                f"BREAK={part} names neither a line nor a function",
                "give a line or function, such as kernel.cpp:69",
            )
        file = Path(match["file"]).name if match["file"] else ""
        if file and file not in sources:
            raise ArtifactError(
                "", f"BREAK={part}: no kernel has a file named '{file}'", f"the files are {', '.join(sources)}"
            )
        files = [file] if file else list(sources)
        if match["where"].isdecimal():
            files = _with_line(files, sources, int(match["where"]), part)
        breakpoints += [(one, match["where"], match["condition"] or "") for one in files]
    return breakpoints


def _with_line(files: list[str], sources: dict[str, Path], line: int, part: str) -> list[str]:
    lengths = {file: len(read_source(sources[file]).splitlines()) for file in files}
    reach = [file for file, length in lengths.items() if 0 < line <= length]
    if not reach:
        most = max(lengths.values(), default=0)
        raise ArtifactError("", f"BREAK={part}: the file has no line {line}", f"its last line is {most}")
    return reach


def _begin(source: Path) -> str:
    """Return the function that a kernel's entry calls, or the entry if the source defines no such function."""
    text = read_source(source)
    name = source.stem
    return name if re.search(rf"\b{re.escape(name)}\s*\([^;{{}}]*\)\s*\{{", text) else _ENTRY


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    options = tool_parser("debug", __doc__)
    add_run_options(options)
    add_beside(options)
    add_options_of(options, "debug")
    return options


@command("debug", parser)
def main(options: argparse.Namespace) -> int:
    """Run the debugger and return the exit status."""
    if options.task and (not options.task.isdecimal() or len(options.task) > 9):
        raise ArtifactError("", f"TASK={options.task} is not a task number", "give one such as TASK=3")
    if options.rr and options.debugger != "gdb":
        raise ArtifactError("", "RR=1 works only with gdb", "leave out DEBUGGER=")
    session = _session_of(options)
    if options.rr and not options.core:
        return _with_rr(session)
    words = lldb_words(session) if options.debugger == "lldb" else gdb_words(session)
    sys.stdout.flush()
    return subprocess.run(words, check=False).returncode


def _session_of(options: argparse.Namespace) -> DebugSession:
    binaries = (options.binaries or options.build_dir / "debug").absolute()
    work = binaries / "session"
    work.mkdir(parents=True, exist_ok=True)
    core = work / "core"
    if options.core and not core.is_file():
        raise ArtifactError(
            "", "CORE=1: no core file exists", "start without CORE=1; a session that crashes writes a core file"
        )
    program = [*own_tool("pypto_build.diagnose.debug.inferior"), str(options.artifact)]
    program += [
        "--platform",
        options.platform,
        "--build-dir",
        str(options.build_dir),
        "--embedded",
        str(options.embedded),
    ]
    program += ["--binaries", str(binaries), "--seed", str(options.seed), "--block", str(options.block)]
    program += ["--usual", str(options.usual)] if options.usual else []
    program += ["--task", options.task] if options.task else []
    program += ["--data", str(options.data)] if options.data else []
    batch = bool(options.script) or not sys.stdin.isatty()
    commands = commands_in(options.script) if batch else None
    breaks = breakpoints_of(options.artifact, options.break_, default=bool(options.task))
    sources = {
        places.ARTIFACT: options.artifact.absolute(),
        places.OUTPUT: options.build_dir.absolute(),
        places.WORKSPACE: Path.cwd(),
        places.HEADERS: INCLUDE_DIR,
    }
    return DebugSession(program, breaks, work, sources, commands, core if options.core else None)


def _with_rr(session: DebugSession) -> int:
    import shutil

    record, replay = rr_words(session)
    shutil.rmtree(session.work / "rr", ignore_errors=True)
    run = subprocess.run(record, capture_output=True, text=True, errors="replace", check=False)
    if not (session.work / "rr").is_dir() or "[FATAL" in run.stderr:
        reason = next((line for line in run.stderr.splitlines() if line.strip()), "it says nothing")
        raise ArtifactError("", f"rr cannot record here: {reason.strip()}", "leave out RR=1")
    print(run.stdout, end="", flush=True)
    return subprocess.run(replay, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
