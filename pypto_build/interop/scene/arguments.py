"""The arguments of a scene test: an ordered container of tensors and scalars, and memory that it passes to a worker."""

from __future__ import annotations

import copy
import ctypes
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from pypto_build.artifact.shapes import row_major_strides
from pypto_build.facts.dtypes import ITEMSIZE
from pypto_build.replay.chips.driver import dtype_name

if TYPE_CHECKING:
    import torch


class TensorArg(NamedTuple):
    """A tensor among the arguments."""

    name: str
    value: torch.Tensor


class Scalar(NamedTuple):
    """A scalar among the arguments: a ctypes value, an int or a float."""

    name: str
    value: Any


class TaskArgsBuilder:
    """Ordered arguments, tensors before scalars; each is an attribute too.

    Raises ValueError for a repeated name, for the name of a method, and for a tensor after a scalar.
    """

    def __init__(self, *specs: TensorArg | Scalar) -> None:
        self._specs: list[TensorArg | Scalar] = []
        for spec in specs:
            self._add(spec)

    def add_tensor(self, name: str, value: torch.Tensor) -> None:
        """Add a tensor."""
        self._add(TensorArg(name, value))

    def add_scalar(self, name: str, value: Any) -> None:
        """Add a scalar."""
        self._add(Scalar(name, value))

    def _add(self, spec: TensorArg | Scalar) -> None:
        if any(spec.name == other.name for other in self._specs):
            raise ValueError(f"two arguments have the name {spec.name!r}")
        if spec.name in dir(type(self)):
            raise ValueError(f"{spec.name!r} cannot be the name of an argument, because it is the name of a method")
        if isinstance(spec, TensorArg) and any(isinstance(other, Scalar) for other in self._specs):
            raise ValueError(f"tensor {spec.name!r} is added after a scalar; add all tensors first")
        self._specs.append(spec)

    def __getattr__(self, name: str) -> Any:
        for spec in self.__dict__.get("_specs", ()):
            if spec.name == name:
                return spec.value
        raise AttributeError(f"there is no argument {name!r}")

    def clone(self) -> TaskArgsBuilder:
        """Return a copy, with copies of all values."""
        copied = TaskArgsBuilder()
        for spec in self._specs:
            if isinstance(spec, TensorArg):
                copied.add_tensor(spec.name, spec.value.clone())
            else:
                copied.add_scalar(spec.name, copy.copy(spec.value))
        return copied

    @property
    def specs(self) -> list[TensorArg | Scalar]:
        """Return all arguments in order."""
        return self._specs

    def tensor_names(self) -> list[str]:
        """Return the names of the tensors in order."""
        return [spec.name for spec in self._specs if isinstance(spec, TensorArg)]

    def scalar_names(self) -> list[str]:
        """Return the names of the scalars in order."""
        return [spec.name for spec in self._specs if isinstance(spec, Scalar)]


@dataclass(frozen=True)
class Tensor:
    """A tensor argument: its bytes, and their interpretation. It begins `offset` bytes into the memory block at address
    `base`. `extent` is that block, which exists as long as its `owner`."""

    memory: memoryview
    shape: tuple[int, ...]
    dtype: str
    own: bool  # device memory, whose contents stay between runs
    base: int = 0
    offset: int = 0
    extent: memoryview | None = None
    owner: Any = field(default=None, repr=False, compare=False)

    @property
    def buffer(self) -> memoryview:
        """Return its bytes, under the name that host callables use."""
        return self.memory

    @property
    def shapes(self) -> tuple[int, ...]:
        """Return its shape, under the name that host callables use."""
        return self.shape

    @property
    def strides(self) -> tuple[int, ...]:
        """Return the distance between neighbours in each dimension, in elements."""
        return row_major_strides(self.shape)

    def whole(self) -> Tensor:
        """Return the memory block that it is a part of; itself, if it is the whole block."""
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
        """Return its address."""
        return ctypes.addressof(self.data)

    @property
    def memory(self) -> memoryview:
        """Return its bytes."""
        return memoryview(self.data).cast("B")[: self.nbytes]

    @property
    def shm(self) -> SharedBytes:
        """Return its bytes as a shared memory object."""
        return SharedBytes(self.memory)

    def tensor(self, shapes: Sequence[int], dtype: Any, offset: int = 0) -> Tensor:
        """Return it as a tensor that begins `offset` bytes after its start."""
        name, memory = dtype_name(dtype), self.memory
        end = offset + math.prod(shapes) * ITEMSIZE[name]
        return Tensor(memory[offset:end], tuple(shapes), name, True, self.base, offset, memory, self)


def tensor_of(tensor: Any, shapes: Sequence[int] | None = None, dtype: Any = None) -> Tensor:
    """Return a torch tensor as an argument. Raises ValueError for one with gaps."""
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
    """Return the bytes of a torch tensor or of any object with a buffer."""
    if hasattr(value, "data_ptr"):
        size = value.numel() * value.element_size()
        return memoryview((ctypes.c_uint8 * max(size, 1)).from_address(value.data_ptr())).cast("B")[:size]
    return memoryview(value).cast("B")
