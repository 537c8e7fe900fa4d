"""The default comparison: element by element, `abs(actual - expected) <= atol + rtol * abs(expected)`.

Integers and bool compare exactly. NaN equals nothing, an infinity only itself. Floating-point elements are compared in
float64 piece by piece, so neither half-precision rounding nor the size of a tensor matters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pypto_build.replay.values import Array, decode, is_float
from pypto_build.replay.verdict import Mismatch, json_number

# Evaluates large arrays in pieces, so that no copy of all elements is made.

Flags = npt.NDArray[np.bool_]

#: Elements of a piece; the working set stays in the cache.
PIECE = 1 << 18


def pieces(size: int) -> Iterator[slice]:
    """Yield slices that cover ``size`` flat elements in order."""
    return (slice(start, min(start + PIECE, size)) for start in range(0, size, PIECE))


def count_where(size: int, test: Callable[[slice], Flags]) -> tuple[int, int]:
    """Return how many of ``size`` flat elements pass the test, and the first of them (-1: none)."""
    count, first = 0, -1
    for part in pieces(size):
        flags = test(part)
        hits = int(np.count_nonzero(flags))
        if hits and not count:
            first = part.start + int(np.argmax(flags))
        count += hits
    return count, first


def first_positions(flags: Flags, limit: int) -> npt.NDArray[np.intp]:
    """Return the first ``limit`` flat positions whose flags are set, for flags of any shape."""
    flat, positions, missing = flags.reshape(-1), [np.zeros(0, np.intp)], limit
    for part in pieces(flat.size):
        here = np.flatnonzero(flat[part])[:missing] + part.start
        positions.append(here)
        missing -= here.size
        if not missing:
            break
    return np.concatenate(positions)


class Numbers:
    """The elements of a stored array as numbers; they are decoded when an index is read."""

    def __init__(self, stored: Array, dtype: str) -> None:
        self.stored, self.dtype = stored, dtype
        self._flat = stored.reshape(-1)

    def __getitem__(self, where: slice | npt.NDArray[np.intp]) -> Array:
        return decode(self._flat[where], self.dtype)

    @property
    def size(self) -> int:
        """Return the number of elements."""
        return self._flat.size


#: Mismatches listed in the verdict and in the report.
MAX_SHOWN = 10


@dataclass(frozen=True)
class Difference:
    """The difference of two tensors: `mask` marks the mismatched elements in the tensor's shape.

    `max_abs` and `max_rel` are maxima over elements that are finite on both sides. `max_rel` also leaves out elements
    whose expected value is zero. Positions are flat indices, -1 if there is no such element.
    """

    mask: npt.NDArray[np.bool_]
    max_abs: float = 0.0
    max_abs_at: int = -1
    max_rel: float = 0.0
    max_rel_at: int = -1

    @property
    def count(self) -> int:
        """Return the number of mismatched elements."""
        return int(np.count_nonzero(self.mask))


@np.errstate(all="ignore")
def difference(actual: Array, expected: Array, dtype: str, rtol: float, atol: float) -> Difference:
    """Compare stored elements (see `values.STORAGE`) of equal shape and dtype."""
    mask = np.zeros(actual.shape, dtype=np.bool_)
    flat_mask, flat_actual, flat_expected = mask.reshape(-1), actual.reshape(-1), expected.reshape(-1)
    max_abs = max_rel = 0.0
    max_abs_at = max_rel_at = -1
    for part in pieces(flat_actual.size):
        stored_a, stored_e = flat_actual[part], flat_expected[part]
        if np.array_equal(stored_a, stored_e) and not _may_hold_nan(stored_e, dtype):
            continue
        a, e = decode(stored_a, dtype), decode(stored_e, dtype)
        delta, size = _distance(a, e)
        if is_float(dtype):
            close = np.isfinite(delta) & (delta <= atol + rtol * size)
            flat_mask[part] = ~(close | (a == e))
        else:
            flat_mask[part] = a != e
        relative = np.where(size > 0, delta / size, 0.0)
        finite = np.isfinite(delta)
        if finite.any():
            at = int(np.argmax(np.where(finite, delta, -1.0)))
            if delta[at] > max_abs:
                max_abs, max_abs_at = float(delta[at]), part.start + at
            at = int(np.argmax(np.where(finite & np.isfinite(relative), relative, -1.0)))
            if relative[at] > max_rel:
                max_rel, max_rel_at = float(relative[at]), part.start + at
    return Difference(mask, max_abs, max_abs_at, max_rel, max_rel_at)


def _may_hold_nan(stored: Array, dtype: str) -> bool:
    return is_float(dtype) and bool(np.isnan(decode(stored, dtype)).any())


def _distance(a: Array, e: Array) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return the absolute difference and the size of the expected value, in float64."""
    wide_a, wide_e = a.astype(np.float64), e.astype(np.float64)
    return np.abs(wide_a - wide_e), np.abs(wide_e)


def coordinates(flat: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the index of an element in each dimension."""
    return tuple(int(i) for i in np.unravel_index(flat, shape)) if shape else ()


def first_mismatches(actual: Array, expected: Array, dtype: str, mask: npt.NDArray[np.bool_]) -> list[Mismatch]:
    """Return the first `MAX_SHOWN` mismatched elements in row-major order, values exactly as stored."""
    positions = first_positions(mask, MAX_SHOWN)
    values = [decode(side.reshape(-1)[positions], dtype).tolist() for side in (actual, expected)]
    return [
        Mismatch(list(coordinates(int(at), mask.shape)), json_number(a), json_number(e))
        for at, a, e in zip(positions, *values, strict=True)
    ]
