"""Remainders, powers, fused forms, and operations on partly valid operands, against numpy."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tests.rows import every
from tests.runtime.instructions.tile_harness import (
    CPP,
    FLOATS,
    INTS,
    Array,
    Cases,
    Core,
    Tile,
    declare,
    decode,
    encode,
    random_elements,
)

REGIONS = ((16, 64), (7, 33), (1, 1), (0, 5), (5, 0))
A, B, C, D = 0, 16384, 32768, 49152
SCALAR = 3


def _fmod(a: Array, b: Array) -> Array:
    return np.where(b == 0, a if a.dtype == np.int64 else np.nan, np.fmod(a, np.where(b == 0, 1, b)))


def _remainder(a: Array, b: Array) -> Array:
    return np.where(b == 0, a if a.dtype == np.int64 else np.nan, np.mod(a, np.where(b == 0, 1, b)))


Binary = Callable[[Array, Array], Array]
BINARY: dict[str, Binary] = {
    "TFMOD": _fmod,
    "TREM": _remainder,
    "TADDRELU": lambda a, b: np.maximum(a + b, 0),
    "TSUBRELU": lambda a, b: np.maximum(a - b, 0),
}
# Of (dst, a, b, c): what the instruction leaves in dst.
FUSED: dict[str, tuple[str, Callable[[Array, Array, Array, Array], Array]]] = {
    "TADDC": ("TADDC(d, a, b, c);", lambda d, a, b, c: a + b + c),
    "TSUBC": ("TSUBC(d, a, b, c);", lambda d, a, b, c: a - b + c),
    "TADDSC": ("TADDSC(d, a, s, c);", lambda d, a, b, c: a + SCALAR + c),
    "TSUBSC": ("TSUBSC(d, a, s, c);", lambda d, a, b, c: a - SCALAR + c),
    "TAXPY": ("TAXPY(d, a, s);", lambda d, a, b, c: d + SCALAR * a),
    "TFUSEDMULADD": ("TFUSEDMULADD(d, a, b);", lambda d, a, b, c: a * d + b),
    "TFUSEDMULADDRELU": ("TFUSEDMULADDRELU(d, a, b);", lambda d, a, b, c: np.maximum(a * d + b, 0)),
    "TMULADDDST": ("TMULADDDST(d, a, b);", lambda d, a, b, c: a * b + d),
}
FUSED_CASES = [(op, dtype) for op in FUSED for dtype in ("f32", "f16", "i32") if (op, dtype) != ("TAXPY", "i32")]
PARTIAL: dict[str, Binary] = {
    "TPARTADD": np.add, "TPARTMUL": np.multiply, "TPARTMAX": np.maximum, "TPARTMIN": np.minimum,
}  # fmt: skip
# Valid regions of the two sources; the destination's is what both cover together.
PARTS = [
    ((16, 64), (16, 64)), ((16, 64), (5, 64)), ((16, 33), (16, 64)), ((16, 64), (3, 7)), ((0, 0), (16, 64)), ((9, 41), (0, 0)),
]  # fmt: skip


def _tile(dtype: str) -> Tile:
    return Tile(dtype, 16, 64)


def _numbers(dtype: str, seed: int) -> Array:
    """Small integers: sums and products of them are exact in every type."""
    low = 0 if dtype.startswith("u") else -4
    return encode(np.random.default_rng(seed).integers(low, 5, (16, 64)), dtype)


@pytest.fixture(scope="module")
def core() -> Core:
    cases = Cases()
    for dtype in FLOATS + INTS:
        tile = _tile(dtype)
        tiles = declare(("a", tile, A, 0), ("b", tile, B, 0), ("c", tile, C, 0), ("d", tile, D, 0))
        tiles += f"\n[[maybe_unused]] {CPP[dtype]} s = {CPP[dtype]}({SCALAR});"
        for op in BINARY:
            cases.add(f"{op}_{dtype}", f"{tiles}\n{op}(d, a, b, c);")
        for op in ("TFMODS", "TREMS"):
            cases.add(f"{op}_{dtype}", f"{tiles}\n{op}(d, a, s);")
        cases.add(f"TPOW_{dtype}", f"{tiles}\nTPOW(d, a, b, c);")
    for dtype in ("f32", "f16", "i32"):
        tile = _tile(dtype)
        tiles = declare(("a", tile, A, 0), ("b", tile, B, 0), ("c", tile, C, 0), ("d", tile, D, 0))
        tiles += f"\n[[maybe_unused]] {CPP[dtype]} s = {CPP[dtype]}({SCALAR});"
        for op, (call, _) in FUSED.items():
            if (op, dtype) in FUSED_CASES:
                cases.add(f"{op}_{dtype}", f"{tiles}\n{call}")
        parts = declare(("a", tile, A, 0), ("b", tile, B, 2), ("d", tile, D, 4))
        for op in PARTIAL:
            cases.add(f"{op}_{dtype}", f"{parts}\n{op}(d, a, b);")
    index = _tile("u32")
    parts = declare(
        ("a", _tile("f32"), A, 0), ("b", _tile("f32"), B, 2), ("d", _tile("f32"), D, 4),
        ("ai", index, A + 8192, 0), ("bi", index, B + 8192, 2), ("di", index, D + 8192, 4),
    )  # fmt: skip
    for op in ("TPARTARGMAX", "TPARTARGMIN"):
        cases.add(op, f"{parts}\n{op}(d, a, b, di, ai, bi);")
    mixed = declare(("a", _tile("f16"), A, 0), ("d", _tile("f32"), D, 0))
    cases.add("TAXPY_mixed", f"{mixed}\nTAXPY(d, a, half({SCALAR}));")
    return cases.build()


def _outside(core: Core, tile: Tile, before: Array, rows: int, cols: int) -> Array:
    """The valid part of the destination, after a check that the rest is as it was."""
    after = core.get(tile, D)
    rest = np.ones((tile.rows, tile.cols), bool)
    rest[:rows, :cols] = False
    assert after[rest].tobytes() == before[rest].tobytes(), "elements outside the valid region changed"
    return after[:rows, :cols]


@every("dtype", FLOATS + INTS)
@every("op", BINARY)
def test_binary(core: Core, op: str, dtype: str) -> None:
    tile = _tile(dtype)
    for seed, make in ((1, random_elements), (5, lambda d, s, *_: _numbers(d, s))):
        a, b = make(dtype, seed, 16, 64), make(dtype, seed + 1, 16, 64)
        for rows, cols in REGIONS:
            core.fill("Vec", 0xA5)
            core.put(tile, A, a)
            core.put(tile, B, b)
            before = core.get(tile, D).copy()
            core.call(f"{op}_{dtype}", rows, cols)
            actual = _outside(core, tile, before, rows, cols)
            x, y = decode(a, dtype)[:rows, :cols], decode(b, dtype)[:rows, :cols]
            if dtype == "f32" and op != "TREM":
                x, y = x.astype(np.float32), y.astype(np.float32)
            with np.errstate(all="ignore"):
                exact = BINARY[op](x, y)
                if "RELU" in op and dtype in INTS:  # the sum wraps before it is compared with zero
                    total = x + y if op == "TADDRELU" else x - y
                    exact = np.maximum(decode(encode(total, dtype), dtype), 0)
            same = decode(actual, dtype) == decode(encode(exact, dtype), dtype)
            if op == "TREM" and dtype in FLOATS:  # the last addition rounds
                same |= np.isclose(decode(actual, dtype), exact, rtol=1e-2 if dtype == "bf16" else 1e-3, atol=1e-5)
            assert (same | np.isnan(exact)).all() and np.isnan(decode(actual, dtype)[np.isnan(exact)]).all()


@every("dtype", FLOATS + INTS)
def test_remainders_by_a_scalar(core: Core, dtype: str) -> None:
    a = random_elements(dtype, 3, 16, 64)
    numbers = decode(a, dtype)
    core.put(_tile(dtype), A, a)
    for op, function in (("TFMODS", _fmod), ("TREMS", _remainder)):
        core.call(f"{op}_{dtype}", 16, 64)
        expected = decode(encode(function(numbers, np.full_like(numbers, SCALAR)), dtype), dtype)
        np.testing.assert_allclose(
            decode(core.get(_tile(dtype), D), dtype), expected, rtol=1e-2 if dtype == "bf16" else 1e-3
        )


@every("dtype", FLOATS + INTS)
def test_powers(core: Core, dtype: str) -> None:
    a, b = _numbers(dtype, 7), _numbers(dtype, 8)
    core.put(_tile(dtype), A, a)
    core.put(_tile(dtype), B, b)
    core.call(f"TPOW_{dtype}", 16, 64)
    x, y = decode(a, dtype), decode(b, dtype)
    actual = decode(core.get(_tile(dtype), D), dtype)
    if dtype in FLOATS:
        with np.errstate(all="ignore"):
            np.testing.assert_allclose(actual, decode(encode(np.power(x, y), dtype), dtype), rtol=1e-6)
        return
    whole = np.power(x, np.maximum(y, 0))
    reciprocal = np.where(x == 1, 1, np.where(x == -1, np.where(y % 2, -1, 1), 0))
    assert np.array_equal(actual, decode(encode(np.where(y < 0, reciprocal, whole), dtype), dtype))


@every("op,dtype", FUSED_CASES)
def test_fused(core: Core, op: str, dtype: str) -> None:
    tile = _tile(dtype)
    operands = {at: _numbers(dtype, seed) for seed, at in enumerate((D, A, B, C))}
    for rows, cols in REGIONS:
        for at, elements in operands.items():
            core.put(tile, at, elements)
        core.call(f"{op}_{dtype}", rows, cols)
        actual = _outside(core, tile, operands[D], rows, cols)
        expected = FUSED[op][1](*(decode(x, dtype)[:rows, :cols] for x in operands.values()))
        assert np.array_equal(decode(actual, dtype), expected)


@pytest.mark.parametrize("op", ["TAXPY", "TFUSEDMULADD", "TFUSEDMULADDRELU", "TMULADDDST"])
def test_products_of_halves_are_rounded_before_they_are_added(core: Core, op: str) -> None:
    tile, operands = _tile("f16"), {at: random_elements("f16", seed, 16, 64) for seed, at in enumerate((D, A, B))}
    for at, elements in operands.items():
        core.put(tile, at, elements)
    core.call(f"{op}_f16", 16, 64)
    d, a, b = (decode(elements, "f16") for elements in operands.values())
    left, right, more = {"TAXPY": (a, np.full_like(a, SCALAR), d), "TMULADDDST": (a, b, d)}.get(op, (a, d, b))
    expected = encode(decode(encode(left * right, "f16"), "f16") + more, "f16")
    assert np.array_equal(core.get(tile, D), np.maximum(expected, 0) if op.endswith("RELU") else expected)
    assert not np.array_equal(expected, encode(left * right + more, "f16"))


def test_axpy_of_half_to_float(core: Core) -> None:
    a, d = random_elements("f16", 1, 16, 64), random_elements("f32", 2, 16, 64)
    core.put(_tile("f16"), A, a)
    core.put(_tile("f32"), D, d)
    core.call("TAXPY_mixed", 9, 41)
    actual = _outside(core, _tile("f32"), d, 9, 41)
    np.testing.assert_allclose(actual, (d + SCALAR * a.astype(np.float64))[:9, :41], rtol=1e-6, atol=1e-6)


@every("regions", PARTS)
@every("dtype", ["f32", "f16", "i32"])
@every("op", PARTIAL)
def test_partly_valid(core: Core, op: str, dtype: str, regions: tuple[tuple[int, int], tuple[int, int]]) -> None:
    (ar, ac), (br, bc) = regions
    rows, cols = max(ar, br), max(ac, bc)
    tile, a, b = _tile(dtype), _numbers(dtype, 11), _numbers(dtype, 12)
    core.fill("Vec", 0xA5)
    core.put(tile, A, a)
    core.put(tile, B, b)
    before = core.get(tile, D).copy()
    expected = before.copy()
    expected[:br, :bc] = b[:br, :bc]
    expected[:ar, :ac] = a[:ar, :ac]
    r, c = min(ar, br), min(ac, bc)
    expected[:r, :c] = encode(PARTIAL[op](decode(a, dtype), decode(b, dtype))[:r, :c], dtype)
    core.call(f"{op}_{dtype}", ar, ac, br, bc, rows, cols)
    assert core.get(tile, D).tobytes() == expected.tobytes()


@pytest.mark.parametrize("op", ["TPARTARGMAX", "TPARTARGMIN"])
def test_partly_valid_extremes_carry_their_indices(core: Core, op: str) -> None:
    tile, a, b = _tile("f32"), _numbers("f32", 13), _numbers("f32", 14)
    ai, bi = random_elements("u32", 15, 16, 64), random_elements("u32", 16, 16, 64)
    for at, values, indices in ((A, a, ai), (B, b, bi)):
        core.put(tile, at, values)
        core.put(_tile("u32"), at + 8192, indices)
    core.call(op, 16, 64, 7, 33, 16, 64)
    first = np.ones((16, 64), bool)
    first[:7, :33] = (a >= b if op == "TPARTARGMAX" else a <= b)[:7, :33]
    assert np.array_equal(core.get(tile, D), np.where(first, a, b))
    assert np.array_equal(core.get(_tile("u32"), D + 8192), np.where(first, ai, bi))
