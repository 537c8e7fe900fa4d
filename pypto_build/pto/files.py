"""Reading a ``.pto`` file that anybody may have written."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

#: Bytes of a module; the largest that people have has a hundredth of it.
_LARGEST = 128 << 20


def read_module(path: str | Path) -> str:
    """Return the text of a module; bytes that are not UTF-8 are kept as surrogates.

    Raises ``OSError`` with a ``strerror`` for people, also for files that are not regular (they could block) or too
    large.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except ValueError:
        raise OSError(errno.EINVAL, "no file can have this name", str(path)) from None
    try:
        _require_file(descriptor, str(path))
    except OSError:
        os.close(descriptor)
        raise
    with open(descriptor, "rb", buffering=0) as file:
        text = file.read().decode("utf-8", "surrogateescape")
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


def _require_file(descriptor: int, path: str) -> None:
    status = os.fstat(descriptor)
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "it is a pipe or a device, not a file", path)
    if status.st_size > _LARGEST:
        raise OSError(errno.EFBIG, f"it has {status.st_size:,} bytes, at most {_LARGEST:,} are read", path)
