"""out = silu(a @ b) + residual on SPMD blocks: each a cube core and two vector cores that share every product, half its
rows each."""

from __future__ import annotations

import pypto_build.compiler.language as pl

M, K, N, TILE, BLOCKS = 128, 128, 128, 64, 4
ROWS = M // BLOCKS


@pl.jit.inline
def silu(x):
    return x / (pl.exp(-x) + 1.0)


@pl.jit.incore(split=pl.Split.UpDown)
def gemm_block(
    a: pl.Tensor[[M, K], pl.BF16],
    b: pl.Tensor[[K, N], pl.BF16],
    residual: pl.Tensor[[M, N], pl.FP32],
    out: pl.Out[pl.Tensor[[M, N], pl.FP32]],
):
    row = pl.get_block_idx() * ROWS
    x = pl.load(a, [row, 0], [ROWS, K])
    for col in pl.range(0, N, TILE):
        product = pl.matmul(x, pl.load(b, [0, col], [K, TILE]))
        pl.store(silu(product) + pl.load(residual, [row, col], [ROWS, TILE]), [row, col], out)


@pl.jit
def gemm_lanes(
    a: pl.Tensor[[M, K], pl.BF16],
    b: pl.Tensor[[K, N], pl.BF16],
    residual: pl.Tensor[[M, N], pl.FP32],
    out: pl.Out[pl.Tensor[[M, N], pl.FP32]],
):
    gemm_block[BLOCKS](a, b, residual, out)


@gemm_lanes.reference(rtol=1e-3, atol=1e-3)
def reference(a, b, residual, out):
    import torch

    out[:] = torch.nn.functional.silu(a.float() @ b.float()) + residual
