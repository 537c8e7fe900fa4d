"""Reads the output of a child process: lines for its parent, replies among them, and printed text, which is passed on.

All of it is untrusted. Lines are kept up to a limit, and a reply with impossible values is rejected. Neither a flood of
text nor a blocked standard output keeps the parent from checking its time limits.
"""

from __future__ import annotations

import math
import os
import select
import stat
import sys
from collections.abc import Sequence
from typing import Literal

import msgspec

from pypto_build import terminal
from pypto_build.replay.child import Reply
from pypto_build.replay.faults import RunFault
from pypto_build.replay.verdict import ErrorInfo
from pypto_build.runtime.faults import kind_exists, printable

_TAIL_BYTES = 8192
_PIECE = 1 << 16

#: The limit of a line, which is more than any reply needs.
LINES_LIMIT = 1 << 24
#: The limit of printed text; the rest is left out.
PRINTED_LIMIT = 1 << 26


class Lines:
    """Reads lines from a pipe, up to a limit."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self.ended = self.flooded = self.whole = False
        self._pending = bytearray()

    def awaited(self) -> tuple[int, int]:
        """Return the descriptor and the poll event that `take` waits for."""
        return self.descriptor, select.POLLIN

    def take(self) -> None:
        """Read the available data."""
        data = os.read(self.descriptor, _PIECE)
        self.ended = not data
        if len(self._pending) + len(data) > LINES_LIMIT:
            self.flooded = True
        else:
            self._pending += data
            self.whole = self.whole or b"\n" in data

    def line(self) -> bytes | None:
        """Return the oldest whole line that has not been returned yet."""
        if not self.whole:
            return None
        line, _, self._pending = self._pending.partition(b"\n")
        self.whole = b"\n" in self._pending
        return bytes(line)


class Printed:
    """Copies text that is printed into a pipe to standard output or error, in whole lines, marked and escaped. It
    writes only when that stream can take the text. `tail` is the last part of the text as it was printed."""

    def __init__(self, descriptor: int, name: Literal["stdout", "stderr"]) -> None:
        self.descriptor = descriptor
        self.tail = b""
        self._name = name
        self._left = PRINTED_LIMIT
        self._closed = False
        self._pending = b""  # a line that has not ended yet
        self._out = bytearray()  # text that is not written to our output yet
        self.blocked = False
        self._target, self._piece = _file_of(name)

    @property
    def ended(self) -> bool:
        """Return whether there is nothing more to read, and all has been passed on."""
        return self._closed and not self._out

    def awaited(self) -> tuple[int, int]:
        """Return the descriptor and the poll event that `take` waits for: input to read, or room to write."""
        return (self._target, select.POLLOUT) if self.blocked else (self.descriptor, select.POLLIN)

    def take(self) -> None:
        """Pass on the available text, as far as there is room."""
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
        """Write in pieces that never block, until the output has no room."""
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
        except (OSError, ValueError):  # the reader has closed its end
            self._left = 0
            self._out.clear()


def _marked(line: bytes) -> bytes:
    text = line.removesuffix(b"\r").decode("utf-8", "backslashreplace")
    return f"{terminal.marked(text)}\n".encode()


class Listener:
    """Reads several descriptors of a child, and leaves them open."""

    def __init__(self, replies: int, errors: int, output: int | None = None, news: int | None = None) -> None:
        self.replies, self._errors = Lines(replies), Printed(errors, "stderr")
        self.news = Lines(news) if news is not None else None
        self._all: list[Lines | Printed] = [self._errors, self.replies]
        self._all += [Printed(output, "stdout")] if output is not None else []
        self._all += [self.news] if self.news is not None else []

    @property
    def tail(self) -> bytes:
        """Return the last part of the child's error output."""
        return self._errors.tail

    def collect(self, timeout_s: float) -> bool:
        """Read available data, waiting for some until the timeout; return False once all streams have ended."""
        waiting: dict[int, list[Lines | Printed]] = {}
        poll = select.poll()
        for source in self._all:
            if not source.ended:
                descriptor, event = source.awaited()
                waiting[descriptor] = [*waiting.get(descriptor, []), source]
                poll.register(descriptor, event)
        for descriptor, _ in poll.poll(timeout_s * 1000):
            for source in waiting[descriptor]:
                source.take()
        return not all(source.ended for source in self._all)

    @property
    def blocked(self) -> bool:
        """Return whether printed text waits because our output cannot take it."""
        return any(isinstance(source, Printed) and source.blocked for source in self._all)

    def find_reply(self) -> bool:
        """Read what an ended child has written, and return whether it contains a reply."""
        while not (self.has_reply or self.replies.ended or self.replies.flooded):
            if not _ready(self.replies.descriptor, select.POLLIN):
                return False
            self.replies.take()
        return self.has_reply

    @property
    def has_reply(self) -> bool:
        """Return whether a whole line has been read."""
        return self.replies.whole

    def reply(self) -> bytes:
        """Return the oldest line that has not been returned yet."""
        return self.replies.line() or b""


def _file_of(name: str) -> tuple[int, int]:
    """Return the descriptor behind an output stream (-1: none), and how many bytes it takes when poll reports room."""
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


_LIMIT = 1 << 63


def read_reply(line: bytes, sizes: Sequence[int]) -> Reply:
    """Return the reply in a line; `sizes` are the element counts of the run's tensors. Raises `RunFault`."""
    try:
        reply = msgspec.json.decode(line, type=Reply)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise no_reply() from None
    if not _possible(reply, sizes):
        raise no_reply()
    for write in reply.input_writes:
        write.task, write.kernel = _name(write.task), _name(write.kernel)
    return reply


def no_reply() -> RunFault:
    """Return the fault of a run with an invalid reply."""
    return RunFault(
        "runtime_error",
        ErrorInfo(
            "reply",
            "the run left no result: something else was written where it comes through",
            hint="a kernel or the orchestration writes to files that are not its own; take that out",
        ),
    )


def _name(text: str | None) -> str | None:
    return None if text is None else printable(text)


def _possible(reply: Reply, sizes: Sequence[int]) -> bool:
    """Return whether the numbers of a reply are within possible bounds."""
    if reply.fault is not None and not kind_exists(reply.fault):
        return False
    if not (0 <= reply.tasks < _LIMIT and math.isfinite(reply.run_s) and reply.run_s >= 0):
        return False
    for item in reply.unwritten:
        if not (0 <= item.tensor < len(sizes) and 0 <= item.count <= sizes[item.tensor]):
            return False
        if not all(0 <= index < sizes[item.tensor] for index in item.first):
            return False
    if reply.origin is not None:
        reply.origin.program = printable(reply.origin.program)
    return all(0 <= item.tensor < len(sizes) and abs(item.offset) < _LIMIT for item in reply.input_writes)
