"""What a child process says: replies, a line each, and its error output, which goes on to ours as it comes."""

from __future__ import annotations

import os
import selectors
import sys

_TAIL_BYTES = 8192


class Listener:
    """Listens to two descriptors of a child, which stay open; `tail` is the last that came as error output."""

    def __init__(self, replies: int, errors: int) -> None:
        self._replies = replies
        self._pending = b""
        self.tail = b""
        self._selector = selectors.DefaultSelector()
        for descriptor in (replies, errors):
            self._selector.register(descriptor, selectors.EVENT_READ)

    def collect(self, timeout_s: float) -> bool:
        """Take what was written, waiting for something until the time is over; False once there will be no more."""
        for key, _ in self._selector.select(timeout_s):
            data = os.read(key.fd, 1 << 16)
            if not data:
                self._selector.unregister(key.fd)
            elif key.fd == self._replies:
                self._pending += data
            else:
                self.tail = (self.tail + data)[-_TAIL_BYTES:]
                sys.stderr.write(data.decode(errors="replace"))
                sys.stderr.flush()
        return bool(self._selector.get_map())

    @property
    def has_reply(self) -> bool:
        """Whether a whole line has come."""
        return b"\n" in self._pending

    def reply(self) -> bytes:
        """The oldest line that has not been taken yet."""
        line, _, self._pending = self._pending.partition(b"\n")
        return line

    def close(self) -> None:
        """Listen no more."""
        self._selector.close()
