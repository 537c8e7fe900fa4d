"""acc += w * x for each of a list of matrices: an INOUT tensor that tasks update one after the other."""

from __future__ import annotations

import pypto_build.compiler.language as pl

COUNT, N = 4, 64


@pl.jit.incore
def axpy(x: pl.Tensor[[1, N, N], pl.FP32], acc: pl.InOut[pl.Tensor[[N, N], pl.FP32]], w: pl.Scalar[pl.FP32]):
    total = pl.load(acc, [0, 0], [N, N]) + w * pl.load(x, [0, 0, 0], [1, N, N])
    pl.store(total, [0, 0], acc)


@pl.jit
def accumulate(
    x: pl.Tensor[[COUNT, N, N], pl.FP32],
    weights: pl.Tensor[[COUNT], pl.FP32],
    acc: pl.InOut[pl.Tensor[[N, N], pl.FP32]],
):
    for i in pl.range(COUNT):
        w = pl.read(weights, [i])
        if w > 0.0:
            axpy(pl.slice(x, [1, N, N], [i, 0, 0]), acc, w)


@accumulate.inputs
def inputs():
    import torch

    return {"weights": torch.tensor([0.5, -1.0, 2.0, 0.25])}


@accumulate.reference(rtol=1e-4, atol=1e-4)
def reference(x, weights, acc):
    for i in range(COUNT):
        if weights[i] > 0:
            acc += weights[i] * x[i]
