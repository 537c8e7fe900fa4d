"""Starts the resident process, and ends it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from contextlib import suppress
from pathlib import Path

from pypto_build.client.socket_address import directory
from pypto_build.toolchain.python import own_tool


def start_server(socket_path: str) -> None:
    """Start the resident process at ``socket_path``, unless it is running. A failure to start is ignored."""
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        if connection.connect_ex(socket_path) == 0:
            return
        subprocess.Popen(
            [*own_tool("pypto_build.resident.server", *_python_flags()), socket_path],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            start_new_session=True,
        )


def _python_flags() -> list[str]:
    """Return the flags of this interpreter: a command uses only a resident process with the same flags."""
    flags: list[str] = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
    return flags


def end_servers() -> int:
    """End all resident processes of this user, and return their number."""
    sockets = directory()
    ended = 0
    for note in sorted(Path(sockets).glob("*.pid")) if sockets else ():
        with suppress(OSError, ValueError):
            process = int(note.read_text(encoding="ascii"))
            if "pypto_build.resident.server" in Path(f"/proc/{process}/cmdline").read_text(encoding="utf-8"):
                os.kill(process, signal.SIGTERM)
                ended += 1
    return ended
