"""The record of a place on disk: a file that is written whole, and a second one to which later results are added.

``.results`` is the whole record, ``.results.more`` grows by a piece each time. A piece has a digest over itself and all
before it. So a run that adds one result to thousands writes one. Only additions are written so; a run that takes a
result back writes the record whole. If later pieces are damaged or lost, the rest was true once, and no piece has taken
it back.
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
    """The memory of a place from run to run: digests by path, input sets by their digest, results by name; and what
    was on the devices whose files have digests."""

    digests: dict[str, tuple[Identity, str]] = {}
    sets: dict[str, InputSet] = {}
    results: dict[str, Result] = {}
    devices: dict[int, str] = {}
    schema: int = SCHEMA

    def add(self, more: Record) -> None:
        """Take over the content of a later piece."""
        self.remember(more.digests, more.devices)
        self.sets.update(more.sets)
        self.results.update(more.results)

    def remember(self, digests: Mapping[str, tuple[Identity, str]], devices: Mapping[int, str]) -> None:
        """Add digests; those of files that were on a device before something else was are dropped."""
        gone = {device for device, epoch in devices.items() if self.devices.get(device, epoch) != epoch}
        if gone:
            self.digests = {path: seen for path, seen in self.digests.items() if seen[0][0] not in gone}
        self.devices.update(devices)
        self.digests.update(digests)


class RecordFile:
    """The record of the place ``directory``, as far as this process has read or written it."""

    def __init__(self, directory: Path) -> None:
        self._path, self._more = directory / RECORD, directory / MORE
        self._seal = b""  # of the record; nothing where there is none that can be added to
        self._digest = b""  # of the last piece, and of the record before there is one
        self._end = 0  # of the pieces

    def read(self) -> Record:
        """Return the record; an empty one if it is missing or damaged, which costs a look at the store."""
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
        """Return the records that others have added since this process has read or written; None if the record was
        replaced.
        """
        if not self._seal or read_file(self._path, SEAL_BYTES) != self._seal:
            return None
        if self._end and read_file(self._more, SEAL_BYTES, self._end - SEAL_BYTES) != self._digest:
            return None
        return list(self._added())

    def add(self, more: Record) -> bool:
        """Add to the record; return False if that is impossible, as it is when another process has written."""
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
        """Yield the pieces behind those that this process knows, up to the first that is damaged."""
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
    """Add to a file of the expected size; return True if that was done."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return os.fstat(descriptor).st_size == end and os.write(descriptor, piece) == len(piece)
    finally:
        os.close(descriptor)
