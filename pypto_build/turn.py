"""Processes that are started before they are needed: they load modules, but read no input, until their turn.

The environment has the descriptor of a pipe. If the pipe closes without a byte, the process is not needed. Ctrl-C is
blocked until its turn comes: before, the process that started it handles Ctrl-C.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress

#: The variable with the descriptor's number for a process that is to wait.
VARIABLE = "PYPTO_BUILD_TURN"


def waiting_environment(descriptor: int) -> dict[str, str]:
    """Return the environment variable that makes a process wait for its turn."""
    return {VARIABLE: str(descriptor)}


@contextmanager
def without_interrupts() -> Iterator[None]:
    """Block Ctrl-C for processes that are started in the block, until their turn."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def has_to_wait() -> bool:
    """Return True if this process was started before its turn."""
    return os.environ.get(VARIABLE, "").isdigit()


def await_turn() -> bool:
    """Wait for the turn of this process, if it was started before it. Return False if the process is not needed."""
    if not has_to_wait():
        return True
    descriptor, answer = int(os.environ.pop(VARIABLE)), b""
    with suppress(OSError):
        answer = os.read(descriptor, 1)
        os.close(descriptor)
    if not answer or signal.SIGINT in signal.sigpending():
        return False
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    return True
