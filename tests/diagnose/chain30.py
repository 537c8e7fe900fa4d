"""Thirty tasks in a chain, of four kernels with loops, reductions and numbers; one of them runs once."""

from __future__ import annotations

import pypto_build.compiler.language as pl

ROWS, COLS, BLOCK = 128, 64, 32
Matrix = pl.Tensor[[ROWS, COLS], pl.FP32]


@pl.jit.incore
def mix(a: Matrix, b: Matrix, out: pl.Out[Matrix]):
    for row in pl.range(0, ROWS, BLOCK):
        x = pl.load(a, [row, 0], [BLOCK, COLS])
        y = pl.load(b, [row, 0], [BLOCK, COLS])
        pl.store((x + y) * 0.5, [row, 0], out)


@pl.jit.incore
def shift(a: Matrix, out: pl.Out[Matrix], by: pl.Scalar[pl.FP32]):
    for row in pl.range(0, ROWS, BLOCK):
        pl.store(pl.load(a, [row, 0], [BLOCK, COLS]) + by, [row, 0], out)


@pl.jit.incore
def normalise(a: Matrix, out: pl.Out[Matrix]):
    for row in pl.range(0, ROWS, BLOCK):
        x = pl.load(a, [row, 0], [BLOCK, COLS])
        squares = pl.row_sum(x * x)
        scale = pl.rsqrt(squares * (1.0 / COLS) + 0.00001)
        pl.store(pl.row_expand_mul(x, scale), [row, 0], out)


@pl.jit.incore
def blend(a: Matrix, b: Matrix, out: pl.Out[Matrix], weight: pl.Scalar[pl.FP32]):
    for row in pl.range(0, ROWS, BLOCK):
        x = pl.load(a, [row, 0], [BLOCK, COLS])
        y = pl.load(b, [row, 0], [BLOCK, COLS])
        kept = x * weight
        gate = pl.exp(y * -1.0) + 1.0
        pl.store(kept + y / gate, [row, 0], out)


@pl.jit
def chain30(a: Matrix, b: Matrix, f: pl.Out[Matrix]):
    x = pl.create_tensor([ROWS, COLS], pl.FP32)
    y = pl.create_tensor([ROWS, COLS], pl.FP32)
    z = pl.create_tensor([ROWS, COLS], pl.FP32)
    mix(a, b, x)
    shift(b, y, 0.25)
    for _step in pl.range(0, 9):
        mix(x, y, z)
        normalise(z, x)
        shift(x, y, 0.125)
    blend(x, y, f, 0.75)


@chain30.reference
def reference(a, b, f):
    def normal(value):
        return value * ((value * value).sum(-1, keepdim=True) / COLS + 0.00001).rsqrt()

    x, y = (a + b) * 0.5, b + 0.25
    for _ in range(9):
        x = normal((x + y) * 0.5)
        y = x + 0.125
    f[:] = x * 0.75 + y / ((-y).exp() + 1)
