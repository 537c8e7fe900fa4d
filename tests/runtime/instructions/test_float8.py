"""Eight-bit floating-point types: every code, every rounding mode, and products, against tables of their values."""

from __future__ import annotations

import numpy as np
import pytest

from tests.rows import every
from tests.runtime.instructions.tile_harness import Array, Cases, Core, Tile, declare

# Exponent bits, bias, number of finite magnitudes, code of what lies beyond the largest.
FORMATS = {"e4m3": (4, 7, 0x7F, 0x7F), "e5m2": (5, 15, 0x7C, 0x7C)}
MODES = ("NONE", "RINT", "ROUND", "FLOOR", "CEIL", "TRUNC", "ODD")
SRC, DST = 0, 65536


def _magnitudes(dtype: str) -> Array:
    """The finite magnitudes in the order of their codes, as float64."""
    exponent_bits, bias, count, _ = FORMATS[dtype]
    fraction_bits = 7 - exponent_bits
    codes = np.arange(count)
    exponent, fraction = codes >> fraction_bits, (codes & ((1 << fraction_bits) - 1)) / 2**fraction_bits
    return np.where(exponent == 0, fraction * 2.0 ** (1 - bias), (1 + fraction) * 2.0 ** (exponent - bias))


def rounded(values: Array, table: Array, mode: str) -> Array:
    """The places in a table of magnitudes that float64 numbers round to; of those beyond the largest, one more."""
    # One more step beyond the largest number decides what still rounds to it.
    steps = np.append(table, 2 * table[-1] - table[-2])
    size, negative = np.abs(values), np.signbit(values)
    low = np.clip(np.searchsorted(steps, size, side="right") - 1, 0, len(steps) - 2)
    rest, gap = size - steps[low], steps[low + 1] - steps[low]
    odd = low % 2 == 1
    up = {
        "ROUND": rest >= gap / 2,
        "FLOOR": negative & (rest > 0),
        "CEIL": ~negative & (rest > 0),
        "TRUNC": rest >= gap,
        "ODD": ~odd & (rest > 0),
    }.get(mode, (rest > gap / 2) | ((rest == gap / 2) & odd))
    return np.asarray(low + (up | (rest >= gap)))


def codes(values: Array, dtype: str, mode: str, saturate: bool) -> Array:
    """The codes that float64 numbers round to."""
    table = _magnitudes(dtype)
    code = rounded(values, table, mode)
    code = np.where(code >= len(table), len(table) - 1 if saturate else FORMATS[dtype][3], code)
    code = np.where(np.isnan(values), 0x7F, code)
    return (code | (np.signbit(values) * 0x80)).astype(np.uint8)


@pytest.fixture(scope="module")
def core() -> Core:
    cases = Cases(arch=5)
    for dtype in FORMATS:
        number, code = Tile("f32", 32, 128), Tile(dtype, 32, 128)
        for saturation in ("ON", "OFF"):
            tiles = declare(("s", number, SRC, 0), ("d", code, DST, 0))
            call = f"TCVT(d, s, RoundMode(v[2]), SaturationMode::{saturation});"
            cases.add(f"narrow_{dtype}_{saturation}", f"{tiles}\n{call}")
        tiles = declare(("s", code, SRC, 0), ("d", number, DST, 0), ("t", number, SRC, 0))
        cases.add(f"widen_{dtype}", f"{tiles}\nTCVT(d, s, RoundMode::CAST_NONE);")
        cases.add(f"widen_in_place_{dtype}", f"{tiles}\nTCVT(t, s, RoundMode::CAST_NONE);")
        cases.add(f"narrow_in_place_{dtype}", f"{tiles}\nTCVT(s, t, RoundMode::CAST_RINT);")
        operands = declare(
            ("a", Tile(dtype, 32, 64, "NZ", "Left"), 0, 0), ("b", Tile(dtype, 64, 32, "ZN", "Right"), 0, 2),
            ("c", Tile("f32", 32, 32, "NZ", "Acc", 1024), 0, 4),
        )  # fmt: skip
        cases.add(f"multiply_{dtype}", f"{operands}\nTMATMUL(c, a, b);")
    return cases.build()


