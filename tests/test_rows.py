"""Rows in one test: all of them run, and the failing ones are named."""

from __future__ import annotations

import inspect

import pytest

from tests.rows import every


def test_every_row_runs_and_those_that_fail_are_named() -> None:
    seen = []

    @every("a, b", [(1, 2), (3, 3), (4, 5), (6, 6)])
    @every("c", ["x", "y"])
    def check(a: int, b: int, c: str, fixture: str) -> None:
        seen.append((a, c, fixture))
        assert a != b or c == "x", "they differ"

    assert list(inspect.signature(check).parameters) == ["fixture"]
    with pytest.raises(AssertionError) as error:
        check(fixture="f")
    assert seen == [(a, c, "f") for a in (1, 3, 4, 6) for c in ("x", "y")]
    assert str(error.value).splitlines() == [
        "2 of 4 rows fail:",
        "[3-3] 1 of 2 rows fail:",
        "[6-6] 1 of 2 rows fail:",
    ]
    assert "[y] they differ" in str(error.value.__cause__)


def test_rows_that_are_skipped_hide_no_failure() -> None:
    @every("a", [1, 2])
    def some(a: int, first: int) -> None:
        if a <= first:
            pytest.skip("not here")
        raise ValueError("wrong")

    with pytest.raises(AssertionError, match=r"1 of 2 rows fail:\n\[2\] wrong"):
        some(first=1)
    with pytest.raises(pytest.skip.Exception, match="not here"):
        some(first=2)


def test_a_table_without_rows_and_a_name_that_the_test_lacks_are_refused() -> None:
    with pytest.raises(AssertionError, match="no rows of a"):
        every("a", [])
    with pytest.raises(AssertionError, match="does not take b"):
        every("b", [1])(lambda a: None)
