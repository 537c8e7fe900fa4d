"""A reader of output that has seen enough: the command goes on, and so do those that it starts."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pypto_build.toolchain.python import own_tool

_ROOT = Path(__file__).resolve().parents[2]
_WRITES = """
import os, subprocess, sys
from pypto_build.toolchain.forks import outlive_readers
outlive_readers()
if {reverts}:
    sys.stdout, sys.stderr = sys.__stdout__, sys.__stderr__  # as SCons does at its end
for _ in range(3):
    print("line", flush=True)
    print("line", file=sys.stderr)
child = subprocess.run([sys.executable, "-c", "print('line', flush=True)"])
sys.exit(5 + child.returncode)
"""


def status_without_reader(command: list[str], **more: str) -> int:
    """The exit status of a command both of whose streams lead into a pipe that nobody reads."""
    reading, writing = os.pipe()
    os.close(reading)
    try:
        environment = {**os.environ, "PYTHONPATH": str(_ROOT), **more}
        return subprocess.run(command, stdout=writing, stderr=writing, env=environment, check=False).returncode
    finally:
        os.close(writing)


@pytest.mark.parametrize("reverts", [False, True])
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_the_status_is_that_of_the_work(unbuffered: str, reverts: bool) -> None:
    code = _WRITES.format(reverts=reverts)
    assert status_without_reader([sys.executable, "-c", code], PYTHONUNBUFFERED=unbuffered) == 5


def test_tools_of_ours() -> None:
    assert status_without_reader([*own_tool("pypto_build.cli"), "build", "no-such-artifact"]) == 2
