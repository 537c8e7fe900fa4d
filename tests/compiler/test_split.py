"""Kernels whose tiles two vector cores share: what each lane has, where it loads and stores, how it is submitted."""

from __future__ import annotations

from pathlib import Path

import pytest

from pypto_build.compiler import CompileError
from tests.compiler.programs import files, kernel, lines_of, passed

NUMBER = "x: M, out: pl.Out[M], n: pl.Scalar[pl.INDEX]"
PRODUCT = "a = pl.load(x, [0, 0], [64, 64])\np = pl.matmul(a, a)\n"


def _split(mode: str, body: str, parameters: str = "x: M, out: pl.Out[M]", call: str = "x, out") -> str:
    return kernel(body, parameters, call).replace("@pl.jit.incore", f"@pl.jit.incore(split=pl.Split.{mode})", 1)


def test_up_and_down(tmp_path: Path) -> None:
    """A lane pops, loads and stores half the rows; the cube core has them all."""
    body = _split(
        "UpDown", PRODUCT + "y = pl.load(x, [n, 0], [64, 64])\npl.store(p + y, [0, 0], out)", NUMBER, "x, out, n"
    )
    _, texts = passed(tmp_path, body)
    assert lines_of(texts["split_lanes"], "def k_aiv", "store")[2:] == [
        "subblock_idx: INDEX = pl.get_subblock_idx()",
        "lane_times_32: INDEX = pl.s.mul(subblock_idx, 32, dtype=INDEX)",
        "p__ssa_v0__Vec: Tile[[32, 64], FP32, vec] = pl.pop(split=1)",
        "lane_at_0: INDEX = pl.s.add(n__ssa_v0, lane_times_32, dtype=INDEX)",
        "y__ssa_v0: Tile[[32, 64], FP32, vec] = pl.load(x__ssa_v0, [lane_at_0, 0], [32, 64])",
        "tmp0__ssa_v0: Tile[[32, 64], FP32, vec] = pl.add(p__ssa_v0__Vec, y__ssa_v0)",
        "pl.free(split=1)",
        "pl.store(tmp0__ssa_v0, [lane_times_32, 0], out__ssa_v0)",
    ]
    assert "p__ssa_v0: Tile[[64, 64], FP32, acc]" in texts["split_lanes"]
    assert "push(p__ssa_v0, split=1)" in texts["split_lanes"]


def test_left_and_right(tmp_path: Path) -> None:
    """One value a row is whole on both lanes."""
    body = _split(
        "LeftRight", PRODUCT + "c = pl.full([64, 1], 2.0, pl.FP32)\npl.store(pl.row_expand_mul(p, c), [0, 0], out)"
    )
    _, texts = passed(tmp_path, body)
    assert lines_of(texts["split_lanes"], "def k_aiv", "store")[4:] == [
        "p__ssa_v0__Vec: Tile[[64, 32], FP32, vec] = pl.pop(split=2)",
        "c__ssa_v0: Tile[[64, 1], FP32, vec] = pl.full(2.0, dtype=FP32)",
        "tmp0__ssa_v0: Tile[[64, 32], FP32, vec] = pl.row_expand_mul(p__ssa_v0__Vec, c__ssa_v0)",
        "pl.free(split=2)",
        "pl.store(tmp0__ssa_v0, [0, lane_times_32], out__ssa_v0)",
    ]


def test_what_both_lanes_have_is_stored_once(tmp_path: Path) -> None:
    body = _split("LeftRight", PRODUCT + "pl.store(pl.exp(p), [0, 0], out)\n"
                  "pl.store(pl.full([8, 1], 0.0, pl.FP32), [0, 0], z)",
                  "x: M, out: pl.Out[M], z: pl.Out[pl.Tensor[[8, 1], pl.FP32]]", "x, out, z")  # fmt: skip
    _, texts = passed(tmp_path, body)
    assert lines_of(texts["split_lanes"], "if is_first_lane", "store") == [
        "if is_first_lane:",
        "pl.store(tmp1__ssa_v0, [0, 0], z__ssa_v0)",
    ]


def test_the_group(tmp_path: Path) -> None:
    """Both vector slots have the kernel, and it is told which lane it is."""
    texts = files(tmp_path, _split("UpDown", PRODUCT + "pl.store(pl.exp(p), [0, 0], out)"))
    orchestration, wrapper = texts["orchestration/main.cpp"], texts["kernels/aiv/k_aiv.cpp"]
    assert "        MixedKernels mixed_0 = {0, 1, 1};\n        rt_submit_task(mixed_0, params_t0);\n" in orchestration
    assert (
        "#if !defined(__CPU_SIM)\n"
        '#include "intrinsic.h"\n\n'
        "// The two vector cores of a group run this kernel; get_subblockid() tells them apart.\n"
        "[[block_local]] static int32_t pypto_runtime_subblock_id;\n"
        "#define get_subblockid() pypto_runtime_subblock_id\n"
        "#endif\n\n"
        "#include <pto/pto-inst.hpp>\n"
    ) in wrapper
    assert (
        "#if !defined(__CPU_SIM)\n"
        "    pypto_runtime_subblock_id = get_sub_block_id(args);\n"
        "#endif\n\n"
        "    int32_t __pypto_spmd_subblock_idx = get_sub_block_id(args);\n"
    ) in wrapper
    assert "    k_aiv(x__ssa_v0, out__ssa_v0, __gm_pipe_buffer, __pypto_spmd_subblock_idx);\n" in wrapper
    assert "subblock" not in texts["kernels/aic/k_aic.cpp"].partition("// --- Kernel entry point ---")[2]
    assert "pto.tpush_to_aiv(" in texts["ptoas/k.pto"]
    assert texts["ptoas/k.pto"].count("{split = 1}") == 3


