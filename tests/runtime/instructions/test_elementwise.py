"""Element-wise instructions against numpy, for every element type, layout and valid region."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tests.rows import every
from tests.runtime.instructions.tile_harness import (
    FLOATS,
    INTS,
    NUMPY,
    Array,
    Cases,
    Core,
    Tile,
    declare,
    decode,
    encode,
)

ALL = FLOATS + INTS
LAYOUTS = ("ND", "DN", "NZ")
# One row and column beyond registers and fractals, one register, a single element, nothing, everything.
REGIONS = ((32, 64), (17, 33), (16, 8), (1, 1), (0, 5), (5, 0), (3, 61))
SRC0, SRC1, DST = 0, 16384, 32768

Function = Callable[[Array, Array], Array]


def _int_div(a: Array, b: Array) -> Array:
    quotient = np.abs(a) // np.maximum(np.abs(b), 1) * np.sign(a) * np.sign(b)
    return np.where(b == 0, -1, quotient)


def _div(a: Array, b: Array) -> Array:
    return _int_div(a, b) if a.dtype == np.int64 else a / b


def _shift(a: Array, b: Array, bits: int, signed: bool, left: bool) -> Array:
    by = b & ((1 << bits) - 1)  # a negative count is a large unsigned one
    inside = np.minimum(by, bits - 1)
    if left:
        return np.where(by < bits, a << inside, 0)
    return a >> inside if signed else np.where(by < bits, a >> inside, 0)


BINARY: dict[str, tuple[Function, tuple[str, ...]]] = {
    "TADD": (np.add, ALL),
    "TSUB": (np.subtract, ALL),
    "TMUL": (np.multiply, ALL),
    "TDIV": (_div, ALL),
    "TMAX": (np.maximum, ALL),
    "TMIN": (np.minimum, ALL),
    "TAND": (np.bitwise_and, INTS),
    "TOR": (np.bitwise_or, INTS),
    "TXOR": (np.bitwise_xor, INTS),
    "TPRELU": (lambda a, b: np.where(a > 0, a, a * b), FLOATS),
}
UNARY: dict[str, tuple[Callable[[Array], Array], tuple[str, ...]]] = {
    "TEXP": (np.exp, FLOATS),
    "TLOG": (np.log, FLOATS),
    "TSQRT": (np.sqrt, FLOATS),
    "TRSQRT": (lambda a: 1 / np.sqrt(a), FLOATS),
    "TRECIP": (lambda a: 1 / a, FLOATS),
    "TNEG": (np.negative, ALL),
    "TABS": (np.abs, ALL),
    "TRELU": (lambda a: np.where(a < 0, np.zeros_like(a), a), ALL),
    "TNOT": (np.invert, INTS),
}
WITH_SCALAR = {
    "TADDS": "TADD",
    "TSUBS": "TSUB",
    "TMULS": "TMUL",
    "TDIVS": "TDIV",
    "TMAXS": "TMAX",
    "TMINS": "TMIN",
    "TANDS": "TAND",
    "TORS": "TOR",
    "TXORS": "TXOR",
    "TLRELU": "TPRELU",
}
# Functions computed in float rather than correctly rounded: largest error in units of the last place of the result.
ULPS = {"TEXP": 1.5, "TLOG": 1.5, "TRSQRT": 1.0}


def _tile(dtype: str, layout: str) -> Tile:
    return Tile(dtype, 32, 64, layout)


def _layouts(dtype: str) -> tuple[str, ...]:
    return LAYOUTS if dtype in ("f32", "i8") else ("ND",)


def _scalar(dtype: str) -> float:
    return 1.5 if dtype in FLOATS else 3


@pytest.fixture(scope="module")
def core() -> Core:
    cases = Cases()
    for dtype in ALL:
        for layout in _layouts(dtype):
            tile = _tile(dtype, layout)
            tiles = declare(("a", tile, SRC0, 0), ("b", tile, SRC1, 0), ("d", tile, DST, 0))
            for op, (_, dtypes) in BINARY.items():
                if dtype in dtypes:
                    cases.add(f"{op}_{dtype}_{layout}", f"{tiles}\n{op}(d, a, b);")
            for op, (_, dtypes) in UNARY.items():
                if dtype in dtypes:
                    cases.add(f"{op}_{dtype}_{layout}", f"{tiles}\n{op}(d, a);")
            if layout == "ND":
                for op, same in WITH_SCALAR.items():
                    if dtype in BINARY[same][1]:
                        cases.add(
                            f"{op}_{dtype}_{layout}",
                            f"{tiles}\na_t::DType s = a_t::DType({_scalar(dtype)}); {op}(d, a, s);",
                        )
                cases.add(
                    f"TDIVS_reversed_{dtype}", f"{tiles}\na_t::DType s = a_t::DType({_scalar(dtype)}); TDIVS(d, s, a);"
                )
                cases.add(
                    f"TEXPANDS_{dtype}_{layout}",
                    f"{tiles}\na_t::DType s = a_t::DType({_scalar(dtype)}); TEXPANDS(d, s);",
                )
                cases.add(f"in_place_{dtype}", f"{tiles}\nTADD(a, a, b); TMUL(b, a, b); TSUB(b, b, b);")
                if dtype in INTS:
                    cases.add(f"TSHL_{dtype}", f"{tiles}\nTSHL(d, a, b);")
                    cases.add(f"TSHR_{dtype}", f"{tiles}\nTSHR(d, a, b);")
            else:
                cases.add(
                    f"TEXPANDS_{dtype}_{layout}",
                    f"{tiles}\na_t::DType s = a_t::DType({_scalar(dtype)}); TEXPANDS(d, s);",
                )
    mixed = _tile("f32", "ND"), _tile("f32", "DN")
    for op in ("TADD", "TMAX"):
        tiles = declare(("a", mixed[0], SRC0, 0), ("b", mixed[1], SRC1, 0), ("d", mixed[0], DST, 0))
        cases.add(f"{op}_mixed", f"{tiles}\n{op}(d, a, b);")
    return cases.build()


def _values(dtype: str, seed: int, op: str) -> Array:
    rng = np.random.default_rng(seed)
    if dtype in FLOATS:
        values = rng.standard_normal((32, 64)) * 4
        if op in ("TLOG", "TSQRT", "TRSQRT"):
            values = np.abs(values) + 1e-3
        return encode(values, dtype)
    info = np.iinfo(encode(np.zeros(1), dtype).dtype)
    return rng.integers(info.min, info.max, (32, 64), dtype=info.dtype, endpoint=True)


def _run(core: Core, name: str, tile: Tile, region: tuple[int, int], *sources: Array) -> Array:
    core.fill("Vec", 0xA5)
    for address, source in zip((SRC0, SRC1), sources, strict=False):
        core.put(tile, address, source)
    before = core.get(tile, DST).copy()
    core.call(name, *region)
    after = core.get(tile, DST)
    outside = np.ones((tile.rows, tile.cols), bool)
    outside[: region[0], : region[1]] = False
    assert np.array_equal(after[outside], before[outside]), "elements outside the valid region changed"
    return after[: region[0], : region[1]]


def _check(actual: Array, expected: Array, dtype: str, ulps: float) -> None:
    """Elements against exact numbers: integers are equal modulo their size, floats correctly rounded or within `ulps`."""
    codes = encode(expected, dtype)
    if ulps == 0:
        same = (decode(actual, dtype) == decode(codes, dtype)) | (np.isnan(expected) & np.isnan(decode(actual, dtype)))
        assert same.all(), (decode(actual, dtype)[~same][:5], expected[~same][:5])
        return
    a, w = decode(actual, dtype), decode(codes, dtype)
    spacing = {"f32": 2.0**-23, "f16": 2.0**-10, "bf16": 2.0**-7}[dtype]
    limit = ulps * spacing * 2.0 ** np.floor(np.log2(np.maximum(np.abs(expected), 2.0**-14)))
    close = (a == w) | (
        np.abs(np.subtract(a, w, where=np.isfinite(a) & np.isfinite(w), out=np.full_like(a, np.inf))) <= limit
    )
    assert close.all(), (a[~close], w[~close])


@every("region", REGIONS)
@every("op, dtype", [(op, dtype) for op in BINARY for dtype in BINARY[op][1]])
def test_binary(core: Core, op: str, dtype: str, region: tuple[int, int]) -> None:
    function = BINARY[op][0]
    a, b = _values(dtype, 1, op), _values(dtype, 2, op)
    rows, cols = region
    with np.errstate(all="ignore"):
        expected = function(decode(a, dtype), decode(b, dtype))[:rows, :cols]
    for layout in _layouts(dtype):
        actual = _run(core, f"{op}_{dtype}_{layout}", _tile(dtype, layout), region, a, b)
        _check(actual, expected, dtype, 0)


@every("region", REGIONS)
@every("op, dtype", [(op, dtype) for op in UNARY for dtype in UNARY[op][1]])
def test_unary(core: Core, op: str, dtype: str, region: tuple[int, int]) -> None:
    function = UNARY[op][0]
    a = _values(dtype, 1, op)
    rows, cols = region
    with np.errstate(all="ignore"):
        expected = function(decode(a, dtype))[:rows, :cols]
    for layout in _layouts(dtype):
        actual = _run(core, f"{op}_{dtype}_{layout}", _tile(dtype, layout), region, a)
        _check(actual, expected, dtype, ULPS.get(op, 0))


@every("region", REGIONS)
@every("op, dtype", [(op, dtype) for op in WITH_SCALAR for dtype in BINARY[WITH_SCALAR[op]][1]])
def test_with_scalar(core: Core, op: str, dtype: str, region: tuple[int, int]) -> None:
    function = BINARY[WITH_SCALAR[op]][0]
    a, rows, cols = _values(dtype, 1, op), *region
    numbers = decode(a, dtype)
    scalar = np.full_like(numbers, _scalar(dtype))
    with np.errstate(all="ignore"):
        expected = function(numbers, scalar)[:rows, :cols]
        reversed_quotient = _div(scalar, numbers)[:rows, :cols]
    tile = _tile(dtype, "ND")
    _check(_run(core, f"{op}_{dtype}_ND", tile, region, a), expected, dtype, 0)
    if op == "TDIVS":
        _check(_run(core, f"TDIVS_reversed_{dtype}", tile, region, a), reversed_quotient, dtype, 0)


@every("region", REGIONS)
@every("dtype", ALL)
def test_expands(core: Core, dtype: str, region: tuple[int, int]) -> None:
    for layout in _layouts(dtype):
        actual = _run(core, f"TEXPANDS_{dtype}_{layout}", _tile(dtype, layout), region)
        assert (decode(actual, dtype) == _scalar(dtype)).all()


@every("dtype", ALL)
def test_operands_may_be_one_tile(core: Core, dtype: str) -> None:
    tile = _tile(dtype, "ND")
    a, b = _values(dtype, 1, ""), _values(dtype, 2, "")
    core.put(tile, SRC0, a)
    core.put(tile, SRC1, b)
    core.call(f"in_place_{dtype}", 32, 64)
    with np.errstate(all="ignore"):
        assert np.array_equal(core.get(tile, SRC0), encode(decode(a, dtype) + decode(b, dtype), dtype))
    assert (decode(core.get(tile, SRC1), dtype) == 0).all()


@pytest.mark.parametrize("dtype", INTS)
def test_shifts(core: Core, dtype: str) -> None:
    tile = _tile(dtype, "ND")
    bits = 8 * np.dtype(encode(np.zeros(1), dtype).dtype).itemsize
    a = _values(dtype, 1, "")
    b = encode(np.arange(32 * 64).reshape(32, 64) % (bits + 3), dtype)
    numbers, counts = decode(a, dtype), decode(b, dtype)
    for op, left in (("TSHL", True), ("TSHR", False)):
        expected = _shift(numbers, counts, bits, dtype.startswith("i"), left)
        assert np.array_equal(_run(core, f"{op}_{dtype}", tile, (32, 64), a, b), encode(expected, dtype))


@pytest.mark.parametrize("op", ["TADD", "TMAX"])
def test_operands_of_different_order(core: Core, op: str) -> None:
    a, b = _values("f32", 1, ""), _values("f32", 2, "")
    core.put(_tile("f32", "ND"), SRC0, a)
    core.put(_tile("f32", "DN"), SRC1, b)
    core.call(f"{op}_mixed", 20, 30)
    expected = encode(BINARY[op][0](decode(a, "f32"), decode(b, "f32")), "f32")
    assert np.array_equal(core.get(_tile("f32", "ND"), DST)[:20, :30], expected[:20, :30])


SPECIAL = [
    0.0,
    -0.0,
    np.inf,
    -np.inf,
    np.nan,
    1.0,
    -1.0,
    1e-45,
    -1e-45,
    1.1754944e-38,
    3.4028235e38,
    -3.4028235e38,
    88.7,
    88.8,
]


@pytest.mark.parametrize("op", ["TADD", "TSUB", "TMUL", "TDIV", "TMAX", "TMIN"])
def test_ieee_special_values_of_two_operands(core: Core, op: str) -> None:
    tile = _tile("f32", "ND")
    a, b = (
        np.resize(np.array(m, np.float32), (32, 64))
        for m in zip(*[(x, y) for x in SPECIAL for y in SPECIAL], strict=True)
    )
    with np.errstate(all="ignore"):
        expected = BINARY[op][0](a, b).astype(np.float32)
    actual = _run(core, f"{op}_f32_ND", tile, (32, 64), a, b)
    same = (actual == expected) | (np.isnan(actual) & np.isnan(expected))
    assert same.all()
    if op not in ("TMAX", "TMIN"):
        numbers = ~np.isnan(expected)
        assert np.array_equal(np.signbit(actual)[numbers], np.signbit(expected)[numbers])


@every("op", ["TEXP", "TLOG", "TSQRT", "TRSQRT", "TRECIP", "TNEG", "TABS", "TRELU"])
def test_ieee_special_values_of_one_operand(core: Core, op: str) -> None:
    tile = _tile("f32", "ND")
    extra = [-103.9, -104.5, -87.5, -90.0, 1e-40, 0.5, 2.0, 1e30, 1e-30, -2.5]
    a = np.resize(np.array(SPECIAL + extra, np.float32), (32, 64))
    with np.errstate(all="ignore"):
        expected = UNARY[op][0](a.astype(np.float64)).astype(np.float32)
    actual = _run(core, f"{op}_f32_ND", tile, (32, 64), a)
    assert np.array_equal(np.isnan(actual), np.isnan(expected))
    numbers = ~np.isnan(expected)
    np.testing.assert_allclose(actual[numbers], expected[numbers], rtol=3e-7, atol=1e-44)
    assert np.array_equal(np.signbit(actual[numbers]), np.signbit(expected[numbers])) or op == "TRELU"


@every("cols", [64, 8])  # several registers side by side, and one alone
@every("dtype", ["f16", "bf16"])
@every("op", ["TEXP", "TLOG", "TSQRT", "TRSQRT", "TRECIP"])
def test_every_half_gives_the_nearest_result(core: Core, op: str, dtype: str, cols: int) -> None:
    patterns = np.arange(65536, dtype=np.uint32).astype(np.uint16).view(NUMPY[dtype]).reshape(-1, 32, cols)
    tile = _tile(dtype, "ND")
    actual = np.empty_like(patterns)
    for part, result in zip(patterns, actual, strict=True):
        core.put(tile, SRC0, part)
        core.call(f"{op}_{dtype}_ND", 32, cols)
        result[:] = core.get(tile, DST)[:, :cols]
    with np.errstate(all="ignore"):
        expected = decode(encode(UNARY[op][0](decode(patterns, dtype)), dtype), dtype)
    numbers = decode(actual, dtype)
    same = (numbers == expected) & (np.signbit(numbers) == np.signbit(expected)) | np.isnan(numbers) & np.isnan(
        expected
    )
    # exp(0x1f79) is closer than a float can tell to where rounding changes.
    exceptions = [0x1F79] if (op, dtype) == ("TEXP", "f16") else []
    assert patterns[~same].view(np.uint16).tolist() == exceptions


@pytest.mark.parametrize("op,low,high", [("TEXP", -103.0, 88.7), ("TLOG", 1e-44, 3.4e38)])
def test_elementary_functions_stay_within_two_units(core: Core, op: str, low: float, high: float) -> None:
    tile = _tile("f32", "ND")
    rng = np.random.default_rng(5)
    for _ in range(40):
        a = (
            rng.uniform(low, high, (32, 64))
            if op == "TEXP"
            else np.exp(rng.uniform(np.log(low), np.log(high), (32, 64)))
        )
        a = a.astype(np.float32)
        exact = UNARY[op][0](a.astype(np.float64))
        actual = _run(core, f"{op}_f32_ND", tile, (32, 64), a).astype(np.float64)
        unit = np.maximum(np.spacing(np.abs(exact).astype(np.float32)), np.float32(1e-45)).astype(np.float64)
        assert (np.abs(actual - exact) <= 1.5 * unit).all(), np.max(np.abs(actual - exact) / unit)
