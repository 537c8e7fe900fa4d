"""`python -m pypto_build.pto.check`: one line for each error, and what the exit status says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from pypto_build.pto.check import main
from tests.pto.samples import module


def test_status_and_output(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good, bad, broken = (tmp_path / name for name in ("good.pto", "bad.pto", "broken.pto"))
    good.write_text(module(""))
    bad.write_text(module("  %x = arith.addi %u, %u : index"))
    broken.write_text("module {")
    assert main([str(good)]) == 0
    assert capsys.readouterr().out == "1 module, nothing found\n"
    assert main([str(good), str(bad), str(broken), str(tmp_path / "none.pto")]) == 1
    assert capsys.readouterr().out.splitlines() == [
        f"{bad}:3:3: arith.addi: %u is used but not defined before",
        f"{bad}:3:3: arith.addi: %u is used but not defined before",
        f"{broken}:1:9: module: expected func.func, module or '}}', found the end of the file",
        f"{tmp_path / 'none.pto'}: cannot be read: No such file or directory",
    ]


def test_as_a_command(tmp_path: Path) -> None:
    path = tmp_path / "k.pto"
    path.write_text(module("  pto.tlaod"))
    command = [sys.executable, "-m", "pypto_build.pto.check", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout == f"{path}:3:3: unknown operation 'pto.tlaod'; did you mean pto.tload?\n"
