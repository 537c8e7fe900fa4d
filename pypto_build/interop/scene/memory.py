"""Memory that a test hands to a worker: buffers of the device, tensors of torch, and how their bytes are read."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pypto_build.artifact.shapes import row_major_strides
from pypto_build.facts.dtypes import ITEMSIZE

#: torch's names of the element types by simpler's numbers; one that torch lacks is carried by bytes.
_DTYPES = (
    *("float32", "float16", "int32", "int16", "int8", "uint8", "bfloat16", "int64", "uint64", "uint16", "uint32"),
    *("bool", "float8_e4m3fn", "float8_e8m0fnu", "uint8"),
)


def dtype_name(dtype: Any) -> str:
    """torch's name of an element type of simpler's, by its number."""
    return _DTYPES[int(dtype)]


@dataclass(frozen=True)
class Tensor:
    """A tensor among the arguments: its bytes, and how they are read. `base` is the address of the memory that it is a
    part of, from `offset` bytes on, and `extent` that memory, which is there as long as its `owner`."""

    memory: memoryview
    shape: tuple[int, ...]
    dtype: str
    own: bool  # whether it is memory of the device, which keeps what is written
    base: int = 0
    offset: int = 0
    extent: memoryview | None = None
    owner: Any = field(default=None, repr=False, compare=False)

    @property
    def buffer(self) -> memoryview:
        """Its bytes, by the name that a host callable knows."""
        return self.memory

    @property
    def shapes(self) -> tuple[int, ...]:
        """Its shape, by that name."""
        return self.shape

    @property
    def strides(self) -> tuple[int, ...]:
        """How many elements lie between those that follow each other in a dimension."""
        return row_major_strides(self.shape)

    def whole(self) -> Tensor:
        """The memory that it is a part of: itself, if it is all of it."""
        if self.extent is None or self.extent.nbytes == self.memory.nbytes:
            return replace(self, offset=0)
        shape = (self.extent.nbytes // ITEMSIZE[self.dtype],)
        return replace(self, memory=self.extent, shape=shape, offset=0)


@dataclass(frozen=True)
class SharedBytes:
    """The bytes of a buffer."""

    buf: memoryview


class Buffer:
    """Memory of the device."""

    def __init__(self, nbytes: int) -> None:
        self.data = (ctypes.c_uint8 * max(nbytes, 1))()
        self.nbytes = nbytes

    @property
    def base(self) -> int:
        """Its address."""
        return ctypes.addressof(self.data)

    @property
    def memory(self) -> memoryview:
        """Its bytes."""
        return memoryview(self.data).cast("B")[: self.nbytes]

    @property
    def shm(self) -> SharedBytes:
        """Its bytes, as those of shared memory have them."""
        return SharedBytes(self.memory)

    def tensor(self, shapes: Sequence[int], dtype: Any, offset: int = 0) -> Tensor:
        """It as a tensor, `offset` bytes from its beginning."""
        name, memory = dtype_name(dtype), self.memory
        end = offset + math.prod(shapes) * ITEMSIZE[name]
        return Tensor(memory[offset:end], tuple(shapes), name, True, self.base, offset, memory, self)


def tensor_of(tensor: Any, shapes: Sequence[int] | None = None, dtype: Any = None) -> Tensor:
    """A torch tensor as an argument. Raises ValueError for one with gaps."""
    if not tensor.is_contiguous():
        raise ValueError("the tensor is not contiguous")
    name = str(tensor.dtype).removeprefix("torch.") if dtype is None else dtype_name(dtype)
    storage, memory = tensor.untyped_storage(), bytes_of(tensor)
    offset = tensor.data_ptr() - storage.data_ptr()
    extent = (ctypes.c_uint8 * max(storage.nbytes(), 1)).from_address(storage.data_ptr())
    shape = tuple(tensor.shape) if shapes is None else tuple(shapes)
    whole = memoryview(extent).cast("B")[: storage.nbytes()]
    return Tensor(memory, shape, name, False, storage.data_ptr(), offset, whole, tensor)


def bytes_of(value: Any) -> memoryview:
    """The bytes of a torch tensor or of anything that has a buffer."""
    if hasattr(value, "data_ptr"):
        size = value.numel() * value.element_size()
        return memoryview((ctypes.c_uint8 * max(size, 1)).from_address(value.data_ptr())).cast("B")[:size]
    return memoryview(value).cast("B")
