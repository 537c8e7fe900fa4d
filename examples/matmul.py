"""c = a @ b on the cube core, half precision in, float out."""

from __future__ import annotations

import pypto_build.compiler.language as pl

M, K, N = 64, 128, 96


@pl.jit.incore
def matmul_tile(a: pl.Tensor[[M, K], pl.FP16], b: pl.Tensor[[K, N], pl.FP16], c: pl.Out[pl.Tensor[[M, N], pl.FP32]]):
    product = pl.matmul(pl.load(a, [0, 0], [M, K]), pl.load(b, [0, 0], [K, N]))
    pl.store(product, [0, 0], c)


@pl.jit
def matmul(a: pl.Tensor[[M, K], pl.FP16], b: pl.Tensor[[K, N], pl.FP16], c: pl.Out[pl.Tensor[[M, N], pl.FP32]]):
    matmul_tile(a, b, c)


@matmul.reference(rtol=1e-3, atol=1e-3)
def reference(a, b, c):
    c[:] = a.float() @ b.float()
