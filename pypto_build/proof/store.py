"""Store of results by content, for all workspaces of a user.

Its interface has three methods, which a remote store can implement. ``actions/`` holds the results of an action by its
key; ``content/`` holds files by their SHA-256. ``withdrawn/`` has an empty file for each action whose last run failed,
so that other workspaces no longer report a pass. Everything read is verified, so a damaged store costs time only.
Everything written appears by one rename. The least recently used files are removed when the store exceeds its size.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import msgspec

from pypto_build.artifact.files import open_file, write_bytes

from .digests import bytes_digest
from .eviction import Entry, entries, excess, remove
from .locks import locked

#: Default limit of the store's size, in bytes.
DEFAULT_SIZE = 5 << 30
#: Results that are remembered of one key: the same unit with other headers.
_KEPT_RESULTS = 8
#: A result that is larger than this part of the store is not kept.
_LARGEST_PART = 16
#: Bytes that no file of a store or of a record has.
_LARGEST_FILE = 4 << 30
#: The part of the store's size that eviction leaves.
_ROOM = 0.8
#: Size of the digest before sealed data.
SEAL_BYTES = 32

Document = TypeVar("Document")


class Store:
    """The store in ``directory``, which may hold ``size`` bytes; a store of size 0 keeps nothing.

    ``shipped`` is a read-only store that came with the installation.
    """

    def __init__(self, directory: Path, size: int = DEFAULT_SIZE, shipped: Path | None = None) -> None:
        self.directory = directory
        self._shipped = shipped
        self._size = size
        self._written = 0

    @property
    def largest(self) -> int:
        """Return the largest size in bytes of a result that is kept."""
        return self._size // _LARGEST_PART

    def find(self, key: str) -> Iterable[bytes]:
        """Return the results of an action, the newest first."""
        return self.local_results(key)

    def local_results(self, key: str) -> list[bytes]:
        """Return the results of an action: those in this directory, the newest first, then those shipped with the
        installation.
        """
        if not self._size:
            return []
        path = self._path("actions", key)
        if results := decode_entry(key, read_file(path)):
            _touch(path)
        if self._shipped is not None:
            shipped = decode_entry(key, read_file(_path_in(self._shipped, "actions", key)))
            results += [result for result in shipped if result not in results]
        return results

    def read(self, digest: str) -> bytes | None:
        """Return the content with this digest; None if it is missing or damaged."""
        if not self._size:
            return None
        path = self._path("content", digest)
        data = read_file(path)
        if data is not None and bytes_digest(data) == digest:
            _touch(path)
            return data
        if data is not None or not path.is_file():  # whatever lies there is in the way of the next one
            with suppress(OSError):
                path.unlink()
        data = read_file(_path_in(self._shipped, "content", digest)) if self._shipped is not None else None
        return data if data is not None and bytes_digest(data) == digest else None

    def publish(self, key: str, result: bytes, contents: Iterable[bytes]) -> None:
        """Keep a result, and the contents that it names; do nothing if the store is full or read-only."""
        if not self._size:
            return
        with suppress(OSError):
            for data in contents:
                path = self._path("content", bytes_digest(data))
                if len(data) <= self.largest and not path.exists():
                    self._write(path, data)
            self._write(self._path("actions", key), encode_entry(key, [result, *self.local_results(key)]))
            self._path("withdrawn", key).unlink()

    def withdraw(self, key: str) -> None:
        """Record that an action failed: results recorded in workspaces are invalid until the action succeeds."""
        if self._size:
            with suppress(OSError):
                self._write(self._path("withdrawn", key), b"")

    def is_withdrawn(self, key: str) -> bool:
        """Return whether the last run of an action, in any workspace, failed."""
        return os.path.exists(self._path("withdrawn", key))

    def close(self) -> None:
        """Record the written files, and evict files beyond the size limit."""
        written, self._written = self._written, 0
        if not written:
            return
        with suppress(OSError), locked(self.directory / ".lock"):
            usage = self.directory / "usage"
            recorded = read_file(usage)
            total = int(recorded) if recorded and recorded.isdigit() else sum(entry.size for entry in self.entries())
            total += written
            if total > self._size:
                total = self.shrink(int(self._size * _ROOM))
            write_bytes(usage, str(total).encode())

    def report(self) -> str:
        """Return a line for users at the end of a run; empty for a store without faults."""
        return ""

    def entries(self) -> Iterator[Entry]:
        """Return all files of the store."""
        return entries(self.directory, ("actions", "content", "withdrawn"))

    def shrink(self, size: int) -> int:
        """Evict files until at most ``size`` bytes are left; return the bytes left."""
        remove(excess(self.entries(), size))
        return sum(entry.size for entry in self.entries())

    def _path(self, kind: str, name: str) -> Path:
        return _path_in(self.directory, kind, name)

    def _write(self, path: Path, data: bytes) -> None:
        write_bytes(path, data)
        self._written += len(data)


def encode_entry(key: str, results: Iterable[bytes]) -> bytes:
    """Return the sealed file of an action, which contains its key and its results, the newest first."""
    kept = list(dict.fromkeys(results))[:_KEPT_RESULTS]
    return sealed(msgspec.msgpack.encode((key, kept)))


def decode_entry(key: str, data: bytes | None) -> list[bytes]:
    """Return the results of an action; none where ``data`` is damaged or another action's."""
    of, results = decoded(unsealed(data), tuple[str, list[bytes]]) or ("", [])
    return results if of == key else []  # else the file of another action was copied to this place


def _path_in(directory: Path, kind: str, name: str) -> Path:
    return directory / kind / name[:2] / name


def read_file(path: Path, size: int = -1, offset: int = 0) -> bytes | None:
    """Return the content of a regular file; None if the file is missing or too large."""
    try:
        with open_file(path) as file:
            if os.fstat(file.fileno()).st_size > _LARGEST_FILE:
                return None
            file.seek(offset)
            return file.read(size)
    except OSError:
        return None


def decoded(data: bytes | None, kind: type[Document]) -> Document | None:
    """Decode a document; None if ``data`` is missing or damaged."""
    try:
        return None if data is None else msgspec.msgpack.decode(data, type=kind)
    except (ValueError, RecursionError):
        return None


def _touch(path: Path) -> None:
    with suppress(OSError):
        os.utime(path)


def sealed(data: bytes) -> bytes:
    return hashlib.sha256(data).digest() + data


def unsealed(data: bytes | None) -> bytes | None:
    """Return data without its seal (a checksum); None if it is damaged."""
    if data is None or hashlib.sha256(data[SEAL_BYTES:]).digest() != data[:SEAL_BYTES]:
        return None
    return data[SEAL_BYTES:]
