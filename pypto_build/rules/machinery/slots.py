"""Turns to run a command, which processes share as those of GNU make do: a pipe with a byte for each free turn."""

from __future__ import annotations

import os
import select
import threading
from collections.abc import Iterator
from contextlib import contextmanager

# A turn of this process's own may become free while another one is awaited.
_LOOK_EVERY_S = 0.05


class Slots:
    """The turns of a batch. Every process has one of its own; further ones are in the pipe, as far as there are any."""

    def __init__(self) -> None:
        self._reader, self._writer = os.pipe()
        os.set_blocking(self._reader, False)
        self._own = threading.Lock()
        self.free = 0  # put into the pipe by this process

    def offer(self, count: int) -> None:
        """Let ``count`` turns be free besides those that the processes have, as far as more were not offered yet."""
        if count > self.free:
            os.write(self._writer, b"+" * (count - self.free))
            self.free = count

    @contextmanager
    def turn(self) -> Iterator[None]:
        """While a command runs; waits until there is a turn."""
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
