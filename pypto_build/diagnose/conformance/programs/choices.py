"""Choices between elements: NaN, the sign of zero, comparisons and their masks."""

from __future__ import annotations

import pypto_build.compiler.language as pl

Floats, Words, RowMax = pl.Tensor[[8, 64], pl.FP32], pl.Tensor[[8, 64], pl.INT32], pl.Tensor[[8, 1], pl.FP32]


@pl.jit.incore
def choose_max(first: Floats, second: Floats, max_with_nan: pl.Out[Floats]):
    chosen = pl.maximum(pl.load(first, [0, 0], [8, 64]), pl.load(second, [0, 0], [8, 64]))
    pl.store(chosen, [0, 0], max_with_nan)


@pl.jit.incore
def choose_of_row(some_nan: Floats, row_max_with_nan: pl.Out[RowMax]):
    pl.store(pl.row_max(pl.load(some_nan, [0, 0], [8, 64])), [0, 0], row_max_with_nan)


@pl.jit.incore
def choose_positive(zeros: Floats, relu_of_zero: pl.Out[Floats]):
    pl.store(pl.relu(pl.load(zeros, [0, 0], [8, 64])), [0, 0], relu_of_zero)


@pl.jit.incore
def compare_integers(words: Words, others: Words, compare_words: pl.Out[Floats]):
    mask = pl.cmp(pl.load(words, [0, 0], [8, 64]), pl.load(others, [0, 0], [8, 64]), "lt")
    yes, no = pl.full([8, 64], 1.0, pl.FP32), pl.full([8, 64], 0.0, pl.FP32)
    pl.store(pl.select(mask, yes, no), [0, 0], compare_words)


@pl.jit.incore
def compare_close(close: Floats, compare_near: pl.Out[Floats]):
    mask = pl.cmp(pl.load(close, [0, 0], [8, 64]), 0.0, "eq")
    yes, no = pl.full([8, 64], 1.0, pl.FP32), pl.full([8, 64], 0.0, pl.FP32)
    pl.store(pl.select(mask, yes, no), [0, 0], compare_near)


@pl.jit.incore
def choose_by_mask(signs: Floats, ones: Floats, twos: Floats, mask_rows: pl.Out[Floats]):
    mask = pl.cmp(pl.load(signs, [0, 0], [8, 64], [8, 36]), 0.0, "gt")
    yes, no = pl.load(ones, [0, 0], [8, 64], [8, 36]), pl.load(twos, [0, 0], [8, 64], [8, 36])
    pl.store(pl.select(mask, yes, no), [0, 0], mask_rows)


@pl.jit
def conformance_choices(
    first: Floats,
    second: Floats,
    some_nan: Floats,
    zeros: Floats,
    words: Words,
    others: Words,
    close: Floats,
    signs: Floats,
    ones: Floats,
    twos: Floats,
    max_with_nan: pl.Out[Floats],
    row_max_with_nan: pl.Out[RowMax],
    relu_of_zero: pl.Out[Floats],
    compare_words: pl.Out[Floats],
    compare_near: pl.Out[Floats],
    mask_rows: pl.InOut[Floats],
):
    choose_max(first, second, max_with_nan)
    choose_of_row(some_nan, row_max_with_nan)
    choose_positive(zeros, relu_of_zero)
    compare_integers(words, others, compare_words)
    compare_close(close, compare_near)
    choose_by_mask(signs, ones, twos, mask_rows)
