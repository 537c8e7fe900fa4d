"""Rows of a table in one test: to collect and report a test for each takes longer than most of them run."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pytest


def every(names: str | tuple[str, ...], rows: Iterable[Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Decorate a test to run with every row, as `pytest.mark.parametrize` does, but as one test.

    It runs all rows, and fails with the names of those that fail. The fixtures of the test are shared by its rows.
    """
    fields = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    cases = [dict(zip(fields, row if len(fields) > 1 else (row,), strict=True)) for row in rows]
    assert cases, f"no rows of {names}"

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(test)
        def run(**fixtures: Any) -> None:
            failed, skipped = list[tuple[str, Exception]](), list[BaseException]()
            for case in cases:
                try:
                    test(**fixtures, **case)
                except pytest.skip.Exception as error:  # noqa: PERF203 - every row runs
                    skipped.append(error)
                except Exception as error:
                    failed.append((_name(case), error))
            if failed:
                listed = "\n".join(f"[{name}] {str(error).strip().partition(chr(10))[0]}" for name, error in failed)
                raise AssertionError(f"{len(failed)} of {len(cases)} rows fail:\n{listed}") from failed[0][1]
            if len(skipped) == len(cases):
                raise skipped[0]

        signature = inspect.signature(test)
        assert set(fields) <= signature.parameters.keys(), f"{test.__name__} does not take {names}"
        rest = [parameter for name, parameter in signature.parameters.items() if name not in fields]
        run.__signature__ = signature.replace(parameters=rest)  # type: ignore[attr-defined]
        return run

    return decorate


def _name(case: Mapping[str, object]) -> str:
    texts = (str(getattr(value, "name", None) or getattr(value, "__name__", None) or value) for value in case.values())
    return "-".join(text if len(text) <= 60 else f"{text[:57]}..." for text in texts)
