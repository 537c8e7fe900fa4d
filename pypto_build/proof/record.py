"""The record of an output directory on disk: a file that is written whole, and a second one for later additions.

``.results`` is the whole record; each run appends a piece to ``.results.more``. A piece has a digest over itself and
all pieces before it. So a run that adds one result to thousands writes one. A run that withdraws a result writes the
record whole. If later pieces are damaged or lost, the rest is still true, because no piece withdraws results.
"""

from __future__ import annotations

import hashlib
import os
import struct
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import msgspec

from pypto_build.artifact.files import write_bytes

from .action import SCHEMA, InputSet, Result
from .looking import Identity
from .store import SEAL_BYTES, decoded, read_file, sealed, unsealed

RECORD, MORE = ".results", ".results.more"

_SIZE = struct.Struct("<I")
# Beyond this it is written whole again: a process that starts has all of it to read.
_GROWS_BYTES = 2 << 20


class Record(msgspec.Struct, array_like=True):
    """State that an output directory keeps between runs: digests by path, input sets by their digest, results by
    name, and the file systems of the devices.
    """

    digests: dict[str, tuple[Identity, str]] = {}
    sets: dict[str, InputSet] = {}
    results: dict[str, Result] = {}
    devices: dict[int, str] = {}
    schema: int = SCHEMA

    def add(self, more: Record) -> None:
        """Merge the content of a later piece."""
        self.remember(more.digests, more.devices)
        self.sets.update(more.sets)
        self.results.update(more.results)

    def remember(self, digests: Mapping[str, tuple[Identity, str]], devices: Mapping[int, str]) -> None:
        """Add digests; drop digests of files on a device whose file system has changed."""
        gone = {device for device, epoch in devices.items() if self.devices.get(device, epoch) != epoch}
        if gone:
            self.digests = {path: seen for path, seen in self.digests.items() if seen[0][0] not in gone}
        self.devices.update(devices)
        self.digests.update(digests)


class RecordFile:
    """The record file of ``directory``, up to the point that this process has read or written."""

    def __init__(self, directory: Path) -> None:
        self._path, self._more = directory / RECORD, directory / MORE
        self._seal = b""  # of the record; nothing where there is none that can be added to
        self._digest = b""  # of the last piece, and of the record before there is one
        self._end = 0  # of the pieces

    def read(self) -> Record:
        """Return the record; an empty one if it is missing or damaged. Its results are then restored from the store."""
        self._seal, self._end = b"", 0
        data = read_file(self._path)
        record = _decode(unsealed(data))
        if data is None or record is None:
            return Record()
        self._seal = self._digest = data[:SEAL_BYTES]
        for more in self._added():
            record.add(more)
        return record

    def news(self) -> list[Record] | None:
        """Return the records that other processes have added since the last read or write; None if the record was
        replaced.
        """
        if not self._seal or read_file(self._path, SEAL_BYTES) != self._seal:
            return None
        if self._end and read_file(self._more, SEAL_BYTES, self._end - SEAL_BYTES) != self._digest:
            return None
        return list(self._added())

    def add(self, more: Record) -> bool:
        """Append to the record; return False if that is impossible, for instance because another process has
        written.
        """
        if not self._seal:
            return False
        payload = msgspec.msgpack.encode(more)
        size = _SIZE.pack(len(payload))
        digest = hashlib.sha256(self._digest + size + payload).digest()
        piece = size + payload + digest
        if self._end + len(piece) > _GROWS_BYTES or read_file(self._path, SEAL_BYTES) != self._seal:
            return False
        if not self._end:
            write_bytes(self._more, self._seal + piece)
            self._end = len(self._seal)
        elif not _append(self._more, piece, self._end):
            return False
        self._digest, self._end = digest, self._end + len(piece)
        return True

    def write(self, record: Record) -> None:
        """Write the whole record."""
        payload = msgspec.msgpack.encode(record)
        data = sealed(payload)
        self._seal = b""
        write_bytes(self._path, data)  # from now on, the pieces are of another one
        with suppress(OSError):
            self._more.unlink()
        self._seal = self._digest = data[:SEAL_BYTES]
        self._end = 0

    def _added(self) -> Iterator[Record]:
        """Yield the pieces after those already read, up to the first damaged one."""
        data = read_file(self._more, offset=self._end) or b""
        if not self._end:
            if data[:SEAL_BYTES] != self._seal:
                return
            data, self._end = data[SEAL_BYTES:], SEAL_BYTES
        begin = 0
        while begin + _SIZE.size <= len(data):
            (size,) = _SIZE.unpack_from(data, begin)
            end = begin + _SIZE.size + size
            digest = hashlib.sha256(self._digest + data[begin:end]).digest()
            more = _decode(data[begin + _SIZE.size : end]) if data[end : end + SEAL_BYTES] == digest else None
            if more is None:
                break
            self._digest, begin = digest, end + SEAL_BYTES
            self._end += _SIZE.size + size + SEAL_BYTES
            yield more


def _decode(payload: bytes | None) -> Record | None:
    record = decoded(payload, Record)
    return record if record is not None and record.schema == SCHEMA else None


def _append(path: Path, piece: bytes, end: int) -> bool:
    """Append to a file if it has the expected size; return True on success."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return os.fstat(descriptor).st_size == end and os.write(descriptor, piece) == len(piece)
    finally:
        os.close(descriptor)
