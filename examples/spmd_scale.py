"""y = x * rowsum(x), one submission on several SPMD blocks: every block takes its share of the rows."""

from __future__ import annotations

import pypto_build.compiler.language as pl

ROWS, COLS, BLOCKS = 256, 64, 8
Matrix = pl.Tensor[[ROWS, COLS], pl.FP32]


@pl.jit.incore
def scale_rows(x: Matrix, y: pl.Out[Matrix]):
    share = ROWS // pl.get_block_num()
    first = pl.get_block_idx() * share
    for row in pl.range(first, first + share, 16):
        tile = pl.load(x, [row, 0], [16, COLS])
        pl.store(pl.row_expand_mul(tile, pl.row_sum(tile)), [row, 0], y)


@pl.jit
def spmd_scale(x: Matrix, y: pl.Out[Matrix]):
    scale_rows[BLOCKS](x, y)


@spmd_scale.reference(rtol=1e-4, atol=1e-4)
def reference(x, y):
    y[:] = x * x.sum(dim=1, keepdim=True)
