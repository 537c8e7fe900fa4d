"""Results of passes on a program, as text; and that passes verify them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pypto_build.compiler import (
    PASSES,
    CompileError,
    build_program,
    compile_entry,
    driver,
    infer_function_core_type,
    pipeline,
    run_passes,
)
from pypto_build.compiler.ir import Op, Program, Ref
from pypto_build.compiler.pipeline import Pass, verify
from tests.compiler.programs import kernel, lines_of, load, passed

LOOP = kernel(
    "total = pl.load(x, [0, 0], [16, 64])\n"
    "unused = 1\n"
    "for i in pl.range(1, 4):\n"
    "    unused = i\n"
    "    total = total + pl.load(x, [i * 16, 0], [16, 64])\n"
    "pl.store(total, [0, 0], out)"
)


def test_the_order_of_the_passes() -> None:
    assert [one.name for one in PASSES] == [
        "flatten_calls",
        "convert_to_ssa",
        "infer_types",
        "infer_memory",
        "expand_mixed",
        "split_lanes",
        "plan_addresses",
    ]


def test_flatten_calls(tmp_path: Path) -> None:
    body = (
        "@pl.jit.inline\ndef twice(a):\n    b = a + a\n    return b\n"
        "@pl.jit.incore\ndef k(x: M, out: pl.Out[M]):\n    pl.store(twice(pl.load(x, [0, 0], [64, 64])), [0, 0], out)\n"
        "@pl.jit\ndef main(x: M, out: pl.Out[M]):\n    k(x, out)\n"
    )
    _, texts = passed(tmp_path, body)
    assert lines_of(texts["frontend"], "def k", "pl.store") == [
        "def k(x: In[Tensor[[64, 64], FP32]], out: Out[Tensor[[64, 64], FP32]]):",
        "pl.store(twice(pl.load(x, [0, 0], [64, 64], [])), [0, 0], out)",
    ]
    assert lines_of(texts["flatten_calls"], "def k", "pl.store") == [
        "def k(x: In[Tensor[[64, 64], FP32]], out: Out[Tensor[[64, 64], FP32]]):",
        "tmp1 = pl.load(x, [0, 0], [64, 64], [])",
        "b_0 = pl.add(tmp1, tmp1)",
        "tmp0 = pl.copy(b_0)",
        "pl.store(tmp0, [0, 0], out)",
    ]


def test_convert_to_ssa_carries_what_a_loop_changes_and_reads(tmp_path: Path) -> None:
    _, texts = passed(tmp_path, LOOP)
    assert lines_of(texts["convert_to_ssa"], "total__ssa_v0 =", "pl.store") == [
        "total__ssa_v0 = pl.load(x__ssa_v0, [0, 0], [16, 64], [])",
        "for i__idx_v0, (total__iter_v1,) in pl.range(1, 4, 1, init_values=(total__ssa_v0,)):",
        "tmp1__ssa_v0 = pl.mul(i__idx_v0, 16)",
        "tmp0__ssa_v0 = pl.load(x__ssa_v0, [tmp1__ssa_v0, 0], [16, 64], [])",
        "total__ssa_v2 = pl.add(total__iter_v1, tmp0__ssa_v0)",
        "total__rv_v3 = pl.yield_(total__ssa_v2)",
        "pl.store(total__rv_v3, [0, 0], out__ssa_v0)",
    ]


def test_convert_to_ssa_merges_branches(tmp_path: Path) -> None:
    body = kernel(
        "t = pl.load(x, [0, 0], [64, 64])\nif n == 0:\n    t = pl.exp(t)\npl.store(t, [0, 0], out)",
        "x: M, out: pl.Out[M], n: pl.Scalar[pl.INDEX]",
        "x, out, n",
    )
    _, texts = passed(tmp_path, body)
    assert lines_of(texts["convert_to_ssa"], "tmp0", "pl.store") == [
        "tmp0__ssa_v0 = pl.eq(n__ssa_v0, 0)",
        "if tmp0__ssa_v0:",
        "t__ssa_v1 = pl.exp(t__ssa_v0)",
        "t__phi_v2 = pl.yield_(t__ssa_v1)",
        "else:",
        "t__phi_v2 = pl.yield_(t__ssa_v0)",
        "pl.store(t__phi_v2, [0, 0], out__ssa_v0)",
    ]


def test_a_carried_tile_stays_at_one_address(tmp_path: Path) -> None:
    program, _ = passed(tmp_path, LOOP)
    addresses = program.functions["k"].addresses
    carried = {addresses[f"total__{suffix}"] for suffix in ("ssa_v0", "iter_v1", "ssa_v2", "rv_v3")}
    assert carried == {0}
    assert addresses["tmp0__ssa_v0"] == 16 * 64 * 4


def test_infer_memory_moves_operands_of_a_product(tmp_path: Path) -> None:
    body = kernel("a = pl.load(x, [0, 0], [64, 64])\npl.store(pl.matmul(a, a), [0, 0], out)")
    program, texts = passed(tmp_path, body)
    assert program.functions["k"].core == "aic"
    assert lines_of(texts["infer_memory"], "a__ssa_v0:", "pl.store") == [
        "a__ssa_v0: Tile[[64, 64], FP32, mat] = pl.load(x__ssa_v0, [0, 0], [64, 64])",
        "a__ssa_v0_Left: Tile[[64, 64], FP32, left] = pl.move(a__ssa_v0, target='left')",
        "a__ssa_v0_Right: Tile[[64, 64], FP32, right] = pl.move(a__ssa_v0, target='right')",
        "tmp0__ssa_v0: Tile[[64, 64], FP32, acc] = pl.matmul(a__ssa_v0_Left, a__ssa_v0_Right)",
        "pl.store(tmp0__ssa_v0, [0, 0], out__ssa_v0)",
    ]


MIXED = kernel(
    "a = pl.load(x, [0, 0], [64, 64])\nfor i in pl.range(2):\n    pl.store(pl.exp(pl.matmul(a, a)) + a, [0, 0], out)"
)


def test_expand_mixed(tmp_path: Path) -> None:
    program, texts = passed(tmp_path, MIXED)
    assert list(program.functions) == ["k_aic", "k_aiv", "main"]
    assert lines_of(texts["expand_mixed"], "def k_aic", "pl.push") == [
        "def k_aic(x__ssa_v0: In[Tensor[[64, 64], FP32]], out__ssa_v0: Out[Tensor[[64, 64], FP32]], "
        "__gm_pipe_buffer: Out[Tensor[[8192], FP32]]):",
        "# pipe: directions 1, 2 slots of 16384 bytes",
        "a__ssa_v0_mat: Tile[[64, 64], FP32, mat] = pl.load(x__ssa_v0, [0, 0], [64, 64])",
        "for i__idx_v0 in pl.range(0, 2, 1):",
        "a__ssa_v0_mat_Left: Tile[[64, 64], FP32, left] = pl.move(a__ssa_v0_mat, target='left')",
        "a__ssa_v0_mat_Right: Tile[[64, 64], FP32, right] = pl.move(a__ssa_v0_mat, target='right')",
        "tmp2__ssa_v0: Tile[[64, 64], FP32, acc] = pl.matmul(a__ssa_v0_mat_Left, a__ssa_v0_mat_Right)",
        "pl.push(tmp2__ssa_v0, split=0)",
    ]
    assert lines_of(texts["expand_mixed"], "def k_aiv", "pl.store")[2:] == [
        "a__ssa_v0: Tile[[64, 64], FP32, vec] = pl.load(x__ssa_v0, [0, 0], [64, 64])",
        "for i__idx_v0 in pl.range(0, 2, 1):",
        "tmp2__ssa_v0__Vec: Tile[[64, 64], FP32, vec] = pl.pop(split=0)",
        "tmp1__ssa_v0: Tile[[64, 64], FP32, vec] = pl.exp(tmp2__ssa_v0__Vec)",
        "pl.free(split=0)",
        "tmp0__ssa_v0: Tile[[64, 64], FP32, vec] = pl.add(tmp1__ssa_v0, a__ssa_v0)",
        "pl.store(tmp0__ssa_v0, [0, 0], out__ssa_v0)",
    ]


def test_a_popped_tile_that_lives_on_is_copied(tmp_path: Path) -> None:
    body = kernel(
        "a = pl.load(x, [0, 0], [64, 64])\n"
        "t = pl.full([64, 64], 0.0, pl.FP32)\n"
        "for i in pl.range(2):\n"
        "    pl.store(t + 1.0, [0, 0], out)\n"
        "    t = pl.matmul(a, a) + 0.0 if i == 0 else pl.exp(pl.matmul(a, a))"
    )
    program, _ = passed(tmp_path, body)
    pops = [op for op in program.functions["k_aiv"].body.walk() if op.name in ("pop", "free")]
    assert [op.name for op in pops] == ["pop", "free", "pop", "free"]


def test_dump_passes_are_numbered(tmp_path: Path) -> None:
    files = compile_entry(load(tmp_path, LOOP), tmp_path, dump_passes=True)
    assert [name for name in files if name.startswith("passes_dump/")] == [
        "passes_dump/00_frontend.py",
        "passes_dump/01_after_flatten_calls.py",
        "passes_dump/02_after_convert_to_ssa.py",
        "passes_dump/03_after_infer_types.py",
        "passes_dump/04_after_infer_memory.py",
        "passes_dump/05_after_expand_mixed.py",
        "passes_dump/06_after_split_lanes.py",
        "passes_dump/07_after_plan_addresses.py",
    ]


def test_infer_function_core_type(tmp_path: Path) -> None:
    program = build_program(load(tmp_path, MIXED))
    for one in PASSES[:4]:
        program = one.run(program)
    assert infer_function_core_type(program.functions["k"]) == "mixed"
    assert program.functions["k"].core == "mixed"


def _wrong(name: str) -> tuple[str, object]:
    """A fault put into a program after the pass `name`, and what its verifier says."""
    return {
        "flatten_calls": ("neg is still nested", lambda f: f.body.ops.append(Op("neg", (Op("neg"),), results=("n",)))),
        "convert_to_ssa": (
            "neg uses nothing, which is not defined before it",
            lambda f: f.body.ops.append(Op("neg", (Ref("nothing"),), results=("n",))),
        ),
        "infer_types": ("neg: n has no type", lambda f: f.body.ops.append(Op("neg", (), results=("n",)))),
        "expand_mixed": (
            "get_block_idx defines n, of which nothing is known",
            lambda f: f.body.ops.append(Op("get_block_idx", (), results=("n",))),
        ),
        "plan_addresses": (
            "for: total__iter_v1 and tmp0__ssa_v0 are live together and overlap",
            lambda f: f.addresses.update({"tmp0__ssa_v0": 64}),
        ),
    }[name]


@pytest.mark.parametrize("name", ["flatten_calls", "convert_to_ssa", "infer_types", "expand_mixed", "plan_addresses"])
def test_verifiers_catch_a_wrong_pass(tmp_path: Path, name: str) -> None:
    program = build_program(load(tmp_path, LOOP))
    message, damage = _wrong(name)
    for one in PASSES:
        program = one.run(program)
        if one.name == name:
            break
    damage(program.functions["k"])  # type: ignore[operator]
    wrong = Pass(one.name, one.run, one.verify)
    with pytest.raises(CompileError) as caught:
        verify(wrong, replace(program))
    assert caught.value.message == f"{name} left a wrong program: {message}"


def test_a_pass_that_fails_names_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Behind what is wrong with the program; a fault of its own says so, and is no traceback."""
    program = build_program(load(tmp_path, kernel("pl.store(pl.load(x, [0, 8], [64, 64]), [0, 0], out)")))
    with pytest.raises(CompileError) as caught:
        run_passes(program)
    assert (
        caught.value.full
        == f"{tmp_path}/program.py:5:14: pl.load: axis 1: the range 8 to 72 is outside of the extent 64 [infer_types]"
    )

    def broken(program: Program) -> Program:
        raise KeyError("tile")

    monkeypatch.setattr(pipeline, "PASSES", (pipeline.Pass("plan_addresses", broken, lambda function: None),))
    with pytest.raises(CompileError) as caught:
        run_passes(program)
    assert caught.value.full == (
        f"{tmp_path}/program.py:7:1: the compiler pass plan_addresses failed: KeyError: 'tile'; "
        "report this as a bug of the compiler; the program is not at fault"
    )


def test_an_emitter_that_fails_is_no_traceback(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(program: Program, *rest: object) -> dict[str, str]:
        raise TypeError("store: operand 0 is Const(value=1), not a Ref")

    monkeypatch.setattr(driver, "generate", broken)
    with pytest.raises(CompileError) as caught:
        compile_entry(load(tmp_path, kernel("pl.store(pl.load(x, [0, 0], [64, 64]), [0, 0], out)")), tmp_path)
    assert caught.value.full == (
        f"{tmp_path}/program.py:7:1: the compiler pass emission failed: TypeError: store: operand 0 "
        "is Const(value=1), not a Ref; report this as a bug of the compiler; the program is not at "
        "fault"
    )
