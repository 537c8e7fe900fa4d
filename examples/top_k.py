"""The eight largest values of each row and where they are: sorted in blocks of 32, then merged."""

from __future__ import annotations

import pypto_build.compiler.language as pl

ROWS, COLS, K = 8, 128, 8


@pl.jit.incore
def top_k_row(
    x: pl.Tensor[[ROWS, COLS], pl.FP32],
    values: pl.Out[pl.Tensor[[ROWS, K], pl.FP32]],
    indices: pl.Out[pl.Tensor[[ROWS, K], pl.INT32]],
    row: pl.Scalar[pl.INDEX],
):
    scores = pl.load(x, [row, 0], [1, COLS])
    pairs = pl.sort32(scores, pl.arange(COLS, dtype=pl.UINT32))
    pairs = pl.mrgsort(pairs, 64)
    best = pl.extract(pairs, [0, 0], [1, 2 * K])
    pl.store(pl.gather_mask(best, "P0101"), [row, 0], values)
    pl.store(pl.gather_mask(best, "P1010", pl.INT32), [row, 0], indices)


@pl.jit
def top_k(
    x: pl.Tensor[[ROWS, COLS], pl.FP32],
    values: pl.Out[pl.Tensor[[ROWS, K], pl.FP32]],
    indices: pl.Out[pl.Tensor[[ROWS, K], pl.INT32]],
):
    for row in pl.range(ROWS):
        top_k_row(x, values, indices, row)


@top_k.reference
def reference(x, values, indices):
    import torch

    best = torch.topk(x, K)
    values[:] = best.values
    indices[:] = best.indices
