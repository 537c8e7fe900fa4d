"""Root-mean-square normalisation in bfloat16, computed in float; the number of rows is known when it runs."""

from __future__ import annotations

import pypto_build.compiler.language as pl

ROWS = pl.dynamic("ROWS", 72)
COLS, BLOCK = 256, 32
Matrix = pl.Tensor[[ROWS, COLS], pl.BF16]


@pl.jit.incore
def rms_norm_rows(
    x: Matrix,
    gamma: pl.Tensor[[1, COLS], pl.FP32],
    out: pl.Out[Matrix],
    row: pl.Scalar[pl.INDEX],
    eps: pl.Scalar[pl.FP32],
):
    valid = pl.min(BLOCK, ROWS - row)
    tile = pl.cast(pl.load(x, [row, 0], [BLOCK, COLS], valid_shape=[valid, COLS]), pl.FP32)
    scale = pl.rsqrt(pl.row_sum(tile * tile) * (1.0 / COLS) + eps)
    y = pl.row_expand_mul(tile, scale)
    y = pl.col_expand_mul(y, pl.load(gamma, [0, 0], [1, COLS]))
    pl.store(pl.cast(y, pl.BF16), [row, 0], out)


@pl.jit
def rms_norm(x: Matrix, gamma: pl.Tensor[[1, COLS], pl.FP32], out: pl.Out[Matrix], eps: pl.Scalar[pl.FP32] = 1e-6):
    for row in pl.range(0, ROWS, BLOCK):
        rms_norm_rows(x, gamma, out, row, eps)


@rms_norm.reference(rtol=1e-2, atol=1e-2)
def reference(x, gamma, out, eps):
    y = x.float()
    y = y * (y.square().mean(dim=1, keepdim=True) + eps).rsqrt() * gamma
    out[:] = y.to(out.dtype)
