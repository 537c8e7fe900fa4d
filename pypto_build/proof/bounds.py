"""Limits of an answer from another machine: its bytes, and its time.

A server is not trusted to end its answer, nor to send it in time.
"""

from __future__ import annotations

import io
import socket
import threading
import time
from typing import Any

#: Time limit of each step of an exchange, in seconds.
STEP_S = 10.0


class TooMuch(OSError):
    """The answer is larger than it may be."""


class TooSlow(OSError):
    """The answer is not there in time."""


class Bounds(threading.local):
    """The time and bytes that the thread's current exchange may still take."""

    left = 0
    deadline = 0.0

    def renew(self, size: int, seconds: float) -> None:
        """Begin an exchange: ``size`` bytes may come within ``seconds``."""
        self.left, self.deadline = size, time.monotonic() + seconds

    def step(self) -> float:
        """The seconds that the next step may take. Raises `TooSlow` where there are none."""
        remaining = self.deadline - time.monotonic()
        if remaining <= 0:
            raise TooSlow("is too slow")
        return min(STEP_S, remaining)

    def count(self, size: int) -> None:
        """Note that ``size`` bytes came. Raises `TooMuch`."""
        self.left -= size
        if self.left < 0:
            raise TooMuch("sends more than it may")


class BoundedSocket:
    """A connected socket that keeps within ``bounds``, as far as clients of HTTP and redis use one."""

    _PIECE = 1 << 16

    def __init__(self, connected: socket.socket, bounds: Bounds) -> None:
        self._socket, self._bounds = connected, bounds
        self._readers, self._closed = 0, False

    def recv(self, size: int, *flags: int) -> bytes:
        self._limit()
        data = self._socket.recv(size, *flags)
        self._bounds.count(len(data))
        return data

    def recv_into(self, buffer: Any, *sizes: int) -> int:
        self._limit()
        count = self._socket.recv_into(buffer, *sizes)
        self._bounds.count(count)
        return count

    def _limit(self) -> None:
        """Limit the next step; one that is not to wait at all does not."""
        if self._socket.gettimeout() != 0:
            self._socket.settimeout(self._bounds.step())

    def sendall(self, data: bytes) -> None:
        view = memoryview(data)
        for begin in range(0, len(view), self._PIECE):
            self._socket.settimeout(self._bounds.step())
            self._socket.sendall(view[begin : begin + self._PIECE])

    def makefile(self, *_: object) -> io.BufferedReader:
        """Return the file from which a response is read; the socket stays open until the file is closed."""
        self._readers += 1
        return io.BufferedReader(_Reader(self))

    def close(self) -> None:
        self._closed = True
        if not self._readers:
            self._socket.close()

    def reader_closed(self) -> None:
        """A file made by `makefile` is closed."""
        self._readers -= 1
        if self._closed:
            self.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._socket, name)


class _Reader(io.RawIOBase):
    def __init__(self, bounded: BoundedSocket) -> None:
        self._bounded = bounded

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        return self._bounded.recv_into(buffer)

    def close(self) -> None:
        if not self.closed:
            self._bounded.reader_closed()
        super().close()
