"""Ends processes that outlived the run which started them, though they left its process group.

They are found by the pipe they inherited: as long as somebody can write to it, its reader sees no end.
"""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path

_PROCESSES = Path("/proc")


def end_holders(descriptor: int) -> None:
    """Kill every process that has the pipe behind `descriptor` open, but this one and those it started itself."""
    pipe = f"pipe:[{os.fstat(descriptor).st_ino}]"
    for process in _PROCESSES.glob("[0-9]*"):
        pid = int(process.name)
        with suppress(OSError):  # gone, or another user's
            if any(os.readlink(file) == pipe for file in (process / "fd").iterdir()) and not _is_ours(pid):
                os.kill(pid, signal.SIGKILL)


def _is_ours(pid: int) -> bool:
    """Whether a process is this one or descends from it: a process that went its own way has another parent."""
    while pid > 1:
        if pid == os.getpid():
            return True
        pid = _parent(pid)
    return False


def _parent(pid: int) -> int:
    """The parent of a process; 0 if there is none."""
    try:
        text = (_PROCESSES / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return 0
    return int(text.rpartition(")")[2].split()[1])
