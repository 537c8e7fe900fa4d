"""c = a + b, one kernel on one tile."""

from __future__ import annotations

import pypto_build.compiler.language as pl

SIZE = 128
Matrix = pl.Tensor[[SIZE, SIZE], pl.FP32]


@pl.jit.incore
def add(a: Matrix, b: Matrix, c: pl.Out[Matrix]):
    x = pl.load(a, [0, 0], [SIZE, SIZE])
    y = pl.load(b, [0, 0], [SIZE, SIZE])
    pl.store(x + y, [0, 0], c)


@pl.jit
def hello_world(a: Matrix, b: Matrix, c: pl.Out[Matrix]):
    add(a, b, c)


@hello_world.reference
def reference(a, b, c):
    c[:] = a + b
