"""One build at a time in an output directory; a second one waits and says for whom."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import IO

from pypto_build import terminal
from pypto_build.proof.locks import open_lock

# Of this process, whose environments share its locks, and held until it ends. The file stays: removing it would let
# two processes lock different inodes.
_held: dict[Path, IO[str]] = {}


def lock_output(output: Path) -> None:
    """Take the lock of ``output``, waiting for whoever builds there."""
    if output in _held:
        return
    file = open_lock(output / ".lock")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.seek(0)
        owner = f"process {number}" if (number := file.read().strip()) else "another process"
        terminal.complain(f"scons: {output} is being built by {owner}; waiting for it")
        fcntl.flock(file, fcntl.LOCK_EX)
    file.seek(0)
    file.truncate()
    file.write(str(os.getpid()))
    file.flush()
    _held[output] = file


def try_lock(output: Path) -> bool:
    """Take the lock of ``output`` if nobody builds there."""
    if output not in _held:
        file = open_lock(output / ".lock")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            return False
        os.utime(file.fileno())  # that it was used
        _held[output] = file
    return True


def release_output(output: Path) -> None:
    """Let others build in ``output`` again, if this process has its lock."""
    if output in _held:
        _held.pop(output).close()
