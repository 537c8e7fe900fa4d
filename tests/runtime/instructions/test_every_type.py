"""Every instruction that the table gives element types, on each of them, in each layout, for full, partial and empty
valid regions: on small integers, whose results are exact, against numpy.

The other tests go deeper, into rounding, special values and overlap, on fewer of the types.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from pypto_build.runtime.instructions import FLOATS, INSTRUCTIONS, INTS
from tests.runtime.instructions.tile_harness import CPP, Array, Cases, Core, Tile, declare, decode, encode

NAMES = {cpp: name for name, cpp in CPP.items()}
ROWS, COLS = 32, 32
REGIONS = ((ROWS, COLS), (7, 19), (0, 3), (3, 0))
A, B, C, D = 0, 16384, 32768, 49152
SCALAR = 3

Function = Callable[..., Array]


def _divide(a: Array, b: Array) -> Array:
    return a / b if a.dtype == np.float64 else np.abs(a) // np.abs(b) * np.sign(a) * np.sign(b)


# What follows dst in the call, and what dst becomes; relu is the one of the element type.
ELEMENTWISE: dict[str, tuple[str, Function]] = {
    "TADD": ("a, b", lambda d, a, b, c, relu: a + b),
    "TSUB": ("a, b", lambda d, a, b, c, relu: a - b),
    "TMUL": ("a, b", lambda d, a, b, c, relu: a * b),
    "TDIV": ("a, b", lambda d, a, b, c, relu: _divide(a, b)),
    "TMAX": ("a, b", lambda d, a, b, c, relu: np.maximum(a, b)),
    "TMIN": ("a, b", lambda d, a, b, c, relu: np.minimum(a, b)),
    "TAND": ("a, b", lambda d, a, b, c, relu: a & b),
    "TOR": ("a, b", lambda d, a, b, c, relu: a | b),
    "TXOR": ("a, b, c", lambda d, a, b, c, relu: a ^ b),
    "TSHL": ("a, b", lambda d, a, b, c, relu: a << b),
    "TSHR": ("a, b", lambda d, a, b, c, relu: a >> b),
    "TPRELU": ("a, b, c", lambda d, a, b, c, relu: np.where(a > 0, a, a * b)),
    "TREM": ("a, b, c", lambda d, a, b, c, relu: np.mod(a, b)),
    "TFMOD": ("a, b", lambda d, a, b, c, relu: np.fmod(a, b)),
    "TPOW": ("a, b, c", lambda d, a, b, c, relu: a**b),
    "TADDRELU": ("a, b", lambda d, a, b, c, relu: relu(a + b)),
    "TSUBRELU": ("a, b", lambda d, a, b, c, relu: relu(a - b)),
    "TADDS": ("a, s", lambda d, a, b, c, relu: a + SCALAR),
    "TSUBS": ("a, s", lambda d, a, b, c, relu: a - SCALAR),
    "TMULS": ("a, s", lambda d, a, b, c, relu: a * SCALAR),
    "TDIVS": ("a, s", lambda d, a, b, c, relu: _divide(a, np.full_like(a, SCALAR))),
    "TMAXS": ("a, s", lambda d, a, b, c, relu: np.maximum(a, SCALAR)),
    "TMINS": ("a, s", lambda d, a, b, c, relu: np.minimum(a, SCALAR)),
    "TANDS": ("a, s", lambda d, a, b, c, relu: a & SCALAR),
    "TORS": ("a, s", lambda d, a, b, c, relu: a | SCALAR),
    "TXORS": ("a, s, c", lambda d, a, b, c, relu: a ^ SCALAR),
    "TSHLS": ("a, s", lambda d, a, b, c, relu: a << SCALAR),
    "TSHRS": ("a, s", lambda d, a, b, c, relu: a >> SCALAR),
    "TLRELU": ("a, s", lambda d, a, b, c, relu: np.where(a > 0, a, a * SCALAR)),
    "TREMS": ("a, s, c", lambda d, a, b, c, relu: np.mod(a, SCALAR)),
    "TFMODS": ("a, s", lambda d, a, b, c, relu: np.fmod(a, SCALAR)),
    "TPOWS": ("a, s, c", lambda d, a, b, c, relu: a**SCALAR),
    "TEXPANDS": ("s", lambda d, a, b, c, relu: np.full_like(a, SCALAR)),
    "TNEG": ("a", lambda d, a, b, c, relu: -a),
    "TABS": ("a", lambda d, a, b, c, relu: np.abs(a)),
    "TRELU": ("a", lambda d, a, b, c, relu: relu(a)),
    "TNOT": ("a", lambda d, a, b, c, relu: ~a),
    "TADDC": ("a, b, c", lambda d, a, b, c, relu: a + b + c),
    "TSUBC": ("a, b, c", lambda d, a, b, c, relu: a - b + c),
    "TADDSC": ("a, s, c", lambda d, a, b, c, relu: a + SCALAR + c),
    "TSUBSC": ("a, s, c", lambda d, a, b, c, relu: a - SCALAR + c),
    "TAXPY": ("a, s", lambda d, a, b, c, relu: d + SCALAR * a),
    "TFUSEDMULADD": ("a, b", lambda d, a, b, c, relu: a * d + b),
    "TFUSEDMULADDRELU": ("a, b", lambda d, a, b, c, relu: relu(a * d + b)),
    "TMULADDDST": ("a, b", lambda d, a, b, c, relu: a * b + d),
}
# Functions that are not exact, which other tests hold to their accuracy on every type.
ROUNDED = {"TEXP", "TLOG", "TSQRT", "TRSQRT", "TRECIP"}
REDUCTIONS: dict[str, Function] = {"SUM": np.add, "PROD": np.multiply, "MAX": np.maximum, "MIN": np.minimum}
EXPANSIONS: dict[str, Function] = {
    "ADD": np.add, "SUB": np.subtract, "MUL": np.multiply, "DIV": _divide, "MAX": np.maximum, "MIN": np.minimum,
}  # fmt: skip
PARTIAL: dict[str, Function] = {
    "TPARTADD": np.add, "TPARTMUL": np.multiply, "TPARTMAX": np.maximum, "TPARTMIN": np.minimum,
}  # fmt: skip
ALL = [NAMES[cpp] for cpp in FLOATS + INTS]


def _types(name: str) -> list[str]:
    return [NAMES[cpp] for cpp in INSTRUCTIONS[name].dtypes]


@cache
def _numbers(dtype: str, seed: int) -> Array:
    """Small integers; those of seed 2 are positive, so that they divide and shift."""
    low = 1 if seed == 2 else 0 if dtype.startswith("u") else -4
    return encode(np.random.default_rng(seed).integers(low, 5, (ROWS, COLS)), dtype)


def _relu(dtype: str) -> Function:
    """Of a sum that has wrapped, where it does."""
    if dtype.startswith("u"):
        return lambda x: x
    return lambda x: np.maximum(decode(encode(x, dtype), dtype), 0)


@pytest.fixture(scope="module")
def elementwise(build_directory: Path) -> Core:
    cases = Cases(flags=["-O1"])
    for dtype in ALL:
        for layout in ("ND", "DN", "NZ"):
            tile = Tile(dtype, ROWS, COLS, layout)
            tiles = declare(("a", tile, A, 0), ("b", tile, B, 0), ("c", tile, C, 0), ("d", tile, D, 0))
            tiles += f"[[maybe_unused]] {CPP[dtype]} s = {CPP[dtype]}({SCALAR});"
            calls = [
                f"if (v[2] == {i}) {op}(d, {rest});"
                for i, (op, (rest, _)) in enumerate(ELEMENTWISE.items())
                if dtype in _types(op)
            ]
            cases.add(f"all_{dtype}_{layout}", tiles + "\n".join(calls))
    return cases.build(build_directory)


def test_each_element_wise_instruction_is_here_or_rounds() -> None:
    group = {name for name, row in INSTRUCTIONS.items() if row.group == "element-wise"}
    assert group == ELEMENTWISE.keys() | ROUNDED


@pytest.mark.parametrize("layout", ["ND", "DN", "NZ"])
@pytest.mark.parametrize("op, dtype", [(op, dtype) for op in ELEMENTWISE for dtype in _types(op)])
def test_element_wise(elementwise: Core, op: str, dtype: str, layout: str) -> None:
    tile = Tile(dtype, ROWS, COLS, layout)
    operands = {at: _numbers(dtype, seed) for at, seed in ((D, 4), (A, 1), (B, 2), (C, 3))}
    with np.errstate(all="ignore"):
        exact = ELEMENTWISE[op][1](*(decode(x, dtype) for x in operands.values()), _relu(dtype))
    expected = encode(exact, dtype)
    for rows, cols in REGIONS:
        for at, elements in operands.items():
            elementwise.put(tile, at, elements)
        elementwise.call(f"all_{dtype}_{layout}", rows, cols, list(ELEMENTWISE).index(op))
        wanted = operands[D].copy()
        wanted[:rows, :cols] = expected[:rows, :cols]
        assert np.array_equal(decode(elementwise.get(tile, D), dtype), decode(wanted, dtype))


@pytest.fixture(scope="module")
def lines(build_directory: Path) -> Core:
    cases = Cases(flags=["-O1"])
    for dtype in ALL:
        full, row, column = Tile(dtype, ROWS, COLS), Tile(dtype, 1, COLS), Tile(dtype, ROWS, 1, "DN")
        tiles = declare(
            ("a", full, A, 0), ("t", Tile(dtype, ROWS, COLS, "DN"), A, 0), ("b", full, B, 0), ("d", full, D, 0),
            ("r", row, C, 2), ("k", column, C, 4),
        )  # fmt: skip
        calls = [f"TROW{op}(k, a, b);" for op in REDUCTIONS] + [f"TCOL{op}(r, a);" for op in REDUCTIONS]
        calls += [f"TROW{op}(k, t, b);" for op in REDUCTIONS] + [f"TCOL{op}(r, t);" for op in REDUCTIONS]
        calls += ["TROWEXPAND(d, k);", "TCOLEXPAND(d, r);"]
        calls += [
            f"T{line}EXPAND{op}(d, a, {narrow});" for line, narrow in (("ROW", "k"), ("COL", "r")) for op in EXPANSIONS
        ]
        body = "\n".join(f"if (v[6] == {i}) {call}" for i, call in enumerate(calls))
        cases.add(f"all_{dtype}", tiles + body)
        parts = declare(("a", full, A, 0), ("b", full, B, 2), ("d", full, D, 4))
        cases.add(f"part_{dtype}", parts + "".join(f"if (v[6] == {i}) {op}(d, a, b);" for i, op in enumerate(PARTIAL)))
    return cases.build(build_directory)


@pytest.mark.parametrize("dtype", ALL)
def test_reductions(lines: Core, dtype: str) -> None:
    values, column, row = _numbers(dtype, 2), Tile(dtype, ROWS, 1, "DN"), Tile(dtype, 1, COLS)
    for number, (layout, axis, op) in enumerate(
        (layout, axis, op) for layout in ("ND", "DN") for axis in (1, 0) for op in REDUCTIONS
    ):
        for rows, cols in REGIONS[:2]:
            exact = decode(values, dtype)[:rows, :cols]
            if op == "PROD" and dtype in ("f32", "f16", "bf16"):
                exact = np.where(exact > 2, 1, exact)  # a power of two, and not too great a one
                exact[4:, 4:] = 1
            lines.put(Tile(dtype, ROWS, COLS, layout), A, encode(exact, dtype))
            lines.call(f"all_{dtype}", rows, cols, 1, cols, rows, 1, number)
            found = lines.get(column, C)[:rows, 0] if axis else lines.get(row, C)[0, :cols]
            with np.errstate(all="ignore"):
                expected = encode(REDUCTIONS[op].reduce(exact, axis=axis), dtype)  # type: ignore[attr-defined]
            assert np.array_equal(found, expected), (layout, axis, op)


@pytest.mark.parametrize("dtype", ALL)
def test_expansions(lines: Core, dtype: str) -> None:
    full, values, narrow = Tile(dtype, ROWS, COLS), _numbers(dtype, 1), _numbers(dtype, 2)
    a, b = decode(values, dtype), decode(narrow, dtype)
    functions: list[tuple[int, Function]] = [(axis, lambda a, b: b + 0 * a) for axis in (1, 0)]
    functions += [(axis, function) for axis in (1, 0) for function in EXPANSIONS.values()]
    for number, (axis, function) in enumerate(functions):
        line = b[:, :1] if axis else b[:1]
        expected = encode(function(a, np.broadcast_to(line, a.shape)), dtype)
        for rows, cols in REGIONS:
            lines.put(full, A, values)
            lines.put(full, D, values)
            lines.put(Tile(dtype, ROWS, 1, "DN") if axis else Tile(dtype, 1, COLS), C, encode(line, dtype))
            lines.call(f"all_{dtype}", rows, cols, 1, cols, rows, 1, 4 * len(REDUCTIONS) + number)
            wanted = values.copy()
            wanted[:rows, :cols] = expected[:rows, :cols]
            assert np.array_equal(decode(lines.get(full, D), dtype), decode(wanted, dtype)), (axis, number)


@pytest.mark.parametrize("dtype", ALL)
def test_partly_valid(lines: Core, dtype: str) -> None:
    full, a, b = Tile(dtype, ROWS, COLS), _numbers(dtype, 1), _numbers(dtype, 2)
    for number, function in enumerate(PARTIAL.values()):
        for rows, cols in REGIONS:
            lines.put(full, A, a)
            lines.put(full, B, b)
            lines.call(f"part_{dtype}", ROWS, COLS, rows, cols, ROWS, COLS, number)
            wanted = a.copy()
            wanted[:rows, :cols] = encode(function(decode(a, dtype), decode(b, dtype)), dtype)[:rows, :cols]
            assert np.array_equal(decode(lines.get(full, D), dtype), decode(wanted, dtype)), (number, rows)
