"""What a child process says: lines for its parent, and what it prints, which goes on to our own output as it comes.

All of it is data from somebody who may mean no good: lines are kept up to a limit, and neither a flood nor a reader of
ours that has stopped reading keeps the parent from looking at the clock.
"""

from __future__ import annotations

import os
import select
import stat
import sys
from typing import Literal

from pypto_build import terminal

_TAIL_BYTES = 8192
_PIECE = 1 << 16

#: More than any reply needs.
LINES_LIMIT = 1 << 24
#: More than anybody reads; what is printed beyond it is left out.
PRINTED_LIMIT = 1 << 26


class Lines:
    """What comes through a pipe in lines, up to a limit."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self.ended = self.flooded = self.whole = False
        self._pending = bytearray()

    def wanted(self) -> tuple[int, int]:
        """What has to happen before `take` does something."""
        return self.descriptor, select.POLLIN

    def take(self) -> None:
        """Take what has come."""
        data = os.read(self.descriptor, _PIECE)
        self.ended = not data
        if len(self._pending) + len(data) > LINES_LIMIT:
            self.flooded = True
        else:
            self._pending += data
            self.whole = self.whole or b"\n" in data

    def line(self) -> bytes | None:
        """The oldest whole line that has not been taken yet."""
        if not self.whole:
            return None
        line, _, self._pending = self._pending.partition(b"\n")
        self.whole = b"\n" in self._pending
        return bytes(line)


class Printed:
    """Passes what is printed into a pipe on to standard output or error, in whole lines, marked and escaped, when that
    can take it; `tail` is the last of it as it was printed."""

    def __init__(self, descriptor: int, name: Literal["stdout", "stderr"]) -> None:
        self.descriptor = descriptor
        self.tail = b""
        self._name = name
        self._left = PRINTED_LIMIT
        self._closed = False
        self._pending = b""  # a line that has not ended yet
        self._out = bytearray()  # what our output has not taken yet
        self.blocked = False
        self._target, self._piece = _file_of(name)

    @property
    def ended(self) -> bool:
        """Return whether there is nothing more to read, and all has been passed on."""
        return self._closed and not self._out

    def wanted(self) -> tuple[int, int]:
        """Return the descriptor that `take` waits for, and whether for something to read or for room to write."""
        return (self._target, select.POLLOUT) if self.blocked else (self.descriptor, select.POLLIN)

    def take(self) -> None:
        """Pass on what has come, as far as there is room."""
        self._pass_on()
        if self._out or not _ready(self.descriptor, select.POLLIN):
            return
        data = os.read(self.descriptor, _PIECE)
        self._closed = not data
        self.tail = (self.tail + data)[-_TAIL_BYTES:]
        if self._left > 0:
            self._left -= len(data)
            *lines, self._pending = (self._pending + data).split(b"\n")
            if self._pending and (self._closed or self._left <= 0 or len(self._pending) > _PIECE):
                lines, self._pending = [*lines, self._pending], b""
            self._out += b"".join(map(_marked, lines))
            if self._left <= 0:
                self._out += f"[RUN] more than {PRINTED_LIMIT >> 20} MB are left out\n".encode()
            self._pass_on()

    def _pass_on(self) -> None:
        """Write in pieces that are taken at once, until our output has no room."""
        while self._out:
            self.blocked = self._target >= 0 and not _ready(self._target, select.POLLOUT)
            if self.blocked:
                return
            piece = bytes(self._out[: self._piece])
            del self._out[: self._piece]
            self._write(piece)
        self.blocked = False

    def _write(self, data: bytes) -> None:
        stream = getattr(sys, self._name)
        terminal.step_aside()
        try:
            stream.flush()
            if hasattr(stream, "buffer"):
                while data:
                    data = data[stream.buffer.write(data) or 0 :]
                stream.buffer.flush()
            else:
                stream.write(data.decode(errors="replace"))
                stream.flush()
        except (OSError, ValueError):  # whoever read it has seen enough
            self._left = 0
            self._out.clear()


def _marked(line: bytes) -> bytes:
    text = line.removesuffix(b"\r").decode("utf-8", "backslashreplace")
    return f"{terminal.marked(text)}\n".encode()


class Listener:
    """Listens to descriptors of a child, which stay open."""

    def __init__(self, replies: int, errors: int, output: int | None = None, news: int | None = None) -> None:
        self.replies, self._errors = Lines(replies), Printed(errors, "stderr")
        self.news = Lines(news) if news is not None else None
        self._all: list[Lines | Printed] = [self._errors, self.replies]
        self._all += [Printed(output, "stdout")] if output is not None else []
        self._all += [self.news] if self.news is not None else []

    @property
    def tail(self) -> bytes:
        """The last that came as error output."""
        return self._errors.tail

    def collect(self, timeout_s: float) -> bool:
        """Take what has come, waiting for something until the time is over; False once there will be no more."""
        waiting: dict[int, list[Lines | Printed]] = {}
        poll = select.poll()
        for source in self._all:
            if not source.ended:
                descriptor, event = source.wanted()
                waiting[descriptor] = [*waiting.get(descriptor, []), source]
                poll.register(descriptor, event)
        for descriptor, _ in poll.poll(timeout_s * 1000):
            for source in waiting[descriptor]:
                source.take()
        return not all(source.ended for source in self._all)

    @property
    def blocked(self) -> bool:
        """Whether something is printed that nobody takes."""
        return any(isinstance(source, Printed) and source.blocked for source in self._all)

    def find_reply(self) -> bool:
        """Whether there is a reply in what a child that is gone has written."""
        while not (self.has_reply or self.replies.ended or self.replies.flooded):
            if not _ready(self.replies.descriptor, select.POLLIN):
                return False
            self.replies.take()
        return self.has_reply

    @property
    def has_reply(self) -> bool:
        """Whether a whole line has come."""
        return self.replies.whole

    def reply(self) -> bytes:
        """The oldest line that has not been taken yet."""
        return self.replies.line() or b""


def _file_of(name: str) -> tuple[int, int]:
    """The descriptor behind a stream of ours (-1: there is none), and how much it takes once it says that it does."""
    try:
        descriptor = getattr(sys, name).fileno()
        kind = os.fstat(descriptor).st_mode
    except (OSError, ValueError, AttributeError):
        return -1, _PIECE
    return descriptor, _PIECE if stat.S_ISREG(kind) else select.PIPE_BUF


def _ready(descriptor: int, event: int) -> bool:
    poll = select.poll()
    poll.register(descriptor, event)
    return bool(poll.poll(0))
