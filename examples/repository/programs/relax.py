"""Relaxation until a value says stop: a loop whose end is read from a tensor, in an order the program gives itself.

Two buffers take turns, so each step waits for the one before it; inside the manual scope nothing else orders them.
"""

from __future__ import annotations

import pypto_build.compiler.language as pl

N, STEPS = 64, 8
Matrix = pl.Tensor[[N, N], pl.FP32]


@pl.jit.incore
def step(x: Matrix, y: pl.Out[Matrix]):
    tile = pl.load(x, [0, 0], [N, N])
    pl.store(pl.row_expand_sub(tile, pl.row_sum(tile) * (0.5 / N)), [0, 0], y)


@pl.jit
def relax(x: Matrix, active: pl.Tensor[[STEPS], pl.INT32], out: pl.Out[Matrix]):
    with pl.manual_scope():
        other = pl.create_tensor([N, N], pl.FP32)
        last = step(x, out)
        i = 0
        while i < STEPS and pl.read(active, [i]) > 0:
            there = step(out, other, deps=[last])
            last = step(other, out, deps=[there])
            i += 1


@relax.inputs
def inputs():
    import torch

    return {"active": torch.tensor([1, 1, 1, 0, 1, 0, 0, 0], dtype=torch.int32)}


@relax.reference(rtol=1e-4, atol=1e-4)
def reference(x, active, out):
    out[:] = x
    steps = 1
    for value in active:
        if value == 0:
            break
        steps += 2
    for _ in range(steps):
        out -= out.mean(dim=1, keepdim=True) * 0.5
