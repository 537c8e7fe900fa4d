"""Files below a directory that others may write to: no directory on the way is a link.

A link out of the directory would let its author write, replace or remove files there with the user's rights. A file
where a directory should be is removed.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@contextmanager
def directory_below(top: Path, name: str | PurePosixPath) -> Iterator[int]:
    """Yield the descriptor of the directory ``name`` in ``top``; create missing directories on the path. Raises
    ``OSError``.
    """
    top.mkdir(parents=True, exist_ok=True)
    current = os.open(top, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for part in PurePosixPath(name).parts:
            inner = _enter(current, part)
            os.close(current)
            current = inner
        yield current
    finally:
        os.close(current)


def _enter(directory: int, name: str) -> int:
    try:
        return os.open(name, _DIRECTORY, dir_fd=directory)
    except FileNotFoundError:
        pass
    except OSError as error:
        if error.errno not in (errno.ENOTDIR, errno.ELOOP):
            raise
        os.unlink(name, dir_fd=directory)  # a link, or no directory
    with suppress(FileExistsError):
        os.mkdir(name, dir_fd=directory)
    return os.open(name, _DIRECTORY, dir_fd=directory)


def write_below(top: Path, name: str, data: bytes) -> None:
    """Write the file ``name`` in ``top`` atomically. Raises ``OSError``, which names it."""
    path = PurePosixPath(name)
    temporary = f".{path.name}.{os.getpid()}.{os.urandom(4).hex()}.tmp"
    try:
        with directory_below(top, path.parent) as directory:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            try:
                with open(os.open(temporary, flags, 0o666, dir_fd=directory), "wb") as file:
                    file.write(data)
                os.replace(temporary, path.name, src_dir_fd=directory, dst_dir_fd=directory)
            except BaseException:
                with suppress(OSError):
                    os.unlink(temporary, dir_fd=directory)
                raise
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(top / name)) from error


def replace_below(top: Path, old: str, new: str) -> None:
    """Rename the file ``old`` in ``top`` to ``new`` in the same directory, and remove its execution permission.

    Raises ``OSError``, which names the new file.
    """
    try:
        with directory_below(top, PurePosixPath(old).parent) as directory:
            _forbid_execution(directory, os.path.basename(old))
            os.replace(os.path.basename(old), os.path.basename(new), src_dir_fd=directory, dst_dir_fd=directory)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(top / new)) from error


def _forbid_execution(directory: int, name: str) -> None:
    with suppress(OSError):  # a link, or an unreadable file
        file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=directory)
        try:
            os.fchmod(file, os.fstat(file).st_mode & 0o666)
        finally:
            os.close(file)


def remove_below(top: Path, name: str) -> None:
    """Remove the file or link ``name`` in ``top`` if it exists. Raises ``OSError``, also if its directory is
    missing.
    """
    with directory_below(top, PurePosixPath(name).parent) as directory, suppress(OSError):
        os.unlink(os.path.basename(name), dir_fd=directory)
