"""Ends processes and removes memory that outlive the run which made them, where the system does not do so itself."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

_PROCESSES = Path("/proc")
SHARED_MEMORY = Path("/dev/shm")


def end_holders(*descriptors: int) -> None:
    """Kill every process that holds a pipe behind `descriptors` open, except this process and its own children.

    While any process can write to a pipe, its reader sees no end of file.
    """
    pipes = set()
    for descriptor in descriptors:
        with suppress(OSError):  # closed already
            pipes.add(f"pipe:[{os.fstat(descriptor).st_ino}]")
    parents = _parents()
    for pid in parents:
        with suppress(OSError):  # gone, or another user's
            held = any(os.readlink(file) in pipes for file in (_PROCESSES / str(pid) / "fd").iterdir())
            if held and os.getpid() not in _line(pid, parents):
                os.kill(pid, signal.SIGKILL)


def _parents() -> dict[int, int]:
    """Return the parent of every process."""
    return {pid: _parent(pid) for pid in map(int, filter(str.isdecimal, os.listdir(_PROCESSES)))}


def _line(pid: int, parents: dict[int, int]) -> Iterator[int]:
    """Yield a process and its ancestors."""
    while pid > 1:
        yield pid
        pid = parents.get(pid, 0)


def _parent(pid: int) -> int:
    """Return the parent of a process; 0 if there is none."""
    try:
        text = (_PROCESSES / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return 0
    return int(text.rpartition(")")[2].split()[1])


class SharedMemory:
    """The contents of shared memory before a run, so that new objects can be removed after it."""

    def __init__(self, runtime: Any) -> None:
        self._runtime = runtime
        self._before, self._since = _names(), int(time.time())

    def remove(self, creator: int) -> None:
        """Remove the System V segments of a process, and new files of this user that no process has open."""
        self._runtime.remove_segments(creator, self._since)
        new = _names() - self._before
        used = _in_use() if new else set()
        for path in (SHARED_MEMORY / name for name in new):
            with suppress(OSError):
                status = path.lstat()
                if status.st_uid == os.getuid() and status.st_ino not in used and not path.is_dir():
                    path.unlink()


def _names() -> set[str]:
    try:
        return set(os.listdir(SHARED_MEMORY))
    except OSError:
        return set()


def _in_use() -> set[int]:
    """Return the inodes of shared memory files that a process has mapped or open. File names would not do: `sem_open`
    maps a file before the file gets its final name."""
    used = set()
    for process in _PROCESSES.glob("[0-9]*"):
        with suppress(OSError):
            for line in (process / "maps").read_text(encoding="utf-8", errors="replace").splitlines():
                used |= {int(line.split(None, 5)[4])} if f"{SHARED_MEMORY}/" in line else set()
        with suppress(OSError):
            for file in (process / "fd").iterdir():
                with suppress(OSError):  # closed meanwhile
                    used |= {file.stat().st_ino} if os.readlink(file).startswith(f"{SHARED_MEMORY}/") else set()
    return used
