"""Locks of output directories: one build at a time; a second build waits and prints which build it waits for."""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from pathlib import Path
from typing import IO

from pypto_build import terminal
from pypto_build.proof.locks import open_lock

#: In OUT: what a process locks while it builds there.
LOCK = ".lock"

# Locks of this process, held until it ends; its environments share them. Only the holder of a lock removes its file;
# processes that waited for it notice.
_held: dict[Path, int] = {}


def lock_output(output: Path) -> None:
    """Take the lock of ``output``; wait while another process builds there."""
    if output in _held:
        return
    file = _take(output)
    while not _is_there(file, output):  # `scons -c` has removed it meanwhile
        file.close()
        file = _take(output)
    file.seek(0)
    file.truncate()
    file.write(str(os.getpid()))
    file.flush()
    _hold(output, file)


def _take(output: Path) -> IO[str]:
    """Return the locked lock file; the directory is created if missing."""
    while True:
        output.mkdir(parents=True, exist_ok=True)
        with suppress(FileNotFoundError):
            file = open_lock(output / LOCK)
            break
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.seek(0)
        owner = f"process {number}" if (number := file.read().strip()) else "another process"
        terminal.complain(f"scons: {output} is being built by {owner}; waiting for it")
        fcntl.flock(file, fcntl.LOCK_EX)
    return file


def _is_there(file: IO[str], output: Path) -> bool:
    """Return whether this open file is still the lock file of ``output``."""
    try:
        now = os.stat(output / LOCK)
    except OSError:
        return False
    return os.path.samestat(now, os.fstat(file.fileno()))


def try_lock(output: Path) -> bool:
    """Take the lock of ``output`` unless another process builds there."""
    if output not in _held:
        file = open_lock(output / LOCK)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            return False
        if not _is_there(file, output):
            file.close()
            return False
        os.utime(file.fileno())  # that it was used
        _hold(output, file)
    return True


def release_output(output: Path) -> None:
    """Release this process's lock of ``output``, if it has one."""
    if output in _held:
        os.close(_held.pop(output))


def _hold(output: Path, file: IO[str]) -> None:
    """Keep the lock by its own file descriptor: Python would warn of a file that is open at exit."""
    _held[output] = os.dup(file.fileno())
    file.close()
