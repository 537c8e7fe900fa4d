"""Kernels see the environment that a run defines, also in the table that the system keeps of it."""

from __future__ import annotations

import os
import subprocess
import sys

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
