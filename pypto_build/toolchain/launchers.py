"""Compiler launchers that users bring: each is a prefix of a compile command line and never part of a build key."""

from __future__ import annotations

import shutil

from pypto_build.toolchain.errors import ToolchainError

LAUNCHERS: tuple[str, ...] = ("ccache", "sccache", "distcc", "icecc")


def find_launcher(name: str) -> str:
    """The path of launcher ``name``; empty for none.

    Raises:
        ToolchainError: it is not installed.
    """
    if not name:
        return ""
    if path := shutil.which(name):
        return path
    raise ToolchainError(f"LAUNCHER={name}: not found on PATH; install {name} or leave LAUNCHER out")
