"""A process that is started before its turn: it loads what it needs, and reads no input until it is told to go on.

The descriptor of the pipe is in the environment; when it closes without a byte, nobody needs the process any more.
Ctrl-C is kept from it until its turn comes: before, it is the business of whoever started it.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress

#: Where a process that is to wait finds the number of its descriptor.
VARIABLE = "PYPTO_BUILD_TURN"


def waiting_environment(descriptor: int) -> dict[str, str]:
    """What a process that is to wait finds in its environment."""
    return {VARIABLE: str(descriptor)}


@contextmanager
def without_interrupts() -> Iterator[None]:
    """Processes that are started in the block get no Ctrl-C before their turn."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def has_to_wait() -> bool:
    """Whether this process was started before its turn."""
    return os.environ.get(VARIABLE, "").isdigit()


def await_turn() -> bool:
    """Wait for the turn of this process, if it was started before it; false if it is not wanted after all."""
    if not has_to_wait():
        return True
    descriptor, told = int(os.environ.pop(VARIABLE)), b""
    with suppress(OSError):
        told = os.read(descriptor, 1)
        os.close(descriptor)
    if not told or signal.SIGINT in signal.sigpending():
        return False
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    return True
