"""A comparator that reports the distribution of an output's errors, and usually passes."""

from __future__ import annotations

from typing import Any

import numpy as np

from pypto_build.replay.comparators.base import Comparator, Floats, Result, as_float32, named
from pypto_build.replay.comparators.ratio import relative_difference
from pypto_build.replay.values import Array


def error_distribution(
    diff_thds: tuple[float, ...] = (1e-3, 3e-3, 5e-3, 1e-2, 3e-2, 5e-2),
    quantiles: tuple[float, ...] = (0.5, 0.9, 0.99, 0.999, 0.9999, 1.0),
    always_pass: bool = True,
) -> Comparator:
    """Relative L2 error, cosine, the share of elements beyond each threshold, and percentiles.

    Fails only with `always_pass=False` and a NaN or infinity in the actual output.
    """
    parameters = {"diff_thds": tuple(diff_thds), "quantiles": tuple(quantiles), "always_pass": always_pass}

    def compare(actual: Array, expected: Array, **_: Any) -> Result:
        a, e = as_float32(actual).reshape(-1), as_float32(expected).reshape(-1)
        finite = np.isfinite(a) & np.isfinite(e)
        stray = int(np.count_nonzero(~np.isfinite(a)))
        lines = [*_norms(a[finite], e[finite]), *_shares(a[finite], e[finite], diff_thds)]
        lines += _percentiles(a[finite], e[finite], quantiles)
        if stray:
            lines.insert(0, f"{stray} NaN or inf in the actual output")
        return always_pass or stray == 0, "\n      ".join(lines)

    return named("error_distribution", parameters, compare)


def _norms(a: Floats, e: Floats) -> list[str]:
    size = float(np.linalg.norm(e))
    product = size * float(np.linalg.norm(a))
    relative = float(np.linalg.norm(a - e)) / size if size else 0.0
    cosine = float(a @ e) / product if product else 0.0
    return [f"rel-L2={relative:.6g} cosine={cosine:.9g}"]


def _shares(a: Floats, e: Floats, thresholds: tuple[float, ...]) -> list[str]:
    shares = []
    for threshold in thresholds:
        _, relative = relative_difference(a, e, threshold)
        shares.append(f">{threshold:g}: {float(np.mean(relative > threshold)) if a.size else 0.0:.4%}")
    return ["share of rdiff " + "  ".join(shares)]


def _percentiles(a: Floats, e: Floats, quantiles: tuple[float, ...]) -> list[str]:
    if not a.size:
        return []
    delta, relative = relative_difference(a, e, 0.01)
    rows = {"rdiff": relative, "abs diff": delta, "abs golden": np.abs(e)}
    return [
        f"{name}: "
        + "  ".join(
            f"p{100 * q:g}={value:.6g}" for q, value in zip(quantiles, np.quantile(row, quantiles), strict=True)
        )
        for name, row in rows.items()
    ]
