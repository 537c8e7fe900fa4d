"""A sandbox, on a machine where it works."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from pypto_build.toolchain import ToolchainError
from pypto_build.toolchain.sandbox import find_sandbox


def test_an_environment_below_tmp_whose_interpreter_is_a_link(tmp_path: Path) -> None:
    program = tmp_path / "venv" / "bin" / "python"
    program.parent.mkdir(parents=True)
    program.symlink_to(Path(sys.executable).resolve())
    (tmp_path / "out").mkdir()
    try:
        sandbox = find_sandbox((tmp_path / "venv", program, program.parent))
    except ToolchainError as error:
        pytest.skip(str(error))
    run = subprocess.run(sandbox.wrap([str(program), "-c", "print(1)"], [tmp_path / "out"]), capture_output=True)
    assert (run.returncode, run.stdout) == (0, b"1\n"), run.stderr
