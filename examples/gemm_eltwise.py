"""out = silu(a @ b) + residual in one mixed kernel: the cube core multiplies, the vector core does the rest.
Tiles cross a pipe while the next product is computed."""

from __future__ import annotations

import pypto_build.compiler.language as pl

M, K, N, TILE = 64, 128, 128, 64


@pl.jit.inline
def silu(x):
    return x / (pl.exp(-x) + 1.0)


@pl.jit.incore
def gemm_silu(
    a: pl.Tensor[[M, K], pl.BF16],
    b: pl.Tensor[[K, N], pl.BF16],
    residual: pl.Tensor[[M, N], pl.FP32],
    out: pl.Out[pl.Tensor[[M, N], pl.FP32]],
    row: pl.Scalar[pl.INDEX],
):
    x = pl.load(a, [row, 0], [16, K])
    for col in pl.range(0, N, TILE):
        product = pl.matmul(x, pl.load(b, [0, col], [K, TILE]))
        pl.store(silu(product) + pl.load(residual, [row, col], [16, TILE]), [row, col], out)


@pl.jit
def gemm_eltwise(
    a: pl.Tensor[[M, K], pl.BF16],
    b: pl.Tensor[[K, N], pl.BF16],
    residual: pl.Tensor[[M, N], pl.FP32],
    out: pl.Out[pl.Tensor[[M, N], pl.FP32]],
):
    for row in pl.range(0, M, 16):
        gemm_silu(a, b, residual, out, row)


@gemm_eltwise.reference(rtol=1e-3, atol=1e-3)
def reference(a, b, residual, out):
    import torch

    out[:] = torch.nn.functional.silu(a.float() @ b.float()) + residual
