"""Stores that add: no addition is lost between kernels of different libraries that run at the same time."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest

from tests.runtime.instructions.tile_harness import CPP, NUMPY, Cases, Core, Tile, declare, decode, encode

ROWS, COLS = 4, 16
# How often each of two kernels adds one: the sums are exact in the type, or wrap.
ROUNDS = {"f32": 4000, "f16": 900, "bf16": 120, "i32": 4000, "i16": 4000, "i8": 4000}


@pytest.fixture(scope="module")
def libraries() -> list[Path]:
    """The same kernels, as two libraries."""
    built = []
    for name in ("first", "second"):
        cases = Cases(prelude=f'extern "C" const char *{name}() {{ return "{name}"; }}')
        for dtype in ROUNDS:
            tile = declare(("a", Tile(dtype, ROWS, COLS), 0, 0))
            view = f"GlobalTensor<{CPP[dtype]}, Shape<1, 1, 1, {ROWS}, {COLS}>, Stride<64, 64, 64, 16, 1>>"
            cases.add(
                f"add_{dtype}",
                f"{tile} {view} g(({CPP[dtype]} *)v[2]); TEXPANDS(a, {CPP[dtype]}(1));"
                f"for (int64_t i = 0; i < v[3]; ++i) TSTORE<a_t, {view}, AtomicType::AtomicAdd>(g, a);",
            )
        built.append(cases.library())
    return built


@pytest.mark.parametrize("dtype", ROUNDS)
def test_no_addition_is_lost(libraries: list[Path], dtype: str) -> None:
    total = encode(np.zeros((ROWS, COLS)), dtype)
    start = threading.Barrier(len(libraries))

    def run(library: Path) -> None:
        core = Core(library)
        start.wait()
        core.call(f"add_{dtype}", ROWS, COLS, total.ctypes.data, ROUNDS[dtype])

    kernels = [threading.Thread(target=run, args=(library,)) for library in libraries]
    for kernel in kernels:
        kernel.start()
    for kernel in kernels:
        kernel.join()
    expected = np.full((ROWS, COLS), 2 * ROUNDS[dtype])
    if dtype in ("i16", "i8"):
        expected = expected.astype(NUMPY[dtype])
    assert np.array_equal(decode(total, dtype), expected)
