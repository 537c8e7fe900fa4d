"""Attention over a paged cache: the block table and the lengths are read while the orchestration runs.

For each sequence and each of its blocks: scores (cube), softmax of the block (vector), weighted values (cube), and an
update of the running result (vector). The last block of a sequence is only partly filled.
"""

from __future__ import annotations

import pypto_build.compiler.language as pl

BATCH, HEADS, DIM = 2, 16, 64
BLOCK, PAGES, MAX_BLOCKS = 64, 8, 4
SCALE = DIM**-0.5

Heads = pl.Tensor[[HEADS, DIM], pl.BF16]
Page = pl.Tensor[[BLOCK, DIM], pl.BF16]
Scores = pl.Tensor[[HEADS, BLOCK], pl.FP32]
Weights = pl.Tensor[[HEADS, BLOCK], pl.BF16]
Column = pl.Tensor[[HEADS, 1], pl.FP32]
Result = pl.Tensor[[HEADS, DIM], pl.FP32]
Cache = pl.Tensor[[PAGES * BLOCK, DIM], pl.BF16]


@pl.jit.incore
def start(highest: pl.Out[Column], total: pl.Out[Column], acc: pl.Out[Result]):
    pl.store(pl.full([HEADS, 1], -1e30, pl.FP32), [0, 0], highest)
    pl.store(pl.full([HEADS, 1], 0.0, pl.FP32), [0, 0], total)
    pl.store(pl.full([HEADS, DIM], 0.0, pl.FP32), [0, 0], acc)


@pl.jit.incore
def qk_matmul(q: Heads, k: Page, scores: pl.Out[Scores]):
    keys = pl.transpose(pl.load(k, [0, 0], [BLOCK, DIM]))
    pl.store(pl.matmul(pl.load(q, [0, 0], [HEADS, DIM]), keys), [0, 0], scores)


@pl.jit.incore
def softmax_block(
    scores: Scores,
    weights: pl.Out[Weights],
    block_max: pl.Out[Column],
    block_sum: pl.Out[Column],
    length: pl.Scalar[pl.INDEX],
):
    part = pl.load(scores, [0, 0], [HEADS, BLOCK], valid_shape=[HEADS, length])
    scaled = pl.fillpad(part, "min") * SCALE
    maximum = pl.row_max(scaled)
    exps = pl.exp(pl.row_expand_sub(scaled, maximum))
    pl.store(maximum, [0, 0], block_max)
    pl.store(pl.row_sum(exps), [0, 0], block_sum)
    pl.store(pl.cast(exps, pl.BF16), [0, 0], weights)


@pl.jit.incore
def pv_matmul(weights: Weights, v: Page, product: pl.Out[Result]):
    pl.store(pl.matmul(pl.load(weights, [0, 0], [HEADS, BLOCK]), pl.load(v, [0, 0], [BLOCK, DIM])), [0, 0], product)


@pl.jit.incore
def update(
    block_max: Column,
    block_sum: Column,
    product: Result,
    highest: pl.InOut[Column],
    total: pl.InOut[Column],
    acc: pl.InOut[Result],
):
    old, new = pl.load(highest, [0, 0], [HEADS, 1]), pl.load(block_max, [0, 0], [HEADS, 1])
    higher = pl.maximum(old, new)
    keep, add = pl.exp(old - higher), pl.exp(new - higher)
    running = pl.load(total, [0, 0], [HEADS, 1]) * keep + pl.load(block_sum, [0, 0], [HEADS, 1]) * add
    kept = pl.row_expand_mul(pl.load(acc, [0, 0], [HEADS, DIM]), keep)
    pl.store(kept + pl.row_expand_mul(pl.load(product, [0, 0], [HEADS, DIM]), add), [0, 0], acc)
    pl.store(running, [0, 0], total)
    pl.store(higher, [0, 0], highest)


@pl.jit.incore
def normalise(acc: Result, total: Column, out: pl.Out[Result]):
    result = pl.row_expand_div(pl.load(acc, [0, 0], [HEADS, DIM]), pl.load(total, [0, 0], [HEADS, 1]))
    pl.store(result, [0, 0], out)


@pl.jit
def paged_attention(
    query: pl.Tensor[[BATCH * HEADS, DIM], pl.BF16],
    key_cache: Cache,
    value_cache: Cache,
    block_table: pl.Tensor[[BATCH, MAX_BLOCKS], pl.INT32],
    lengths: pl.Tensor[[BATCH], pl.INT32],
    out: pl.Out[pl.Tensor[[BATCH * HEADS, DIM], pl.FP32]],
):
    for b in pl.range(BATCH):
        highest = pl.create_tensor([HEADS, 1], pl.FP32)
        total = pl.create_tensor([HEADS, 1], pl.FP32)
        acc = pl.create_tensor([HEADS, DIM], pl.FP32)
        start(highest, total, acc)
        q = pl.slice(query, [HEADS, DIM], [b * HEADS, 0])
        length = pl.read(lengths, [b])
        for i in pl.range(pl.cdiv(length, BLOCK)):
            page = pl.read(block_table, [b, i])
            scores = pl.create_tensor([HEADS, BLOCK], pl.FP32)
            weights = pl.create_tensor([HEADS, BLOCK], pl.BF16)
            block_max = pl.create_tensor([HEADS, 1], pl.FP32)
            block_sum = pl.create_tensor([HEADS, 1], pl.FP32)
            product = pl.create_tensor([HEADS, DIM], pl.FP32)
            qk_matmul(q, pl.slice(key_cache, [BLOCK, DIM], [page * BLOCK, 0]), scores)
            softmax_block(scores, weights, block_max, block_sum, pl.min(BLOCK, length - i * BLOCK))
            pv_matmul(weights, pl.slice(value_cache, [BLOCK, DIM], [page * BLOCK, 0]), product)
            update(block_max, block_sum, product, highest, total, acc)
        normalise(acc, total, pl.slice(out, [HEADS, DIM], [b * HEADS, 0]))


@paged_attention.inputs
def inputs():
    import torch

    return {
        "block_table": torch.tensor([[5, 2, 7, 0], [1, 3, 0, 0]], dtype=torch.int32),
        "lengths": torch.tensor([170, 128], dtype=torch.int32),
    }


@paged_attention.reference(rtol=2e-2, atol=2e-2)
def reference(query, key_cache, value_cache, block_table, lengths, out):
    import torch

    for b in range(BATCH):
        length = int(lengths[b])
        rows = torch.cat([torch.arange(BLOCK) + int(page) * BLOCK for page in block_table[b]])[:length]
        q = query[b * HEADS : (b + 1) * HEADS].float()
        scores = q @ key_cache[rows].float().T * SCALE
        out[b * HEADS : (b + 1) * HEADS] = torch.softmax(scores, dim=1) @ value_cache[rows].float()
