"""The default comparison: exact counts, errors and positions."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from pypto_build.replay.compare import difference, first_mismatches
from pypto_build.replay.values import encode
from pypto_build.replay.verdict import Mismatch

NAN, INF = float("nan"), float("inf")


def _floats(*values: float) -> npt.NDArray[np.float32]:
    return np.array(values, dtype=np.float32)


@pytest.mark.parametrize(
    ("actual", "expected", "mismatched"),
    [
        ([1.0, 2.0], [1.0, 2.0], []),
        ([1.0, 2.1], [1.0, 2.0], [1]),
        ([2.02], [2.0], []),  # on the limit: atol 0 + rtol 0.01 * 2, and 2.02 is below it in float32
        ([NAN], [NAN], [0]),
        ([NAN], [1.0], [0]),
        ([1.0], [NAN], [0]),
        ([INF], [INF], []),
        ([INF], [-INF], [0]),
        ([INF], [1.0], [0]),
        ([1.0], [INF], [0]),
        ([], [], []),
    ],
)
def test_floats(actual: list[float], expected: list[float], mismatched: list[int]) -> None:
    result = difference(_floats(*actual), _floats(*expected), "float32", 0.01, 0.0)
    assert np.flatnonzero(result.mask).tolist() == mismatched


def test_errors_and_where_they_are() -> None:
    actual, expected = _floats(1.5, 10.0, 0.25, NAN, 5.0), _floats(1.0, 8.0, 0.0, 1.0, INF)
    result = difference(actual, expected, "float32", 0.0, 0.0)
    assert result.count == 5
    assert (result.max_abs, result.max_abs_at) == (2.0, 1)
    assert (result.max_rel, result.max_rel_at) == (0.5, 0)


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64", "uint8", "uint64", "bool"])
def test_integers_are_exact_whatever_the_tolerance(dtype: str) -> None:
    actual = np.array([0, 1, 1], dtype=dtype)
    expected = np.array([0, 1, 0], dtype=dtype)
    result = difference(actual, expected, dtype, 10.0, 10.0)
    assert (np.flatnonzero(result.mask).tolist(), result.max_abs) == ([2], 1.0)


def test_large_integers_that_float64_cannot_tell_apart() -> None:
    actual, expected = np.array([2**62 + 1]), np.array([2**62])
    assert difference(actual, expected, "int64", 0.0, 0.0).count == 1


def test_half_precision_differences_are_not_rounded_away() -> None:
    actual, expected = np.array([60000, -60000], dtype=np.float16), np.array([-60000, -60000], dtype=np.float16)
    result = difference(actual, expected, "float16", 0.0, 0.0)
    assert (result.count, result.max_abs) == (1, 120000.0)


def test_bfloat16_is_compared_by_value() -> None:
    actual, expected = encode(_floats(1.0, 2.0), "bfloat16"), encode(_floats(1.0, 2.03), "bfloat16")
    result = difference(actual, expected, "bfloat16", 0.0, 0.0)
    assert (result.count, result.max_abs) == (1, 0.03125)


def test_chunks_make_no_difference() -> None:
    expected = np.zeros((1 << 18) + 7, dtype=np.float32)
    actual = expected.copy()
    actual[[0, (1 << 18) - 1, 1 << 18, (1 << 18) + 6]] = [1, 2, 4, 3]
    result = difference(actual, expected, "float32", 0.0, 0.5)
    assert np.flatnonzero(result.mask).tolist() == [0, (1 << 18) - 1, 1 << 18, (1 << 18) + 6]
    assert (result.max_abs, result.max_abs_at) == (4.0, 1 << 18)


def test_first_mismatches_have_coordinates_and_plain_values() -> None:
    expected = np.zeros((2, 3, 4), dtype=np.float32)
    actual = expected.copy()
    actual[0, 1, 2], actual[1, 2, 3] = NAN, 7.0
    mask = difference(actual, expected, "float32", 0.0, 0.0).mask
    assert first_mismatches(actual, expected, "float32", mask) == [
        Mismatch([0, 1, 2], "nan", 0.0),
        Mismatch([1, 2, 3], 7.0, 0.0),
    ]


def test_only_the_first_ten_are_listed() -> None:
    actual, expected = np.ones(100, dtype=np.int32), np.zeros(100, dtype=np.int32)
    mask = difference(actual, expected, "int32", 0.0, 0.0).mask
    assert [item.index for item in first_mismatches(actual, expected, "int32", mask)] == [[i] for i in range(10)]
