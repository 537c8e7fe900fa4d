"""The runtime compiles for another kind of processor, and ARCH= names one of the machine at hand.

`python -m tests.runtime.sanitize aarch64` runs runtime and example artifacts there, emulated.
"""

from __future__ import annotations

import platform
import shutil
import subprocess
from pathlib import Path

import pytest

from pypto_build.runtime.build import INCLUDE_DIR, SOURCE_DIR, write_unit
from pypto_build.toolchain import host

CROSS = "aarch64-linux-gnu-g++"


@pytest.mark.skipif(not shutil.which(CROSS), reason="no compiler for another processor")
def test_the_runtime_compiles_for_another_processor(tmp_path: Path) -> None:
    """All of it but what Python's headers, which are of this machine, are needed for."""
    text = write_unit("library", tmp_path)
    command = [CROSS, "-std=c++17", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-march=armv8-a"]
    command += ["-I", str(INCLUDE_DIR), "-I", str(SOURCE_DIR), "-I", str(tmp_path), str(text)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("machine", "arch", "flag"),
    [
        ("x86_64", "", "-march=x86-64-v3"),
        ("aarch64", "", "-march=armv8-a"),
        ("arm64", "", "-march=armv8-a"),
        ("aarch64", "native", "-march=native"),
    ],
)
def test_the_default_is_of_the_machine_at_hand(
    monkeypatch: pytest.MonkeyPatch, machine: str, arch: str, flag: str
) -> None:
    monkeypatch.setattr(platform, "machine", lambda: machine)
    assert host.arch_flag(arch) == flag
