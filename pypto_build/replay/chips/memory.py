"""Memory that all ranks share, at the same address in each: windows, contexts of domains, regions, and host tensors.

Regions are memory that a program outside of the replay shares with the orchestrations of chips. It is an unnamed file
of that program, so it disappears with the last process that has it open. Byte `n` of the file is always at
`ADDRESS + n` in simulated chips, so that descriptors are the same in every run. Its first byte tells that the chips
have begun.
"""

from __future__ import annotations

import ctypes
import math
import mmap
import os
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import msgspec

from pypto_build.artifact.distributed import MOST_RANKS
from pypto_build.artifact.errors import ArtifactError
from pypto_build.artifact.shapes import row_major_strides
from pypto_build.facts.dtypes import ITEMSIZE
from pypto_build.facts.faults import FaultKind
from pypto_build.facts.run_options import REGIONS
from pypto_build.runtime.faults import RuntimeFault, python_fault

PAGE = mmap.PAGESIZE
#: The alignment of buffers in a window.
BUFFER_ALIGNMENT = 32

_PATTERN = b"\xa5"
_PROT_NONE = 0
_CONTEXT = struct.Struct(f"<QQIIQ{2 * MOST_RANKS}Q")


def round_up(value: int, multiple: int) -> int:
    """Return the smallest multiple that is not below `value`."""
    return -(-value // multiple) * multiple


def address_of(memory: mmap.mmap | memoryview) -> int:
    """Return the address of a writable buffer."""
    return ctypes.addressof(ctypes.c_char.from_buffer(memory)) if len(memory) else 0


def shared(nbytes: int) -> mmap.mmap:
    """Return zeroed memory that is shared with processes forked from now on."""
    return mmap.mmap(-1, max(nbytes, 1))


class Buffer(msgspec.Struct, frozen=True):
    """One buffer of a window: `offset` bytes into it."""

    name: str
    offset: int
    nbytes: int


class Domain(msgspec.Struct, frozen=True):
    """A domain: its ranks, the addresses of their windows, the size of each window in bytes, and its buffers."""

    name: str
    ranks: list[int]
    addresses: list[int]
    size: int
    buffers: list[Buffer]

    def place(self, address: int) -> tuple[int, int] | None:
        """Return the rank, and the byte of its window, for an address; None outside of the windows."""
        for rank, base in zip(self.ranks, self.addresses, strict=True):
            if 0 <= address - base < self.size:
                return rank, address - base
        return None

    def label(self, start: int, stop: int | None = None) -> str:
        """Return the name of a byte of a window, or of bytes up to `stop`: `comm_d0.arrived_buf+4`."""
        buffer = next((one for one in self.buffers if 0 <= start - one.offset < one.nbytes), None)
        name, base = (buffer.name, buffer.offset) if buffer else ("window", 0)
        return f"{self.name}.{name}+{start - base}" + ("" if stop is None else f"..{stop - 1 - base}")


class Windows(Domain, frozen=True):
    """A domain with its memory: windows lie between pages that fault. `contexts` are the addresses of each member's
    CommContext."""

    memory: mmap.mmap
    contexts: list[int]

    @property
    def domain(self) -> Domain:
        """Return the domain without its memory."""
        return Domain(self.name, self.ranks, self.addresses, self.size, self.buffers)

    def overrun(self) -> tuple[int, int] | None:
        """Return the rank, and the offset in its window, of a changed byte beyond the window's size; None without
        any."""
        base = self.addresses[0]
        for rank, address in zip(self.ranks, self.addresses, strict=True):
            start = address - base + self._origin + self.size
            slack = self.memory[start : self._origin + address - base + round_up(self.size, PAGE)]
            changed = next((index for index, byte in enumerate(slack) if byte != _PATTERN[0]), None)
            if changed is not None:
                return rank, self.size + changed
        return None

    @property
    def _origin(self) -> int:
        """Return the offset of the first window in `memory`."""
        return self.addresses[0] - address_of(self.memory)


def make_windows(domain: str, ranks: Sequence[int], size: int, buffers: Sequence[Buffer]) -> Windows:
    """Return zeroed windows for the members of a domain, with their contexts."""
    stride = round_up(max(size, 1), PAGE) + PAGE
    contexts = round_up(_CONTEXT.size * len(ranks), PAGE)
    memory = shared(contexts + PAGE + stride * len(ranks))
    base = address_of(memory)
    first = base + contexts + PAGE
    addresses = [first + stride * index for index in range(len(ranks))]
    forbid(first - PAGE)
    for address in addresses:
        end = address - base + size
        memory[end : address - base + stride - PAGE] = _PATTERN * (stride - PAGE - size)
        forbid(address + stride - PAGE)
    windows = (*addresses, *(0 for _ in range(MOST_RANKS - len(ranks))))
    for index in range(len(ranks)):
        _CONTEXT.pack_into(memory, index * _CONTEXT.size, 0, 0, index, len(ranks), size, *windows, *windows)
    places = [base + index * _CONTEXT.size for index in range(len(ranks))]
    return Windows(domain, list(ranks), addresses, size, list(buffers), memory, places)


def forbid(address: int) -> None:
    """Make every access to the page at `address` fault."""
    ctypes.CDLL(None).mprotect(ctypes.c_void_p(address), ctypes.c_size_t(PAGE), _PROT_NONE)


#: The address of its first byte: far from programs, their heaps, libraries and stacks.
ADDRESS = 0x2000_0000_0000
BEGUN = b"\1"

_PROT_READ_WRITE, _MAP_SHARED, _MAP_FIXED_NOREPLACE = 3, 1, 0x100000


@dataclass(frozen=True)
class HostRegions:
    """This process's mapping of the regions' file, shared with its forks: the first `size` bytes."""

    size: int = 0

    def attach(self, *spans: tuple[int, int]) -> None:
        """Make the page behind each span (offset in the file, bytes) fault. Raises `RuntimeFault` for a span outside of
        the file."""
        for offset, nbytes in spans:
            end = offset + round_up(nbytes, PAGE)
            if end + PAGE > self.size:
                text = "the chips share memory with the program that starts them, and it is not there"
                hint = "start the replay from the test that creates the shared memory: run that test with pytest"
                raise RuntimeFault(python_fault(FaultKind.UNUSABLE_INPUT, text, hint=hint))
            forbid(ADDRESS + end)

    def tell_begun(self) -> None:
        """Set the byte that tells that the chips have begun."""
        if self.size:
            ctypes.c_char.from_address(ADDRESS).value = BEGUN


NO_REGIONS = HostRegions()


def map_regions() -> HostRegions:
    """Map the file that the environment names, if any. Raises `ArtifactError` if that fails."""
    path = os.environ.get(REGIONS, "")
    if not path:
        return NO_REGIONS
    try:
        file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        try:
            size = os.fstat(file).st_size
            _map(file, size)
        finally:
            os.close(file)
    except OSError as error:
        hint = f"unset {REGIONS}; only the program that sets this variable can use it"
        raise ArtifactError(f"{REGIONS}={path}", f"cannot be mapped: {error.strerror}", hint) from None
    return HostRegions(size)


def _map(file: int, size: int) -> None:
    system = ctypes.CDLL(None, use_errno=True)
    system.mmap.restype = ctypes.c_void_p
    system.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    address = system.mmap(ADDRESS, size, _PROT_READ_WRITE, _MAP_SHARED | _MAP_FIXED_NOREPLACE, file, 0)
    if address != ADDRESS:
        raise OSError(ctypes.get_errno(), f"address 0x{ADDRESS:x} is already in use")


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
            raise ValueError(f"{value} cannot be copied into {part}: shape or dtype differs")
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
        raise AttributeError(
            f"torch.{name} is not available: a replay of a driver has only a small substitute for torch"
        )


def stand_in_torch() -> ModuleType:
    """Return a module that stands in for `torch` while a driver is executed."""
    return _Torch()
