"""`python -m pypto_build.pto.check`: one line for each error, and what the exit status says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from pypto_build.pto.check import main
from tests.pto.samples import module, tile


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


def test_rules_of_the_device_are_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A reciprocal on its operand by another name: the assembler accepts it, so it fails only where rules do."""
    path, type_ = tmp_path / "k.pto", tile()
    path.write_text(
        module(
            f"  %a0 = arith.constant 0 : i64\n  %c16 = arith.constant 16 : index\n  %c64 = arith.constant 64 : index\n"
            f"  %a = pto.alloc_tile addr = %a0 valid_row = %c16 valid_col = %c64 : {type_}\n"
            f"  %b = pto.alloc_tile addr = %a0 valid_row = %c16 valid_col = %c64 : {type_}\n"
            f"  pto.trecip ins(%a : {type_}) outs(%b : {type_})"
        )
    )
    for words, status, last in (([], 0, "1 module, 1 device rule broken"), (["--rules", "error"], 1, ""),
                                (["--rules", "off"], 0, "1 module, nothing found")):  # fmt: skip
        assert main([str(path), "--platform", "a5", *words]) == status
        lines = capsys.readouterr().out.splitlines()
        assert not last or lines[-1] == last
        assert [line.partition(" (")[0] for line in lines[:1]] == (
            [last] if "off" in words else [f"{path}:8:3: pto.trecip: breaks the rule 'apart(dst, src)'"]
        )


def test_as_a_command(tmp_path: Path) -> None:
    path = tmp_path / "k.pto"
    path.write_text(module("  pto.tlaod"))
    command = [sys.executable, "-m", "pypto_build.pto.check", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout == f"{path}:3:3: unknown operation 'pto.tlaod'; did you mean pto.tload?\n"
