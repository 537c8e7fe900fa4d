"""`python -m pypto_build.pto.torch`: a file a unit, written once, errors with their place."""

from __future__ import annotations

import ast
import shutil
from pathlib import Path

import pytest

from pypto_build.pto.torch.__main__ import main

ARTIFACT = Path(__file__).parents[2] / "examples" / "artifacts" / "_jit_softmax"


def test_units_are_written_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [str(ARTIFACT), "--platform", "a2a3sim", "--build-dir", str(tmp_path)]
    target = tmp_path / "torch" / "softmax_rows.py"
    assert main(words) == 0
    assert capsys.readouterr().out == f"[torch] {target}\n"
    assert main(words) == 0
    assert capsys.readouterr().out == f"[torch] {target} (unchanged)\n"
    text = target.read_text()
    assert text.startswith('"""softmax_rows.pto in PyTorch, written by pypto-build.')
    assert [n.name for n in ast.parse(text).body if isinstance(n, ast.FunctionDef)][-2:] == ["softmax_rows", "run"]
    assert max(map(len, text.splitlines())) <= 120


def test_modules_that_cannot_be_translated_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    artifact = tmp_path / "a"
    shutil.copytree(ARTIFACT / "ptoas", artifact / "ptoas")
    (artifact / "ptoas" / "broken.pto").write_text("module {\n  func.func @k( {\n")
    assert main([str(artifact), "--build-dir", str(tmp_path)]) == 3
    run = capsys.readouterr()
    assert run.err.startswith(f"torch: {artifact}/ptoas/broken.pto:2:")
    assert run.out == f"[torch] {tmp_path}/torch/softmax_rows.py\n"


def test_an_artifact_without_modules(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path), "--build-dir", str(tmp_path)]) == 2
    assert capsys.readouterr().err == f"torch: {tmp_path}: contains no .pto modules; compile the program again\n"
