"""TCVT: every rounding mode over all bit patterns of half and bfloat16, against exact arithmetic on fractions of units."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.rows import every
from tests.runtime.instructions.tile_harness import NUMPY, Array, Cases, Core, Tile, declare, decode, size_of

MODES = ("NONE", "RINT", "ROUND", "FLOOR", "CEIL", "TRUNC", "ODD")
PAIRS = [
    ("f32", "bf16"), ("bf16", "f32"), ("f32", "f16"), ("f16", "f32"), ("bf16", "f16"), ("f16", "bf16"), ("f32", "f32"),
    ("f32", "i32"), ("i32", "f32"), ("f32", "i16"), ("f32", "i8"), ("f32", "u8"), ("f32", "i64"), ("f32", "u32"), ("f16", "i8"), ("f16", "u8"),
    ("f16", "i16"), ("f16", "i32"), ("bf16", "i32"), ("i32", "f16"), ("i32", "bf16"), ("i16", "f16"), ("i16", "f32"), ("i8", "f16"),
    ("u8", "f16"), ("i64", "f32"), ("u32", "f32"), ("i32", "i16"), ("i32", "i8"), ("i32", "u8"), ("i16", "i8"), ("i16", "u8"), ("i64", "i32"),
    ("i32", "i64"), ("u8", "i32"), ("u32", "u8"), ("i8", "i32"), ("i16", "u16"),
]  # fmt: skip
ROWS, COLS = 32, 256
COUNT = ROWS * COLS
DST = 131072


def _saturating(source: str, target: str) -> bool:
    return (target not in ("f32", "f16", "bf16") and size_of(target) < 4) or (source, target) == ("i64", "i32")


@pytest.fixture(scope="module")
def core() -> Core:
    cases = Cases()
    for source, target in PAIRS:
        tiles = declare(("s", Tile(source, ROWS, COLS), 0, 0), ("d", Tile(target, ROWS, COLS), DST, 0))
        for mode in MODES:
            for saturation in ("OFF", "ON") if _saturating(source, target) else ("OFF",):
                call = f"TCVT(d, s, RoundMode::CAST_{mode}, SaturationMode::{saturation});"
                cases.add(f"{source}_{target}_{mode}_{saturation}", f"{tiles}\n{call}")
    for source, target in (
        ("f32", "bf16"),
        ("f16", "i8"),
        ("i32", "f16"),
        ("i32", "f32"),
        ("bf16", "f32"),
        ("u8", "i32"),
    ):
        tiles = declare(("s", Tile(source, 16, 64), 0, 0), ("d", Tile(target, 16, 64), 0, 0))
        cases.add(f"in_place_{source}_{target}", f"{tiles}\nTCVT(d, s, RoundMode::CAST_RINT);")
    column = declare(
        ("s", Tile("f32", 64, 8, "DN"), 0, 0),
        ("d", Tile("bf16", 64, 8, "DN"), DST, 0),
        ("t", Tile("f32", 64, 8), 4096, 0),
    )
    cases.add(
        "column_major",
        f"{column}\nTCVT(d, s, t, RoundMode::CAST_RINT); TCVT(d, s, t, RoundMode::CAST_RINT, SaturationMode::OFF);",
    )
    return cases.build()


def _convert(core: Core, source: str, target: str, mode: str, elements: Array, saturation: str = "OFF") -> Array:
    """Converts any number of elements."""
    results = []
    for start in range(0, len(elements), COUNT):
        part = elements[start : start + COUNT]
        core.put(Tile(source, ROWS, COLS), 0, np.resize(part, (ROWS, COLS)))
        core.call(f"{source}_{target}_{mode}_{saturation}", ROWS, COLS)
        results.append(core.elements(Tile(target, ROWS, COLS), DST)[: len(part)].copy())
    return np.concatenate(results)


def _round_scaled(values: Array, mode: str) -> Array:
    """Integral values nearest to float64 values that are exact multiples of a unit."""
    low = np.floor(values)
    rest = values - low
    if mode == "FLOOR":
        return low
    if mode == "CEIL":
        return np.ceil(values)
    if mode == "TRUNC":
        return np.trunc(values)
    if mode == "ODD":
        return np.where(rest == 0, low, np.where(low % 2 == 1, low, low + 1))
    if mode == "ROUND":
        away = np.where(values >= 0, low + 1, low)
        return np.where(rest == 0.5, away, np.where(rest > 0.5, low + 1, low))
    return np.round(values)


def _to_float(values: Array, target: str, mode: str) -> Array:
    """Float64 numbers rounded to the precision of a target, by scaling to units of its last place; still float64."""
    digits, smallest, largest = {
        "bf16": (8, -126, 3.3895313892515355e38),
        "f16": (11, -14, 65504.0),
        "f32": (24, -126, 3.4028234663852886e38),
    }[target]
    mode = "RINT" if mode == "NONE" else mode
    with np.errstate(all="ignore"):
        exponent = np.maximum(np.floor(np.log2(np.abs(np.where(values == 0, 1, values)))), smallest)
        exponent += (np.abs(values) >= 2.0 ** (exponent + 1)).astype(float) - (np.abs(values) < 2.0**exponent)
        exponent = np.maximum(exponent, smallest)
        unit = 2.0 ** (exponent - digits + 1)
        rounded = np.copysign(_round_scaled(values / unit, mode) * unit, values)
        over = np.abs(rounded) > largest
        stays = (
            (mode == "TRUNC") | (mode == "ODD") | ((mode == "FLOOR") & (values > 0)) | ((mode == "CEIL") & (values < 0))
        )
        rounded = np.where(over, np.where(stays, np.sign(values) * largest, np.sign(values) * np.inf), rounded)
    return np.where(np.isfinite(values), rounded, values)


def _to_int(values: Array, target: str, mode: str, saturation: str) -> Array:
    """Float64 numbers as integers: rounded, clamped to 32 bits (64 for wide targets), then clamped or wrapped."""
    info = np.iinfo(NUMPY[target])
    rounded = _round_scaled(np.where(np.isfinite(values), values, 0), "TRUNC" if mode == "NONE" else mode)
    if info.bits >= 32:
        result = [min(max(int(x), info.min), info.max) for x in rounded]
    else:
        wide = np.clip(rounded, -(2.0**31), 2.0**31 - 1).astype(np.int64)
        result = np.clip(wide, info.min, info.max) if saturation == "ON" else wide  # type: ignore[assignment]
    limits = {np.inf: info.max, -np.inf: info.min}
    if info.bits < 32 and saturation == "OFF":
        limits = {np.inf: 2**31 - 1, -np.inf: -(2**31)}
    for end, limit in limits.items():
        for i in np.flatnonzero(values == end):
            result[i] = limit
    return np.array(result, dtype=object) if info.bits == 64 else np.asarray(result, np.int64)


def _wrap(values: Array, target: str) -> Array:
    bits = 8 * size_of(target)
    return (
        np.array([int(v) & ((1 << bits) - 1) for v in values], np.uint64)
        .astype(f"u{size_of(target)}")
        .view(NUMPY[target])
    )


def _check_float(actual: Array, expected: Array, target: str) -> None:
    numbers = decode(actual, target)
    same = (numbers == expected) & (np.signbit(numbers) == np.signbit(expected)) | (
        np.isnan(numbers) & np.isnan(expected)
    )
    assert same.all(), (numbers[~same][:5], expected[~same][:5])


def _all_patterns(source: str) -> Array:
    return np.arange(65536, dtype=np.uint32).astype(np.uint16).view(NUMPY[source])


def _samples(source: str) -> Array:
    """Elements that are near every kind of boundary: ties, powers of two, overflow, subnormal numbers, special values."""
    rng = np.random.default_rng(11)
    if source == "f32":
        bits = rng.integers(0, 1 << 32, 20000, dtype=np.uint64).astype(np.uint32)
        near = rng.integers(0x3000, 0x5000, 20000, dtype=np.uint64).astype(np.uint32) << 16
        ties = near[:8000] | rng.choice(
            np.array([0x8000, 0x7FFF, 0x8001, 0x1000, 0x0FFF, 0x1001, 0x2000, 0x3000], np.uint32), 8000
        )
        halves = (rng.integers(-70000, 70000, 8000) / 2).astype(np.float32).view(np.uint32)
        limits = np.array(
            [
                2.0**31,
                -(2.0**31),
                2.0**63,
                -(2.0**63),
                65504,
                65519.99,
                65520,
                65536,
                2**-24,
                2**-25,
                2**-26,
                2.0**-14,
                np.inf,
                -np.inf,
                np.nan,
                0,
                2.0**32,
                2.0**24 + 2,
                1e-45,
                255.5,
                127.5,
                -128.5,
            ],
            np.float32,
        )
        return np.concatenate([bits, near, ties, halves, limits.view(np.uint32), (-limits).view(np.uint32)]).view(
            np.float32
        )
    info = np.iinfo(NUMPY[source])
    spread = rng.integers(info.min, info.max, 8000, dtype=NUMPY[source], endpoint=True)
    small = np.clip(rng.integers(-70000, 70000, 8000), info.min, info.max).astype(NUMPY[source])
    powers = [
        s * 2**p + d
        for p in range(63)
        for s in (1, -1)
        for d in (-1, 0, 1, 2, 3)
        if info.min <= s * 2**p + d <= info.max
    ]
    return np.concatenate([spread, small, np.array([*powers, info.min, info.max, 0], NUMPY[source])])


def _check(core: Core, source: str, target: str, mode: str, elements: Array) -> None:
    numbers = decode(elements, source)
    if target in ("f32", "f16", "bf16"):
        actual = _convert(core, source, target, mode, elements)
        if source == target == "f32" and mode != "NONE":
            with np.errstate(all="ignore"):
                expected = np.copysign(
                    np.where(
                        np.isfinite(numbers), _round_scaled(np.where(np.isfinite(numbers), numbers, 0), mode), numbers
                    ),
                    numbers,
                )
        elif numbers.dtype == np.int64 and source in ("i64", "u32", "i32"):
            expected = _exact_int_to_float(elements, target, mode)
        else:
            expected = _to_float(numbers.astype(np.float64), target, mode)
        _check_float(actual, expected, target)
        return
    for saturation in ("OFF", "ON") if _saturating(source, target) else ("OFF",):
        actual = _convert(core, source, target, mode, elements, saturation)
        if numbers.dtype == np.float64:
            expected = _to_int(numbers, target, mode, saturation)
        else:
            info = np.iinfo(NUMPY[target])
            clamped = [min(max(int(v), int(info.min)), int(info.max)) for v in elements]
            expected = np.array(clamped if saturation == "ON" else [int(v) for v in elements], dtype=object)
        wrapped = _wrap(expected, target)
        different = actual != wrapped
        assert not different.any(), (elements[different][:5], actual[different][:5], wrapped[different][:5])


def _exact_int_to_float(elements: Array, target: str, mode: str) -> Array:
    """Integers rounded once, in integer arithmetic."""
    digits, largest = {"bf16": (8, 3.3895313892515355e38), "f16": (11, 65504.0), "f32": (24, 3.4e38)}[target]
    result = []
    for value in elements.tolist():
        magnitude, negative = abs(value), value < 0
        drop = max(magnitude.bit_length() - digits, 0)
        low, rest, half = magnitude >> drop, magnitude & ((1 << drop) - 1), (1 << drop) >> 1
        up = {
            "FLOOR": negative and rest > 0,
            "CEIL": not negative and rest > 0,
            "TRUNC": False,
            "ODD": rest > 0 and low % 2 == 0,
            "ROUND": drop > 0 and rest >= half,
        }.get(mode, drop > 0 and (rest > half or (rest == half and low % 2 == 1)))
        rounded = float((low + up) << drop)
        if rounded > largest:
            stays = mode in ("TRUNC", "ODD") or (mode == "FLOOR" and not negative) or (mode == "CEIL" and negative)
            rounded = largest if stays else np.inf
        result.append(-rounded if negative else rounded)
    return np.array(result)


@every("mode", MODES)
@every("source,target", [p for p in PAIRS if p[0] in ("f16", "bf16")])
def test_all_patterns(core: Core, source: str, target: str, mode: str) -> None:
    _check(core, source, target, mode, _all_patterns(source))


@every("mode", MODES)
@every("source,target", [p for p in PAIRS if p[0] not in ("f16", "bf16")])
def test_boundaries(core: Core, source: str, target: str, mode: str) -> None:
    _check(core, source, target, mode, _samples(source))


@given(
    st.lists(st.floats(width=32), min_size=1, max_size=64),
    st.sampled_from(MODES),
    st.sampled_from(["bf16", "f16", "i32", "i8", "u8"]),
)
@settings(max_examples=300, deadline=None)
def test_any_float(core: Core, values: list[float], mode: str, target: str) -> None:
    _check(core, "f32", target, mode, np.array(values, np.float32))


@given(
    st.lists(st.integers(-(2**31), 2**31 - 1), min_size=1, max_size=64),
    st.sampled_from(MODES),
    st.sampled_from(["f32", "f16", "bf16", "i8"]),
)
@settings(max_examples=300, deadline=None)
def test_any_integer(core: Core, values: list[int], mode: str, target: str) -> None:
    _check(core, "i32", target, mode, np.array(values, np.int32))


@pytest.mark.parametrize("name", ["f16", "bf16"])
def test_every_half_survives_a_round_trip(core: Core, name: str) -> None:
    patterns = _all_patterns(name)
    wide = _convert(core, name, "f32", "NONE", patterns)
    numbers = decode(patterns, name)
    assert np.array_equal(wide.astype(np.float64), numbers, equal_nan=True)
    back = _convert(core, "f32", name, "RINT", wide)
    quiet = np.uint16(0x200 if name == "f16" else 0x40)
    expected = np.where(np.isnan(numbers), patterns.view(np.uint16) | quiet, patterns.view(np.uint16))
    assert np.array_equal(back.view(np.uint16), expected)


@every("region", [(16, 64), (15, 37), (1, 5), (0, 9)])
@every(
    "source,target",
    [("f32", "bf16"), ("f16", "i8"), ("i32", "f16"), ("i32", "f32"), ("bf16", "f32"), ("u8", "i32")],
)
def test_in_place(core: Core, source: str, target: str, region: tuple[int, int]) -> None:
    rows, cols = region
    if size_of(target) > size_of(source) and region != (16, 64):
        rows, cols = 16, 64  # in-place widening is defined for whole tiles only
    values = (np.random.default_rng(3).integers(0, 100, (16, 64))).astype(np.float64)
    elements = (
        (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
        if source == "bf16"
        else values.astype(NUMPY[source])
    )
    core.put(Tile(source, 16, 64), 0, elements)
    core.call(f"in_place_{source}_{target}", rows, cols)
    assert np.array_equal(decode(core.get(Tile(target, 16, 64), 0), target)[:rows, :cols], values[:rows, :cols])


def test_column_major_and_temporary(core: Core) -> None:
    values = np.random.default_rng(3).standard_normal((64, 8)).astype(np.float32)
    core.put(Tile("f32", 64, 8, "DN"), 0, values)
    core.call("column_major", 64, 8)
    _check_float(core.get(Tile("bf16", 64, 8, "DN"), DST), _to_float(values.astype(np.float64), "bf16", "RINT"), "bf16")
