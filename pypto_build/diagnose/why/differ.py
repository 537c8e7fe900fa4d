"""Compares elements with the reference: a difference counts beyond the tolerance, or beyond the effect of rounding."""

from __future__ import annotations

import numpy as np

from pypto_build.diagnose.diverge.lockstep import Limits
from pypto_build.diagnose.why.trace import Array

#: What the order of a sum and rounding to a type explain.
_RTOL = {"float32": 4e-5, "float16": 1 / 512, "bfloat16": 1 / 64}


@np.errstate(all="ignore")
def differ(actual: Array, expected: Array, dtype: str, limits: Limits, tile: Array | None = None) -> Array:
    """Return a mask of the elements that differ.

    The larger the values of the reference's whole `tile` are, the more rounding explains. Its default is `expected`.
    """
    a, e = np.asarray(actual, np.float64), np.asarray(expected, np.float64)
    all_ = e if tile is None else np.asarray(tile, np.float64)
    same = (a == e) | (np.isnan(a) & np.isnan(e))
    rtol = _RTOL.get(dtype, 0.0) if limits.rtol is None else limits.rtol
    finite = np.abs(all_[np.isfinite(all_)])
    scale = 0.25 * float(finite.max()) if finite.size else 0.0
    atol = rtol * scale if limits.atol is None else limits.atol
    beyond = ~(np.abs(a - e) <= atol + rtol * np.abs(e)) | ~np.isfinite(a) | ~np.isfinite(e)
    return np.asarray(~same & beyond)
