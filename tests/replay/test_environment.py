"""Kernels see the environment that a run defines, also in the table that the system keeps of it."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pypto_build.replay import child

_SHOW = """
from pathlib import Path
from pypto_build.replay.child import define_environment
define_environment()
print(Path("/proc/self/environ").read_bytes().rstrip(b"\\0").replace(b"\\0", b"\\n").decode())
"""


def test_the_system_shows_no_other_environment() -> None:
    names = ("HOME", "TERM", "COLUMNS", "PYPTO_X", "XDG_X", "LD_LIBRARY_PATH", "NO_COLOR")
    environment = {**os.environ, **dict.fromkeys(names, "secret"), "PTO2_RING_HEAP": "1048576"}
    run = subprocess.run([sys.executable, "-c", _SHOW], env=environment, capture_output=True, text=True, check=True)
    expected = {"PTO2_RING_HEAP=1048576", "PATH=/usr/local/bin:/usr/bin:/bin", "LC_ALL=C.UTF-8"}
    inherited = {f"{name}={value}" for name, value in os.environ.items() if name.startswith("PTO2_")}
    assert set(run.stdout.splitlines()) == expected | inherited


def test_an_emulator_does_not_tell_where_the_environment_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """qemu ends `/proc/self/stat` before the fields that say so."""
    read = Path.read_bytes

    def shorter(path: Path) -> bytes:
        return b"7 (python) 0" + 41 * b" 0" + b"\n" if str(path) == "/proc/self/stat" else read(path)

    monkeypatch.setattr(Path, "read_bytes", shorter)
    moved: list[object] = []
    monkeypatch.setattr(ctypes, "memmove", lambda *words: moved.append(words))
    child._rewrite_initial_environment()
    assert moved == []
