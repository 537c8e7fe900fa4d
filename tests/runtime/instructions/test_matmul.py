"""Matrix multiplication against numpy in float64 and exact integers."""

from __future__ import annotations

import numpy as np
import pytest

from tests.rows import every
from tests.runtime.instructions.tile_harness import Cases, Core, Tile, declare, decode, encode

TYPES = {"f32": "f32", "f16": "f32", "bf16": "f32", "i8": "i32"}
SHAPES = ((64, 64, 64), (16, 64, 64), (33, 40, 50), (1, 64, 64), (5, 1, 1), (64, 17, 64), (0, 64, 64), (13, 64, 0))
# K beyond one block, and M beyond one block, in tiles of their own.
DEEP = ((16, 600, 16), (16, 257, 5))
TALL = ((300, 32, 16), (129, 30, 16))


def _tiles(dtype: str, m: int, k: int, n: int, left: str = "ZZ") -> tuple[Tile, Tile, Tile]:
    return (
        Tile(dtype, m, k, left, "Left"),
        Tile(dtype, k, n, "ZN", "Right"),
        Tile(TYPES[dtype], m, n, "NZ", "Acc", 1024),
    )


FAMILIES = {"square": (64, 64, 64), "deep": (16, 608, 16), "tall": (304, 32, 16)}


@pytest.fixture(scope="module")
def core() -> Core:
    cases = Cases()
    for dtype in TYPES:
        for family, (m, k, n) in FAMILIES.items():
            for left in ("ZZ", "NZ"):
                a, b, c = _tiles(dtype, m, k, n, left)
                bias = Tile(c.dtype, 1, n, "ND", "Bias")
                # Arguments: m, k, n as the pairs that the valid regions need.
                tiles = declare(
                    ("a", a, 0, 0), ("b", b, 0, 1), ("c", c, 0, 3), ("e", c, c.nbytes, 3), ("bias", bias, 0, 5)
                )
                name = f"{dtype}_{family}_{left}"
                cases.add(f"plain_{name}", f"{tiles}\nTMATMUL(c, a, b);")
                cases.add(f"acc_{name}", f"{tiles}\nTMATMUL_ACC(c, c, a, b);")
                cases.add(f"acc_other_{name}", f"{tiles}\nTMATMUL_ACC(c, e, a, b);")
                cases.add(f"bias_{name}", f"{tiles}\nTMATMUL_BIAS(c, a, b, bias);")
    return cases.build()


def _arguments(m: int, k: int, n: int) -> tuple[int, ...]:
    return (m, k, n, m, n, 1, n)


ALL = [("square", s) for s in SHAPES] + [("deep", s) for s in DEEP] + [("tall", s) for s in TALL]


@every("left", ["ZZ", "NZ"])
@every("family,shape", ALL)
@every("dtype", TYPES)
def test_matmul(core: Core, dtype: str, family: str, shape: tuple[int, int, int], left: str) -> None:
    m, k, n = shape
    a_tile, b_tile, c_tile = _tiles(dtype, *FAMILIES[family], left)
    bias_tile = Tile(c_tile.dtype, 1, c_tile.cols, "ND", "Bias")
    rng = np.random.default_rng(7)
    exact = dtype == "i8"

    def draw(rows: int, cols: int, kind: str) -> np.ndarray:  # type: ignore[type-arg]
        if exact:
            return encode(
                rng.integers(-128, 128, (rows, cols)) if kind == "i8" else rng.integers(-1000, 1000, (rows, cols)), kind
            )
        return encode(rng.standard_normal((rows, cols)), kind)

    a, b = draw(a_tile.rows, a_tile.cols, dtype), draw(b_tile.rows, b_tile.cols, dtype)
    start, other, bias = (draw(c_tile.rows, c_tile.cols, c_tile.dtype) for _ in range(3))
    product = decode(a, dtype)[:m, :k] @ decode(b, dtype)[:k, :n]
    magnitude = np.abs(decode(a, dtype)[:m, :k]) @ np.abs(decode(b, dtype)[:k, :n])
    core.put(a_tile, 0, a)
    core.put(b_tile, 0, b)
    core.put(bias_tile, 0, bias[:1])
    variants = {
        "plain": 0,
        "acc": decode(start, c_tile.dtype)[:m, :n],
        "acc_other": decode(other, c_tile.dtype)[:m, :n],
        "bias": decode(bias, c_tile.dtype)[:1, :n],
    }
    for variant, base in variants.items():
        core.put(c_tile, 0, start)
        core.put(c_tile, c_tile.nbytes, other)
        core.call(f"{variant}_{dtype}_{family}_{left}", *_arguments(m, k, n))
        actual = core.get(c_tile, 0)
        outside = np.ones(actual.shape, bool)
        outside[:m, :n] = False
        assert np.array_equal(actual[outside], start[outside])
        expected = product + base
        if exact:
            assert np.array_equal(decode(actual, "i32")[:m, :n], expected)
        else:
            limit = 1e-6 * (magnitude + np.abs(base)) + 1e-30
            assert (np.abs(actual[:m, :n] - expected) <= limit).all()
