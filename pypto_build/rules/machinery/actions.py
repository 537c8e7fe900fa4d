"""How actions run and what they print: a line each with the reason, whole outputs or none, nothing interleaved."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import Any

from pypto_build.rules.machinery.confinement import confined

#: Runs a command without a shell in an environment; its exit status, and what it printed if that was kept.
Spawn = Callable[[list[str], dict[str, str]], tuple[int, str]]

# What failing commands printed, in order; the verdict of a failed build quotes the first error of it.
failure_output: list[str] = []


def complain(line: str) -> None:
    """A line of error output in one piece: actions run in several threads, and SCons passes on every write at once."""
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


def say(*lines: str) -> None:
    """Lines of output in one piece."""
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    sys.stdout.flush()


def run_captured(command: list[str], env: dict[str, str]) -> tuple[int, str]:
    """Print what the command said in one piece."""
    try:
        run = subprocess.run(confined(command), env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    except OSError as error:
        complain(f"scons: {command[0]}: {error.strerror}")
        return 127, ""
    text = run.stdout.decode(errors="replace")
    if text and not (run.returncode and "KeyboardInterrupt" in text):  # Ctrl-C is no news to who pressed it
        sys.stderr.write(text)
        sys.stderr.flush()
        if run.returncode:
            failure_output.append(text)
    return run.returncode, text


def run_whole(command: list[str], env: dict[str, str]) -> tuple[int, str]:
    """For one of several commands that report at length: each report in one piece."""
    run = subprocess.run(confined(command), env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
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
        return subprocess.run(confined(command), env=env, check=False).returncode, ""
    except OSError as error:
        complain(f"scons: {command[0]}: {error.strerror}")
        return 127, ""


def spawn_streaming(_shell: str, _escape: Any, _command: str, args: Sequence[str], env: dict[str, str]) -> int:
    """SCons ``SPAWN`` of ``run_streaming``."""
    return run_streaming(_words(args), env)[0]


def _words(args: Sequence[str]) -> list[str]:
    """The words of a command: SCons puts quotes around those with blanks, for a shell that is not there."""
    return [word[1:-1] if word[:1] == word[-1:] == '"' and (" " in word or "\t" in word) else word for word in args]
