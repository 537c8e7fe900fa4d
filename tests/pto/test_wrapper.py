"""Kernel files made from a module, and entries made anew when a function takes other arguments."""

from __future__ import annotations

import pytest

from pypto_build.compiler.splice_files import passed_values
from pypto_build.pto import Module, PtoError, parse
from pypto_build.pto.wrapper import (
    Passed,
    Payload,
    plan_arguments,
    refit_arguments,
    write_entry,
    write_wrapper,
)
from tests.pto.samples import module

VIEW = "!pto.tensor_view<?x?xf32>"
EXTENTS = f"""\
  %c2 = arith.constant 2 : index
  %c1 = arith.constant 1 : index
  %half = arith.muli %arg3, %c2 : index
  %v = pto.make_tensor_view %arg1, shape = [%half, %arg4], strides = [%arg4, %c1] : {VIEW}
"""
ARGS = "%arg0: !pto.ptr<bf16>, %arg1: !pto.ptr<f32>, %arg2: f32, %arg3: index, %arg4: index"
SPMD = ", %__pypto_spmd_block_idx: i32, %__pypto_spmd_block_num: i32"


def parsed(args: str, body: str = "") -> Module:
    return parse(module(body, args))


def plan(text: Module, payload: Payload | None) -> tuple[Passed, ...]:
    return plan_arguments(next(text.functions()), text, payload)


PLANNED = (
    Passed("tensor", "arg0", "bfloat16_t", 0),
    Passed("tensor", "arg1", "float", 1),
    Passed("scalar", "arg2", "float", 2),
    Passed("extent", "arg3", "int64_t", value="(static_cast<int64_t>(arg1_tensor->shapes[0]) / 2)"),
    Passed("extent", "arg4", "int64_t", value="static_cast<int64_t>(arg1_tensor->shapes[1])"),
    Passed("launch", "__pypto_spmd_block_idx", "int32_t", value="get_block_idx(args)"),
    Passed("launch", "__pypto_spmd_block_num", "int32_t", value="get_block_num(args)"),
)


def test_where_arguments_come_from() -> None:
    assert plan(parsed(ARGS + SPMD, EXTENTS), Payload(2, 1)) == PLANNED


def test_an_index_is_a_scalar_where_the_orchestration_passes_one() -> None:
    made = plan(parsed(ARGS, EXTENTS), Payload(2, 3))
    assert [(p.kind, p.slot) for p in made[2:]] == [("scalar", 2), ("scalar", 3), ("scalar", 4)]


def test_argument_without_a_value() -> None:
    with pytest.raises(PtoError) as raised:
        plan(parsed("%arg0: !pto.ptr<f32>, %arg1: index"), Payload(1, 0))
    assert str(raised.value) == (
        "<pto>:2:3: func.func @k: argument 1 (%arg1: index) has no value: the orchestration passes 1 tensors and "
        "0 scalars"
    )


def test_entry_is_read_back() -> None:
    entry = write_entry("k", PLANNED, "ChipTensor")
    assert passed_values(entry, [p.name for p in PLANNED]) == PLANNED
    assert entry.endswith("    k(arg0, arg1, arg2, arg3, arg4, __pypto_spmd_block_idx, __pypto_spmd_block_num);\n}\n")
    assert passed_values(entry, ["arg0", "unknown"]) is None


def test_pipe_buffer_is_shared_out_between_blocks() -> None:
    body = (
        "  %c0 = arith.constant 0 : i32\n"
        "  pto.aic_initialize_pipe {dir_mask = 1, slot_size = 64} (gm_slot_buffer = %arg0 : !pto.ptr<f32>, "
        "c2v_consumer_buf = %c0 : i32, v2c_consumer_buf = %c0 : i32)\n"
    )
    made = plan(parse(module(body, "%arg0: !pto.ptr<f32>" + SPMD, "cube")), Payload(1, 0))
    assert made[0].shared
    entry = write_entry("k", made, "Tensor")
    assert "+ arg0_tensor->start_offset + __pypto_spmd_block_idx * arg0_share;" in entry
    assert passed_values(entry, ["arg0"]) == made[:1]
    assert not plan(parse(module(body, "%arg0: !pto.ptr<f32>", "cube")), Payload(1, 0))[0].shared


def test_a_whole_file() -> None:
    text = parsed("%arg0: !pto.ptr<f32>")
    made = write_wrapper("k", "static __aicore__ void k(__gm__ float* a) {\n}\n", plan(text, Payload(1, 0)))
    assert made.startswith("// Kernel Function: k\n")
    assert made.index("using namespace pto;") < made.index("// --- ptoas-generated code ---")
    assert made.index("void k(") < made.index("// --- Kernel entry point ---")
    assert "intrinsic.h" not in made


OLD = (
    Passed("tensor", "x", "float", 0),
    Passed("tensor", "y", "float", 1),
    Passed("scalar", "alpha", "float", 2),
    Passed("extent", "m", "int64_t", value="static_cast<int64_t>(x_tensor->shapes[0])"),
)


def refit(args: str, payload: Payload | None = None, body: str = "") -> tuple[Passed, ...]:
    text = parsed(args, body)
    return refit_arguments(next(text.functions()), text, OLD, payload)


def test_arguments_dropped_and_moved() -> None:
    assert refit("%arg2: f32, %arg0: !pto.ptr<f32>") == (OLD[2], OLD[0])


def test_whole_numbers_convert() -> None:
    assert refit("%arg0: !pto.ptr<f32>, %arg3: i32") == (OLD[0], OLD[3])


def test_new_tensor_moves_the_scalars() -> None:
    made = refit("%arg0: !pto.ptr<f32>, %w: !pto.ptr<f16>, %arg2: f32", Payload(3, 1))
    assert made == (OLD[0], Passed("tensor", "w", "half", 2), Passed("scalar", "alpha", "float", 3))


def test_extent_of_a_tensor_that_is_gone() -> None:
    body = (
        "  %c1 = arith.constant 1 : index\n"
        f"  %v = pto.make_tensor_view %arg1, shape = [%arg3, %c1], strides = [%c1, %c1] : {VIEW}\n"
    )
    with pytest.raises(PtoError, match=r"argument 1 \(%arg3: index\) has no value"):
        refit("%arg1: !pto.ptr<f32>, %arg3: index")
    assert refit("%arg0: !pto.ptr<f32>, %arg3: index", None, body.replace("%arg1", "%arg0"))[1] == OLD[3]


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ("%arg0: !pto.ptr<bf16>", "argument 0 (%arg0: !pto.ptr<bf16>) no longer fits: kernel_entry passes float* x"),
        ("%arg2: i32", "argument 0 (%arg2: i32) no longer fits: kernel_entry passes float alpha"),
        ("%arg3: f32", "argument 0 (%arg3: f32) no longer fits: kernel_entry passes int64_t m"),
        ("%arg4: !pto.ptr<f32>", "argument 0 (%arg4: !pto.ptr<f32>) has no value"),
        ("%s: i32", "argument 0 (%s: i32) has no value"),
    ],
)
def test_argument_that_no_longer_fits(args: str, message: str) -> None:
    with pytest.raises(PtoError) as raised:
        refit(args)
    assert message in str(raised.value)


def test_argument_that_no_kernel_takes() -> None:
    with pytest.raises(PtoError) as raised:
        plan(parsed("%arg0: !pto.tile_buf<vec, 16x16xf32>"), None)
    assert str(raised.value) == (
        "<pto>:2:3: func.func @k: argument 0 (%arg0: !pto.tile_buf<vec, 16x16xf32>) cannot be passed to a kernel: it "
        "takes pointers and numbers"
    )
