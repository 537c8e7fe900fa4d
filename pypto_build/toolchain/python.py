"""Command lines that start Python for our tools, without imports from the working directory.

The working directory may be that of an artifact, whose files come from anywhere: one may be called ``json.py``.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

_TO_END_S = 20  # a build may have compilers and runs to end
_LAUNCHER = Path(__file__).resolve().with_name("run_module.py")
_NOT_HERE = "import sys; sys.path[:] = filter(None, sys.path)\n"


def own_tool(module: str, *flags: str) -> list[str]:
    """Return the first words of a command line that runs a module as ``python -m`` does, without the working directory.

    ``flags`` are Python's."""
    return [sys.executable, *flags, str(_LAUNCHER), module]


def python_code(python: str, code: str) -> list[str]:
    """Return the command line by which any interpreter runs a few lines, without imports from the working directory."""
    return [python, "-c", _NOT_HERE + code]


def run_tool(command: Sequence[str], environment: Mapping[str, str]) -> tuple[int, str]:
    """Run a command without input; return its exit status and the output of both streams."""
    run = subprocess.run(
        command,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
    )
    return run.returncode, run.stdout


def kept(command: Sequence[str], memory: int = 0) -> list[str]:
    """Return a command line that runs ``command`` and ends it when the caller ends, in whatever way.

    The caller starts it in a session of its own and holds its standard input open. ``memory`` limits the address space
    of each of its processes in bytes, 0 for no limit.
    """
    return [*own_tool("pypto_build.toolchain.keeper"), str(memory), *command]


def run_kept(command: Sequence[str], environment: Mapping[str, str]) -> tuple[int, str]:
    """Run a command that ends with this process; return its exit status and the output of both streams."""
    with start_kept(command, environment, subprocess.PIPE) as process:
        assert process.stdout is not None
        try:
            printed = process.stdout.read().decode(errors="replace")
            process.wait()
        finally:
            if process.poll() is None:
                end_session(process)
    return process.returncode, printed


def start_kept(
    command: Sequence[str],
    environment: Mapping[str, str],
    output: IO[bytes] | int,
    memory: int = 0,
    directory: Path | None = None,
) -> subprocess.Popen[bytes]:
    """Start a command that ends with this process, in ``directory``. Both of its streams are written to ``output``.

    ``memory`` limits it as in ``kept``.
    """
    return subprocess.Popen(
        kept(command, memory),
        cwd=directory,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=output,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )


def end_session(process: subprocess.Popen[bytes]) -> None:
    """End a process that has a session of its own, with all processes that it started there, and wait for it."""
    for number in (signal.SIGTERM, signal.SIGKILL):  # not SIGINT, which a shell's background commands ignore
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with suppress(subprocess.TimeoutExpired):
            process.wait(_TO_END_S)
            return


def own_environment(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the environment without entries of PYTHONPATH that are relative or mean the working directory.

    The interpreter makes them absolute before any code of ours runs, and imports ``sitecustomize`` from them.
    """
    entries = environment.get("PYTHONPATH", "").split(os.pathsep)
    kept = os.pathsep.join(entry for entry in entries if os.path.isabs(entry))
    others = {name: value for name, value in environment.items() if name != "PYTHONPATH"}
    return others | ({"PYTHONPATH": kept} if kept else {})
