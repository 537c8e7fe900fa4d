"""Reads what an editor sends, without messages that no memory holds."""

from __future__ import annotations

import re
import sys
from typing import BinaryIO

#: Bytes of a message, at most.
LARGEST = 64 << 20
# Bytes of a line, which a header is; more than that are several.
_LINE = 1 << 20
_HEADER = re.compile(rb"Content-Length: *(\d+)\r\n\Z")
_DIGITS = 18  # no size has more


class BoundedInput:
    """A stream of messages without those of more than ``LARGEST`` bytes, which are skipped."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream, self._leaves_out = stream, False

    def readline(self) -> bytes:
        """Return the next header line of a message; empty at the end."""
        while line := self._stream.readline(_LINE):
            header = _HEADER.search(line)
            if header and (len(header[1]) > _DIGITS or int(header[1]) > LARGEST):
                size = header[1][:_DIGITS].decode()
                print(f"pypto-build lsp: a message of {size} bytes is left out: {LARGEST} are read", file=sys.stderr)
                self._leaves_out = True
            elif not self._leaves_out:
                return line
            elif header:  # behind what was left of the other message
                self._leaves_out = False
                return header[0]
        return b""

    def read(self, size: int) -> bytes:
        """Return a message's bytes."""
        return self._stream.read(size)
