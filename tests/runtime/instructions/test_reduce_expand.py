"""Reductions, broadcasts, argmax and argmin, and operations on partly valid operands, against numpy."""

from __future__ import annotations

import numpy as np
import pytest

from tests.rows import every
from tests.runtime.instructions.tile_harness import FLOATS, NUMPY, Array, Cases, Core, Tile, declare, decode, encode

DTYPES = ("f32", "f16", "bf16", "i32", "i16")
REGIONS = ((32, 64), (17, 33), (1, 1), (0, 5), (3, 61), (5, 8))
SRC, SRC1, DST, DST1 = 0, 32768, 65536, 98304
REDUCTIONS = {"SUM": np.add, "PROD": np.multiply, "MAX": np.maximum, "MIN": np.minimum}
EXPANSIONS = {
    "ADD": np.add, "SUB": np.subtract, "MUL": np.multiply, "DIV": np.divide, "MAX": np.maximum, "MIN": np.minimum,
    "EXPDIF": lambda a, b: np.exp(a - b),
}  # fmt: skip
PARTIAL = {"TPARTADD": np.add, "TPARTMUL": np.multiply, "TPARTMAX": np.maximum, "TPARTMIN": np.minimum}
ARGS = {
    "TROWARGMAX": (np.argmax, 1),
    "TROWARGMIN": (np.argmin, 1),
    "TCOLARGMAX": (np.argmax, 0),
    "TCOLARGMIN": (np.argmin, 0),
}


def _column(dtype: str) -> Tile:
    return Tile(dtype, 32, 1, "DN")


