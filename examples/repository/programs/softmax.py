"""Softmax of each row, a task for each block of rows."""

from __future__ import annotations

import pypto_build.compiler.language as pl

ROWS, COLS, BLOCK = 128, 256, 32
Matrix = pl.Tensor[[ROWS, COLS], pl.FP32]


@pl.jit.incore
def softmax_rows(x: Matrix, out: pl.Out[Matrix], row: pl.Scalar[pl.INDEX]):
    tile = pl.load(x, [row, 0], [BLOCK, COLS])
    exps = pl.exp(pl.row_expand_sub(tile, pl.row_max(tile)))
    pl.store(pl.row_expand_div(exps, pl.row_sum(exps)), [row, 0], out)


@pl.jit
def softmax(x: Matrix, out: pl.Out[Matrix]):
    for row in pl.range(0, ROWS, BLOCK):
        softmax_rows(x, out, row)


@softmax.reference
def reference(x, out):
    import torch

    out[:] = torch.softmax(x, dim=1)
