"""Sums of rows and columns, whose order and precision differ between implementations."""

from __future__ import annotations

import pypto_build.compiler.language as pl

Rows, Halves = pl.Tensor[[16, 192], pl.FP32], pl.Tensor[[16, 128], pl.FP16]
Columns, Line = pl.Tensor[[16, 64], pl.FP16], pl.Tensor[[1, 64], pl.FP16]
RowSums, HalfSums = pl.Tensor[[16, 1], pl.FP32], pl.Tensor[[16, 1], pl.FP16]


@pl.jit.incore
def sum_rows(rows: Rows, row_sum_order: pl.Out[RowSums]):
    pl.store(pl.row_sum(pl.load(rows, [0, 0], [16, 192])), [0, 0], row_sum_order)


@pl.jit.incore
def sum_halves(halves: Halves, row_sum_half: pl.Out[HalfSums]):
    pl.store(pl.row_sum(pl.load(halves, [0, 0], [16, 128])), [0, 0], row_sum_half)


@pl.jit.incore
def sum_columns(columns: Columns, col_sum_half: pl.Out[Line]):
    pl.store(pl.col_sum(pl.load(columns, [0, 0], [16, 64])), [0, 0], col_sum_half)


@pl.jit
def conformance_sums(
    rows: Rows,
    halves: Halves,
    columns: Columns,
    row_sum_order: pl.Out[RowSums],
    row_sum_half: pl.Out[HalfSums],
    col_sum_half: pl.Out[Line],
):
    sum_rows(rows, row_sum_order)
    sum_halves(halves, row_sum_half)
    sum_columns(columns, col_sum_half)
