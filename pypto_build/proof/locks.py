"""Locks of directories: a lock file that one process at a time holds, even if other processes replace the file."""

from __future__ import annotations

import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO


def open_lock(path: Path) -> IO[str]:
    """Open the lock file for reading and writing. Other kinds of files are replaced. Raises ``OSError`` for a
    directory.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
    if path.is_symlink():
        path.unlink()
    file = os.open(path, flags, 0o666)
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        path.unlink()
        file = os.open(path, flags, 0o666)
    return os.fdopen(file, "r+", encoding="utf-8", errors="replace")


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock while the block runs."""
    with open_lock(path) as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
