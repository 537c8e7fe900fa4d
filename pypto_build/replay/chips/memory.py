"""Memory that all ranks share, at the same address in each: host tensors, guarded windows, and contexts of domains."""

from __future__ import annotations

import ctypes
import mmap
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field

from pypto_build.artifact.distributed import MOST_RANKS

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


@dataclass(frozen=True)
class Buffer:
    """One buffer of a window: `offset` bytes into it."""

    name: str
    offset: int
    nbytes: int


@dataclass
class Windows:
    """The windows of a domain, one a member in the order of `ranks`, each `size` bytes between pages that fault.

    `addresses` are where they begin, `contexts` the addresses of each member's CommContext.
    """

    domain: str
    ranks: tuple[int, ...]
    size: int
    buffers: tuple[Buffer, ...]
    memory: mmap.mmap = field(repr=False)
    addresses: tuple[int, ...] = ()
    contexts: tuple[int, ...] = ()

    def place(self, address: int) -> tuple[int, Buffer | None, int] | None:
        """Return the rank, the buffer and the offset in it for an address; None outside of the windows."""
        for rank, base in zip(self.ranks, self.addresses, strict=True):
            offset = address - base
            if 0 <= offset < self.size:
                buffer = next((item for item in self.buffers if 0 <= offset - item.offset < item.nbytes), None)
                return rank, buffer, offset - (buffer.offset if buffer else 0)
        return None

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
    addresses = tuple(first + stride * index for index in range(len(ranks)))
    forbid(first - PAGE)
    for address in addresses:
        end = address - base + size
        memory[end : address - base + stride - PAGE] = _PATTERN * (stride - PAGE - size)
        forbid(address + stride - PAGE)
    windows = (*addresses, *(0 for _ in range(MOST_RANKS - len(ranks))))
    for index in range(len(ranks)):
        _CONTEXT.pack_into(memory, index * _CONTEXT.size, 0, 0, index, len(ranks), size, *windows, *windows)
    places = tuple(base + index * _CONTEXT.size for index in range(len(ranks)))
    return Windows(domain, tuple(ranks), size, tuple(buffers), memory, addresses, places)


def forbid(address: int) -> None:
    """Make every access to the page at `address` fault."""
    ctypes.CDLL(None).mprotect(ctypes.c_void_p(address), ctypes.c_size_t(PAGE), _PROT_NONE)
