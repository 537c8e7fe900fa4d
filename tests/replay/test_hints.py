"""Hints: one small pair of arrays for each pattern, and the exact words."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from pypto_build.replay.check import Case, find_hints
from pypto_build.replay.compare import difference, first_mismatches
from pypto_build.replay.values import STORAGE

Floats = npt.NDArray[np.float32]
RANDOM = np.random.default_rng(5).standard_normal((64, 48)).astype(np.float32) + 3


def _hints(actual: Floats, expected: Floats, dtype: str = "float32", tolerance: float = 1e-5, **more: Any) -> list[str]:
    return find_hints(Case(actual, expected, dtype, difference(actual, expected, dtype, tolerance, tolerance), **more))


def _changed(change: Callable[[Floats], Any]) -> Floats:
    """Return RANDOM with noise at the positions where `change` put a NaN."""
    marked = RANDOM.copy()
    change(marked)
    noise = np.random.default_rng(6).standard_normal(RANDOM.shape).astype(np.float32) * 10
    return np.where(np.isnan(marked), noise, marked).astype(np.float32)


def _mark(index: Any) -> Callable[[Floats], None]:
    def change(array: Floats) -> None:
        array[index] = np.nan

    return change


@pytest.mark.parametrize(
    ("actual", "hint"),
    [
        (np.zeros_like(RANDOM), "all zero: never written, or a kernel writes it through an argument declared IN"),
        (RANDOM * 2, "actual is 2 times the golden everywhere"),
        (-RANDOM, "actual is -1 times the golden everywhere"),
        (RANDOM + 0.5, "actual is the golden plus 0.5 everywhere"),
        (RANDOM - 0.25, "actual is the golden minus 0.25 everywhere"),
        (
            np.ascontiguousarray(RANDOM.T).reshape(64, 48),
            "it holds the transpose of the golden",
        ),
        (
            np.roll(RANDOM.reshape(-1), 1).reshape(64, 48),
            "the golden appears 1 element later: an offset is wrong",
        ),
        (
            np.roll(RANDOM, 4, axis=0),
            "the golden appears 192 elements (4 rows) later: an offset is wrong",
        ),
        (
            np.roll(RANDOM, -1, axis=0),
            "the golden appears 48 elements (1 row) earlier: an offset is wrong",
        ),
        (
            (RANDOM * (1 + 3e-7)).astype(np.float32),
            "within 4 units in the last place of float32: rounding; RTOL or ATOL may be too tight",
        ),
        (_changed(_mark(np.s_[56:])), "only the last 8 of 64 rows differ: a tail block; look at its valid rows"),
        (_changed(_mark(np.s_[:16])), "only the first 16 of 64 rows differ: the first block"),
        (_changed(_mark(np.s_[16:32])), "only rows 16 to 31 of 64 differ: one block"),
        (_changed(_mark(np.s_[9])), "only row 9 of 64 differs"),
        (
            _changed(_mark(np.s_[:, 40:])),
            "only the last 8 of 48 columns differ: a tail block; look at its valid columns",
        ),
        (_changed(_mark(np.s_[:, :16])), "only the first 16 of 48 columns differ: the first block"),
        (_changed(_mark(np.s_[:, 16:32])), "only columns 16 to 31 of 48 differ: one block"),
        (_changed(_mark(np.s_[:, 5::8])), "every 8th element differs, from element 5 on: a stride is wrong"),
    ],
)
def test_pattern(actual: Floats, hint: str) -> None:
    assert _hints(actual.astype(np.float32), RANDOM, tolerance=1e-7) == [hint]


def test_value_and_place() -> None:
    actual = RANDOM.copy()
    actual[48:] *= 2
    assert _hints(actual, RANDOM) == [
        "actual is 2 times the golden wherever it differs",
        "only the last 16 of 64 rows differ: a tail block; look at its valid rows",
    ]
    actual[48:] = 0
    assert _hints(actual, RANDOM)[0] == "zero wherever it differs: that part was never written"


def test_large_output_that_differs_late() -> None:
    expected = np.random.default_rng(2).standard_normal((1 << 12, 1 << 8)).astype(np.float32)
    actual = expected.copy()
    actual[4000:] += 1
    assert _hints(actual, expected) == [
        "actual is the golden plus 1 wherever it differs",
        "only the last 96 of 4096 rows differ: a tail block; look at its valid rows",
    ]


def test_no_pattern_no_hint() -> None:
    scattered = np.random.default_rng(1).random(RANDOM.shape) < 0.3
    assert _hints(_changed(_mark(scattered)), RANDOM) == []


def test_no_mismatch_no_hint() -> None:
    assert _hints(RANDOM, RANDOM) == []


def test_all_zero_and_declared_in() -> None:
    assert _hints(np.zeros_like(RANDOM), RANDOM, direction="IN") == [
        "all zero: it is declared IN, so no task writes it; declare it OUT"
    ]


def test_inout_left_as_it_was() -> None:
    initial = RANDOM - 7
    assert _hints(initial, RANDOM, direction="INOUT", initial=initial) == [
        "still its initial value everywhere: no task wrote it"
    ]


def test_nan_names_the_first_and_the_place() -> None:
    actual = RANDOM.copy()
    actual[60:, :] = np.nan
    assert _hints(actual, RANDOM) == [
        "192 NaN where the golden is finite, first at (60, 0): 0/0, inf-inf or memory that was never written",
        "only the last 4 of 64 rows differ: a tail block; look at its valid rows",
    ]


@pytest.mark.parametrize(
    ("dtype", "bits"),
    [(np.float32, np.uint32(0x7FC5A5A5)), (np.float32, np.uint32(0x7FE50000)), (np.float16, np.uint16(0x7EA5))],
)
def test_results_of_memory_that_nobody_wrote(dtype: type[Any], bits: Any) -> None:
    expected = RANDOM.astype(dtype)
    actual = expected.copy()
    actual.view(bits.dtype)[60:, :] = bits
    assert _hints(actual, expected, np.dtype(dtype).name) == [
        "192 of 3072 elements were computed from memory that no task had written, the first at (60, 0); "
        "'scons hazards' names the load",
        "only the last 4 of 64 rows differ: a tail block; look at its valid rows",
    ]


def test_infinity() -> None:
    actual = RANDOM.copy()
    actual[3, 7] = np.inf
    assert _hints(actual, RANDOM) == [
        "1 inf where the golden is finite, first at (3, 7): overflow or a division by zero",
        "only row 3 of 64 differs",
    ]


def test_nan_in_the_golden() -> None:
    expected = RANDOM.copy()
    expected[0, 0] = np.nan
    actual = RANDOM.copy()
    assert _hints(actual, expected)[0] == "the golden itself has 1 NaN, which equal nothing"


def test_integers() -> None:
    expected = np.arange(1, 65, dtype=np.int32).reshape(8, 8)
    actual = expected.copy()
    actual[:, 4:] = -3
    assert find_hints(Case(actual, expected, "int32", difference(actual, expected, "int32", 0, 0))) == [
        "only the last 4 of 8 columns differ: a tail block; look at its valid columns"
    ]


@pytest.mark.parametrize("shape", [(), (1,), (5,), (0, 4), (1, 1), (2, 3, 4)])
def test_any_shape_is_fine(shape: tuple[int, ...]) -> None:
    expected = np.ones(shape, dtype=np.float32)
    actual = (expected + np.arange(expected.size).reshape(shape) + 1).astype(np.float32)
    assert isinstance(_hints(actual, expected), list)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("change", ["all", "odd", "transposed"])
def test_a_large_output_is_never_copied(dtype: str, change: str) -> None:
    expected = np.random.default_rng(7).integers(0x3F80, 0x4080, (4096, 4096)).astype(STORAGE[dtype])
    actual = expected.copy()
    match change:
        case "all":
            actual[:] = 0
        case "odd":
            actual[:, 1::2] = 0
        case _:
            actual = np.ascontiguousarray(expected.T).reshape(expected.shape)
    tracemalloc.start()
    try:
        result = difference(actual, expected, dtype, 1e-5, 1e-5)
        first_mismatches(actual, expected, dtype, result.mask)
        hints = find_hints(Case(actual, expected, dtype, result))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert [hint.split(":")[0] for hint in hints] == {
        "all": ["all zero"],
        "odd": ["zero wherever it differs", "every 2nd element differs, from element 1 on"],
        "transposed": ["it holds the transpose of the golden"],
    }[change]
    assert peak < result.mask.nbytes + 24 * 2**20  # the mask, and pieces
