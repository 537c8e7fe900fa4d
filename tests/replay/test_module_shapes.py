"""Shapes from the modules, for artifacts without compiled_meta.json, such as those of May 2026."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from pypto_build.artifact import load_artifact, snapshot
from pypto_build.artifact.interface import Interface, sign
from pypto_build.replay.binding import bind
from pypto_build.replay.module_shapes import complete

EXAMPLES = Path(__file__).parents[2] / "examples" / "artifacts"


def _undeclared(name: str, tmp_path: Path) -> tuple[Path, Interface]:
    """Return a copy of an artifact without its shape declarations."""
    root = tmp_path / name
    shutil.copytree(EXAMPLES / name, root)
    (root / "compiled_meta.json").unlink(missing_ok=True)
    return root, sign(load_artifact(root)).interface


@pytest.mark.parametrize("name", ["_jit_softmax", "_jit_rms_norm", "_jit_gemm_silu_lanes", "_jit_spmd_scale"])
def test_they_are_those_that_the_compiler_declares(tmp_path: Path, name: str) -> None:
    root, interface = _undeclared(name, tmp_path)
    assert all(param.shape is None for param in interface.params)
    names = {param.name for param in interface.params}
    declared = {p.name: (p.dtype, p.shape) for p in sign(load_artifact(EXAMPLES / name)).interface.params}
    completed = complete(interface, root, names)
    assert {p.name: (p.dtype, p.shape) for p in completed.params if p.kind == "tensor"} == {
        p.name: declared[p.name] for p in completed.params if p.kind == "tensor"
    }


def test_an_artifact_of_may_with_inputs_alone(tmp_path: Path) -> None:
    root, interface = _undeclared("_jit_vector_dag_may", tmp_path)
    shutil.rmtree(root / "data" / "out")
    tensors = {tensor.name: tensor for tensor in bind(interface, snapshot(root), root).tensors}
    assert (tensors["f"].direction, tensors["f"].dtype, tensors["f"].shape) == ("OUT", "float32", (128, 128))


def test_a_part_of_a_tensor_tells_nothing(tmp_path: Path) -> None:
    """The kernel gets views, whose shape is not that of the tensor."""
    root, interface = _undeclared("_jit_row_blocks", tmp_path)
    assert complete(interface, root, {"out"}).params == interface.params


def test_a_module_that_cannot_be_read_tells_nothing(tmp_path: Path) -> None:
    root, interface = _undeclared("_jit_vector_dag_may", tmp_path)
    module = root / "ptoas" / "kernel_add.pto"
    module.write_text(module.read_text().replace("%arg2, shape = [%c128_index,", "%arg2, shape = [%c1_index,"))
    assert {p.name: p.shape for p in complete(interface, root, {"f"}).params}["f"] == (1, 128)
    module.write_text("func.func @kernel_add(\n")
    assert complete(interface, root, {"f"}).params == interface.params
    module.unlink()
    assert complete(interface, root, {"f"}).params == interface.params
