"""RUNTIME=torch and DATA=reference: the verdicts of the embedded runtime, for every program and artifact at hand."""

from __future__ import annotations

import importlib
import json
import mmap
import shutil
import signal
import sys
import time
from pathlib import Path

import pytest
import torch  # noqa: F401 - the processes that replay inherit it

from pypto_build.artifact.pt import read_pt
from pypto_build.replay.faults import RunFault
from pypto_build.replay.reference.entry import BLOCK, EXTENT, LANE, SCALAR, TENSOR, Passed, positional, read_entry
from pypto_build.replay.reference.launch import Progress, in_child
from pypto_build.replay.reference.tasks import scalar_of
from pypto_build.replay.request import Request
from pypto_build.replay.session import replay
from pypto_build.replay.verdict import Verdict
from tests.compiler.programs import compile_with_data
from tests.replay.builder import build_artifact, embedded_module

EXAMPLES = Path(__file__).parents[2] / "examples"
PROGRAMS = [p for p in sorted(EXAMPLES.glob("*.py")) if "pl.jit" in p.read_text()]
ARTIFACTS = sorted(EXAMPLES.glob("artifacts/_jit_*"))
#: The number of tasks of programs with more than one.
TASKS = {"vector_dag": 5, "gemm": 4, "softmax": 4, "layer_norm": 2, "rms_norm": 3, "rope": 2, "accumulate": 3,
         "gemm_eltwise": 4, "relax": 7, "flash_attention": 2, "top_k": 8, "paged_attention": 24, "moe_route": 6,
         "moe_experts": 22}  # fmt: skip
WRAPPER = """
extern "C" __aicore__ void kernel_entry(__gm__ int64_t* args)
{
    int32_t __pypto_spmd_subblock_idx = get_sub_block_id(args); // lane
    int32_t __pypto_spmd_block_idx = get_block_idx(args);
    __gm__ ChipTensor* a__ssa_v0_tensor = reinterpret_cast<__gm__ ChipTensor*>(args[0]);
    __gm__ float* a__ssa_v0 = reinterpret_cast<__gm__ float*>(a__ssa_v0_tensor->buffer.addr) + a__ssa_v0_tensor->start_offset;
    union { uint64_t u64; float val; } eps__ssa_v0_conv;
    eps__ssa_v0_conv.u64 = args[1];
    float eps__ssa_v0 = eps__ssa_v0_conv.val;
    int64_t M = static_cast<int64_t>(a__ssa_v0_tensor->shapes[1]);
    scale(a__ssa_v0, eps__ssa_v0, M, __pypto_spmd_block_idx, __pypto_spmd_subblock_idx);
}
"""  # noqa: E501


def run(artifact: Path, out: Path, runtime: str, data: Path | None = None, seed: int = 0) -> Verdict:
    request = Request(artifact, out, embedded_module(), runtime=runtime, data=data, seed=seed)
    return replay(request, None)


def build(artifact: Path, out: Path) -> None:
    """Build an artifact quickly: other tests optimize the artifacts and each instruction, which gives the same bits."""
    build_artifact(artifact, out, "-O0")


def artifacts_of(program: Path, root: Path) -> list[Path]:
    compile_with_data(program, root)
    return sorted(path.parent for path in root.rglob("kernel_config.py"))


def test_entries_say_what_they_pass_on() -> None:
    assert read_entry(WRAPPER, ["other", "scale"]) == (
        "scale",
        (
            Passed(TENSOR, 0, 0, "a"), Passed(SCALAR, 1, 0, "eps"), Passed(EXTENT, 0, 1, "M"),
            Passed(BLOCK, 0, 0, "__pypto_spmd_block_idx"), Passed(LANE, 0, 0, "__pypto_spmd_subblock_idx"),
        ),
    )  # fmt: skip
    assert read_entry(WRAPPER, ["other"]) is None
    assert positional([TENSOR, SCALAR, TENSOR, BLOCK], 3) == (
        Passed(TENSOR, 0), Passed(SCALAR, 3), Passed(TENSOR, 1), Passed(BLOCK),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("bits", "kind", "value"),
    [
        (0x3F800000, "f32", 1.0), (0xFFFFFFFF_3F800000, "f32", 1.0), (0x3C00, "f16", 1.0), (0x3F80, "bf16", 1.0),
        (2**64 - 1, "i32", -1), (0xFFFFFFFF, "i32", -1), (2**64 - 2, "index", -2), (255, "ui8", 255), (3, "i1", True),
    ],
)  # fmt: skip
def test_scalars_of_a_task(bits: int, kind: str, value: float) -> None:
    assert scalar_of(bits, kind) == value


