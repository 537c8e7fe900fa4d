"""Errors of outputs against the reference: one case, the distribution over all, and the tolerance that follows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np

from pypto_build.facts.dtypes import TORCH
from pypto_build.replay.compare import difference
from pypto_build.replay.values import STORAGE, decode, is_float

#: Relative tolerances for each of which the absolute one is looked for that is needed besides.
RTOLS = (0.0, 1e-6, 2e-6, 5e-6, 1e-5, 2e-5, 5e-5, 1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3, 1e-2, 2e-2, 5e-2, 1e-1)
#: What a tolerance leaves beyond the largest error seen.
_MARGIN = 2.0


class OutputError(msgspec.Struct, frozen=True):
    """One output in one case.

    ``needed`` has the absolute tolerance needed with each of `RTOLS`. ``scale`` is the median size of the expected
    elements that are not zero. ``not_finite`` is set if elements differ and one of the two is not finite.
    """

    name: str
    dtype: str
    numel: int
    mismatched: int
    max_abs: float
    max_rel: float
    scale: float
    needed: tuple[float, ...]
    not_finite: bool = False


class Distribution(msgspec.Struct, frozen=True):
    """One output over all cases: 50th, 90th, 99th and 100th percentile of the largest errors, and what follows."""

    name: str
    dtype: str
    cases: int
    failed: int
    max_abs: tuple[float, float, float, float]
    max_rel: tuple[float, float, float, float]
    rtol: float | None
    atol: float | None
    reason: str


@np.errstate(all="ignore")
def compare(name: str, dtype: str, actual: bytes, expected: bytes, rtol: float, atol: float) -> OutputError:
    """One output against the reference."""
    a, e = (np.frombuffer(side, STORAGE[dtype]) for side in (actual, expected))
    found = difference(a, e, dtype, rtol, atol)
    left, right = (decode(side, dtype).astype(np.float64) for side in (a, e))
    both_nan = np.isnan(left) & np.isnan(right)
    mask: Any = found.mask & ~both_nan if is_float(dtype) else found.mask
    finite = np.isfinite(left) & np.isfinite(right)
    off, size = np.abs(left - right)[finite], np.abs(right)[finite]
    needed = tuple(float(np.maximum(off - one * size, 0).max()) if off.size else 0.0 for one in RTOLS)
    size = size[size > 0]
    scale = float(np.median(size)) if size.size else 0.0
    return OutputError(
        name, dtype, len(a), int(mask.sum()), found.max_abs, found.max_rel, scale, needed, bool((mask & ~finite).any())
    )


def distribution(errors: Sequence[OutputError], failed: int) -> Distribution:
    """Return the distribution of the errors of one output over all cases, with a proposed tolerance."""
    first = errors[0]
    rtol, atol, reason = proposal(errors)
    return Distribution(
        first.name,
        first.dtype,
        len(errors),
        failed,
        _percentiles([one.max_abs for one in errors]),
        _percentiles([one.max_rel for one in errors]),
        rtol,
        atol,
        reason,
    )


def _percentiles(values: Sequence[float]) -> tuple[float, float, float, float]:
    found = np.percentile(np.asarray(values), [50, 90, 99, 100], method="higher")
    return float(found[0]), float(found[1]), float(found[2]), float(found[3])


def proposal(errors: Sequence[OutputError]) -> tuple[float | None, float | None, str]:
    """A relative and an absolute tolerance for one output, and why; none where no tolerance makes sense."""
    row = TORCH[errors[0].dtype]
    counted = [one for one in errors if not one.not_finite]
    worst = max((one.max_abs for one in errors), default=0.0)
    if not row.is_float:
        off = sum(one.mismatched > 0 for one in errors)
        return 0.0, 0.0, f"whole numbers, {f'which differ in {off} cases' if off else 'equal in every case'}"
    if worst == 0.0 and len(counted) == len(errors):
        return 0.0, 0.0, "the same bits as the reference in every case"
    if not counted:
        return None, None, "outputs that are no finite numbers differ in every case"
    for at, rtol in enumerate(RTOLS[1:], 1):
        if rtol < row.epsilon:
            continue  # less than a rounding
        atol = max(one.needed[at] for one in counted)
        scale = float(np.median([one.scale for one in counted if one.scale] or [0.0]))
        if atol <= rtol * max(scale, 1e-30):
            units = max((one.max_abs / (2 * row.epsilon * one.scale) for one in counted if one.scale), default=0.0)
            chosen, beside = _rounded(_MARGIN * rtol), _rounded(max(_MARGIN * atol, row.epsilon * scale))
            of_size = (
                f", {units:.3g} units in the last place of {row.torch} at the median size {scale:.3g}" if units else ""
            )
            reason = f"the largest error in {len(counted)} cases is {worst:.3g}{of_size}; twice what that needs"
            return chosen, beside, reason
    return None, None, f"an error of {worst:.3g} is more than a tenth of what is expected: no tolerance, a bug"


def _rounded(value: float) -> float:
    """Up to the next 1, 2 or 5."""
    if value <= 0:
        return 0.0
    power = 10.0 ** math.floor(math.log10(value))
    step = next(step for step in (1, 2, 5, 10) if value <= step * power * (1 + 1e-9))
    return float(f"{step * power:.3g}")
