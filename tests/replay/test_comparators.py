"""Comparators: rules, their names, and what a failure says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pypto_build.artifact.errors import ArtifactError
from pypto_build.replay.comparators import (
    Comparator,
    error_distribution,
    mapped_pool_ratio_allclose,
    parse_comparator,
    ratio_allclose,
    ratio_reldiff,
    topk_pair_compare,
)

NAN, INF = float("nan"), float("inf")


def _compare(comparator: Comparator, actual: Any, expected: Any, **options: Any) -> tuple[bool, str]:
    rest: dict[str, Any] = {
        "actual_outputs": {},
        "expected_outputs": {},
        "inputs": {},
        "rtol": 1e-5,
        "atol": 1e-5,
    } | options
    return comparator(np.asarray(actual), np.asarray(expected), **rest)


def _ones_with(count: int, size: int = 1000, value: float = 2.0) -> Any:
    array = np.ones(size, dtype=np.float32)
    array[:count] = value
    return array


# --- ratio_allclose ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("bad", "ok"), [(0, True), (5, True), (6, False)])
def test_ratio_allclose_counts(bad: int, ok: bool) -> None:
    assert _compare(ratio_allclose(), _ones_with(bad), np.ones(1000, dtype=np.float32))[0] is ok


def test_ratio_allclose_says_what_failed() -> None:
    comparator = ratio_allclose(atol=0.1, rtol=0.0, max_error_ratio=0.001, max_show=2)
    actual, expected = np.ones((2, 500), dtype=np.float32), np.ones((2, 500), dtype=np.float32)
    actual[0, 3], actual[1, 7], actual[1, 8] = 1.5, 4.0, 2.0
    assert _compare(comparator, actual, expected) == (
        False,
        "error_count=3/1000 ratio=0.003 allowed=1 atol=0.1 rtol=0"
        "\n      max abs diff 3 at (1, 7), tolerance 0.1"
        "\n      [3] actual=1.5, expected=1, abs_diff=0.5, tolerance=0.1"
        "\n      [507] actual=4, expected=1, abs_diff=3, tolerance=0.1",
    )
    assert comparator.__name__ == (
        "ratio_allclose(atol=0.1, rtol=0.0, max_error_ratio=0.001, valid_rows=None, valid_axis=0, zero_tail=False)"
    )


@pytest.mark.parametrize("value", [NAN, INF, -INF])
def test_ratio_allclose_never_takes_what_is_not_finite(value: float) -> None:
    both = np.full(10, value, dtype=np.float32)
    assert _compare(ratio_allclose(max_error_ratio=0.5), both, both)[0] is False


def test_ratio_allclose_takes_the_replays_tolerances() -> None:
    assert _compare(ratio_allclose(max_error_ratio=0), [1.01], [1.0], rtol=0.1)[0]
    assert not _compare(ratio_allclose(max_error_ratio=0), [1.01], [1.0], rtol=1e-3)[0]


@pytest.mark.parametrize(
    ("parameters", "result"),
    [
        ({"valid_rows": 2}, (True, "")),
        ({"valid_rows": 0}, (True, "")),
        ({"valid_rows": 2, "zero_tail": True}, (False, "3 non-zero elements after the first 2 of axis 0")),
        ({"valid_rows": 4}, (False, "valid_rows=4 is outside 0..3, the size of axis 0")),
        ({"valid_rows": 1, "valid_axis": 2}, (False, "valid_axis=2 is not an axis of shape (3, 3)")),
    ],
)
@pytest.mark.parametrize("factory", [ratio_allclose, ratio_reldiff])
def test_valid_prefix(factory: Any, parameters: dict[str, Any], result: tuple[bool, str]) -> None:
    actual, expected = np.ones((3, 3), dtype=np.float32), np.ones((3, 3), dtype=np.float32)
    actual[2] = 9
    assert _compare(factory(**parameters), actual, expected) == result


# --- ratio_reldiff ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("actual", "expected", "ok"),
    [
        (1.009, 1.0, True),  # absolute difference below the threshold
        (1.02, 1.0, False),
        (1005.0, 1000.0, True),  # relative
        (0.0, 0.005, True),
        (NAN, 1.0, False),
        (INF, INF, False),
    ],
)
def test_ratio_reldiff_of_one_element(actual: float, expected: float, ok: bool) -> None:
    assert _compare(ratio_reldiff(pct_thd=0.0), [actual], [expected])[0] is ok
    assert _compare(ratio_reldiff(pct_thd=0.0), [expected], [actual])[0] is ok


def test_ratio_reldiff_gives_its_reasons() -> None:
    comparator = ratio_reldiff(pct_thd=0.001, max_diff_hd=0.5, max_show=1)
    actual = _ones_with(2, value=3.0)
    assert _compare(comparator, actual, np.ones(1000, dtype=np.float32)) == (
        False,
        "error_count=2/1000 exceeds allowed=1 AND worst rdiff=0.666667 is not below max_diff_hd=0.5"
        "\n      [0] actual=3, expected=1, abs_diff=2, rdiff=0.666667",
    )


# --- mapped_pool_ratio_allclose ---------------------------------------------------------------------------------------


def _pool(**change: Any) -> tuple[bool, str]:
    parameters: dict[str, Any] = {"mapping_shape": (3,), "block_size": 4} | change.pop("parameters", {})
    expected = np.arange(2 * 4 * 3, dtype=np.float32).reshape(2, 4, 3)
    actual = expected.copy()
    for row, value in change.pop("write", {}).items():
        actual.reshape(8, 3)[row] = value
    mapping = np.asarray(change.pop("mapping", [1, -1, 6]))
    if parameters.get("leading_rank_axis"):
        actual, expected = actual[None], expected[None]
    return _compare(mapped_pool_ratio_allclose("slots", **parameters), actual, expected, inputs={"slots": mapping})


@pytest.mark.parametrize(
    ("change", "result"),
    [
        ({}, (True, "")),
        (
            {"write": {6: 99}},
            (False, "pool rank 0: error_count=3/6 exceeds allowed=0 in mapped rows, first in row 6"),
        ),
        (
            {"write": {2: 99}},
            (False, "pool rank 0 row 2: 3 values changed in a row the mapping does not name"),
        ),
        ({"mapping": [1, 1, -1]}, (False, "mapping 'slots' names row 1 twice in rank 0")),
        ({"mapping": [1, 8, -1]}, (False, "mapping 'slots' holds 8, outside -1..7")),
        ({"mapping": [1, -2, 3]}, (False, "mapping 'slots' holds -2, outside -1..7")),
        ({"mapping": [1.0, 2.0, 3.0]}, (False, "mapping 'slots' has dtype float64, expected an integer")),
        ({"mapping": [1, 2]}, (False, "mapping 'slots' has shape (2,), expected (3,)")),
        (
            {"parameters": {"block_size": 8}},
            (False, "pool: shape (2, 4, 3) is not [blocks, block, ...] with block_size=8"),
        ),
        (
            {"parameters": {"leading_rank_axis": True}},
            (False, "mapping 'slots' has shape (3,), expected 1 ranks first"),
        ),
        (
            {"parameters": {"leading_rank_axis": True, "mapping_shape": (1, 3)}, "mapping": [[1, -1, 6]]},
            (True, ""),
        ),
    ],
)
def test_mapped_pool(change: dict[str, Any], result: tuple[bool, str]) -> None:
    assert _pool(**change) == result


def test_mapped_pool_without_its_mapping() -> None:
    comparator = mapped_pool_ratio_allclose("slots", mapping_shape=(1,), block_size=1)
    assert _compare(comparator, np.ones((1, 1)), np.ones((1, 1))) == (
        False,
        "mapping 'slots' is not an input of this artifact",
    )


# --- topk_pair_compare ------------------------------------------------------------------------------------------------


def test_topk_tolerates_another_order_of_equal_values() -> None:
    values = np.array([[9.0, 5.0, 5.0, 1.0]])
    assert _compare(topk_pair_compare("v"), [[3, 1, 2, 0]], [[3, 2, 1, 0]], actual_outputs={"v": values}) == (True, "")


def test_topk_rejects_an_index_whose_value_is_out_of_order() -> None:
    values = np.array([[9.0, 5.0, 7.0, 1.0]])
    assert _compare(topk_pair_compare("v"), [[3, 1, 2, 0]], [[3, 2, 1, 0]], actual_outputs={"v": values}) == (
        False,
        "2 indices differ where the values are out of order"
        "\n      (0, 1) actual_idx=1, expected_idx=2, score=5, neighbours=[9.0, 5.0, 7.0]"
        "\n      (0, 2) actual_idx=2, expected_idx=1, score=7, neighbours=[5.0, 7.0, 1.0]",
    )


def test_topk_ascending_along_another_dimension() -> None:
    values = np.array([[1.0], [2.0], [2.0]])
    comparator = topk_pair_compare("v", dim=0, descending=False)
    assert _compare(comparator, [[0], [2], [1]], [[0], [1], [2]], actual_outputs={"v": values}) == (True, "")


def test_topk_without_its_values() -> None:
    assert _compare(topk_pair_compare("v"), [0], [0]) == (False, "'v' is not an output of this artifact")


# --- error_distribution -----------------------------------------------------------------------------------------------


def test_error_distribution_measures_and_passes() -> None:
    comparator = error_distribution(diff_thds=(0.1,), quantiles=(0.5, 1.0))
    assert _compare(comparator, [3.0, 4.0], [3.0, 5.0]) == (
        True,
        "rel-L2=0.171499 cosine=0.994691794"
        "\n      share of rdiff >0.1: 50.0000%"
        "\n      rdiff: p50=0.1  p100=0.2"
        "\n      abs diff: p50=0.5  p100=1"
        "\n      abs golden: p50=4  p100=5",
    )


@pytest.mark.parametrize(("always_pass", "ok"), [(True, True), (False, False)])
def test_error_distribution_and_nan(always_pass: bool, ok: bool) -> None:
    result = _compare(error_distribution(always_pass=always_pass), [NAN, 1.0], [1.0, 1.0])
    assert (result[0], result[1].splitlines()[0]) == (ok, "1 NaN or inf in the actual output")


# --- on a command line ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "name"),
    [
        (
            "ratio_allclose",
            "ratio_allclose(atol=None, rtol=None, max_error_ratio=0.005, "
            "valid_rows=None, valid_axis=0, zero_tail=False)",
        ),
        ("topk_pair_compare('vals', dim=0)", "topk_pair_compare(vals_name='vals', dim=0, descending=True)"),
    ],
)
def test_parse(spec: str, name: str) -> None:
    assert parse_comparator(spec).__name__ == name


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("ratio_allclose(", "is not a call such as ratio_allclose(max_error_ratio=0.01)"),
        (
            "allclose(1)",
            "is not a comparator; use one of ratio_allclose, ratio_reldiff, mapped_pool_ratio_allclose, "
            "topk_pair_compare, error_distribution",
        ),
        (
            "__import__('os').system('true')",
            "is not a comparator; use one of ratio_allclose, ratio_reldiff, mapped_pool_ratio_allclose, "
            "topk_pair_compare, error_distribution",
        ),
        (
            "topk_pair_compare(open('x'))",
            (
                "its arguments must be literal numbers or strings; topk_pair_compare(vals_name, *, "
                "dim=-1, descending=True, max_show=10)"
            ),
        ),
        (
            "topk_pair_compare('v', depth=1)",
            "topk_pair_compare() got an unexpected keyword argument 'depth'; "
            "topk_pair_compare(vals_name, *, dim=-1, descending=True, max_show=10)",
        ),
    ],
)
def test_parse_errors(spec: str, message: str) -> None:
    with pytest.raises(ArtifactError) as error:
        parse_comparator(spec)
    assert (str(error.value), error.value.kind) == (f"--comparator {spec}: {message}", "usage_error")