@pytest.mark.parametrize("artifact", ARTIFACTS, ids=lambda path: path.name)
def test_artifacts_pass_as_compiled_and_as_pytorch(artifact: Path, tmp_path: Path) -> None:
    build(artifact, tmp_path)
    verdicts = [run(artifact, tmp_path, runtime) for runtime in ("embedded", "torch")]
    assert [(v.status, v.tasks) for v in verdicts] == [("pass", verdicts[0].tasks)] * 2


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.stem)
def test_programs_pass_as_compiled_and_as_pytorch(program: Path, tmp_path: Path) -> None:
    for artifact in artifacts_of(program, tmp_path / "_jit"):
        out = tmp_path / f"out_{artifact.name}"
        build(artifact, out)
        verdicts = [run(artifact, out, runtime) for runtime in ("embedded", "torch")]
        tasks = TASKS.get(artifact.name.removeprefix("_jit_"), TASKS.get(program.stem, 1))
        assert [(v.status, v.tasks) for v in verdicts] == [("pass", tasks)] * 2


@pytest.fixture
def softmax(tmp_path: Path) -> tuple[Path, Path]:
    artifact, out = tmp_path / "_jit_softmax", tmp_path / "out"
    shutil.copytree(EXAMPLES / "artifacts" / "_jit_softmax", artifact)
    build(artifact, out)
    return artifact, out


def test_kernels_need_not_be_compiled(softmax: tuple[Path, Path]) -> None:
    artifact, out = softmax
    shutil.rmtree(out / "kernels")
    assert run(artifact, out, "torch").status == "pass"


def test_goldens_made_by_the_reference(softmax: tuple[Path, Path]) -> None:
    artifact, out = softmax
    assert run(artifact, out, "embedded", Path("reference")).status == "pass"
    first = read_pt(out / "reference" / "in" / "x.pt").contiguous()
    assert bytes(first) == bytes(read_pt(artifact / "data" / "in" / "x.pt").contiguous())
    assert run(artifact, out, "embedded", Path("reference"), seed=3).status == "pass"
    assert bytes(read_pt(out / "reference" / "in" / "x.pt").contiguous()) != bytes(first)


def test_a_module_that_cannot_be_translated_ends_in_the_verdict(softmax: tuple[Path, Path]) -> None:
    artifact, out = softmax
    path = next((artifact / "ptoas").glob("*.pto"))
    path.write_text(path.read_text().replace("pto.trowmax", "pto.trowmost"))
    verdict = run(artifact, out, "torch")
    assert (verdict.status, verdict.error is not None) == ("build_error", True)
    assert verdict.error is not None
    assert verdict.error.message.startswith(f"{path}:")
    assert json.loads((out / "verdict.json").read_text())["status"] == "build_error"


def test_an_artifact_without_modules(softmax: tuple[Path, Path]) -> None:
    artifact, out = softmax
    shutil.rmtree(artifact / "ptoas")
    verdict = run(artifact, out, "torch")
    assert verdict.status == "usage_error"
    assert verdict.error is not None
    assert verdict.error.message == f"{artifact}/ptoas: has no .pto modules, from which the reference is computed"


def test_a_fault_in_a_module_names_task_kernel_and_line(softmax: tuple[Path, Path]) -> None:
    artifact, out = softmax
    path = next((artifact / "ptoas").glob("*.pto"))
    text = path.read_text()
    line = next(n for n, t in enumerate(text.splitlines(), 1) if "pto.partition_view" in t)
    path.write_text(text.replace("%c256_index = arith.constant 256", "%c256_index = arith.constant 512"))
    verdict = run(artifact, out, "torch")
    assert verdict.error is not None
    assert f"{path.name}:{line}: window" in verdict.error.message


def test_the_time_limit_begins_once_pytorch_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = mmap.mmap(-1, 1)

    def load(name: str) -> None:
        time.sleep(0.2)
        loaded[:] = b"1"

    monkeypatch.delitem(sys.modules, "torch")
    monkeypatch.setattr(importlib, "import_module", load)
    with pytest.raises(RunFault, match=r"the run had not finished after 0\.01 s, before the first task"):
        in_child(lambda: signal.pause(), Progress(), 0.01)
    assert loaded[:] == b"1"
