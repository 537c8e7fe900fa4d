"""The arguments of a kernel: tensors and scalars, by number. This module does not need torch."""

from __future__ import annotations

from typing import NamedTuple

from pypto_build.facts.dtypes import ITEMSIZE


class TensorArgument(NamedTuple):
    """A task's tensor: `buffer` is the address of its allocation of `size` bytes. `offset` is the position of its first
    element, in elements."""

    buffer: int
    size: int
    offset: int
    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    @property
    def contiguous(self) -> bool:
        """Return whether the tensor is row-major without gaps."""
        stride = 1
        for extent, actual in zip(reversed(self.shape), reversed(self.strides), strict=True):
            if extent != 1 and actual != stride:
                return False
            stride *= extent
        return True

    @property
    def empty(self) -> bool:
        """Return whether the tensor has no element."""
        return 0 in self.shape

    @property
    def window(self) -> tuple[int, int]:
        """Return the first element, and one past the last, of all rows that the view touches in the allocation."""
        moving = [stride for extent, stride in zip(self.shape, self.strides, strict=True) if extent > 1]
        row = max(moving, default=1)
        reach = sum((extent - 1) * stride for extent, stride in zip(self.shape, self.strides, strict=True))
        first = self.offset // row * row
        last = -(-(self.offset + reach + 1) // row) * row
        return first, min(last, self.size // ITEMSIZE[self.dtype])


Slot = TensorArgument | int  # the content of an entry's `args[i]`: a tensor, or 64 bits
