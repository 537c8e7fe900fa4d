"""Compiler launchers that users bring: each is a prefix of a compile command line and never part of a build key."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from pypto_build.toolchain import ToolchainError

_TIME_LIMIT_S = 10


class Launcher(NamedTuple):
    """A launcher's program, and the directories of its own data."""

    path: str
    private: tuple[str, ...]


def find_launcher(name: str, environment: Mapping[str, str]) -> Launcher | None:
    """Return the launcher ``name`` for use in ``environment``; None for an empty name.

    Raises:
        ToolchainError: it is not installed.
    """
    if not name:
        return None
    path = shutil.which(name)
    if not path:
        raise ToolchainError(f"LAUNCHER={name}: not found on PATH; install {name} or leave LAUNCHER out")
    if name == "sccache":
        # Its client would start its server in our temporary directory: too long a name for its socket, and gone with
        # the command. One that runs is left alone.
        _output_of([path, "--start-server"], environment)
    return Launcher(path, tuple(_private(name, path, environment)))


def _private(name: str, path: str, environment: Mapping[str, str]) -> list[str]:
    home = environment.get("HOME", str(Path.home()))
    if name == "ccache":
        return [*_ccache_setting(path, environment, "cache_dir"), *_ccache_setting(path, environment, "temporary_dir")]
    if name == "distcc":
        return [environment.get("DISTCC_DIR") or os.path.join(home, ".distcc")]
    return []


def _ccache_setting(path: str, environment: Mapping[str, str], setting: str) -> list[str]:
    """Return a directory from ccache's environment or configuration, as a list; empty if it is not set."""
    answer = _output_of([path, "--get-config", setting], environment)
    return [answer] if os.path.isabs(answer) else []


def _output_of(command: list[str], environment: Mapping[str, str]) -> str:
    """Return the output of a command, without surrounding space; empty if the command fails."""
    with suppress(OSError, subprocess.SubprocessError):
        run = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=_TIME_LIMIT_S, check=True
        )
        return run.stdout.strip()
    return ""
