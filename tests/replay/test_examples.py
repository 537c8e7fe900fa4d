"""The example artifacts themselves: complete, in the compiler's form, with data that their script reproduces."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest
import torch

from pypto_build.artifact import load_artifact
from pypto_build.artifact.interface import sign
from tests.replay.builder import build_artifact, replay

EXAMPLES = Path(__file__).parents[2] / "examples"
ARTIFACTS = sorted(path.name for path in (EXAMPLES / "artifacts").iterdir())
TASKS = {"_jit_accumulate": 2, "_jit_row_blocks": 4, "_jit_gemm_silu": 4, "_jit_gemm_silu_lanes": 4}
TASKS |= {name: 5 for name in ARTIFACTS if "vector_dag" in name}
VINTAGES = {"_jit_vector_dag_may": "2026-05", "_jit_vector_dag_june": "2026-06"}


def _make_data() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_data", EXAMPLES / "make_data.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_script_knows_every_artifact() -> None:
    assert sorted(_make_data().PROGRAMS) == ARTIFACTS


@pytest.mark.parametrize("name", ARTIFACTS)
def test_the_script_reproduces_the_data(tmp_path: Path, name: str) -> None:
    module = _make_data()
    module.make_snapshot(tmp_path, module.PROGRAMS[name])
    data = EXAMPLES / "artifacts" / name / "data"
    written = sorted(path.relative_to(tmp_path / "data") for path in tmp_path.glob("data/*/*.pt"))
    assert written == sorted(path.relative_to(data) for path in data.glob("*/*.pt"))
    for path in written:
        ours, theirs = (torch.load(root / path, weights_only=True) for root in (tmp_path / "data", data))
        assert ours.dtype == theirs.dtype
        torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", ARTIFACTS)
def test_form(name: str) -> None:
    root = EXAMPLES / "artifacts" / name
    artifact = load_artifact(root)
    assert sign(artifact).interface.vintage == VINTAGES.get(name, "2026-08")
    units = {kernel.name.removesuffix(f"_{kernel.core_type}") for kernel in artifact.kernels}
    assert {path.name for path in root.glob("ptoas/*.pto")} == {f"{unit}.pto" for unit in units}
    for kernel in artifact.kernels:
        text = kernel.source.read_text()
        assert kernel.source == root / "kernels" / kernel.core_type / f"{kernel.name}.cpp"
        assert [text.count(mark) for mark in ("// --- ptoas-generated code ---", "// --- Kernel entry point ---")] == [
            1,
            1,
        ]


def test_size() -> None:
    assert max(path.stat().st_size for path in EXAMPLES.rglob("*.pt")) < 300_000


@pytest.mark.parametrize("name", ARTIFACTS)
def test_replay_passes(tmp_path: Path, name: str) -> None:
    artifact = EXAMPLES / "artifacts" / name
    build_artifact(artifact, tmp_path)
    run = replay(artifact, tmp_path, "--rounds", "3")
    assert (run.status, run.verdict.status, run.verdict.rounds) == (0, "pass", 3), run.stdout
    assert run.verdict.tasks == TASKS.get(name, 1)
