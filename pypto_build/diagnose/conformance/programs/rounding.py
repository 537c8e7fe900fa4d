"""Conversions whose rounding mode matters, and conversions of numbers without an integer value."""

from __future__ import annotations

import pypto_build.compiler.language as pl

Floats, Halves = pl.Tensor[[8, 64], pl.FP32], pl.Tensor[[8, 64], pl.FP16]
Short, Words = pl.Tensor[[8, 64], pl.BF16], pl.Tensor[[8, 64], pl.INT32]


@pl.jit.incore
def to_half(near_half: Floats, round_to_half: pl.Out[Halves]):
    pl.store(pl.cast(pl.load(near_half, [0, 0], [8, 64]), pl.FP16, mode="round"), [0, 0], round_to_half)


@pl.jit.incore
def to_bfloat16(near_short: Floats, round_to_bfloat16: pl.Out[Short]):
    pl.store(pl.cast(pl.load(near_short, [0, 0], [8, 64]), pl.BF16, mode="round"), [0, 0], round_to_bfloat16)


@pl.jit.incore
def to_whole(near_whole: Floats, round_to_whole: pl.Out[Floats]):
    pl.store(pl.cast(pl.load(near_whole, [0, 0], [8, 64]), pl.FP32, mode="rint"), [0, 0], round_to_whole)


@pl.jit.incore
def from_words(words: Words, round_words: pl.Out[Floats]):
    pl.store(pl.cast(pl.load(words, [0, 0], [8, 64]), pl.FP32, mode="trunc"), [0, 0], round_words)


@pl.jit.incore
def to_words(special: Floats, nan_to_integer: pl.Out[Words]):
    pl.store(pl.cast(pl.load(special, [0, 0], [8, 64]), pl.INT32, mode="trunc"), [0, 0], nan_to_integer)


@pl.jit
def conformance_rounding(
    near_half: Floats,
    near_short: Floats,
    near_whole: Floats,
    words: Words,
    special: Floats,
    round_to_half: pl.Out[Halves],
    round_to_bfloat16: pl.Out[Short],
    round_to_whole: pl.Out[Floats],
    round_words: pl.Out[Floats],
    nan_to_integer: pl.Out[Words],
):
    to_half(near_half, round_to_half)
    to_bfloat16(near_short, round_to_bfloat16)
    to_whole(near_whole, round_to_whole)
    from_words(words, round_words)
    to_words(special, nan_to_integer)
