"""How actions run and what they print: a line each with the reason, whole outputs or none, nothing interleaved."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from pypto_build.turn import waiting_environment, without_interrupts

#: The words that are run for a command, which may write to another place than OUT.
Confine = Callable[[list[str], Path | None], list[str]]


def complain(line: str) -> None:
    """A line of error output in one piece: actions run in several threads, and SCons passes on every write at once."""
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


def say(*lines: str) -> None:
    """Lines of output in one piece."""
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    sys.stdout.flush()


def run_captured(command: list[str], env: dict[str, str]) -> tuple[int, str]:
    """Print what the command said in one piece. Ctrl-C is no news to who pressed it."""
    try:
        run = subprocess.run(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    except OSError as error:
        complain(f"scons: {command[0]}: {error.strerror}")
        return 127, ""
    text = run.stdout.decode(errors="replace")
    if run.returncode and "KeyboardInterrupt" in text:
        return run.returncode, ""
    sys.stderr.write(text)
    sys.stderr.flush()
    return run.returncode, text


def run_whole(command: list[str], env: dict[str, str]) -> tuple[int, str]:
    """For one of several commands that report at length: each report in one piece."""
    run = subprocess.run(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    sys.stdout.write(run.stdout.decode(errors="replace"))
    sys.stdout.flush()
    return run.returncode, ""


def run_silently(command: list[str], env: dict[str, str]) -> tuple[int, str]:
    """For a command whose failure is no news."""
    run = subprocess.run(command, env=env, capture_output=True, check=False)
    return run.returncode, ""


def run_streaming(command: list[str], env: dict[str, str]) -> tuple[int, str]:
    """For long commands whose progress people watch."""
    sys.stdout.flush()
    try:
        return subprocess.run(command, env=env, check=False).returncode, ""
    except OSError as error:
        complain(f"scons: {command[0]}: {error.strerror}")
        return 127, ""


class WaitingTool:
    """One of our own tools that loads what it needs and waits for its turn; it prints as ``run_streaming`` does."""

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
        """Let it work; None if it is gone."""
        sys.stdout.flush()
        try:
            os.write(self._writer, b"1")
        except BrokenPipeError:
            return None
        finally:
            os.close(self._writer)
        return self._process.wait(), ""

    def cancel(self) -> None:
        """End it."""
        os.close(self._writer)
        self.status = self._process.wait()


def spawner(confine: Confine) -> Callable[..., int]:
    """SCons' ``SPAWN``, which runs commands as ``run_streaming`` does."""

    def spawn(_shell: str, _escape: object, _command: str, args: Sequence[str], env: dict[str, str]) -> int:
        return run_streaming(confine(_words(args), None), env)[0]

    return spawn


def _words(args: Sequence[str]) -> list[str]:
    """The words of a command: SCons puts quotes around those with blanks, for a shell that is not there."""
    return [word[1:-1] if word[:1] == word[-1:] == '"' and (" " in word or "\t" in word) else word for word in args]