def _all_codes(dtype: str) -> tuple[Array, Array]:
    """All 256 codes and their values."""
    table = np.full(128, np.nan)
    table[: FORMATS[dtype][2]] = _magnitudes(dtype)
    if dtype == "e5m2":
        table[0x7C] = np.inf
    return np.arange(256, dtype=np.uint8), np.concatenate([table, -table]).astype(np.float32)


@pytest.mark.parametrize("dtype", FORMATS)
def test_every_code_widens_exactly(core: Core, dtype: str) -> None:
    codes, values = _all_codes(dtype)
    for name, at in (("widen", DST), ("widen_in_place", SRC)):
        core.put(Tile(dtype, 32, 128), SRC, np.resize(codes, (32, 128)))
        core.call(f"{name}_{dtype}", 32, 128)
        actual = core.get(Tile("f32", 32, 128), at)
        expected = np.resize(values, (32, 128))
        assert np.array_equal(actual, expected, equal_nan=True)
        assert np.array_equal(np.signbit(actual)[~np.isnan(expected)], np.signbit(expected)[~np.isnan(expected)])


@every("saturation", ["ON", "OFF"])
@every("mode", MODES)
@every("dtype", FORMATS)
def test_narrowing_rounds_as_asked(core: Core, dtype: str, mode: str, saturation: str) -> None:
    table = _magnitudes(dtype).astype(np.float32)
    halves = (table[1:] + table[:-1]) / 2
    near = np.concatenate([table, halves, np.nextafter(halves, np.float32(0)), np.nextafter(halves, np.float32(1e9))])
    beyond = np.array([table[-1] * 1.01, table[-1] * 1.5, 1e30, np.inf, 1e-30, 1e-45, 0], np.float32)
    values = np.concatenate([near, beyond, -near, -beyond, [np.nan]]).astype(np.float32)
    source = np.resize(values, (32, 128))
    core.put(Tile("f32", 32, 128), SRC, source)
    core.call(f"narrow_{dtype}_{saturation}", 32, 128, MODES.index(mode))
    expected = codes(source.astype(np.float64), dtype, mode, saturation == "ON")
    actual = core.get(Tile(dtype, 32, 128), DST)
    numbers = ~np.isnan(source)
    assert np.array_equal(actual[numbers], expected[numbers])
    assert (actual[~numbers] & 0x7F == 0x7F).all()


@pytest.mark.parametrize("dtype", FORMATS)
def test_narrowing_in_place_and_partly(core: Core, dtype: str) -> None:
    source = np.random.default_rng(1).standard_normal((32, 128)).astype(np.float32)
    expected = codes(source.astype(np.float64), dtype, "RINT", False)
    core.put(Tile("f32", 32, 128), SRC, source)
    core.call(f"narrow_in_place_{dtype}", 32, 128)
    assert np.array_equal(core.get(Tile(dtype, 32, 128), SRC), expected)
    for rows, cols in ((17, 33), (0, 5), (5, 0)):
        core.fill("Vec", 0xA5)
        core.put(Tile("f32", 32, 128), SRC, source)
        core.call(f"narrow_{dtype}_OFF", rows, cols, 1)
        memory = np.full((32, 128), 0xA5, np.uint8)
        memory[:rows, :cols] = expected[:rows, :cols]
        assert np.array_equal(core.get(Tile(dtype, 32, 128), DST), memory)


@pytest.mark.parametrize("dtype", FORMATS)
def test_products_of_the_cube_core(core: Core, dtype: str) -> None:
    rng = np.random.default_rng(2)
    m, k, n = 19, 50, 23
    # Small integers, whose products are exact.
    a, b = (rng.integers(-4, 5, shape).astype(np.float64) for shape in ((m, k), (k, n)))
    left, right = (codes(x, dtype, "RINT", False) for x in (a, b))
    core.put(Tile(dtype, 32, 64, "NZ", "Left"), 0, left)
    core.put(Tile(dtype, 64, 32, "ZN", "Right"), 0, right)
    core.call(f"multiply_{dtype}", m, k, k, n, m, n)
    assert np.array_equal(core.get(Tile("f32", 32, 32, "NZ", "Acc", 1024), 0)[:m, :n], a @ b)
