"""Kernels that break a rule of the device, each in one place, as `asked/rules.py` edits them."""

from __future__ import annotations

import pypto_build.compiler.language as pl

Floats, Words, RowMax = pl.Tensor[[8, 64], pl.FP32], pl.Tensor[[8, 64], pl.INT16], pl.Tensor[[8, 1], pl.FP32]
Wide = pl.Tensor[[8, 256], pl.FP32]


@pl.jit.incore
def invert(numbers: Floats, recip_in_place: pl.Out[Floats]):
    pl.store(pl.recip(pl.load(numbers, [0, 0], [8, 64])), [0, 0], recip_in_place)


@pl.jit.incore
def divide(numbers: Floats, quotient_in_place: pl.Out[Floats]):
    pl.store(3.0 / pl.load(numbers, [0, 0], [8, 64]), [0, 0], quotient_in_place)


@pl.jit.incore
def mask_bits(words: Words, bits_in_place: pl.Out[Words]):
    pl.store(pl.load(words, [0, 0], [8, 64]) & 6, [0, 0], bits_in_place)


@pl.jit.incore
def max_of_rows(wide: Wide, small_scratch: pl.Out[RowMax]):
    pl.store(pl.row_max(pl.load(wide, [0, 0], [8, 256])), [0, 0], small_scratch)


@pl.jit
def conformance_rules(
    numbers: Floats,
    words: Words,
    wide: Wide,
    recip_in_place: pl.Out[Floats],
    quotient_in_place: pl.Out[Floats],
    bits_in_place: pl.Out[Words],
    small_scratch: pl.Out[RowMax],
):
    invert(numbers, recip_in_place)
    divide(numbers, quotient_in_place)
    mask_bits(words, bits_in_place)
    max_of_rows(wide, small_scratch)
