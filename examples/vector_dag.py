"""f = (a + b + alpha) * (a + b + alpha * steps) + (a + b): three vector kernels, five tasks, two numbers."""

from __future__ import annotations

import pypto_build.compiler.language as pl

N = 128
Matrix = pl.Tensor[[N, N], pl.FP32]


@pl.jit.incore
def kernel_add(a: Matrix, b: Matrix, out: pl.Out[Matrix]):
    x = pl.load(a, [0, 0], [N, N])
    y = pl.load(b, [0, 0], [N, N])
    pl.store(x + y, [0, 0], out)


@pl.jit.incore
def kernel_shift(x: Matrix, out: pl.Out[Matrix], alpha: pl.Scalar[pl.FP32], steps: pl.Scalar[pl.INT32]):
    pl.store(pl.load(x, [0, 0], [N, N]) + alpha * steps, [0, 0], out)


@pl.jit.incore
def kernel_mul(a: Matrix, b: Matrix, out: pl.Out[Matrix]):
    pl.store(pl.load(a, [0, 0], [N, N]) * pl.load(b, [0, 0], [N, N]), [0, 0], out)


@pl.jit
def vector_dag(
    a: Matrix,
    b: Matrix,
    f: pl.Out[Matrix],
    alpha: pl.Scalar[pl.FP32] = 0.75,
    steps: pl.Scalar[pl.INT32] = 3,
):
    c = pl.create_tensor([N, N], pl.FP32)
    d = pl.create_tensor([N, N], pl.FP32)
    e = pl.create_tensor([N, N], pl.FP32)
    g = pl.create_tensor([N, N], pl.FP32)
    kernel_add(a, b, c)
    kernel_shift(c, d, alpha, 1)
    kernel_shift(c, e, alpha, steps)
    kernel_mul(d, e, g)
    kernel_add(g, c, f)


@vector_dag.reference
def reference(a, b, f, alpha, steps):
    c = a + b
    f[:] = (c + alpha) * (c + alpha * steps) + c
