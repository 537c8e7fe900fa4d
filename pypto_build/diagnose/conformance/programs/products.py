"""Products of matrices: the start of the accumulation, the order of sums, and the precision of float operands."""

from __future__ import annotations

import pypto_build.compiler.language as pl

Square = pl.Tensor[[16, 16], pl.FP16]
Left, Right = pl.Tensor[[16, 64], pl.FP16], pl.Tensor[[64, 16], pl.FP16]
Floats = pl.Tensor[[16, 16], pl.FP32]


@pl.jit.incore
def accumulate(c_left: Square, c_right: Square, left: Left, right: Right, accumulate_from_c: pl.Out[Floats]):
    c = pl.matmul(pl.load(c_left, [0, 0], [16, 16]), pl.load(c_right, [0, 0], [16, 16]))
    total = pl.matmul_acc(c, pl.load(left, [0, 0], [16, 64]), pl.load(right, [0, 0], [64, 16]))
    pl.store(total, [0, 0], accumulate_from_c)


@pl.jit.incore
def multiply(mixed: Left, more: Right, product_order: pl.Out[Floats]):
    product = pl.matmul(pl.load(mixed, [0, 0], [16, 64]), pl.load(more, [0, 0], [64, 16]))
    pl.store(product, [0, 0], product_order)


@pl.jit.incore
def multiply_floats(float_left: Floats, float_right: Floats, float_products: pl.Out[Floats]):
    product = pl.matmul(pl.load(float_left, [0, 0], [16, 16]), pl.load(float_right, [0, 0], [16, 16]))
    pl.store(product, [0, 0], float_products)


@pl.jit
def conformance_products(
    c_left: Square,
    c_right: Square,
    left: Left,
    right: Right,
    mixed: Left,
    more: Right,
    float_left: Floats,
    float_right: Floats,
    accumulate_from_c: pl.Out[Floats],
    product_order: pl.Out[Floats],
    float_products: pl.Out[Floats],
):
    accumulate(c_left, c_right, left, right, accumulate_from_c)
    multiply(mixed, more, product_order)
    multiply_floats(float_left, float_right, float_products)