def _block(dtype: str) -> Tile:
    return Tile(dtype, 32, 32 // np.dtype(NUMPY[dtype]).itemsize)


@pytest.fixture(scope="module")
def core() -> Core:
    cases = Cases()
    for dtype in DTYPES:
        full, row, column, block = Tile(dtype, 32, 64), Tile(dtype, 1, 64), _column(dtype), _block(dtype)
        turned = Tile(dtype, 32, 64, "DN")
        index = Tile("i32", 32, 1, "DN")
        for op in REDUCTIONS:
            tiles = declare(
                ("s", full, SRC, 0),
                ("t", turned, SRC, 0),
                ("c", column, DST, 2),
                ("b", block, DST, 2),
                ("r", row, DST, 4),
            )
            cases.add(f"row_{op}_{dtype}", f"{tiles}\nTROW{op}(c, s, s);")
            cases.add(f"row_block_{op}_{dtype}", f"{tiles}\nTROW{op}(b, s, s);")
            cases.add(f"row_turned_{op}_{dtype}", f"{tiles}\nTROW{op}(c, t, s);")
            cases.add(f"col_{op}_{dtype}", f"{tiles}\nTCOL{op}(r, s);")
            cases.add(f"col_turned_{op}_{dtype}", f"{tiles}\nTCOL{op}(r, t, s, true);")
        tiles = declare(
            ("s", full, SRC, 0), ("c", column, SRC1, 2), ("b", block, SRC1, 5), ("r", row, SRC1, 4), ("d", full, DST, 0)
        )
        cases.add(f"TROWEXPAND_{dtype}", f"{tiles}\nTROWEXPAND(d, c);")
        cases.add(f"TCOLEXPAND_{dtype}", f"{tiles}\nTCOLEXPAND(d, r);")
        for op in EXPANSIONS:
            if dtype in FLOATS:
                cases.add(f"TROWEXPAND{op}_{dtype}", f"{tiles}\nTROWEXPAND{op}(d, s, c);")
                cases.add(f"TROWEXPAND{op}_left_{dtype}", f"{tiles}\nTROWEXPAND{op}(d, c, s);")
                cases.add(f"TROWEXPAND{op}_block_{dtype}", f"{tiles}\nTROWEXPAND{op}(d, s, b, b);")
                cases.add(f"TCOLEXPAND{op}_{dtype}", f"{tiles}\nTCOLEXPAND{op}(d, s, r);")
        for op in PARTIAL:
            tiles = declare(("a", full, SRC, 0), ("b", full, SRC1, 2), ("d", full, DST, 4))
            cases.add(f"{op}_{dtype}", f"{tiles}\n{op}(d, a, b);")
        for op in ARGS:
            at = Tile("i32", 1, 64) if op.startswith("TCOL") else index
            value = row if op.startswith("TCOL") else column
            tiles = declare(("s", full, SRC, 0), ("i", at, DST, 2), ("w", value, DST1, 2))
            cases.add(f"{op}_{dtype}", f"{tiles}\n{op}(i, s, s);")
            cases.add(f"{op}_value_{dtype}", f"{tiles}\n{op}(w, i, s, s);")
        both = declare(("a", full, SRC, 0), ("b", full, SRC1, 2), ("d", full, DST, 4), ("e", Tile("i32", 32, 64), DST1, 4),
                       ("x", Tile("i32", 32, 64), 131072, 0), ("y", Tile("i32", 32, 64), 163840, 2))  # fmt: skip
        cases.add(f"TPARTARGMAX_{dtype}", f"{both}\nTPARTARGMAX(d, a, b, e, x, y);")
    return cases.build()


def _values(dtype: str, seed: int = 1) -> Array:
    rng = np.random.default_rng(seed)
    if dtype in FLOATS:
        return encode(rng.standard_normal((32, 64)), dtype)
    return rng.integers(-50, 50, (32, 64)).astype(NUMPY[dtype])


def _check(actual: Array, expected: Array, dtype: str, terms: int = 1, magnitude: Array | float = 0.0) -> None:
    """Exact for integers; for floats one rounding to the type, and `terms` roundings to float of numbers of that size."""
    numbers = decode(actual, dtype)
    if dtype not in FLOATS:
        assert np.array_equal(actual, encode(expected, dtype))
        return
    rounded = decode(encode(expected, dtype), dtype)
    unit = {"f32": 2.0**-23, "f16": 2.0**-10, "bf16": 2.0**-7}[dtype]
    limit = unit * np.abs(rounded) + terms * 2.0**-23 * magnitude + 2.0**-24
    close = (numbers == rounded) | (np.abs(np.where(np.isfinite(numbers), numbers, 0) - rounded) <= limit)
    assert close.all(), (numbers[~close], rounded[~close])


@every("region", REGIONS)
@every("dtype", DTYPES)
@every("op", REDUCTIONS)
def test_reductions(core: Core, op: str, dtype: str, region: tuple[int, int]) -> None:
    rows, cols = region
    values = _values(dtype)
    numbers = decode(values, dtype)[:rows, :cols]
    function = REDUCTIONS[op]
    magnitude_function = np.add if op == "SUM" else np.multiply if op == "PROD" else np.maximum
    for axis, names in ((1, ("row", "row_block", "row_turned")), (0, ("col", "col_turned"))):
        if numbers.shape[axis] == 0:
            continue
        with np.errstate(all="ignore"):
            expected = function.reduce(numbers, axis=axis)
            magnitude = magnitude_function.reduce(np.abs(numbers), axis=axis)
        for name in names:
            source = Tile(dtype, 32, 64, "DN" if "turned" in name else "ND")
            target = {"row_block": _block(dtype), "col": Tile(dtype, 1, 64), "col_turned": Tile(dtype, 1, 64)}.get(
                name, _column(dtype)
            )
            core.fill("Vec", 0x33)
            core.put(source, SRC, values)
            before = core.get(target, DST).copy()
            core.call(f"{name}_{op}_{dtype}", rows, cols, rows, 1, 1, cols)
            after = core.get(target, DST)
            line = after[: len(expected), 0] if axis == 1 else after[0, : len(expected)]
            _check(line, expected, dtype, 64, magnitude)
            changed = np.ones(after.shape, bool)
            if axis == 1:
                changed[: len(expected), 0] = False
            else:
                changed[0, : len(expected)] = False
            assert np.array_equal(after[changed], before[changed])


def test_reductions_pass_nan_and_infinities_on(core: Core) -> None:
    values = np.ones((32, 64), np.float32)
    values[0, 63], values[1, 5], values[2, 7], values[3, 1], values[3, 2] = np.nan, np.inf, -np.inf, np.inf, -np.inf
    core.put(Tile("f32", 32, 64), SRC, values)
    for op, expected in {
        "SUM": [np.nan, np.inf, -np.inf, np.nan],
        "MAX": [np.nan, np.inf, 1, np.inf],
        "MIN": [np.nan, 1, -np.inf, -np.inf],
    }.items():
        core.call(f"row_{op}_f32", 32, 64, 32, 1, 1, 64)
        np.testing.assert_array_equal(core.get(_column("f32"), DST)[:4, 0], np.array(expected, np.float32))


@every("region", REGIONS)
@every("dtype", DTYPES)
def test_expansions_of_one_operand(core: Core, dtype: str, region: tuple[int, int]) -> None:
    rows, cols = region
    values = _values(dtype)
    for op, narrow, expected in (
        ("TROWEXPAND", _column(dtype), np.repeat(values[:, :1], 64, 1)),
        ("TCOLEXPAND", Tile(dtype, 1, 64), np.repeat(values[:1], 32, 0)),
    ):
        core.fill("Vec", 0)
        core.put(narrow, SRC1, values[: narrow.rows, : narrow.cols])
        core.call(f"{op}_{dtype}", rows, cols, rows, 1, 1, cols, cols)
        memory = np.zeros_like(values)
        memory[:rows, :cols] = expected[:rows, :cols]
        assert np.array_equal(core.get(Tile(dtype, 32, 64), DST), memory)


@every("region", REGIONS)
@every("dtype", FLOATS)
@every("op", EXPANSIONS)
def test_expansions_of_two_operands(core: Core, op: str, dtype: str, region: tuple[int, int]) -> None:
    rows, cols = region
    full, narrow = _values(dtype, 1), _values(dtype, 2)
    numbers, other = decode(full, dtype), decode(narrow, dtype)
    width = _block(dtype).cols
    repeated = np.tile(other[:, :width], (1, 64 // width))
    forms = (
        (f"TROWEXPAND{op}", _column(dtype), numbers, other[:, :1]),
        (f"TROWEXPAND{op}_left", _column(dtype), other[:, :1] + 0 * numbers, numbers),
        (f"TROWEXPAND{op}_block", _block(dtype), numbers, repeated),
        (f"TCOLEXPAND{op}", Tile(dtype, 1, 64), numbers, other[:1]),
    )
    for name, tile, a, b in forms:
        core.put(Tile(dtype, 32, 64), SRC, full)
        core.put(tile, SRC1, narrow[: tile.rows, : tile.cols])
        core.call(f"{name}_{dtype}", rows, cols, rows, 1, 1, width, width)
        with np.errstate(all="ignore"):
            expected = EXPANSIONS[op](a, b)
        # The exponent's argument is rounded once to float.
        _check(
            core.get(Tile(dtype, 32, 64), DST)[:rows, :cols],
            expected[:rows, :cols],
            dtype,
            8,
            np.abs(expected[:rows, :cols]),
        )


@every("regions", [((32, 64), (20, 30)), ((20, 30), (32, 64)), ((32, 10), (7, 64)), ((32, 64), (0, 0))])
@every("dtype", DTYPES)
def test_partly_valid_operands(core: Core, dtype: str, regions: tuple[tuple[int, int], tuple[int, int]]) -> None:
    (ar, ac), (br, bc) = regions
    a, b = _values(dtype, 1), _values(dtype, 2)
    in_a, in_b = np.zeros((32, 64), bool), np.zeros((32, 64), bool)
    in_a[:ar, :ac] = in_b[:br, :bc] = True
    full = Tile(dtype, 32, 64)
    for op, function in PARTIAL.items():
        core.fill("Vec", 0)
        core.put(full, SRC, a)
        core.put(full, SRC1, b)
        core.call(f"{op}_{dtype}", ar, ac, br, bc, 32, 64)
        x, y = decode(a, dtype), decode(b, dtype)
        expected = np.where(in_a & in_b, function(x, y), np.where(in_a, x, np.where(in_b, y, 0)))
        assert np.array_equal(core.get(full, DST), encode(expected, dtype))
    core.fill("Vec", 0)
    core.put(full, SRC, a)
    core.put(full, SRC1, b)
    core.put(Tile("i32", 32, 64), 131072, np.full((32, 64), 100, np.int32))
    core.put(Tile("i32", 32, 64), 163840, np.full((32, 64), 200, np.int32))
    core.call(f"TPARTARGMAX_{dtype}", ar, ac, br, bc, 32, 64)
    from_a = in_a & (~in_b | (decode(a, dtype) >= decode(b, dtype)))
    assert np.array_equal(core.get(full, DST), np.where(from_a, a, np.where(in_b, b, 0)))
    assert np.array_equal(core.get(Tile("i32", 32, 64), DST1), np.where(from_a, 100, np.where(in_b, 200, 0)))


@every("region", [(32, 64), (17, 33), (1, 1)])
@every("dtype", DTYPES)
@every("op", ARGS)
def test_argmax_and_argmin(core: Core, op: str, dtype: str, region: tuple[int, int]) -> None:
    rows, cols = region
    function, axis = ARGS[op]
    values = _values(dtype)
    if dtype not in FLOATS:
        values = values // 20  # many equal values: the first one counts
    numbers = decode(values, dtype)[:rows, :cols]
    expected = function(numbers, axis=axis)
    along_rows = axis == 1
    index_tile = Tile("i32", 32, 1, "DN") if along_rows else Tile("i32", 1, 64)
    value_tile = _column(dtype) if along_rows else Tile(dtype, 1, 64)
    shape = (rows, 1) if along_rows else (1, cols)
    core.put(Tile(dtype, 32, 64), SRC, values)
    for form in ("", "_value"):
        core.fill("Vec", 0)
        core.put(Tile(dtype, 32, 64), SRC, values)
        core.call(f"{op}{form}_{dtype}", rows, cols, *shape)
        index = core.get(index_tile, DST)[: shape[0], : shape[1]].reshape(-1)
        assert np.array_equal(index, expected)
        if form:
            actual = core.get(value_tile, DST1)[: shape[0], : shape[1]].reshape(-1)
            picked = (
                values[:rows, :cols][np.arange(rows), expected]
                if along_rows
                else values[:rows, :cols][expected, np.arange(cols)]
            )
            assert np.array_equal(actual, picked)
