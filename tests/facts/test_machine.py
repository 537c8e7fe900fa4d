"""Unsupported machines get one line from the first command."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pypto_build.facts import machine

ROOT = Path(__file__).resolve().parents[2]
_NEEDS = "it needs Linux on x86-64 or aarch64 with glibc 2.31 or newer, and a 64-bit Python 3.10 or newer"
_ELSEWHERE = """import os, sys
os.uname = lambda: os.uname_result(("Linux", "host", "6.1", "1", "riscv64"))
sys.argv = ["command", "replay"]
"""


def _uname(processor: str) -> os.uname_result:
    return os.uname_result(("Linux", "host", "6.1", "1", processor))


def _glibc(answer: str) -> object:
    def confstr(name: str) -> str:
        if not answer:
            raise ValueError("unrecognized configuration name")
        return answer

    return confstr


@pytest.mark.parametrize(
    ("owner", "name", "value", "reason"),
    [
        (sys, "platform", "win32", f"the operating system is win32; {_NEEDS}: use WSL 2"),
        (
            sys,
            "platform",
            "darwin",
            f"the operating system is darwin; {_NEEDS}: use a Linux container or virtual machine",
        ),
        (sys, "maxsize", (1 << 31) - 1, f"{sys.executable} is a Python of 32 bits; {_NEEDS}: install a 64-bit Python"),
        (sys, "version_info", (3, 9, 2), f"{sys.executable} is Python 3.9; {_NEEDS}: install a newer Python"),
        (os, "uname", lambda: _uname("riscv64"), f"the processor is riscv64; {_NEEDS}: use another machine"),
        (
            os,
            "confstr",
            _glibc(""),
            f"the C library is not glibc (musl?); {_NEEDS}: use an image of Debian, Ubuntu or openEuler, not Alpine",
        ),
        (
            os,
            "confstr",
            _glibc("glibc 2.28"),
            f"glibc is 2.28; {_NEEDS}: use a newer distribution, or a container of one",
        ),
    ],
)
def test_each_is_named(monkeypatch: pytest.MonkeyPatch, owner: object, name: str, value: object, reason: str) -> None:
    monkeypatch.setattr(owner, name, value)
    assert machine.unsupported() == f"pypto-build: error: {reason}"


@pytest.mark.parametrize("processor", machine.PROCESSORS)
@pytest.mark.parametrize("glibc", ["glibc 2.31", "glibc 2.36", "glibc 3.0"])
def test_supported_ones_are_not(monkeypatch: pytest.MonkeyPatch, processor: str, glibc: str) -> None:
    monkeypatch.setattr(os, "uname", lambda: _uname(processor))
    monkeypatch.setattr(os, "confstr", _glibc(glibc))
    assert machine.unsupported() == ""


@pytest.mark.parametrize(
    "command",
    [
        "from pypto_build.resident.client import main; sys.exit(main())",
        "from pypto_build.rules import pypto; pypto(None)",
        "import runpy; runpy.run_path('setup.py', run_name='__main__')",
    ],
)
def test_every_first_command_ends_with_that_line(command: str) -> None:
    """`pypto-build`, `scons` and `pip install`, which would compile what has no wheels there."""
    run = subprocess.run(
        [sys.executable, "-c", _ELSEWHERE + command], cwd=ROOT, capture_output=True, text=True, check=False
    )
    lines = run.stderr.splitlines()
    assert (bool(run.returncode), run.stdout, len(lines)) == (True, "", 1), run.stderr
    assert lines[0].startswith("pypto-build: error: the processor is riscv64; ")
