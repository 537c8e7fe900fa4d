"""Arithmetic of shapes that needs no array library."""

from __future__ import annotations

from collections.abc import Sequence


def row_major_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Strides in elements of a tensor of ``shape`` whose last dimension is contiguous."""
    strides = [1] * len(shape)
    for axis in range(len(shape) - 2, -1, -1):
        strides[axis] = strides[axis + 1] * shape[axis + 1]
    return tuple(strides)
