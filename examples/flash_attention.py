"""Attention without the matrix of scores: blocks of keys and values pass by, maximum and sum are kept up to date.

One mixed kernel: scores cross to the vector core, probabilities cross back.
"""

from __future__ import annotations

import pypto_build.compiler.language as pl

QUERIES, KEYS, DIM = 64, 256, 64
ROWS, BLOCK = 32, 64
SCALE = DIM**-0.5
Queries = pl.Tensor[[QUERIES, DIM], pl.BF16]
Keys = pl.Tensor[[KEYS, DIM], pl.BF16]


@pl.jit.incore
def attend(q: Queries, k: Keys, v: Keys, out: pl.Out[pl.Tensor[[QUERIES, DIM], pl.FP32]], row: pl.Scalar[pl.INDEX]):
    query = pl.load(q, [row, 0], [ROWS, DIM])
    highest = pl.full([1, ROWS], -1e30, pl.FP32)
    total = pl.full([1, ROWS], 0.0, pl.FP32)
    acc = pl.full([ROWS, DIM], 0.0, pl.FP32)
    for block in pl.range(0, KEYS, BLOCK):
        keys = pl.transpose(pl.load(k, [block, 0], [BLOCK, DIM]))
        scores = pl.matmul(query, keys) * SCALE
        higher = pl.maximum(highest, pl.reshape(pl.row_max(scores), [1, ROWS]))
        weights = pl.exp(pl.row_expand_sub(scores, pl.reshape(higher, [ROWS, 1])))
        decay = pl.exp(highest - higher)
        total = total * decay + pl.reshape(pl.row_sum(weights), [1, ROWS])
        values = pl.matmul(pl.cast(weights, pl.BF16), pl.load(v, [block, 0], [BLOCK, DIM]))
        acc = pl.row_expand_mul(acc, pl.reshape(decay, [ROWS, 1])) + values
        highest = higher
    pl.store(pl.row_expand_div(acc, pl.reshape(total, [ROWS, 1])), [row, 0], out)


@pl.jit
def flash_attention(q: Queries, k: Keys, v: Keys, out: pl.Out[pl.Tensor[[QUERIES, DIM], pl.FP32]]):
    for row in pl.range(0, QUERIES, ROWS):
        attend(q, k, v, out, row)


@flash_attention.reference(rtol=2e-2, atol=2e-2)
def reference(q, k, v, out):
    import torch

    out[:] = torch.softmax(q.float() @ k.float().T * SCALE, dim=1) @ v.float()
