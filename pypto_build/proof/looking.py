"""Reads the metadata of thousands of files, in one call of a small library if it is available."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path

#: (device, inode, mode, size, time of change, time of status change)
Identity = tuple[int, int, int, int, int, int]
#: Is given by which library it is done; None: there is none.
Library = Callable[[], Path | None]

SOURCE = Path(__file__).resolve().with_name("looking.cpp")
#: Stands for a file that is not there.
NOTHING: Identity = (0, 0, 0, 0, 0, 0)

_ENTRY = struct.Struct("6q")
# So many are worth loading a library for, and `ctypes`, which takes some milliseconds.
_MANY = 1000
_TOO_FAR = 1 << 63  # nanoseconds, for 64 bits


def identity(status: os.stat_result) -> Identity:
    """Return the metadata that changes whenever a file is written, replaced or renamed."""
    changed = status.st_mtime_ns
    if not -_TOO_FAR <= changed < _TOO_FAR:  # before 1678 or after 2261
        changed = as_int64(changed)
    return status.st_dev, status.st_ino, status.st_mode, status.st_size, changed, status.st_ctime_ns


def as_int64(number: int) -> int:
    """Return ``number`` as the signed integer that its lowest 64 bits are."""
    return (number + _TOO_FAR) % (2 * _TOO_FAR) - _TOO_FAR


class Paths:
    """Paths whose metadata one call reads. Links are followed or not, for all paths of the object."""

    def __init__(self, paths: Sequence[str], follow: bool = True) -> None:
        self.paths, self.follow = paths, follow
        self._text = b""

    @property
    def text(self) -> bytes:
        """Return the paths, each terminated by a zero byte; empty if a path contains a zero byte."""
        if not self._text:
            text = b"\0".join([*map(os.fsencode, self.paths), b""])
            self._text = text if text.count(b"\0") == len(self.paths) else b""
        return self._text


class Looker:
    """Reads the metadata of files; it uses ``library`` when there are many."""

    def __init__(self, library: Library = lambda: None) -> None:
        self._library = library

    def look(self, paths: Paths) -> bytes:
        """Return an identity for each path, ``NOTHING`` for a missing file."""
        call = _function(self._library()) if len(paths.paths) >= _MANY else None
        if call is None or not paths.text:
            return pack(_ask(path, paths.follow) for path in paths.paths)
        return call(paths.text, len(paths.paths), paths.follow)


def pack(identities: Iterator[Identity]) -> bytes:
    """Return identities in the library's binary format."""
    return b"".join(_ENTRY.pack(*one) for one in identities)


def unpack(data: bytes) -> Iterator[Identity]:
    """Yield the identities in the library's answer, file by file."""
    return _ENTRY.iter_unpack(data)


def differing(before: bytes, now: bytes) -> Iterator[int]:
    """Yield the numbers of the files whose identities differ."""
    if before != now:
        size = _ENTRY.size
        for number, begin in enumerate(range(0, len(before), size)):
            if before[begin : begin + size] != now[begin : begin + size]:
                yield number


def _ask(path: str, follow: bool) -> Identity:
    try:
        return identity(os.stat(path) if follow else os.lstat(path))
    except (OSError, ValueError):
        return NOTHING


@cache
def _function(library: Path | None) -> Callable[[bytes, int, bool], bytes] | None:
    """Return the function of the library; None if it cannot be loaded."""
    if library is None:
        return None
    import ctypes

    try:
        function = ctypes.CDLL(str(library)).pypto_look
    except (OSError, AttributeError):
        return None
    function.argtypes = (ctypes.c_char_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_char_p)
    function.restype = None

    def call(text: bytes, count: int, follow: bool) -> bytes:
        buffer = ctypes.create_string_buffer(count * _ENTRY.size)
        function(text, count, follow, buffer)
        return buffer.raw

    return call
