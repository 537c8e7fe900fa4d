"""Job slots shared between processes as in GNU make's jobserver: a pipe with a byte for each free slot."""

from __future__ import annotations

import os
import select
import threading
from collections.abc import Iterator
from contextlib import contextmanager

# A turn of this process's own may become free while another one is awaited.
_LOOK_EVERY_S = 0.05


class Slots:
    """The job slots of a batch. Every process owns one; the pipe has the additional ones."""

    def __init__(self) -> None:
        self._reader, self._writer = os.pipe()
        os.set_blocking(self._reader, False)
        self._own = threading.Lock()
        self.free = 0  # put into the pipe by this process

    def offer(self, count: int) -> None:
        """Raise the number of additional slots to ``count``."""
        if count > self.free:
            os.write(self._writer, b"+" * (count - self.free))
            self.free = count

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Hold a slot while a command runs; wait until one is free."""
        token = b""
        while not self._own.acquire(blocking=False):
            if select.select([self._reader], [], [], _LOOK_EVERY_S)[0] and (token := self._take()):
                break
        try:
            yield
        finally:
            if token:
                os.write(self._writer, token)
            else:
                self._own.release()

    def _take(self) -> bytes:
        try:
            return os.read(self._reader, 1)
        except BlockingIOError:  # another one was faster
            return b""
