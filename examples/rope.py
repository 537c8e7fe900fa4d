"""Rotary embedding: the two halves of each row are rotated against each other."""

from __future__ import annotations

import pypto_build.compiler.language as pl

ROWS, DIM, BLOCK = 64, 128, 32
HALF = DIM // 2
Matrix = pl.Tensor[[ROWS, DIM], pl.FP32]
Angles = pl.Tensor[[ROWS, HALF], pl.FP32]


@pl.jit.incore
def rope_rows(x: Matrix, cos: Angles, sin: Angles, out: pl.Out[Matrix], row: pl.Scalar[pl.INDEX]):
    low = pl.load(x, [row, 0], [BLOCK, HALF])
    high = pl.load(x, [row, HALF], [BLOCK, HALF])
    c = pl.load(cos, [row, 0], [BLOCK, HALF])
    s = pl.load(sin, [row, 0], [BLOCK, HALF])
    pl.store(pl.concat(low * c - high * s, high * c + low * s), [row, 0], out)


@pl.jit
def rope(x: Matrix, cos: Angles, sin: Angles, out: pl.Out[Matrix]):
    for row in pl.range(0, ROWS, BLOCK):
        rope_rows(x, cos, sin, out, row)


@rope.inputs
def inputs():
    import torch

    angles = torch.arange(ROWS).reshape(ROWS, 1) / 10000 ** (torch.arange(HALF) / HALF)
    return {"cos": torch.cos(angles).float(), "sin": torch.sin(angles).float()}


@rope.reference
def reference(x, cos, sin, out):
    low, high = x[:, :HALF], x[:, HALF:]
    out[:, :HALF] = low * cos - high * sin
    out[:, HALF:] = high * cos + low * sin
