"""Runs actions: each leaves all its outputs or none, and outputs of parallel actions are not interleaved."""

from __future__ import annotations

import os
import re
import resource
import signal
import subprocess
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from pypto_build import terminal
from pypto_build.proof.witness import special_file
from pypto_build.rules.machinery.termination import descendants
from pypto_build.turn import waiting_environment, without_interrupts

#: The words that are run for a command, which may write to another place than OUT.
Confine = Callable[[list[str], Path | None], list[str]]

# Bytes that a compiler's process may take, and each file that it writes.
_LIMIT = max(4 << 30, os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 4)
_MOST_PRINTED = 16 << 20
_IS_EXCESS = re.compile(r"out of memory|memory exhausted|bad_alloc|File size limit|Killed", re.IGNORECASE)


def run_captured(command: list[str], env: dict[str, str]) -> tuple[int, str]:
    """Run a command whose output is shown only on failure; Ctrl-C is not reported."""
    try:
        run = subprocess.run(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    except OSError as error:
        return 127, f"scons: {command[0]}: {error.strerror}\n"
    text = run.stdout.decode(errors="replace")
    return run.returncode, "" if run.returncode and "KeyboardInterrupt" in text else text


def run_whole(command: list[str], env: dict[str, str]) -> tuple[int, str]:
    """Run one of several commands with long output; each output is printed in one piece."""
    run = subprocess.run(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    terminal.pass_on(run.stdout.decode(errors="replace"), error=False, ours=True)
    return run.returncode, ""


def run_briefly(command: list[str], env: dict[str, str]) -> tuple[int, str]:
    """Run a command and print its lines without the indented ones below them."""
    run = subprocess.run(command, env=env, stdout=subprocess.PIPE, check=False)
    lines = run.stdout.decode(errors="replace").splitlines(keepends=True)
    terminal.pass_on("".join(line for line in lines if not line.startswith("    ")), error=False, ours=True)
    return run.returncode, ""


def run_limited(
    command: list[str], env: dict[str, str], seconds: float, directory: Path | None = None
) -> tuple[int, str]:
    """Run a compiler in `directory`, without input and within limits of time, memory and file sizes.

    A source can include a device or a pipe that has no end. The error names such a file if the compiler was watched.
    """
    with os.fdopen(os.memfd_create("output"), "w+b") as printed:  # a full disk must not lose its own error message
        try:
            process = subprocess.Popen(
                command, env=env, stdin=subprocess.DEVNULL, stdout=printed, stderr=subprocess.STDOUT, cwd=directory
            )
        except OSError as error:
            return 127, f"scons: {command[0]}: {error.strerror}\n"
        _limit(process.pid)
        excess = _wait(process, seconds)
        printed.seek(0)
        text = printed.read(_MOST_PRINTED).decode(errors="replace")
    status = 1 if excess else process.returncode
    if not excess and status and (status < 0 or _IS_EXCESS.search(text)):
        excess = f"the compiler may have met its limit of {_LIMIT >> 30} GiB of memory and for each file"
    if status and excess:
        name = special_file(env)
        text += f"error: {excess}" + (f"; it reads {name}, which is not a regular file" if name else "") + "\n"
    return status, text


def _limit(process: int) -> None:
    """Limit what a process, and all that it starts from now on, may take."""
    for kind, most in ((resource.RLIMIT_DATA, _LIMIT), (resource.RLIMIT_FSIZE, _LIMIT), (resource.RLIMIT_CORE, 0)):
        with suppress(OSError, ValueError):  # it has ended
            hard = resource.prlimit(process, kind)[1]
            most = most if hard == resource.RLIM_INFINITY else min(most, hard)
            resource.prlimit(process, kind, (most, hard))


def _wait(process: subprocess.Popen[bytes], seconds: float) -> str:
    """Wait for a process. Kill it with all that it started after `seconds`, and return why; else an empty string."""
    try:
        process.wait(seconds)
        return ""
    except BaseException as error:
        for each in [process.pid, *descendants(process.pid)]:
            with suppress(ProcessLookupError):
                os.kill(each, signal.SIGKILL)
        process.wait()
        if not isinstance(error, subprocess.TimeoutExpired):
            raise
        return f"the compiler has not ended in {seconds:g} s (raise COMPILE_TIMEOUT= if it needs longer)"


def run_streaming(command: list[str], env: dict[str, str]) -> tuple[int, str]:
    """Run a long command and print its output as it comes."""
    with terminal.progress(None):
        terminal.step_aside()
        try:
            return subprocess.run(command, env=env, check=False).returncode, ""
        except OSError as error:
            terminal.complain(f"scons: {command[0]}: {error.strerror}")
            return 127, ""


def run_with_errors(command: list[str], env: dict[str, str]) -> tuple[int, str]:
    """Run a long command and print its output as it comes. If it fails, return its error output, else print that
    too.
    """
    with terminal.progress(None):
        terminal.step_aside()
        try:
            run = subprocess.run(command, env=env, stderr=subprocess.PIPE, check=False)
        except OSError as error:
            return 127, f"scons: {command[0]}: {error.strerror}\n"
    errors = run.stderr.decode(errors="replace")
    if run.returncode == 0:
        terminal.pass_on(errors, ours=True)
    return run.returncode, errors if run.returncode and "KeyboardInterrupt" not in errors else ""


class WaitingTool:
    """A Python tool of this package that loads modules and waits for its turn; it prints as ``run_streaming`` does."""

    since = 0

    def __init__(self, command: list[str], env: dict[str, str]) -> None:
        self.status: int | None = None  # of one that was cancelled
        reader, self._writer = os.pipe()
        try:
            with without_interrupts():
                waiting = {**env, **waiting_environment(reader)}
                self._process = subprocess.Popen(command, env=waiting, pass_fds=[reader])
        finally:
            os.close(reader)

    def go(self) -> tuple[int, str] | None:
        """Let the process work; None if it has ended."""
        with terminal.progress(None):
            terminal.step_aside()
            try:
                os.write(self._writer, b"1")
            except BrokenPipeError:
                return None
            finally:
                os.close(self._writer)
            return self._process.wait(), ""

    def cancel(self) -> None:
        """End the process."""
        os.close(self._writer)
        self.status = self._process.wait()


def spawner(confine: Confine, by_shell: bool) -> Callable[..., int]:
    """Return the ``SPAWN`` function for SCons, which runs commands as ``run_streaming`` does: users' commands by the
    shell, ours without.
    """

    def spawn(shell: str, _escape: object, _command: str, args: Sequence[str], env: dict[str, str]) -> int:
        words = [shell, "-c", " ".join(args)] if by_shell else _words(args)
        return run_streaming(confine(words, None), env)[0]

    return spawn


def _words(args: Sequence[str]) -> list[str]:
    """Return the words of a command, without the quotes that SCons adds for a shell."""
    return [word[1:-1] if word[:1] == word[-1:] == '"' and (" " in word or "\t" in word) else word for word in args]
