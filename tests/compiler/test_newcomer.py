"""Programs of newcomers to the language, and the messages they get: position, operation, remedy."""

from __future__ import annotations

from pathlib import Path

import pytest

from pypto_build.compiler import CompileError
from tests.compiler.programs import files, kernel

T = "t = pl.load(x, [0, 0], [64, 64])\n"
S = "\npl.store(t, [0, 0], out)"
N = "x: M, out: pl.Out[M], n: pl.Scalar[pl.INDEX]"
CASES = {
    "name typo": (
        kernel(T + "pl.store(tt, [0, 0], out)"),
        "6:14: tt: name 'tt' is not defined; did you mean 't'?",
    ),
    "param typo": (
        kernel("t = pl.load(xx, [0, 0], [64, 64])" + S),
        "5:17: xx: name 'xx' is not defined; did you mean 'x'?",
    ),
    "op on tensor": (
        kernel("pl.store(x + x, [0,0], out)"),
        "5:14: add takes numbers or tiles, found a Tensor[[64, 64], FP32]; load a tile from it with pl.load",
    ),
    "store args swapped": (
        kernel(T + "pl.store(out, [0,0], t)"),
        (
            "6:5: pl.store: tile must be a tile, found a Tensor[[64, 64], FP32]; pass a tile, loaded "
            "with pl.load; the operands are tile, offsets, tensor"
        ),
    ),
    "store not list": (
        kernel(T + "pl.store(t, 0, out)"),
        "6:5: pl.store: offsets must be a list",
    ),
    "matmul shapes": (
        kernel("a = pl.load(x, [0,0],[64,32])\npl.store(pl.matmul(a, a), [0,0], out)"),
        "6:14: pl.matmul: the columns of Tile[[64, 32], FP32] (32) must equal the rows of Tile[[64, 32], FP32] (64)",
    ),
    "matmul op": (
        kernel(T + "pl.store(t @ t, [0,0], out)"),
        "6:14: the operator MatMult is not supported; use pl.matmul",
    ),
    "matmul dtype": (
        kernel(T + "pl.store(pl.matmul(t, pl.cast(t, pl.BF16)), [0,0], out)"),
        "6:14: pl.matmul: the dtypes FP32 and BF16 are not supported; both must be FP32, FP16, BF16 or INT8",
    ),
    "listcomp": (
        kernel("ts = [pl.load(x, [0,0],[64,64]) for i in range(2)]"),
        "5:10: [pl.load(x, [0, 0], [64, 64]) for i in range(2)]: x is not known at compile time; write a loop "
        "over pl.unroll(…)",
    ),
    "attr": (
        kernel(T + "t = t.exp()" + S),
        "6:9: t.exp cannot be called with values of k; write pl.exp(…)",
    ),
    "subscript": (
        kernel(T + "t = t[0:32]" + S),
        "6:9: t[0:32]: t is not known at compile time; pl.load(tensor, offsets, shape) takes a part of a "
        "tensor, pl.extract one of a tile",
    ),
    "subscript tensor": (
        kernel("t = x[0:64, 0:64]" + S),
        "5:9: x[0:64, 0:64]: x is not known at compile time; pl.load(tensor, offsets, shape) takes a part of a"
        " tensor, pl.extract one of a tile",
    ),
    "import inside": (
        kernel("import torch"),
        "5:5: import statements are not supported; import at the top of the file",
    ),
    "op in orch": (
        "@pl.jit\ndef main(x: M, out: pl.Out[M]):\n    t = pl.load(x,[0,0],[64,64])\n    pl.store(t,[0,0],out)\n",
        (
            "5:9: pl.load is an operation of kernels, but main is an orchestration; move this operation "
            "into a @pl.jit.incore function and call that function"
        ),
    ),
    "wrong arg count": (
        kernel(T + S.strip(), call="x"),
        "9:5: k: the argument out is missing; its parameters are x, out",
    ),
    "too many": (
        kernel(T + S.strip(), call="x, out, x"),
        "9:5: k takes 2 arguments, but 3 are passed",
    ),
    "unknown kernel": (
        kernel(T + S.strip()).replace("    k(x", "    kk(x"),
        "9:5: kk: name 'kk' is not defined; did you mean 'k'?",
    ),
    "kwarg typo": (
        kernel("t = pl.load(x, [0, 0], [64, 64], validshape=[1,1])" + S),
        (
            "5:9: pl.load: there is no parameter 'validshape'; did you mean 'valid_shape'?; its "
            "parameters are tensor, offsets, shape, valid_shape"
        ),
    ),
    "out read-only passed": (
        kernel(T + S.strip()).replace("def main(x: M, out: pl.Out[M])", "def main(x: M, out: M)"),
        "9:5: main: out is declared as an input, but is written here; declare the parameter pl.InOut",
    ),
    "dtype typo": (
        kernel(T + "t = pl.cast(t, pl.FLOAT32)" + S),
        "6:20: pl.FLOAT32: pl has no 'FLOAT32'; use pl.FP32",
    ),
    "tensor annotation no dtype": (
        kernel("pass", "x: pl.Tensor[64, 64], out: pl.Out[M]"),
        "7:13: pl.Tensor[64, 64]: write pl.Tensor[[extent, …], dtype]",
    ),
    "float index": (
        kernel("t = pl.load(x, [0.5, 0], [64, 64])" + S),
        "5:9: 0.5 cannot be represented as INDEX",
    ),
    "dynamic shape load": (
        kernel("t = pl.load(x, [0, 0], [n, 64])" + S, N, "x, out, n"),
        "5:9: pl.load: shape must be known at compile time; load a whole tile and use valid_shape",
    ),
    "break": (
        kernel("for i in pl.range(4):\n    break"),
        "6:9: break statements are not supported; put what follows under an if",
    ),
    "chained compare": (
        kernel("if 0 < n < 3:\n    pass", N, "x, out, n"),
        "5:8: a chain of comparisons is not supported; join single comparisons with `and`",
    ),
    "is none": (
        kernel("if n is None:\n    pass", N, "x, out, n"),
        "5:13: None is not a number",
    ),
    "power": (
        kernel(T + "t = t ** 2" + S),
        "6:9: the operator Pow is not supported; multiply, or use pl.exp and pl.log",
    ),
    "undefined global": (
        kernel("t = pl.load(x, [0, 0], [SIZE, 64])" + S),
        "5:29: SIZE: name 'SIZE' is not defined",
    ),
    "missing store": (
        kernel(T + "t = t + 1.0"),
        "4:1: k never writes its output out; store to the output, or declare it as an input",
    ),
    "nested def": (
        kernel("def f(): pass"),
        "5:5: def statements are not supported; put it outside, decorated with @pl.jit.inline",
    ),
    "launch inline": (
        "@pl.jit.inline\ndef f(x):\n    return x\n@pl.jit\ndef main(x: M, out: pl.Out[M]):\n    f[2](x)\n",
        "8:5: f is not a kernel; launch only kernels on blocks",
    ),
    "early return": (
        kernel("if n > 0:\n    return", N, "x, out, n"),
        "6:9: return must be the last statement of a function; put the statements after it into an if statement",
    ),
    "row_sum kw": (
        kernel(T + "t = pl.row_sum(t, axis=1)" + S),
        "6:9: pl.row_sum: there is no parameter 'axis'; its parameters are x",
    ),
    "store shape too large": (
        kernel("t = pl.full([64,128], 0.0, pl.FP32)" + S),
        "6:5: pl.store: axis 1: the range 0 to 128 is outside of the extent 64",
    ),
    "store dtype": (
        kernel("t = pl.full([64,64], 0, pl.INT32)" + S),
        "6:5: pl.store: the dtype of the tile is INT32, but that of the tensor is FP32; convert it with pl.cast",
    ),
    "slice in kernel": (
        kernel("t = pl.slice(x, [32,64],[0,0])" + S),
        "5:9: pl.slice is an operation of orchestrations and host programs, but k is a kernel",
    ),
    "recursion": (
        "@pl.jit.inline\ndef f(x):\n    return f(x)\n"
        "@pl.jit.incore\ndef k(x: M, out: pl.Out[M]):\n    pl.store(f(pl.load(x,[0,0],[64,64])),[0,0],out)\n"
        "@pl.jit\ndef main(x: M, out: pl.Out[M]):\n    k(x, out)\n",
        "5:12: f calls itself, which is not supported",
    ),
    "kernel ret used": (
        kernel(T + S.strip()).replace("    k(x, out)", "    y = k(x, out)\n    k(y, out)"),
        "10:5: k: x must be a tensor, found a Task; pass the tensor that the kernel writes",
    ),
    "multi assign": (
        kernel("a = b = pl.load(x, [0,0],[64,64])"),
        "5:5: an assignment must have exactly one variable; write one line for each variable",
    ),
    "unpack": (
        kernel("a, b = pl.load(x, [0,0],[64,64])"),
        "5:5: 2 variables cannot take one value; write one value for each variable",
    ),
    "compare tile": (
        kernel(T + "m = t > 0.0\npl.store(pl.select(m, t, t), [0,0], out)"),
        '6:9: gt does not take tiles; use pl.cmp(a, b, "gt")',
    ),
    "torch op": (
        "import torch\n" + kernel(T + "t = torch.exp(t)" + S),
        "7:9: torch.exp cannot be called with values of k; write pl.exp(…)",
    ),
    "loop var after": (
        kernel("for i in pl.range(4):\n    pass\nt = pl.load(x, [i, 0], [64, 64])" + S),
        "7:9: i has no value on some path to this line; assign the variable before the loop, or in both branches",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_message(tmp_path: Path, name: str) -> None:
    body, expected = CASES[name]
    with pytest.raises(CompileError) as caught:
        files(tmp_path, body)
    assert str(caught.value) == f"{tmp_path / 'program.py'}:{expected}"
