"""Host tensors of a driver, and stand-ins for the few names of torch that it uses: importing torch takes seconds."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

from pypto_build.artifact.shapes import row_major_strides
from pypto_build.facts.dtypes import ITEMSIZE
from pypto_build.replay.chips.memory import address_of, shared


@dataclass(frozen=True)
class Storage:
    """Memory behind tensors; dependencies between dispatches are computed from it."""

    name: str
    address: int
    nbytes: int
    owner: Any = field(default=None, repr=False, compare=False)


class HostTensor:
    """A view of shared memory: `shape`, strides and offset in elements of `dtype` (torch's name)."""

    def __init__(
        self, storage: Storage, dtype: str, shape: Sequence[int], strides: Sequence[int] | None = None, offset: int = 0
    ) -> None:
        self.storage, self.dtype, self.shape, self.offset = storage, dtype, tuple(shape), offset
        self.strides = row_major_strides(self.shape) if strides is None else tuple(strides)

    @property
    def address(self) -> int:
        """Return the address of its first element."""
        return self.storage.address + self.offset * ITEMSIZE[self.dtype]

    @property
    def ndim(self) -> int:
        """Return the number of dimensions."""
        return len(self.shape)

    def size(self, dim: int | None = None) -> Any:
        """Return the shape, or one extent of it."""
        return self.shape if dim is None else self.shape[dim]

    def numel(self) -> int:
        """Return the number of elements."""
        return math.prod(self.shape)

    def share_memory_(self) -> HostTensor:
        """Return the tensor itself, which is already shared."""
        return self

    def is_contiguous(self) -> bool:
        """Return whether elements follow each other without gaps."""
        strides = row_major_strides(self.shape)
        return all(
            size == 1 or have == want for size, have, want in zip(self.shape, self.strides, strides, strict=True)
        )

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, key: Any) -> HostTensor:
        """Return a view by integers, slices with step 1 or more, and Ellipsis. Raises `IndexError`, `TypeError`."""
        keys = key if isinstance(key, tuple) else (key,)
        if Ellipsis in keys:
            at = keys.index(Ellipsis)
            keys = (*keys[:at], *(slice(None),) * (self.ndim - len(keys) + 1), *keys[at + 1 :])
        if len(keys) > self.ndim:
            raise IndexError(f"too many indices for tensor of dimension {self.ndim}")
        offset, shape, strides = self.offset, list[int](), list[int]()
        for axis, size in enumerate(self.shape):
            index = keys[axis] if axis < len(keys) else slice(None)
            if isinstance(index, slice):
                start, stop, step = index.indices(size)
                if step < 1:
                    raise ValueError("step must be greater than zero")
                offset += start * self.strides[axis]
                shape.append(max(0, -(-(stop - start) // step)))
                strides.append(self.strides[axis] * step)
            elif not -size <= index < size:
                raise IndexError(f"index {index} is out of bounds for dimension {axis} with size {size}")
            else:
                offset += (index % size) * self.strides[axis]
        return HostTensor(self.storage, self.dtype, shape, strides, offset)

    def __setitem__(self, key: Any, value: HostTensor) -> None:
        """Copy another tensor of the same shape and type into a part. Raises `ValueError`."""
        part = self[key]
        if not isinstance(value, HostTensor) or (value.shape, value.dtype) != (part.shape, part.dtype):
            raise ValueError(f"{value} cannot be copied into {part}")
        size = ITEMSIZE[self.dtype]
        if part.is_contiguous() and value.is_contiguous():
            ctypes.memmove(part.address, value.address, part.numel() * size)
        elif part.ndim == 1:
            for index in range(part.shape[0]):
                ctypes.memmove(part[index].address, value[index].address, size)
        else:
            for index in range(part.shape[0]):
                part[index] = value[index]

    def reshape(self, *shape: Any) -> HostTensor:
        """Return a contiguous tensor in another shape. Raises `ValueError`."""
        extents = list(shape[0] if len(shape) == 1 and not isinstance(shape[0], int) else shape)
        if -1 in extents:
            others = math.prod(extent for extent in extents if extent != -1)
            extents[extents.index(-1)] = self.numel() // max(others, 1)
        if math.prod(extents) != self.numel() or not self.is_contiguous():
            raise ValueError(f"shape {extents} is invalid for a tensor of shape {list(self.shape)}")
        return HostTensor(self.storage, self.dtype, extents, None, self.offset)

    def view(self, *shape: Any) -> HostTensor:
        """Return the tensor in another shape, or a contiguous one with its bytes read as another type. Raises
        `ValueError`."""
        if len(shape) != 1 or not isinstance(shape[0], DType):
            return self.reshape(*shape)
        dtype, last = str(shape[0]), self.shape[-1:]
        nbytes, before = math.prod(last) * ITEMSIZE[self.dtype], self.offset * ITEMSIZE[self.dtype]
        size = ITEMSIZE[dtype]
        if not last or nbytes % size or before % size or not self.is_contiguous():
            raise ValueError(f"{self} cannot be read as {dtype}")
        return HostTensor(self.storage, dtype, (*self.shape[:-1], nbytes // size), None, before // size)

    def __repr__(self) -> str:
        return f"tensor '{self.storage.name}' {list(self.shape)} {self.dtype}"


class DType(str):
    """An element type of the stand-in: torch's name."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"torch.{self}"


class _Torch(ModuleType):
    """The stand-in for torch: element types, and tensors of zeros in shared memory."""

    def __init__(self) -> None:
        super().__init__("torch")
        self.Tensor = HostTensor
        self.made: list[HostTensor] = []
        for name in ITEMSIZE:
            setattr(self, name, DType(name))

    def zeros(self, *shape: Any, dtype: str = "float32", **_: Any) -> HostTensor:
        """Return a tensor of zeros."""
        sizes = tuple(shape[0]) if len(shape) == 1 and not isinstance(shape[0], int) else shape
        nbytes = math.prod(sizes) * ITEMSIZE[dtype]
        memory = shared(nbytes)
        storage = Storage(f"intermediate {len(self.made)}", address_of(memory), nbytes, memory)
        self.made.append(HostTensor(storage, str(dtype), sizes))
        return self.made[-1]

    empty = zeros

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise AttributeError(f"torch.{name} is not in what stands for torch in a replay of a driver")


def stand_in_torch() -> ModuleType:
    """Return a module that stands in for `torch` while a driver is executed."""
    return _Torch()
