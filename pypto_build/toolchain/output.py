"""Output whose reader has gone, as in `pypto-build replay x | head -1`: the work goes on, and the exit status holds."""

from __future__ import annotations

import io
import os
import stat
import sys
from typing import Any


def outlive_readers() -> None:
    """Discard all later output of this process and its children to a pipe that has no reader any more."""
    for name, descriptor in (("stdout", 1), ("stderr", 2)):
        stream = getattr(sys, name)
        buffer = getattr(stream, "buffer", None)
        raw = getattr(buffer, "raw", buffer)
        if not isinstance(raw, io.FileIO) or isinstance(raw, _Outliving) or not _is_pipe(descriptor):
            continue
        stream.flush()
        outliving = _Outliving(descriptor, "w", closefd=False)
        at_once = raw is buffer  # as PYTHONUNBUFFERED has it
        mine: Any = outliving if at_once else io.BufferedWriter(outliving)
        by_line = stream.line_buffering
        text = io.TextIOWrapper(
            mine, stream.encoding, stream.errors, line_buffering=by_line, write_through=stream.write_through
        )
        setattr(sys, name, text)


def _is_pipe(descriptor: int) -> bool:
    try:
        mode = os.fstat(descriptor).st_mode
    except OSError:
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)


class _Outliving(io.FileIO):
    """A descriptor that leads to ``/dev/null`` after the first write that fails because its reader has gone."""

    def write(self, data: Any, /) -> int:
        """Write as a file does."""
        try:
            return super().write(data)
        except BrokenPipeError:
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, self.fileno())
            os.close(null)
            return len(data)
