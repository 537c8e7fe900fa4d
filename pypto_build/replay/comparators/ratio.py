"""Comparators that allow a share of the elements to be off: by tolerance, and by relative difference."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from pypto_build.replay.comparators.base import (
    Bools,
    Comparator,
    Floats,
    Result,
    as_float32,
    listing,
    named,
    valid_prefix,
)
from pypto_build.replay.compare import coordinates
from pypto_build.replay.values import Array

#: Below this size a value counts as noise around zero in the relative rule.
_SMALL = 2.0**-14


def out_of_tolerance(actual: Floats, expected: Floats, rtol: float, atol: float) -> Bools:
    """Elements beyond `atol + rtol * abs(expected)`; any NaN or infinity on either side is beyond."""
    with np.errstate(invalid="ignore"):
        off = ~(np.abs(actual - expected) <= atol + rtol * np.abs(expected))
    bad: Bools = off | ~np.isfinite(actual) | ~np.isfinite(expected)
    return bad


def ratio_allclose(
    atol: float | None = None,
    rtol: float | None = None,
    max_error_ratio: float = 0.005,
    max_show: int = 10,
    valid_rows: int | None = None,
    valid_axis: int = 0,
    zero_tail: bool = False,
) -> Comparator:
    """At most `round(max_error_ratio * numel)` elements out of tolerance; `atol`, `rtol` default to the replay's."""
    parameters = {
        "atol": atol,
        "rtol": rtol,
        "max_error_ratio": max_error_ratio,
        "valid_rows": valid_rows,
        "valid_axis": valid_axis,
        "zero_tail": zero_tail,
    }
    fixed_atol, fixed_rtol = atol, rtol

    def compare(actual: Array, expected: Array, *, rtol: float, atol: float, **_: Any) -> Result:
        used_atol = atol if fixed_atol is None else fixed_atol
        used_rtol = rtol if fixed_rtol is None else fixed_rtol
        kept_actual, kept_expected, wrong = valid_prefix(actual, expected, valid_rows, valid_axis, zero_tail)
        if wrong:
            return False, wrong
        a, e = as_float32(kept_actual), as_float32(kept_expected)
        bad = out_of_tolerance(a, e, used_rtol, used_atol)
        count, allowed = int(np.count_nonzero(bad)), round(max_error_ratio * bad.size)
        if count <= allowed:
            return True, ""
        detail = f"error_count={count}/{bad.size} ratio={count / bad.size:.6g} allowed={allowed}"
        detail += f" atol={used_atol:g} rtol={used_rtol:g}"
        return False, detail + _largest(a, e, used_rtol, used_atol) + listing(
            bad, max_show, _line(a, e, used_rtol, used_atol)
        )

    return named("ratio_allclose", parameters, compare)


def _largest(a: Floats, e: Floats, rtol: float, atol: float) -> str:
    with np.errstate(invalid="ignore"):
        delta = np.abs(a - e)
    if not np.isfinite(delta).any():
        return ""
    at = int(np.argmax(np.where(np.isfinite(delta), delta, -1.0)))
    tolerance = atol + rtol * abs(float(e.flat[at]))
    return f"\n      max abs diff {delta.flat[at]:.6g} at {coordinates(at, a.shape)}, tolerance {tolerance:.6g}"


def _line(a: Floats, e: Floats, rtol: float, atol: float) -> Callable[[int], str]:
    def line(at: int) -> str:
        x, y = float(a.flat[at]), float(e.flat[at])
        return (
            f"[{at}] actual={x:.8g}, expected={y:.8g}, abs_diff={abs(x - y):.6g}, tolerance={atol + rtol * abs(y):.6g}"
        )

    return line


def ratio_reldiff(
    diff_thd: float = 0.01,
    pct_thd: float = 0.05,
    max_diff_hd: float = math.inf,
    max_show: int = 10,
    valid_rows: int | None = None,
    valid_axis: int = 0,
    zero_tail: bool = False,
) -> Comparator:
    """At most `round(pct_thd * numel)` relative differences beyond `diff_thd`, and all below `max_diff_hd`.

    The difference is symmetric: `abs(a - e) / (max(abs(a), abs(e), 2**-14 / diff_thd) + 1e-9)`, and the absolute one
    where that is below `diff_thd`.
    """
    parameters = {
        "diff_thd": diff_thd,
        "pct_thd": pct_thd,
        "max_diff_hd": max_diff_hd,
        "valid_rows": valid_rows,
        "valid_axis": valid_axis,
        "zero_tail": zero_tail,
    }

    def compare(actual: Array, expected: Array, **_: Any) -> Result:
        kept_actual, kept_expected, wrong = valid_prefix(actual, expected, valid_rows, valid_axis, zero_tail)
        if wrong:
            return False, wrong
        a, e = as_float32(kept_actual), as_float32(kept_expected)
        delta, relative = relative_difference(a, e, diff_thd)
        bad = ~(relative <= diff_thd)
        count, allowed = int(np.count_nonzero(bad)), round(pct_thd * bad.size)
        worst = float(np.max(np.where(np.isnan(relative[bad]), np.inf, relative[bad]), initial=0.0))
        reasons = []
        if count > allowed:
            reasons.append(f"error_count={count}/{bad.size} exceeds allowed={allowed}")
        if count and worst >= max_diff_hd:
            reasons.append(f"worst rdiff={worst:.6g} is not below max_diff_hd={max_diff_hd:g}")
        if not reasons:
            return True, ""

        def line(at: int) -> str:
            return (
                f"[{at}] actual={a.flat[at]:.8g}, expected={e.flat[at]:.8g}, "
                f"abs_diff={delta.flat[at]:.6g}, rdiff={relative.flat[at]:.6g}"
            )

        return False, " AND ".join(reasons) + listing(bad, max_show, line)

    return named("ratio_reldiff", parameters, compare)


def relative_difference(a: Floats, e: Floats, diff_thd: float) -> tuple[Floats, Floats]:
    """Absolute and symmetric relative difference of the rule above."""
    with np.errstate(invalid="ignore"):
        delta = np.abs(a - e)
        size = np.maximum(np.maximum(np.abs(a), np.abs(e)), _SMALL / diff_thd) + 1e-9
        return delta, np.where(delta < diff_thd, delta, delta / size)
