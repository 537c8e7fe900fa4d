"""Finds programs that make system calls of their own, past the C library, so that their reads are not observed.

Go's programs do. Other programs have a system call instruction after one that sets the number of a reading call, or of
any. The code of programs for x86-64 is searched for this along whole instructions, so that a constant that resembles it
does not count.
"""

from __future__ import annotations

import mmap
import re
import struct
from collections.abc import Iterator

#: Answers to `questions.CALLS`.
OWN_CALLS, NO_CALLS = "own calls", "none"

_GO = b"\xff Go buildinf:"
# The C library, and what loads it, are where calls are seen; two of the compiler's wait for threads by calls.
_LIBRARY = re.compile(r"/(?:ld-linux[^/]*|ld|libc|libpthread|librt|libdl|libgomp|libitm)[-.][^/]*so[^/]*\Z")
_INSTRUCTION = b"\x0f\x05"
_FARTHEST = 40
# open, stat, lstat, access, execve, getdents, readlink, creat, getdents64, openat, newfstatat, readlinkat, faccessat,
# open_by_handle_at, execveat, statx, io_uring_setup, openat2, faccessat2
_READING = frozenset((2, 4, 6, 21, 59, 78, 89, 85, 217, 257, 262, 267, 269, 304, 322, 332, 425, 437, 439))
# Instructions that arguments are set by: moves, differences, addresses, with registers and memory behind the code.
_WITH_OPERANDS = frozenset((0x01, 0x09, 0x29, 0x31, 0x33, 0x63, 0x85, 0x89, 0x8B, 0x8D))


def calls_of(path: str) -> str:
    """Return whether the program or library at ``path`` makes system calls of its own."""
    if _LIBRARY.search(path):
        return NO_CALLS
    try:
        with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return OWN_CALLS if data.find(_GO) >= 0 or any(_reads(data, *code) for code in _code(data)) else NO_CALLS
    except (OSError, ValueError, struct.error):
        return NO_CALLS


def _code(data: mmap.mmap) -> Iterator[tuple[int, int]]:
    """Yield the parts of a program for x86-64 that are executed."""
    if data[:5] != b"\x7fELF\x02" or struct.unpack_from("<H", data, 18) != (62,):
        return
    (table,), (size, count) = struct.unpack_from("<Q", data, 32), struct.unpack_from("<HH", data, 54)
    for number in range(count):
        kind, flags, begin, _, _, length = struct.unpack_from("<IIQQQQ", data, table + number * size)
        if kind == 1 and flags & 1:
            yield begin, begin + length


def _reads(data: mmap.mmap, begin: int, end: int) -> bool:
    """Return whether the code between two offsets contains a system call that may read."""
    position = data.find(_INSTRUCTION, begin, end)
    while position >= 0:
        before = data[max(begin, position - _FARTHEST) : position]
        if any(number is None or number in _READING for number in _numbers(before)):
            return True
        position = data.find(_INSTRUCTION, position + 1, end)
    return False


def _numbers(before: bytes) -> Iterator[int | None]:
    """Yield the number that is set last before a system call, None for an unknown number; nothing if none is set."""
    for begin in range(len(before) - 2, -1, -1):
        number = _set_at(before, begin)
        if number is not False and _reaches_end(before, begin):
            yield number
            return


def _set_at(code: bytes, begin: int) -> int | bool | None:
    """Return the system call number that the instruction at ``begin`` sets, None if the number is in a register or
    memory; else False.
    """
    at = begin + (code[begin] in (0x40, 0x48, 0x4C, 0x44))
    rest = code[at : at + 6]
    if len(rest) >= 5 and rest[0] == 0xB8:  # behind a prefix it has a constant of eight bytes
        return False if code[at - 1 : at] in (b"\x48", b"\x49") else int.from_bytes(rest[1:5], "little")
    if len(rest) == 6 and rest[:2] == b"\xc7\xc0":
        return int.from_bytes(rest[2:6], "little")
    if len(rest) >= 2 and (
        (rest[0] == 0x89 and rest[1] & 0xC7 == 0xC0) or (rest[0] == 0x63 and rest[1] & 0xF8 == 0xC0)
    ):
        return None  # from a register
    # from the stack
    return None if len(rest) >= 3 and rest[0] == 0x8B and rest[1] & 0x38 == 0 and rest[1] & 7 in (4, 5) else False


def _reaches_end(code: bytes, at: int) -> bool:
    """Return whether the code from ``at`` to its end only sets arguments."""
    while at < len(code):
        size = _size(code, at)
        if not size:
            return False
        at += size
    return at == len(code)


def _size(code: bytes, at: int) -> int:
    """Return the size in bytes of the instruction at ``at``; 0 if it does not set an argument."""
    begin, wide = at, False
    if 0x40 <= code[at] <= 0x4F:
        wide, at = bool(code[at] & 8), at + 1
    if at >= len(code):
        return 0
    operation, at = code[at], at + 1
    if 0x50 <= operation <= 0x5F or operation == 0x90:
        return at - begin
    if 0xB8 <= operation <= 0xBF:
        return at + (8 if wide else 4) - begin
    if operation in _WITH_OPERANDS or operation in (0x83, 0xC7):
        at += _operands(code, at) + {0x83: 1, 0xC7: 4}.get(operation, 0)
        return at - begin
    return 0


def _operands(code: bytes, at: int) -> int:
    """Return the number of bytes that encode an instruction's register and memory operands."""
    if at >= len(code):
        return 1
    kind, register = code[at] >> 6, code[at] & 7
    size = 1
    if kind != 3 and register == 4:
        size += 1
        if kind == 0 and at + 1 < len(code) and code[at + 1] & 7 == 5:
            size += 4
    return size + (4 if kind == 2 or (kind == 0 and register == 5) else 1 if kind == 1 else 0)
