"""Elementary functions, quotients, roots and subnormal numbers."""

from __future__ import annotations

import pypto_build.compiler.language as pl

Floats = pl.Tensor[[8, 64], pl.FP32]


@pl.jit.incore
def compute_exp(powers: Floats, exponential: pl.Out[Floats]):
    pl.store(pl.exp(pl.load(powers, [0, 0], [8, 64])), [0, 0], exponential)


@pl.jit.incore
def compute_log(positive: Floats, logarithm: pl.Out[Floats]):
    pl.store(pl.log(pl.load(positive, [0, 0], [8, 64])), [0, 0], logarithm)


@pl.jit.incore
def compute_rsqrt(positive: Floats, inverse_root: pl.Out[Floats]):
    pl.store(pl.rsqrt(pl.load(positive, [0, 0], [8, 64])), [0, 0], inverse_root)


@pl.jit.incore
def compute_root(positive: Floats, root: pl.Out[Floats]):
    pl.store(pl.sqrt(pl.load(positive, [0, 0], [8, 64])), [0, 0], root)


@pl.jit.incore
def compute_quotient(powers: Floats, positive: Floats, quotient: pl.Out[Floats]):
    pl.store(pl.load(powers, [0, 0], [8, 64]) / pl.load(positive, [0, 0], [8, 64]), [0, 0], quotient)


@pl.jit.incore
def compute_small(small: Floats, subnormal: pl.Out[Floats]):
    pl.store(pl.load(small, [0, 0], [8, 64]) * 0.5, [0, 0], subnormal)


@pl.jit
def conformance_functions(
    powers: Floats,
    positive: Floats,
    small: Floats,
    exponential: pl.Out[Floats],
    logarithm: pl.Out[Floats],
    inverse_root: pl.Out[Floats],
    root: pl.Out[Floats],
    quotient: pl.Out[Floats],
    subnormal: pl.Out[Floats],
):
    compute_exp(powers, exponential)
    compute_log(positive, logarithm)
    compute_rsqrt(positive, inverse_root)
    compute_root(positive, root)
    compute_quotient(powers, positive, quotient)
    compute_small(small, subnormal)
