"""Addresses: reuse after the last use, writing in place, alignment, scratch, swaps."""

from __future__ import annotations

from pathlib import Path

from tests.compiler.programs import kernel, passed

KIB = 1024
TILE = 16 * KIB  # 64 x 64 floats


def _addresses(tmp_path: Path, body: str, **parameters: str) -> dict[str, int]:
    program, _ = passed(tmp_path, kernel(body, **parameters))
    return program.functions["k"].addresses


def test_elementwise_operations_write_where_they_read(tmp_path: Path) -> None:
    addresses = _addresses(
        tmp_path, "a = pl.load(x, [0, 0], [64, 64])\nb = pl.exp(a)\nc = b * 2.0\npl.store(c, [0, 0], out)"
    )
    assert addresses == {"a__ssa_v0": 0, "b__ssa_v0": 0, "c__ssa_v0": 0}


def test_what_is_needed_later_keeps_its_bytes(tmp_path: Path) -> None:
    addresses = _addresses(tmp_path, "a = pl.load(x, [0, 0], [64, 64])\nb = pl.exp(a)\npl.store(a + b, [0, 0], out)")
    assert addresses == {"a__ssa_v0": 0, "b__ssa_v0": TILE, "tmp0__ssa_v0": 0}


def test_reductions_do_not_write_in_place_and_get_scratch(tmp_path: Path) -> None:
    addresses = _addresses(
        tmp_path,
        "a = pl.load(x, [0, 0], [64, 64])\nb = pl.row_max(a)\npl.store(pl.row_expand_sub(a, b), [0, 0], out)",
    )
    assert addresses == {"a__ssa_v0": 0, "b__ssa_v0__scratch": TILE, "b__ssa_v0": 2 * TILE, "tmp0__ssa_v0": TILE}


def test_a_widening_conversion_does_not_write_in_place(tmp_path: Path) -> None:
    half = "x: pl.Tensor[[64, 64], pl.BF16], out: pl.Out[M]"
    addresses = _addresses(
        tmp_path,
        "a = pl.load(x, [0, 0], [64, 64])\npl.store(pl.cast(a, pl.FP32), [0, 0], out)",
        parameters=half,
    )
    assert addresses == {"a__ssa_v0": 0, "tmp0__ssa_v0": TILE // 2}


def test_views_share_their_bytes(tmp_path: Path) -> None:
    addresses = _addresses(
        tmp_path,
        "a = pl.load(x, [0, 0], [64, 64])\nb = pl.reshape(a, [32, 128])\n"
        "pl.store(pl.reshape(b, [64, 64]) + a, [0, 0], out)",
    )
    assert (addresses["a__ssa_v0"], addresses["b__ssa_v0"]) == (0, 0)


def test_a_swap_in_a_loop_gets_copies(tmp_path: Path) -> None:
    program, texts = passed(
        tmp_path,
        kernel(
            "a = pl.load(x, [0, 0], [64, 64])\nb = pl.exp(a)\nfor i in pl.range(3):\n    a, b = b, a\n"
            "pl.store(a - b, [0, 0], out)"
        ),
    )
    assert texts["plan_addresses"].count("copy_tile") == 3
    addresses = program.functions["k"].addresses
    carried = {addresses[name] for name in addresses if "__rv_" in name}
    assert len(carried) == 2


def test_pipes_reserve_the_start_of_the_consumers_memory(tmp_path: Path) -> None:
    program, _ = passed(
        tmp_path, kernel("a = pl.load(x, [0, 0], [64, 64])\npl.store(pl.exp(pl.matmul(a, a)), [0, 0], out)")
    )
    assert program.functions["k_aiv"].addresses == {"tmp0__ssa_v0": 2 * TILE}
    assert program.functions["k_aic"].addresses["a__ssa_v0"] == 0
