"""Layer normalisation of each row, with gamma and beta."""

from __future__ import annotations

import pypto_build.compiler.language as pl

ROWS, COLS, BLOCK = 64, 256, 32
EPS = 1e-5
Matrix = pl.Tensor[[ROWS, COLS], pl.FP32]
Vector = pl.Tensor[[1, COLS], pl.FP32]


@pl.jit.inline
def row_mean(x):
    return pl.row_sum(x) * (1.0 / COLS)


@pl.jit.incore
def layer_norm_rows(x: Matrix, gamma: Vector, beta: Vector, out: pl.Out[Matrix], row: pl.Scalar[pl.INDEX]):
    tile = pl.load(x, [row, 0], [BLOCK, COLS])
    centred = pl.row_expand_sub(tile, row_mean(tile))
    scale = pl.recip(pl.sqrt(row_mean(centred * centred) + EPS))
    y = pl.row_expand_mul(centred, scale)
    y = pl.col_expand_mul(y, pl.load(gamma, [0, 0], [1, COLS]))
    y = pl.col_expand_add(y, pl.load(beta, [0, 0], [1, COLS]))
    pl.store(y, [row, 0], out)


@pl.jit
def layer_norm(x: Matrix, gamma: Vector, beta: Vector, out: pl.Out[Matrix]):
    for row in pl.range(0, ROWS, BLOCK):
        layer_norm_rows(x, gamma, beta, out, row)


@layer_norm.reference(rtol=1e-4, atol=1e-4)
def reference(x, gamma, beta, out):
    import torch

    out[:] = torch.nn.functional.layer_norm(x, [COLS], gamma[0], beta[0], EPS)
