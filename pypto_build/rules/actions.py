"""How actions run and what they print: a line each with the reason, whole outputs or none, nothing interleaved."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import Any

from SCons.Action import Action

from pypto_build.rules.confinement import confined
from pypto_build.rules.reason import rebuild_reason

# What failing commands printed, in order; the verdict of a failed build quotes the first error of it.
failure_output: list[str] = []


def complain(line: str) -> None:
    """A line of error output in one piece: actions run in several threads, and SCons passes on every write at once."""
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


def run_captured(_shell: str, _escape: Any, _command: str, args: Sequence[str], env: dict[str, str]) -> int:
    """SCons ``SPAWN``: run without a shell and print what the command said in one piece."""
    try:
        run = subprocess.run(_words(args), env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    except OSError as error:
        complain(f"scons: {args[0]}: {error.strerror}")
        return 127
    if run.stdout and not (
        run.returncode and b"KeyboardInterrupt" in run.stdout
    ):  # Ctrl-C is no news to who pressed it
        text = run.stdout.decode(errors="replace")
        sys.stderr.write(text)
        sys.stderr.flush()
        if run.returncode:
            failure_output.append(text)
    return run.returncode


def run_whole(_shell: str, _escape: Any, _command: str, args: Sequence[str], env: dict[str, str]) -> int:
    """SCons ``SPAWN`` for one of several commands that report at length: each report in one piece."""
    run = subprocess.run(_words(args), env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    sys.stdout.write(run.stdout.decode(errors="replace"))
    sys.stdout.flush()
    return run.returncode


def _words(args: Sequence[str]) -> list[str]:
    """The words of a command: SCons puts quotes around those with blanks, for a shell that is not there.

    With SANDBOX=1 they come behind those of the sandbox.
    """
    plain = [word[1:-1] if word[:1] == word[-1:] == '"' and (" " in word or "\t" in word) else word for word in args]
    return confined(plain)


def run_streaming(_shell: str, _escape: Any, _command: str, args: Sequence[str], env: dict[str, str]) -> int:
    """SCons ``SPAWN`` for long commands whose progress people watch."""
    sys.stdout.flush()
    try:
        return subprocess.run(_words(args), env=env, check=False).returncode
    except OSError as error:
        complain(f"scons: {args[0]}: {error.strerror}")
        return 127


def command(
    label: str,
    argv: Sequence[str],
    *,
    temporary: bool = True,
    show: Callable[[Any], str] = str,
    otherwise: str = "it was missing or had failed",
    tolerant: bool = False,
) -> Action:
    """An action that runs ``argv`` and prints ``label``, what it makes and why.

    With ``temporary``, argv writes ``${TARGET}.tmp`` names, which become the targets only once the command succeeded.
    ``show`` turns a node into what is printed for it; ``otherwise`` is the reason when no input differs.
    With ``tolerant``, the command's exit status is no failure.
    """

    def describe(target: list[Any], source: list[Any], env: Any) -> str:
        subject = show((source or target)[0])
        line = f"{label} {subject}  ({rebuild_reason(target[0], env['PYPTO_NAME'], otherwise)})"
        if not env["PYPTO_VERBOSE"]:
            return line
        words = env.subst_list([list(argv)], target=target, source=source)[0]
        return "\n".join((line, " ".join(str(word) for word in words)))

    run = Action([list(argv)], describe, exitstatfunc=(lambda _: 0) if tolerant else (lambda status: status))
    return [run, Action(_publish, None)] if temporary else run


def _publish(target: list[Any], source: list[Any], env: Any) -> None:
    """Give finished outputs their names, so that a killed command leaves nothing that looks built."""
    for node in target:
        path = node.get_abspath()
        os.replace(path + ".tmp", path)
