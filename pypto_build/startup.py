"""First step of every process: it opens missing standard streams, and makes Ctrl-C end the process in one line."""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # the module of this name takes a millisecond to load
if TYPE_CHECKING:
    from types import TracebackType

#: The exit status of a process that Ctrl-C ended.
INTERRUPTED = 130


def begin() -> None:
    """Open missing standard streams and handle Ctrl-C. Every entry point calls this before slow imports."""
    take_standard_streams()
    sys.excepthook = _end


def take_standard_streams() -> None:
    """Open ``/dev/null`` in place of each standard stream that is closed.

    Otherwise the next file that is opened would get the stream's number, and be written to.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest number that is free
            os.set_inheritable(number, True)
        if getattr(sys, name) is None or getattr(getattr(sys, name), "file", sys) is None:  # SCons wraps it
            setattr(sys, name, os.fdopen(number, "r" if number == 0 else "w", closefd=False))


def _end(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Print the exception that ends this process; Ctrl-C is printed as one line."""
    if not issubclass(kind, KeyboardInterrupt):
        sys.__excepthook__(kind, error, trace)
        return
    try:
        sys.stdout.flush()
        print("pypto-build: interrupted", file=sys.stderr, flush=True)
    except (OSError, ValueError):  # there is no reader
        pass
    os._exit(INTERRUPTED)