def test_vector_cores_alone(tmp_path: Path) -> None:
    texts = files(tmp_path, _split("UpDown", "pl.store(pl.load(x, [0, 0], [64, 64]) * 2.0, [0, 0], out)"))
    submission = texts["orchestration/main.cpp"].partition("// Group k")[2]
    assert submission.startswith(": AIV-only SPMD\n")
    assert "        MixedKernels mixed_0 = {INVALID_KERNEL_ID, 0, 0};\n" in submission


def test_blocks_of_a_group_share_the_pipes_buffer(tmp_path: Path) -> None:
    body = kernel(PRODUCT + "pl.store(pl.exp(p), [pl.get_block_idx() * 0, 0], out)").replace("    k(x", "    k[4](x")
    texts = files(tmp_path, body)
    orchestration = texts["orchestration/main.cpp"]
    assert "gm_pipe_buffer_0_ci_shapes[1] = {32768};" in orchestration
    assert (
        "        MixedKernels mixed_0 = {0, 1, INVALID_KERNEL_ID};\n"
        "        params_t0.launch_spec.set_block_num(4);\n"
        "        rt_submit_task(mixed_0, params_t0);\n"
    ) in orchestration
    for core in ("aic", "aiv"):
        assert (
            "    // Each block has its own part of the pipe's buffer\n"
            "    int64_t __gm_pipe_buffer_blocks = __pypto_spmd_block_num > 0 ? __pypto_spmd_block_num : 1;\n"
            "    int64_t __gm_pipe_buffer_share = __gm_pipe_buffer_tensor->shapes[0] / __gm_pipe_buffer_blocks;\n"
        ) in texts[f"kernels/{core}/k_{core}.cpp"]


def test_blocks_known_when_it_runs(tmp_path: Path) -> None:
    body = kernel(PRODUCT + "pl.store(pl.exp(p) + n, [0, 0], out)", NUMBER, "x, out, n").replace(
        "    k(x", "    k[n](x"
    )
    orchestration = files(tmp_path, body)["orchestration/main.cpp"]
    assert (
        "        int64_t gm_pipe_buffer_0_extent = (n * 8192);\n"
        "        uint32_t gm_pipe_buffer_0_ci_shapes[1] = {static_cast<uint32_t>(gm_pipe_buffer_0_extent)};\n"
    ) in orchestration


WRONG = {
    "reduction across the lanes": (
        _split("UpDown", PRODUCT + "pl.store(pl.col_expand_sub(pl.exp(p), pl.col_max(p)), [0, 0], out)"),
        "7:43: pl.Split.UpDown: col_max: needs rows that are in the other vector core; use pl.Split.LeftRight",
    ),
    "transpose": (
        _split("UpDown", PRODUCT + "pl.store(pl.transpose(pl.exp(p)), [0, 0], out)"),
        "7:14: pl.Split.UpDown: transpose: needs rows that are in the other vector core; use a kernel of its own",
    ),
    "half a block": (
        _split("LeftRight", "pl.store(pl.load(x, [0, 0], [64, 8]) * 2.0, [0, 0], out)"),
        (
            "5:14: pl.Split.LeftRight: load: half of Tile[[64, 8], FP32, vec] is Tile[[64, 4], FP32, "
            "vec], which does not consist of whole 32-byte blocks; use a larger tile"
        ),
    ),
    "part of the rows": (
        _split("UpDown", "pl.store(pl.load(x, [0, 0], [64, 64], [8, 64]) * 2.0, [0, 0], out)"),
        (
            "5:14: pl.Split.UpDown: load: only a part of the rows of Tile[[64, 64], FP32, valid[8, 64], "
            "vec] holds data, so it cannot be split there; split along the other axis"
        ),
    ),
    "cube core alone": (
        _split("UpDown", PRODUCT + "pl.store(p, [0, 0], out)"),
        "4:1: k has split=, but runs only on the cube core; remove split=",
    ),
    "no such mode": (
        kernel("pass").replace("incore", "incore(split='up')"),
        "3: ValueError: split must be pl.Split.UpDown or pl.Split.LeftRight, found 'up'",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong(tmp_path: Path, name: str) -> None:
    body, expected = WRONG[name]
    with pytest.raises(CompileError) as caught:
        files(tmp_path, body)
    assert str(caught.value) == f"{tmp_path / 'program.py'}:{expected}"
