"""Trace of a run's time: spans of this process and of its children, as lines of one file (``PROFILE=1``).

Each line is one complete event of the Chrome trace format (``ph: X``). Times are microseconds of the system's monotonic
clock, which all processes of a machine share; ``tdur`` is the processor time of the thread. Without a file, a span
costs one comparison.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress

#: The file that spans are written to, for this process and those that it starts.
VARIABLE = "PYPTO_BUILD_TRACE"

_NOTHING: AbstractContextManager[None] = nullcontext()
# No system gives a process such a number or a larger one.
_BEYOND = 1 << 22


class _Own:
    """This process's number in the trace, and the trace file, if they differ from its process id and the environment.

    The number 0 stands for the process id.
    """

    number = 0
    path = ""


def be_child(parent: int, count: int) -> None:
    """Use the number of the ``count``-th child of ``parent`` in the trace.

    In its own PID namespace, a process may have the same id as a process outside.
    """
    _Own.number, _Own.path = parent + count * _BEYOND, os.environ.get(VARIABLE, "")


def span(name: str, category: str = "work") -> AbstractContextManager[None]:
    """Record the time that the block takes, under a name for users."""
    path = _Own.path or os.environ.get(VARIABLE)
    return _written(path, name, category) if path else _NOTHING


def note_start(name: str) -> None:
    """Record the time from the start of this process until now, spent on the interpreter and imports."""
    if path := os.environ.get(VARIABLE):
        now = time.monotonic_ns()
        _write(path, name, "start", _process_start_ns(now), now)


@contextmanager
def _written(path: str, name: str, category: str) -> Iterator[None]:
    started, worked = time.monotonic_ns(), time.thread_time_ns()
    try:
        yield
    finally:
        _write(path, name, category, started, time.monotonic_ns(), time.thread_time_ns() - worked)


def _write(path: str, name: str, category: str, started: int, ended: int, worked: int | None = None) -> None:
    import json

    event = {
        "name": name,
        "cat": category,
        "ph": "X",
        "ts": started / 1000,
        "dur": (ended - started) / 1000,
        "pid": _Own.number or os.getpid(),
        "tid": threading.get_native_id(),
    }
    if worked is not None:
        event["tdur"] = worked / 1000
    with suppress(OSError):  # a kernel may have used up what there is of descriptors
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.write(descriptor, json.dumps(event).encode() + b"\n")  # one piece: other processes write too
        finally:
            os.close(descriptor)


def _process_start_ns(now: int) -> int:
    """Return the start of this process; the system gives it in hundredths of a second since boot."""
    with open("/proc/self/stat", encoding="ascii", errors="replace") as file:
        ticks = int(file.read().rpartition(")")[2].split()[19])
    since_boot = time.clock_gettime_ns(time.CLOCK_BOOTTIME) - ticks * (1_000_000_000 // os.sysconf("SC_CLK_TCK"))
    return now - since_boot
