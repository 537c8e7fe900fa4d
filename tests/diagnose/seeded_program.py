"""The program that bugs are planted in: SPMD blocks, a product in steps, a mixed kernel, a tail, a cast, scalars."""

from __future__ import annotations

import pypto_build.compiler.language as pl

ROWS, DEPTH, COLS, LENGTH = 64, 128, 64, 40


@pl.jit.incore
def scale(x: pl.Tensor[[ROWS, DEPTH], pl.FP32], y: pl.Out[pl.Tensor[[ROWS, DEPTH], pl.FP32]]):
    share = ROWS // pl.get_block_num()
    row = pl.get_block_idx() * share
    tile = pl.load(x, [row, 0], [16, DEPTH])
    pl.store(pl.row_expand_sub(tile, pl.row_max(tile)), [row, 0], y)


@pl.jit.incore
def product(
    a: pl.Tensor[[ROWS, DEPTH], pl.FP32],
    b: pl.Tensor[[DEPTH, COLS], pl.FP32],
    c: pl.Out[pl.Tensor[[ROWS, COLS], pl.FP32]],
):
    acc = pl.create_tile([ROWS, COLS], pl.FP32, "acc")
    for k in pl.range(0, DEPTH, 32):
        left, right = pl.load(a, [0, k], [ROWS, 32]), pl.load(b, [k, 0], [32, COLS])
        if k == 0:  # noqa: SIM108 - both branches are wanted in the module
            acc = pl.matmul(left, right)
        else:
            acc = pl.matmul_acc(acc, left, right)
    pl.store(acc, [0, 0], c)


@pl.jit.incore
def activate(
    c: pl.Tensor[[ROWS, COLS], pl.FP32],
    w: pl.Tensor[[COLS, COLS], pl.BF16],
    d: pl.Out[pl.Tensor[[ROWS, COLS], pl.FP32]],
    row: pl.Scalar[pl.INDEX],
    factor: pl.Scalar[pl.FP32],
):
    x = pl.load(c, [row, 0], [32, COLS]) * factor
    mixed = pl.matmul(pl.cast(x, pl.BF16), pl.load(w, [0, 0], [COLS, COLS]))
    pl.store(pl.load(c, [row, 0], [32, COLS]) - mixed, [row, 0], d)


@pl.jit.incore
def finish(
    d: pl.Tensor[[32, COLS], pl.FP32],
    e: pl.Out[pl.Tensor[[32, COLS], pl.BF16]],
    total: pl.Out[pl.Tensor[[32, 1], pl.FP32]],
    length: pl.Scalar[pl.INDEX],
):
    part = pl.load(d, [0, 0], [32, COLS], valid_shape=[32, length])
    full = pl.fillpad(part, "zero")
    pl.store(pl.row_sum(full), [0, 0], total)
    pl.store(pl.cast(full + 1.5, pl.BF16, "floor"), [0, 0], e)


@pl.jit
def seeded(
    x: pl.Tensor[[ROWS, DEPTH], pl.FP32],
    b: pl.Tensor[[DEPTH, COLS], pl.FP32],
    w: pl.Tensor[[COLS, COLS], pl.BF16],
    e: pl.Out[pl.Tensor[[ROWS, COLS], pl.BF16]],
    total: pl.Out[pl.Tensor[[ROWS, 1], pl.FP32]],
):
    y = pl.create_tensor([ROWS, DEPTH], pl.FP32)
    c = pl.create_tensor([ROWS, COLS], pl.FP32)
    d = pl.create_tensor([ROWS, COLS], pl.FP32)
    scale[4](x, y)
    product(y, b, c)
    for row in pl.range(0, ROWS, 32):
        activate(c, w, d, row, 0.125)
    for row in pl.range(0, ROWS, 32):
        finish(
            pl.slice(d, [32, COLS], [row, 0]),
            pl.slice(e, [32, COLS], [row, 0]),
            pl.slice(total, [32, 1], [row, 0]),
            LENGTH,
        )


@seeded.reference(rtol=2e-2, atol=2e-2)
def reference(x, b, w, e, total):
    import torch

    c = (x - x.amax(dim=1, keepdim=True)) @ b
    d = c - (c * 0.125).bfloat16().float() @ w.float()
    d[:, LENGTH:] = 0
    total[:] = d.sum(dim=1, keepdim=True)
    e[:] = torch.floor((d + 1.5) * 128).div(128).bfloat16()
