"""Error map of a tensor: a small picture with one byte a cell, for the worst element of the cell.

A tensor is shown as a matrix: the last dimension across, all others down (one dimension is wrapped into rows). Cells
hold equally many elements. The byte is 0 if all elements are equal, and up to 63 within the tolerance. It is 64 to 254
outside, on a logarithmic scale up to a million times the tolerance. It is 255 if one side is not a finite number.
"""

from __future__ import annotations

import base64
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pypto_build.replay.values import Array, is_float

_MAX_ROWS, _MAX_COLUMNS = 192, 256
_WITHIN, _OUTSIDE, _NOT_FINITE = 63, 64, 255
_DECADES = 6.0
_CHUNK = 1 << 22
#: Elements of a tensor whose values are told cell by cell.
_MOST_VALUES = 1 << 14


@dataclass(frozen=True)
class ErrorMap:
    """One byte a cell; a cell covers `row_step` x `column_step` elements of a matrix `height` x `width`."""

    height: int
    width: int
    row_step: int
    column_step: int
    levels: npt.NDArray[np.uint8]
    values: tuple[bytes, bytes] | None = None  # of small tensors: actual and expected as float32

    def as_data(self) -> dict[str, Any]:
        """For the page's script."""
        rows, columns = self.levels.shape
        return {
            "height": self.height,
            "width": self.width,
            "rowStep": self.row_step,
            "columnStep": self.column_step,
            "rows": rows,
            "columns": columns,
            "levels": base64.b64encode(self.levels.tobytes()).decode(),
            "values": [base64.b64encode(side).decode() for side in self.values or ()],
        }


def error_map(actual: Array, expected: Array, dtype: str, rtol: float, atol: float) -> ErrorMap | None:
    """The picture for decoded values of equal shape; None for a tensor without elements."""
    if actual.size == 0:
        return None
    height, width = matrix_shape(actual.shape)
    row_step, column_step = -(-height // _MAX_ROWS), -(-width // _MAX_COLUMNS)
    rows, columns = -(-height // row_step), -(-width // column_step)
    levels = np.zeros((rows, columns), dtype=np.uint8)
    flat_a, flat_e = actual.reshape(-1), expected.reshape(-1)
    at_once = max(1, _CHUNK // (row_step * width))
    for first in range(0, rows, at_once):
        last = min(first + at_once, rows)
        part = slice(first * row_step * width, min(last * row_step * width, flat_a.size))
        found = _levels(flat_a[part], flat_e[part], dtype, rtol, atol)
        padded = np.zeros((last - first) * row_step * width, dtype=np.uint8)
        padded[: found.size] = found
        wide = np.zeros((last - first, row_step, columns * column_step), dtype=np.uint8)
        wide[:, :, :width] = padded.reshape(last - first, row_step, width)
        levels[first:last] = wide.reshape(last - first, row_step, columns, column_step).max(axis=(1, 3))
    values = None
    if row_step == column_step == 1 and actual.size <= _MOST_VALUES:
        values = flat_a.astype("<f4").tobytes(), flat_e.astype("<f4").tobytes()
    return ErrorMap(height, width, row_step, column_step, levels, values)


def matrix_shape(shape: tuple[int, ...]) -> tuple[int, int]:
    """Rows and columns under which a tensor of any rank is shown."""
    numel = math.prod(shape)
    width = shape[-1] if len(shape) > 1 else min(numel, max(1, math.isqrt(numel - 1) + 1))
    return -(-numel // width), width


@np.errstate(all="ignore")
def _levels(actual: Array, expected: Array, dtype: str, rtol: float, atol: float) -> npt.NDArray[np.uint8]:
    if not is_float(dtype):
        return np.asarray((actual != expected) * (_NOT_FINITE - 1), dtype=np.uint8)
    a, e = actual.astype(np.float64), expected.astype(np.float64)
    delta, bound = np.abs(a - e), atol + rtol * np.abs(e)
    same = a == e
    ratio = np.where(same, 0.0, delta / np.where(bound > 0, bound, 1e-300))
    within = 1 + np.floor(ratio * (_WITHIN - 1))
    span = _NOT_FINITE - 1 - _OUTSIDE
    outside = _OUTSIDE + np.clip(np.floor(np.log10(np.maximum(ratio, 1.0)) / _DECADES * span), 0, span)
    levels = np.where(same, 0.0, np.where(ratio <= 1, within, outside))
    levels = np.where(np.isfinite(delta) | same, levels, float(_NOT_FINITE))
    return np.asarray(levels, dtype=np.uint8)
