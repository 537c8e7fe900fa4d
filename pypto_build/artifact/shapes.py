"""Arithmetic of shapes that needs no array library."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import msgspec

#: Elements that no tensor has: more than any machine's addresses.
MOST_ELEMENTS = 1 << 48

#: A size in a file; -1 stands for any.
Extent = Annotated[int, msgspec.Meta(ge=-1, le=MOST_ELEMENTS)]


def fits_memory(shape: Sequence[int]) -> bool:
    """Return whether a tensor of ``shape`` could fit a machine's memory, dynamic dimensions taken as 1."""
    count = 1
    for extent in shape:
        count *= max(extent, 1)
        if count > MOST_ELEMENTS:
            return False
    return True


def row_major_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Return the strides in elements of a tensor of ``shape`` whose last dimension is contiguous."""
    strides = [1] * len(shape)
    for axis in range(len(shape) - 2, -1, -1):
        strides[axis] = strides[axis + 1] * shape[axis + 1]
    return tuple(strides)
