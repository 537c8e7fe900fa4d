"""Every error is one line at the user's line, with what is wrong and what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from pypto_build.compiler import CompileError
from tests.compiler.programs import files, kernel

NUMBER = "x: M, out: pl.Out[M], n: pl.Scalar[pl.INDEX]"

TILE = "t = pl.load(x, [0, 0], [64, 64])\n"
STORE = "\npl.store(t, [0, 0], out)"

CASES = {
    "no type": (
        kernel("pass", "x, out", program="x: M, out: pl.Out[M]"),
        "4:7: parameter x has no type; annotate it: pl.Tensor[[64, 64], pl.FP32]",
    ),
    "unknown operation": (
        kernel("pl.store(pl.lod(x), [0, 0], out)"),
        "5:14: pl.lod: pl has no operation 'lod'; did you mean 'load'?",
    ),
    "shapes": (
        kernel(TILE + "t = t + pl.row_max(t)" + STORE),
        "6:9: add: Tile[[64, 64], FP32] and Tile[[64, 1], FP32] have different shapes; use pl.row_expand_add",
    ),
    "element types": (
        kernel(TILE + "t = t + pl.cast(t, pl.FP16)" + STORE),
        (
            "6:9: add: the operands have different dtypes, FP32 and FP16; convert one of them with pl.cast"
        ),
    ),
    "bounds": (
        kernel("t = pl.load(x, [32, 0], [64, 64])" + STORE),
        "5:9: pl.load: axis 0: the range 32 to 96 is outside of the extent 64",
    ),
    "alignment": (
        kernel("t = pl.load(x, [0, 0], [64, 6])" + STORE),
        "5:9: pl.load: a row of 6 FP32 has 24 bytes, which is not a multiple of 32; "
        "use a larger tile, and give the part that holds data with valid_shape",
    ),
    "missing argument": (
        kernel("t = pl.load(x, [0, 0])" + STORE),
        "5:9: pl.load: the argument shape is missing; its parameters are tensor, offsets, shape, valid_shape",
    ),
    "rank": (
        kernel("t = pl.load(x, [0], [64, 64])" + STORE),
        "5:9: pl.load: 1 offsets are given, but the tensor has 2 extents",
    ),
    "writes an input": (
        kernel(TILE + "pl.store(t, [0, 0], x)" + STORE),
        "6:5: k writes x, which is declared as an input; declare the parameter pl.Out or pl.InOut",
    ),
    "never writes": (
        kernel("pass"),
        "4:1: k never writes its output out; store to the output, or declare it as an input",
    ),
    "reads an output": (
        kernel("t = pl.load(out, [0, 0], [64, 64])" + STORE),
        "4:1: k reads out, which is declared pl.Out; declare the parameter pl.InOut",
    ),
    "value of a branch": (
        kernel("if n > 0:\n    t = pl.load(x, [0, 0], [64, 64])" + STORE, NUMBER,
               "x, out, n"),
        "7:5: t has no value on some path to this line; assign the variable before the loop, or in both branches",
    ),
    "unsupported statement": (
        kernel("while True:\n    pass"),
        "5:5: while loops are supported only in orchestrations; write `for i in pl.range(…)` in a kernel",
    ),
    "python call": (
        kernel(TILE + "print(t)" + STORE),
        "6:5: print cannot be called with values of k; use pl operations, kernels, or a @pl.jit.inline function",
    ),
    "returns": (
        kernel("return x"),
        "5:5: k returns a value, which is not supported here; write results to Out parameters",
    ),
    "integer division": (
        kernel("t = pl.load(x, [n / 2, 0], [64, 64])" + STORE, NUMBER, "x, out, n"),
        "5:21: the operator / takes only floats; divide integers with //",
    ),
    "wrong argument": (
        kernel(TILE + STORE, "x: M, out: pl.Out[M]", "x, out", "x: pl.Tensor[[32, 64], pl.FP32], out: pl.Out[M]"),
        "10:5: k: x must be Tensor[[64, 64], FP32], found Tensor[[32, 64], FP32]",
    ),
    "accumulator used again": (
        kernel(
            "a = pl.load(x, [0, 0], [64, 64])\nc = pl.matmul(a, a)\nd = pl.matmul_acc(c, a, a)\n"
            "pl.store(c, [0, 0], out)\npl.store(d, [0, 0], out)"
        ),
        "7:9: pl.matmul_acc overwrites c, which is used again later; use the result of pl.matmul_acc from there on",
    ),
    "carried type": (
        kernel(TILE + "for i in pl.range(4):\n    t = pl.row_max(t)" + STORE),
        (
            "6:5: t has the type Tile[[64, 64], FP32] in one branch and Tile[[64, 1], FP32] in the other; "
            "use the same type in both branches"
        ),
    ),
    "wrong element type stored": (
        kernel(TILE + "t = pl.cast(t, pl.BF16)" + STORE),
        "7:5: pl.store: the dtype of the tile is BF16, but that of the tensor is FP32; convert it with pl.cast",
    ),
    "slice with gaps": (
        "@pl.jit.incore\ndef k(x: pl.Tensor[[64, 32], pl.FP32], out: pl.Out[M]):\n"
        "    pl.store(pl.load(x, [0, 0], [64, 32]), [0, 0], out)\n"
        "@pl.jit\ndef main(x: M, out: pl.Out[M]):\n    k(pl.slice(x, [64, 32], [0, 32]), out)\n",
        "8:7: pl.slice: the slice is not contiguous, because it takes only a part of axis 1 and "
            "more than one index of axis 0; "
        "pass the whole tensor and the offset to the kernel",
    ),
    "output nobody writes": (
        "@pl.jit.incore\ndef k(x: pl.InOut[M]):\n    pl.store(pl.load(x, [0, 0], [64, 64]), [0, 0], x)\n"
        "@pl.jit\ndef main(x: pl.InOut[M], y: pl.Out[M]):\n    k(x)\n",
        "7:1: main: no kernel writes its output y",
    ),
    "syntax": ("def k(:\n", "3: syntax error: invalid syntax"),
    "fails to load": ("y = 1 // 0\n", "3: ZeroDivisionError: integer division or modulo by zero"),
    "bad annotation": (
        "@pl.jit\ndef main(x: pl.Tensor[[0], pl.FP32]):\n    pass\n",
        "4:13: pl.Tensor[[0], pl.FP32]: extents are positive numbers or pl.dynamic, found [0]",
    ),
    "no program": ("", ": defines no program; decorate the orchestration function with @pl.jit"),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_error(tmp_path: Path, name: str) -> None:
    body, expected = CASES[name]
    with pytest.raises(CompileError) as caught:
        files(tmp_path, body)
    separator = "" if expected.startswith(":") else ":"
    assert str(caught.value) == f"{tmp_path / 'program.py'}{separator}{expected}"


def test_a_program_that_does_not_fit_lists_what_is_live(tmp_path: Path) -> None:
    body = kernel(
        "a = pl.load(x, [0, 0], [128, 128])\nb = pl.exp(a)\nc = pl.exp(b)\npl.store(a + b + c, [0, 0], out)",
        "x: N, out: pl.Out[N]",
    )
    with pytest.raises(CompileError) as caught:
        files(tmp_path, "N = pl.Tensor[[128, 128], pl.FP32]\n" + body)
    assert str(caught.value).splitlines() == [
        f"{tmp_path / 'program.py'}:8:9: plan_addresses: c needs 65536 bytes of vec, which has 188416 and holds other "
        "live tiles; use smaller tiles, or store and load again what waits longest",
        "  a: bytes 0 to 65536, Tile[[128, 128], FP32, vec], line 6",
        "  b: bytes 65536 to 131072, Tile[[128, 128], FP32, vec], line 7",
        "  c: 65536 bytes, Tile[[128, 128], FP32, vec], no room, line 8",
    ]
