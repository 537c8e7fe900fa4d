"""Evaluates large arrays in pieces, so that no copy of all elements is made."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt

from pypto_build.replay.values import Array, decode

Flags = npt.NDArray[np.bool_]

#: Elements of a piece; the working set stays in the cache.
PIECE = 1 << 18


def pieces(size: int) -> Iterator[slice]:
    """Slices that cover ``size`` flat elements in order."""
    return (slice(start, min(start + PIECE, size)) for start in range(0, size, PIECE))


def count_where(size: int, test: Callable[[slice], Flags]) -> tuple[int, int]:
    """Return how many of ``size`` flat elements pass the test, and the first of them (-1: none)."""
    count, first = 0, -1
    for part in pieces(size):
        flags = test(part)
        found = int(np.count_nonzero(flags))
        if found and not count:
            first = part.start + int(np.argmax(flags))
        count += found
    return count, first


def first_positions(flags: Flags, limit: int) -> npt.NDArray[np.intp]:
    """Return the first ``limit`` flat positions whose flags are set, for flags of any shape."""
    flat, found, missing = flags.reshape(-1), [np.zeros(0, np.intp)], limit
    for part in pieces(flat.size):
        here = np.flatnonzero(flat[part])[:missing] + part.start
        found.append(here)
        missing -= here.size
        if not missing:
            break
    return np.concatenate(found)


class Numbers:
    """The elements of a stored array as numbers; they are decoded when an index is read."""

    def __init__(self, stored: Array, dtype: str) -> None:
        self.stored, self.dtype = stored, dtype
        self._flat = stored.reshape(-1)

    def __getitem__(self, where: slice | npt.NDArray[np.intp]) -> Array:
        return decode(self._flat[where], self.dtype)

    @property
    def size(self) -> int:
        """Number of elements."""
        return self._flat.size
