"""Finds programs on this machine, and their versions, which are part of build keys."""

from __future__ import annotations

import shutil
import subprocess

from pypto_build.toolchain import ToolchainError

TIME_LIMIT_S = 30  # a launcher script on a cold network disk takes seconds, a program that waits for input for ever


def version_text(path: str, way_out: str) -> str:
    """Return the output of ``PROGRAM --version``.

    ``way_out`` says in messages what to do if the program cannot be run.

    Raises:
        ToolchainError: it cannot be run, or does not answer.
    """
    try:
        run = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=TIME_LIMIT_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ToolchainError(f"{path} --version failed ({error}); {way_out}") from None
    return (run.stdout or run.stderr).strip()


def identify(path: str) -> str:
    """Return the path of a compiler and the first line of its version. Raises `ToolchainError` if it does not
    answer.
    """
    answer = version_text(path, "is it a compiler for this machine?")
    return f"{path} {answer.partition(chr(10))[0]}"


def find_program(name: str, purpose: str) -> tuple[str, str]:
    """Return path and identity of the compiler ``name`` on ``PATH``. Raises `ToolchainError`, which states its
    ``purpose``.
    """
    path = shutil.which(name)
    if path is None:
        raise ToolchainError(f"{name}: not found on PATH; {purpose}")
    return path, identify(path)
