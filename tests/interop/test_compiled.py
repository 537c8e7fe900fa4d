"""Replays from Python: tensors and scalars go in and come back, cases by name, faults as one line."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch

from pypto_build.artifact import ArtifactError
from pypto_build.interop import ReplayError, replay_compiled
from tests.rules.project import Project


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Project:
    workspace = Project(tmp_path_factory.mktemp("workspace"))
    shutil.copytree(workspace.artifact / "data", workspace.artifact / "data" / "zeros")
    workspace.write_tensor("zeros/in/x", [0.0] * 16)
    workspace.write_tensor("zeros/out/y", [2.0] * 16)
    return workspace


def test_tensors(built: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(built.root)
    x, y = torch.arange(16.0).neg(), torch.full((16,), torch.nan)
    verdict = replay_compiled(built.artifact, x, y, quiet=True)
    assert (verdict.status, verdict.tasks, verdict.platform) == ("unchecked", 2, "a2a3sim")
    assert torch.equal(y, 2 * x + 1)


def test_cases(built: Project, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(built.root)
    assert replay_compiled(built.artifact).status == "pass"
    assert "[RUN]   'y' PASS  shape=(16,) dtype=torch.float32" in capfd.readouterr().out
    verdict = replay_compiled(built.artifact, case_name="zeros", rtol=0.25, quiet=True)
    assert (verdict.status, verdict.rtol, verdict.outputs[0].mismatched) == ("mismatch", 0.25, 16)
    with pytest.raises(ArtifactError) as raised:
        replay_compiled(built.artifact, case_name="ones")
    assert str(raised.value) == f"{built.artifact}: has no case 'ones'; it has snapshot, zeros"


def test_what_does_not_fit(built: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(built.root)
    x, y = torch.zeros(16), torch.zeros(16)

    def error(*arguments: torch.Tensor | float, platform: str = "a2a3sim") -> str:
        with pytest.raises(ArtifactError) as raised:
            replay_compiled(built.artifact, *arguments, platform=platform)
        return str(raised.value)

    assert error(x, y, platform="a9") == "replay_compiled(): unknown platform 'a9'; one of a2a3, a5, a2a3sim, a5sim"
    assert error(x) == "replay_compiled(): got 1 arguments for 2 parameters; they are x, y"
    assert error(x, 1.0) == "replay_compiled(): parameter 'y' is a tensor; not a float"
    assert error(x, y.half()) == "replay_compiled(): parameter 'y' is float32 [16]; not float16 [16]"
    assert error(x[:4], y) == "replay_compiled(): parameter 'x' is float32 [16]; not float32 [4]"
    with pytest.raises(ReplayError) as raised:
        replay_compiled(built.artifact, x, y, runtime="simpler", simpler=str(built.root), quiet=True)
    assert str(raised.value).startswith("usage_error: ")
    assert raised.value.verdict.status == "usage_error"
    assert isinstance(raised.value.verdict.artifact, str) and Path(built.artifact).name == raised.value.verdict.artifact
