"""Sums made positive and narrowed in one step, against exact arithmetic, at the limits of what they narrow to."""

from __future__ import annotations

import numpy as np
import pytest

from tests.runtime.instructions.tile_harness import Array, Cases, Core, Tile, declare

ROWS, COLS = 16, 64
PAIRS = (("f32", "f16"), ("f16", "i8"), ("i16", "i8"))
SIGNS = {"TADDRELUCONV": 1.0, "TSUBRELUCONV": -1.0}
PLACES = (0, 16384, 32768)
REGIONS = ((ROWS, COLS), (5, 33), (0, 7), (7, 0))
# Halves of units, both sides of the largest int8 and the largest half, and beyond.
EDGES = np.array([0, 0.5, 1.5, 2.5, 126.5, 127, 127.5, 128, 300, 30000, 32752, 32759, 32760, 32768, 1e9, 1e30])
SCALES = (0.5, 1.0, 1.0 / 3.0, 1e-6, 60000.0)


@pytest.fixture(scope="module")
def core() -> Core:
    cases = Cases()
    for source, target in PAIRS:
        types = zip("abd", (source, source, target), PLACES, strict=True)
        tiles = declare(*((name, Tile(dtype, ROWS, COLS), address, 0) for name, dtype, address in types))
        for name in SIGNS:
            cases.add(f"{name}_{source}", f"{tiles} {name}(d, a, b);")
    types = zip("abd", ("i32", "i32", "f16"), PLACES, strict=True)
    tiles = declare(*((name, Tile(dtype, ROWS, COLS), address, 0) for name, dtype, address in types))
    cases.add("dequantize", f"{tiles} TADDDEQRELU(d, a, b, *(const float *)v[2], a);")
    return cases.build()


def _run(core: Core, call: str, source: str, target: str, a: Array, b: Array, expected: Array, *rest: int) -> None:
    for rows, cols in REGIONS:
        core.fill("Vec", 0x55)
        core.put(Tile(source, ROWS, COLS), PLACES[0], a)
        core.put(Tile(source, ROWS, COLS), PLACES[1], b)
        memory = core.get(Tile(target, ROWS, COLS), PLACES[2]).copy()
        memory[:rows, :cols] = expected[:rows, :cols]
        core.call(call, rows, cols, *rest)
        assert np.array_equal(core.get(Tile(target, ROWS, COLS), PLACES[2]), memory), (rows, cols)


@pytest.mark.parametrize("name", SIGNS)
@pytest.mark.parametrize("source, target", PAIRS)
def test_sums_are_made_positive_and_narrowed(core: Core, source: str, target: str, name: str) -> None:
    rng = np.random.default_rng(3)
    dtype = {"f32": np.float32, "f16": np.float16, "i16": np.int16}[source]
    limit = {"f32": np.inf, "f16": 65504.0, "i16": 32767}[source]
    edges = np.clip(np.resize(np.concatenate([EDGES, -EDGES]), (ROWS, COLS)), -limit, limit)
    signs = rng.choice([-1, 0, 1, 2 if source == "f32" else 1], (ROWS, COLS))
    a, b = edges.astype(dtype), np.clip(edges * signs + rng.integers(-2, 3, (ROWS, COLS)), -limit, limit).astype(dtype)
    with np.errstate(over="ignore"):
        total = a.astype(np.float64) + SIGNS[name] * b.astype(np.float64)
        total = np.maximum(total if source == "i16" else total.astype(dtype).astype(np.float64), 0)
    most, narrow = (127, np.int8) if target == "i8" else (65504, np.float16)
    expected = np.minimum(np.rint(total) if target == "i8" else total, most).astype(narrow)
    _run(core, f"{name}_{source}", source, target, a, b, expected)


@pytest.mark.parametrize("scale", SCALES)
def test_sums_are_scaled_and_made_positive(core: Core, scale: float) -> None:
    rng = np.random.default_rng(4)
    a, b = (rng.integers(-(2 ** rng.integers(1, 31)), 2**30, (ROWS, COLS), np.int32) for _ in range(2))
    a[0], b[0] = 2**31 - 1, 1  # wraps to the lowest
    a[1, :16], b[1, :16] = np.arange(16) - 8, 0
    factor = np.array([scale], np.float32)
    total = (a + b).astype(np.float32)  # to nearest even, like each product
    product = total * np.float32(2.0**-17) * factor[0] * np.float32(2.0**17)
    expected = np.minimum(np.maximum(product, 0), np.float32(65504)).astype(np.float16)
    _run(core, "dequantize", "i32", "f16", a, b, expected, factor.ctypes.data)
