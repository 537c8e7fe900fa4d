"""Parts that need PyTorch say so where it is not installed."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from pypto_build.artifact import ArtifactError
from pypto_build.artifact.errors import require_torch
from pypto_build.compiler import golden
from pypto_build.diagnose.diverge import __main__ as diverge

_WAY_OUT = "needs PyTorch, which is not installed; pip install 'pypto-build[reference]'"


@pytest.fixture
def no_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)


def test_a_runtime(no_torch: None) -> None:
    with pytest.raises(ArtifactError) as raised:
        require_torch("RUNTIME=torch")
    assert str(raised.value) == f"RUNTIME=torch: {_WAY_OUT}"
    assert raised.value.exit_status == 2


def test_diverge(no_torch: None, capsys: pytest.CaptureFixture[str]) -> None:
    assert diverge.main(["x", "--platform", "a2a3sim", "--build-dir", "out", "--embedded", "e.so"]) == 2
    assert capsys.readouterr().err == f"diverge: the reference: {_WAY_OUT}\n"


def test_a_golden(no_torch: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "golden.py"
    path.write_text("import torch\n")
    assert golden.main([str(tmp_path)]) == 4
    assert capsys.readouterr().err == f"error: {path}: {_WAY_OUT}\n"
    assert sorted(tmp_path.iterdir()) == [path]
