"""Readers of untrusted files: regular files only, of a sensible size, never waiting for a writer.

All errors are ``OSError``; their ``strerror`` completes the message "cannot be read: …" in a few words.
"""

from __future__ import annotations

import errno
import hashlib
import mmap
import os
import re
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, BinaryIO, TypeVar

import msgspec

from .errors import ArtifactError

# Files that appear whole or not at all: written under a temporary name beside the target, then renamed.


@contextmanager
def replace_file(path: Path) -> Iterator[IO[bytes]]:
    """Open a binary file that replaces ``path`` when the block ends without an exception.

    An ``OSError`` names ``path``, not the temporary file, even if the system names no file (a full disk).
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.parent / f".{path.name}.{os.getpid()}.{os.urandom(4).hex()}.tmp"  # `/` and `.` have no name
    try:
        with temporary.open("x+b") as file:
            yield file
        temporary.replace(path)
    except BaseException as error:
        with suppress(OSError):
            temporary.unlink()
        if isinstance(error, OSError) and error.filename in (None, str(temporary)):
            raise OSError(error.errno, error.strerror, str(path)) from error
        raise


def write_bytes(path: Path, data: bytes) -> None:
    """Write ``data`` to ``path`` atomically."""
    with replace_file(path) as file:
        file.write(data)


# Names of such files, with the number of the process that writes them.
_TEMPORARY = re.compile(r"\..+\.(\d+)(?:\.[0-9a-f]{8})?\.tmp\Z")


def remove_temporary(root: Path) -> None:
    """Remove the temporary files below `root` of processes that were killed before they renamed them."""
    for path in root.rglob(".*.tmp"):
        writer = _TEMPORARY.match(path.name)
        if writer and not os.path.exists(f"/proc/{writer[1]}"):
            with suppress(OSError):
                path.unlink()


# Digests of files that may be larger than memory.

_PIECE = 1 << 20


def file_digest(path: Path) -> str:
    """Return the SHA-256 of a file."""
    digest = hashlib.sha256()
    with open_file(path) as file:
        while piece := file.read(_PIECE):
            digest.update(piece)
    return digest.hexdigest()


#: Bytes that a source, a manifest or a record of a build may have; generated ones have a hundredth of it at most.
LARGEST = 256 << 20

#: The first decoding of a type inspects it in Python code, where two threads at once crash.
_DECODING = threading.Lock()
_KINDS = (
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)

Document = TypeVar("Document")


def from_here(path: str | Path) -> str:
    """Return a path for messages: relative to the working directory if the path lies below it."""
    path, here = Path(path), Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)


def open_file(path: str | Path) -> BinaryIO:
    """Return the regular file at ``path``, open for reading; never waits. Raises ``OSError`` for anything else."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except ValueError:  # a zero byte, or a character that no file name has
        raise OSError(errno.EINVAL, "no file can have this name; correct the path", str(path)) from None
    try:
        mode = os.fstat(descriptor).st_mode
        if not stat.S_ISREG(mode):
            if stat.S_ISDIR(mode):
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
            kind = next((name for test, name in _KINDS if test(mode)), "something else")
            raise OSError(errno.EINVAL, f"this is {kind}, not a file", str(path))
        return open(descriptor, "rb", buffering=0)
    except BaseException:
        os.close(descriptor)
        raise


def read_bytes(path: str | Path, largest: int = LARGEST) -> bytes:
    """Return the content of the regular file at ``path``. Raises ``OSError``, also for a file of more than
    ``largest`` bytes.
    """
    with open_file(path) as file:
        size = os.fstat(file.fileno()).st_size
        if size > largest:
            raise OSError(errno.EFBIG, f"the file has {size:,} bytes, but at most {largest:,} are read", str(path))
        return file.read()


def check_size(path: str | Path, size: int, largest: int = LARGEST) -> None:
    """Raise a usage error at ``path`` for a file above the size limit; its digest alone would take minutes."""
    if size > largest:
        raise ArtifactError(
            path, f"the file has {size:,} bytes, but at most {largest:,} are read", "restore the file or move it away"
        )


def map_file(path: str | Path) -> bytes | mmap.mmap:
    """Return the content of the regular file at ``path``, mapped into memory and read on access. Raises ``OSError``."""
    with open_file(path) as file:
        if os.fstat(file.fileno()).st_size == 0:
            return b""
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def read_text(path: str | Path, largest: int = LARGEST, errors: str = "strict") -> str:
    r"""Return the text of the regular file at ``path``, with ``\n`` at the end of every line.

    Raises ``OSError``, also for text that is not UTF-8; ``errors`` is an argument of ``bytes.decode``.
    """
    data = read_bytes(path, largest)
    try:
        text = data.decode("utf-8", errors)
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise OSError(errno.EILSEQ, f"it is not UTF-8 text (line {line})", str(path)) from None
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


def read_source(path: str | Path) -> str:
    """Return the C++ text at ``path``, invalid UTF-8 replaced. Raises a usage error that names the file."""
    try:
        return read_text(path, errors="replace")
    except OSError as error:
        raise ArtifactError(path, f"cannot be read: {error.strerror}", "restore the file or compile again") from None


def read_record(
    path: Path,
    kind: type[Document],
    wrong: str,
    way_out: str,
    *,
    unread: str = "",
    schema: int | None = None,
    largest: int = LARGEST,
) -> Document:
    """Return the document at ``path``; if ``schema`` is given, the document must have it.

    Raises a usage error. For a file of another kind, ``wrong`` is its message and ``way_out`` its hint; for an
    unreadable file, ``unread`` is the hint.
    """
    try:
        document = decode_json(read_bytes(path, largest), kind)
    except OSError as error:
        raise ArtifactError(path, f"cannot be read: {error.strerror}", unread or way_out) from None
    except msgspec.MsgspecError as error:
        raise ArtifactError(path, f"{wrong}: {error}", way_out) from None
    if schema is not None and (version := getattr(document, "schema", None)) != schema:
        raise ArtifactError(path, f"schema: version {version} is not supported, only {schema}", way_out)
    return document


def read_payload(path: Path, way_out: str, largest: int = LARGEST) -> bytes:
    """Return the content of a file that belongs to a document. Raises a usage error, with ``way_out`` as its hint."""
    try:
        return read_bytes(path, largest)
    except OSError as error:
        raise ArtifactError(path, f"cannot be read: {error.strerror}", way_out) from None


def decode_json(data: bytes, kind: type[Document]) -> Document:
    """Return the document in ``data``. Raises ``msgspec.DecodeError`` for every kind of damage."""
    try:
        with _DECODING:
            return msgspec.json.decode(data, type=kind)
    except (UnicodeDecodeError, RecursionError) as error:
        reason = "is nested too deeply" if isinstance(error, RecursionError) else "is not UTF-8 text"
        raise msgspec.DecodeError(reason) from None
