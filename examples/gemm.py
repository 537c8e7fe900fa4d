"""c = a @ b in tiles: a task for each tile of c, a loop over K that accumulates in Acc."""

from __future__ import annotations

import pypto_build.compiler.language as pl

M, K, N = 128, 256, 128
TILE = 64


@pl.jit.incore
def gemm_tile(
    a: pl.Tensor[[M, K], pl.FP32],
    b: pl.Tensor[[K, N], pl.FP32],
    c: pl.Out[pl.Tensor[[M, N], pl.FP32]],
    row: pl.Scalar[pl.INDEX],
    col: pl.Scalar[pl.INDEX],
):
    acc = pl.create_tile([TILE, TILE], pl.FP32, pl.Mem.Acc)
    for k in pl.range(0, K, TILE):
        x = pl.load(a, [row, k], [TILE, TILE])
        y = pl.load(b, [k, col], [TILE, TILE])
        acc = pl.matmul(x, y) if k == 0 else pl.matmul_acc(acc, x, y)
    pl.store(acc, [row, col], c)


@pl.jit
def gemm(a: pl.Tensor[[M, K], pl.FP32], b: pl.Tensor[[K, N], pl.FP32], c: pl.Out[pl.Tensor[[M, N], pl.FP32]]):
    for row in pl.range(0, M, TILE):
        for col in pl.range(0, N, TILE):
            gemm_tile(a, b, c, row, col)


@gemm.reference(rtol=1e-3, atol=1e-3)
def reference(a, b, c):
    c[:] = a @ b
