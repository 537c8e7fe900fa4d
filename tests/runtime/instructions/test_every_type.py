"""Every instruction of the table on each of its element types, in each of its layouts, for full, partial and empty valid
regions, against numpy.

The other tests go deeper, into rounding, special values and overlap, on fewer of the types.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from pypto_build.pto.ops import INSTRUCTIONS
from pypto_build.pto.ops.spec import NUMBERS as NUMERIC
from tests.rows import every
from tests.runtime.instructions.table_cases import (
    COLS,
    LAYOUTS,
    REGIONS,
    ROWS,
    SCALAR,
    STRIDE,
    A,
    B,
    C,
    Case,
    D,
    Operand,
    Operands,
    arithmetic_cases,
)
from tests.runtime.instructions.table_cases_moves import move_cases
from tests.runtime.instructions.tile_harness import CPP, FLOATS, Array, Cases, Core, Tile, decode, encode

NAMES = {cpp: name for name, cpp in CPP.items()}
CASES = arithmetic_cases() | move_cases()
NUMBERS = {name: number for number, name in enumerate(CASES)}
# What tests of their own run: on the accumulator and its neighbours.
ELSEWHERE = {
    "test_matmul.py": {"TMATMUL", "TMATMUL_ACC", "TMATMUL_BIAS"},
    "test_single.py": {"TGEMV", "TGEMV_ACC", "TGEMV_BIAS", "TEXTRACT_FP", "TINSERT_FP"},
    "test_quantize.py": {"TSTORE_FP", "TMOV_FP"},
    "test_fused_convert.py": {"TADDRELUCONV", "TSUBRELUCONV", "TADDDEQRELU"},
}
UNITS = {"f32": 2.0**-23, "f16": 2.0**-10, "bf16": 2.0**-7}


def _admitted() -> list[tuple[str, str, str]]:
    """Return the cases that the table admits: names with an element type and a layout."""
    return [
        (name, NAMES[cpp], layout)
        for name in CASES
        for cpp in INSTRUCTIONS[name.split()[0]].dtypes
        for layout in INSTRUCTIONS[name.split()[0]].layouts
    ]


def test_the_table_has_no_instruction_with_element_types_that_is_not_run() -> None:
    typed = {name for name, row in INSTRUCTIONS.items() if row.dtypes}
    assert {name.split()[0] for name in CASES} == typed
    untyped = {name for name, row in INSTRUCTIONS.items() if not row.dtypes and not row.unsupported}
    passed_on = {name for name in untyped if INSTRUCTIONS[name].group in ("addresses", "pipes", "communication")}
    assert untyped - passed_on == set().union(*ELSEWHERE.values())
    for module, names in ELSEWHERE.items():
        text = (Path(__file__).parent / module).read_text(encoding="utf-8")
        assert [name for name in names if name.split("_")[0] not in text] == []


# Most cases have some of these operands: one function declares them for all, which is quick to compile.
COMMON = (A, B, C, D)


def _places(case: Case) -> tuple[Operand, ...]:
    """The operands in the order of their places in memory."""
    return COMMON if set(case.operands) <= set(COMMON) else case.operands


def declarations(operands: tuple[Operand, ...], dtype: str, layout: str) -> str:
    """Operands, each at its place."""
    lines = [f"[[maybe_unused]] {CPP[dtype]} s = {CPP[dtype]}({SCALAR});"] if CPP[dtype] in NUMERIC else []
    for number, operand in enumerate(operands):
        tile, name = operand.tile(dtype, layout), operand.name
        rows, cols = operand.valid
        if operand.is_global:
            shape = f"Shape<1, 1, 1, {ROWS}, {COLS}>, Stride<1, 1, 1, {COLS}, 1>"
            lines.append(f"GlobalTensor<{CPP[tile.dtype]}, {shape}> {name}(({CPP[tile.dtype]} *)v[2]);")
        else:
            lines.append(f"using {name}_t = {tile.cpp()}; {name}_t {name}({rows}, {cols});")
            lines.append(f"TASSIGN({name}, uint64_t({number * STRIDE}));")
    return "\n".join(lines)


@pytest.fixture(scope="module")
def core_of() -> Callable[[str], Core]:
    """The core with the cases of an element type: compiled apart, by as many processes as there are."""

    @cache
    def build(dtype: str) -> Core:
        groups: dict[tuple[str, str], list[str]] = {}
        for name, of_type, layout in _admitted():
            if of_type == dtype:
                text = declarations(_places(CASES[name]), dtype, layout)
                groups.setdefault((_function(name, layout), text), []).append(name)
        cases = Cases(flags=["-O0"])  # quick to compile; the other tests have the flags of kernels
        for (function, text), names in groups.items():
            calls = [f"if (v[3] == {NUMBERS[name]}) {{ {CASES[name].call} }}" for name in names]
            cases.add(function, "\n".join([text, *calls]))
        return cases.build()

    return build


def _function(name: str, layout: str) -> str:
    places = _places(CASES[name])
    number = next(number for other, number in NUMBERS.items() if _places(CASES[other]) == places)
    return f"calls_{number}_{LAYOUTS[layout]}"


def _same(actual: Array, expected: Array, dtype: str, tolerance: float) -> bool:
    if not tolerance:
        return np.array_equal(actual, expected, equal_nan=True)
    limit = tolerance * UNITS[dtype] * np.abs(expected)
    return bool((np.abs(actual - expected) <= limit).all())


@every("name, dtype, layout", _admitted())
def test_instruction(core_of: Callable[[str], Core], name: str, dtype: str, layout: str) -> None:
    case, core = CASES[name], core_of(dtype)
    tiles: dict[str, tuple[Tile, int]] = {}
    initial: dict[str, Array] = {}
    for operand in case.operands:
        tiles[operand.name] = operand.tile(dtype, layout), _places(case).index(operand) * STRIDE
        assert operand.values is not None
        initial[operand.name] = operand.values(dtype)
    outside = next((operand.name for operand in case.operands if operand.is_global), "")
    for rows, cols in REGIONS:
        memory = initial[outside].copy() if outside else np.zeros(1)
        for key, (tile, address) in tiles.items():
            if key != outside:
                core.put(tile, address, initial[key].astype(encode(np.zeros(1), tile.dtype).dtype))
        core.call(_function(name, layout), rows, cols, memory.ctypes.data, NUMBERS[name])
        expected = Operands(dtype, {key: decode(x.copy(), tiles[key][0].dtype) for key, x in initial.items()})
        with np.errstate(all="ignore"):
            case.model(expected, rows, cols)
        for key, (tile, address) in tiles.items():
            actual = decode(memory if key == outside else core.get(tile, address), tile.dtype)
            rounded = decode(encode(expected[key], tile.dtype), tile.dtype)
            assert _same(actual, rounded, tile.dtype, case.tolerance if tile.dtype in FLOATS else 0.0), (
                key,
                rows,
                cols,
            )
