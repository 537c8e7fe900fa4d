"""A debugger on the kernels of a task: `python -m pypto_build.diagnose.debug ARTIFACT_DIR --task 3 --break 69 …`.

The task runs kernels compiled for a debugger (-O0 -g). Earlier tasks run the usual kernels. Without a task, all kernels
are compiled for a debugger. With SCRIPT=, the debugger executes commands and prints their output; otherwise it uses the
terminal. A crash leaves a core, which CORE=1 opens.

Exit status: 0; 1 if no breakpoint was reached, 2 usage, 3 build, 5 a crash or a fault of the run.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

from pypto_build.artifact import ArtifactError
from pypto_build.diagnose.console import add_beside, add_run_options, command, one_of, tool_parser
from pypto_build.diagnose.debug.breakpoints import breakpoints_of
from pypto_build.diagnose.debug.debuggers import DebugSession, gdb_words, lldb_words, rr_words
from pypto_build.diagnose.script import commands_in
from pypto_build.facts import places
from pypto_build.toolchain.host import INCLUDE_DIR
from pypto_build.toolchain.python import own_tool


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    options = tool_parser("debug", __doc__)
    add = options.add_argument
    add_run_options(options, 0.0)
    add_beside(options)
    add("--seed", type=int, default=0, metavar="N", help="seed of inputs made up without data/in (0)")
    add("--task", default="", metavar="N", help="the task, counted from 0 in the order of submission (all)")
    add("--block", type=int, default=0, metavar="N", help="its block (0)")
    add("--break", dest="breaks", default="", metavar="WHERE", help="k.cpp:69, 69 or a function (the kernel's begin)")
    add("--debugger", default="gdb", metavar="NAME", help="gdb or lldb")
    add("--rr", action="store_true", help="record the run with rr, and go through it forward and back")
    add("--core", action="store_true", help="open the core that the last crash left")
    add("--script", default="", metavar="TEXT", help="commands, with semicolons between them, or a file of them")
    return options


@command("debug", parser)
def main(given: argparse.Namespace) -> int:
    """Run the debugger and return the exit status."""
    one_of("DEBUGGER", given.debugger, ("gdb", "lldb"))
    if given.task and (not given.task.isdecimal() or len(given.task) > 9):
        raise ArtifactError("", f"TASK={given.task} is no task's number", "give one, such as TASK=3")
    if given.rr and given.debugger != "gdb":
        raise ArtifactError("", "RR=1 works with gdb", "leave DEBUGGER= out")
    wanted = _wanted(given)
    if given.rr and not given.core:
        return _with_rr(wanted)
    words = lldb_words(wanted) if given.debugger == "lldb" else gdb_words(wanted)
    sys.stdout.flush()
    return subprocess.run(words, check=False).returncode


def _wanted(given: argparse.Namespace) -> DebugSession:
    binaries = (given.binaries or given.build_dir / "debug").absolute()
    work = binaries / "session"
    work.mkdir(parents=True, exist_ok=True)
    core = work / "core"
    if given.core and not core.is_file():
        raise ArtifactError("", "CORE=1: no crash has left a core", "leave it out: a session that crashes leaves one")
    program = [*own_tool("pypto_build.diagnose.debug.inferior"), str(given.artifact)]
    program += ["--platform", given.platform, "--build-dir", str(given.build_dir), "--embedded", str(given.embedded)]
    program += ["--binaries", str(binaries), "--seed", str(given.seed), "--block", str(given.block)]
    program += ["--numerics", given.numerics, *(["--usual", str(given.usual)] if given.usual else [])]
    program += ["--task", given.task] if given.task else []
    program += ["--data", str(given.data)] if given.data else []
    batch = bool(given.script) or not sys.stdin.isatty()
    commands = commands_in(given.script) if batch else None
    breaks = breakpoints_of(given.artifact, given.breaks, default=bool(given.task))
    sources = {
        places.ARTIFACT: given.artifact.absolute(),
        places.OUTPUT: given.build_dir.absolute(),
        places.WORKSPACE: Path.cwd(),
        places.HEADERS: INCLUDE_DIR,
    }
    return DebugSession(program, breaks, work, sources, commands, core if given.core else None)


def _with_rr(wanted: DebugSession) -> int:
    import shutil

    record, replay = rr_words(wanted)
    shutil.rmtree(wanted.work / "rr", ignore_errors=True)
    run = subprocess.run(record, capture_output=True, text=True, errors="replace", check=False)
    if not (wanted.work / "rr").is_dir() or "[FATAL" in run.stderr:
        reason = next((line for line in run.stderr.splitlines() if line.strip()), "it says nothing")
        raise ArtifactError("", f"rr cannot record here: {reason.strip()}", "leave RR=1 out")
    print(run.stdout, end="", flush=True)
    return subprocess.run(replay, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
