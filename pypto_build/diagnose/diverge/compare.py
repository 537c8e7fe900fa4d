"""Comparison of two versions of a tensor: the elements that differ, and their values."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from pypto_build.replay.values import Array, decode, is_float, storage

#: Relative difference that is explained by the order of a sum, or by one unit in the last place.
_RTOL = {"float32": 4e-5, "float16": 1.0 / 1024, "bfloat16": 1.0 / 128}
#: Share of elements that may differ by a unit in the last place, or by one, because of a different rounding.
_ROUNDED = 0.02
_SMALL = 1e-3  # of the maximum
_CONTEXT = 4


@dataclass(frozen=True)
class Limits:
    """Allowed differences. None allows differences that the rounding of the element type explains."""

    rtol: float | None = None
    atol: float | None = None


@dataclass(frozen=True)
class Difference:
    """Elements that differ: their count, the flat index of the first one, and both values there.

    ``near_actual`` and ``near_expected`` are the values around it, from flat index ``around`` on.
    """

    count: int
    numel: int
    first: int
    actual: float
    expected: float
    max_abs: float
    around: int = 0
    near_actual: list[float] = field(default_factory=list)
    near_expected: list[float] = field(default_factory=list)


@np.errstate(all="ignore")
def mask_of(actual: Array, expected: Array, dtype: str, limits: Limits) -> npt.NDArray[np.bool_]:
    """Return a mask of the stored elements that differ beyond the limits.

    NaN equals NaN here, because unwritten elements may hold NaN on both sides.
    """
    if actual.tobytes() == expected.tobytes():
        return np.zeros(actual.shape, dtype=np.bool_)
    a, e = decode(actual, dtype), decode(expected, dtype)
    if not is_float(dtype):
        return _integers_differ(a, e, limits)
    a, e = a.astype(np.float64), e.astype(np.float64)
    if dtype != "float32" and limits.rtol is None and limits.atol is None:
        off = (a != e) & ~(np.isnan(a) & np.isnan(e))
        if np.count_nonzero(off) > max(_ROUNDED * off.size, 2):
            return np.asarray(off)
    rtol = _RTOL.get(dtype, 0.07) if limits.rtol is None else limits.rtol
    finite = np.abs(e[np.isfinite(e)])
    scale = float(finite.max()) if finite.size else 0.0
    atol = 0.25 * rtol * scale if limits.atol is None else limits.atol
    close = np.abs(a - e) <= atol + rtol * np.abs(e)
    mask = np.asarray(~(close | (a == e) | (np.isnan(a) & np.isnan(e))))
    if limits.rtol is None and limits.atol is None and np.count_nonzero(mask) <= _ROUNDED * mask.size:
        # few and small differences: an operand was rounded to 16 bits in the other direction
        mask &= ~(np.abs(a - e) <= _SMALL * scale)
    return mask


def _integers_differ(a: Array, e: Array, limits: Limits) -> npt.NDArray[np.bool_]:
    """Return a mask of the integers that differ. By default, a few differences of one count as rounding ties."""
    mask = np.asarray(a != e)
    if limits.rtol is None and limits.atol is None and a.dtype != np.bool_:
        off = np.abs(a.astype(np.float64) - e.astype(np.float64))[mask]
        if off.size <= max(_ROUNDED * a.size, 1) and (off <= 1).all():
            return np.zeros(a.shape, dtype=np.bool_)
    if limits.atol is not None and a.dtype != np.bool_:
        return np.asarray(np.abs(a.astype(np.float64) - e.astype(np.float64)) > limits.atol)
    return mask


@np.errstate(all="ignore")
def describe(actual: Array, expected: Array, dtype: str, mask: npt.NDArray[np.bool_]) -> Difference:
    """Return the difference that a mask marks. At least one element must be marked."""
    flat = mask.reshape(-1)
    a, e = (decode(side.reshape(-1), dtype).astype(np.float64) for side in (actual, expected))
    first = int(np.argmax(flat))
    start = max(first - 1, 0)
    near = slice(start, min(start + _CONTEXT, flat.size))
    gap = np.abs(a - e)[flat]
    finite = gap[np.isfinite(gap)]
    return Difference(
        int(np.count_nonzero(flat)), flat.size, first, float(a[first]), float(e[first]),
        float(finite.max()) if finite.size else float("inf"), start, a[near].tolist(), e[near].tolist(),
    )  # fmt: skip


def compare_bytes(
    actual: bytes | memoryview, expected: bytes | memoryview, dtype: str, limits: Limits
) -> Difference | None:
    """Return the difference of two byte strings of stored elements, or None if there is none."""
    left, right = (storage(side, dtype, (-1,)) for side in (actual, expected))
    return compare(left, right, dtype, limits)


def compare(actual: Array, expected: Array, dtype: str, limits: Limits) -> Difference | None:
    """Return the difference of two arrays of stored elements, or None if there is none."""
    mask = mask_of(actual, expected, dtype, limits)
    return describe(actual, expected, dtype, mask) if mask.any() else None
