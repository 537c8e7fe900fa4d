"""Replays from Python: arguments are copied in and back, cases are found by name, faults are one line."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch

from pypto_build.artifact import ArtifactError
from pypto_build.compiler.__main__ import main as compile_program
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


_PROGRAM = """import pypto_build.compiler.language as pl

M = pl.Tensor[[4, 8], pl.FP32]

@pl.jit.incore
def shift(x: M, out: pl.Out[M], by: pl.Scalar[pl.FP32]):
    pl.store(pl.load(x, [0, 0], [4, 8]) + by, [0, 0], out)

@pl.jit
def order(by: pl.Scalar[pl.FP32], x: M, y: pl.Out[M]):
    shift(x, y, by)
"""


def test_arguments_are_in_the_order_of_the_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pass a scalar before a tensor; without compiled_meta.json, which has the order, tensors come first."""
    monkeypatch.chdir(tmp_path)
    Path("order.py").write_text(_PROGRAM)
    assert compile_program(["order.py", "--output", "_jit_order"]) == 0
    x, y = torch.ones(4, 8), torch.zeros(4, 8)
    replay_compiled("_jit_order", 2.5, x, y, quiet=True)
    assert torch.equal(y, x + 2.5)
    with pytest.raises(ArtifactError, match="parameter 'by' is a scalar; do not pass a Tensor"):
        replay_compiled("_jit_order", x, y, 2.5)
    Path("_jit_order/compiled_meta.json").unlink()
    replay_compiled("_jit_order", x, y, 1.5, quiet=True)
    assert torch.equal(y, x + 1.5)


def test_fields_of_a_configuration_of_upstreams(built: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(built.root)
    x, y = torch.zeros(16), torch.zeros(16)
    replay_compiled(built.artifact, x, y, simpler_kwargs={"enable_dep_gen": True, "enable_dump_tensor": 2}, quiet=True)
    records = Path("build/a2a3sim/_jit_chain/dfx_outputs")
    assert (records / "deps.json").is_file() and (records / "args_dump").is_dir()
    with pytest.raises(
        ArtifactError, match="simpler_kwargs: 'dep_gen' is not a field of the run configuration; the fields are "
    ):
        replay_compiled(built.artifact, x, y, simpler_kwargs={"dep_gen": True})


def test_cases(built: Project, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(built.root)
    assert replay_compiled(built.artifact).status == "pass"
    assert "[RUN]   'y' PASS  shape=(16,) dtype=torch.float32" in capfd.readouterr().out
    verdict = replay_compiled(built.artifact, case_name="zeros", rtol=0.25, quiet=True)
    assert (verdict.status, verdict.rtol, verdict.outputs[0].mismatched) == ("mismatch", 0.25, 16)
    with pytest.raises(ArtifactError) as raised:
        replay_compiled(built.artifact, case_name="ones")
    assert str(raised.value) == f"{built.artifact}: has no case 'ones'; its cases are snapshot, zeros"


def test_what_does_not_fit(built: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(built.root)
    x, y = torch.zeros(16), torch.zeros(16)

    def error(*arguments: torch.Tensor | float, platform: str = "a2a3sim") -> str:
        with pytest.raises(ArtifactError) as raised:
            replay_compiled(built.artifact, *arguments, platform=platform)
        return str(raised.value)

    assert error(x, y, platform="a9") == "replay_compiled(): unknown platform 'a9'; use one of a2a3, a5, a2a3sim, a5sim"
    assert error(x) == "replay_compiled(): got 1 arguments for 2 parameters; the parameters are x, y"
    assert error(x, 1.0) == "replay_compiled(): parameter 'y' is a tensor; do not pass a float"
    assert error(x, y.half()) == "replay_compiled(): parameter 'y' is float32 [16]; not float16 [16]"
    assert error(x[:4], y) == "replay_compiled(): parameter 'x' is float32 [16]; not float32 [4]"
    with pytest.raises(ReplayError) as raised:
        replay_compiled(built.artifact, x, y, runtime="simpler", simpler=str(built.root), quiet=True)
    assert str(raised.value).startswith("usage_error: ")
    assert raised.value.verdict.status == "usage_error"
    assert isinstance(raised.value.verdict.artifact, str) and Path(built.artifact).name == raised.value.verdict.artifact


_DISTRIBUTED = Path(__file__).parents[2] / "examples" / "distributed" / "_jit_dist_allreduce"


def test_ranks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The arguments of a distributed program are whole host tensors, whose first extent is the number of ranks."""
    monkeypatch.chdir(tmp_path)
    for world in (2, 3):
        x, total = torch.arange(world * 256.0).reshape(world, 256), torch.zeros(world, 256)
        verdict = replay_compiled(_DISTRIBUTED, x, total, 0.5, quiet=True, world=world)
        assert (verdict.status, verdict.tasks) == ("unchecked", 2 * world)
        assert torch.equal(total, (0.5 * x).sum(0).expand(world, 256))
    with pytest.raises(ArtifactError, match="got 1 arguments for 3 parameters; the parameters are x, total, scale"):
        replay_compiled(_DISTRIBUTED, x)
