"""Common parts of all comparators: the protocol, the name that records parameters, the valid prefix, and the
listing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from pypto_build.replay.values import Array

Arrays = Mapping[str, Array]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
Result = tuple[bool, str]


class Comparator(Protocol):
    """The protocol: takes decoded arrays, returns `(ok, detail)`. `detail` explains a failure, or comments on a pass.

    `inputs` are the pure inputs and the scalars (0-dim), with their values from before the run.
    """

    __name__: str

    def __call__(
        self,
        actual: Array,
        expected: Array,
        *,
        actual_outputs: Arrays,
        expected_outputs: Arrays,
        inputs: Arrays,
        rtol: float,
        atol: float,
    ) -> Result: ...


def named(name: str, parameters: Mapping[str, Any], compare: Callable[..., Result]) -> Comparator:
    """Return `compare` under the name `name(parameter=value, …)`."""
    compare.__name__ = f"{name}({', '.join(f'{key}={value!r}' for key, value in parameters.items())})"
    comparator: Comparator = compare
    return comparator


def as_float32(array: Array) -> Floats:
    """Return values rounded to float32, in which the ratio rules are stated, widened so that differences are exact."""
    return array.astype(np.float32).astype(np.float64)


def valid_prefix(
    actual: Array, expected: Array, valid_rows: int | None, valid_axis: int, zero_tail: bool
) -> tuple[Array, Array, str]:
    """Return the compared part of both sides, and an error about the rest ("" if there is none).

    `valid_rows` leading entries along `valid_axis` are compared; with `zero_tail` all others of `actual` must be zero.
    """
    if valid_rows is None:
        return actual, expected, ""
    if not -actual.ndim <= valid_axis < actual.ndim:
        return actual, expected, f"valid_axis={valid_axis} is not an axis of shape {actual.shape}"
    size = actual.shape[valid_axis]
    if not 0 <= valid_rows <= size:
        return actual, expected, f"valid_rows={valid_rows} is outside 0..{size}, the size of axis {valid_axis}"
    ours, theirs = (np.moveaxis(side, valid_axis, 0) for side in (actual, expected))
    stray = int(np.count_nonzero(ours[valid_rows:])) if zero_tail else 0
    wrong = f"{stray} non-zero elements after the first {valid_rows} of axis {valid_axis}" if stray else ""
    return ours[:valid_rows], theirs[:valid_rows], wrong


def listing(bad: Bools, max_show: int, line: Callable[[int], str]) -> str:
    """Return `line(flat index)` for the first `max_show` bad elements, one below the other."""
    return "".join(f"\n      {line(int(at))}" for at in np.flatnonzero(bad)[:max_show])
