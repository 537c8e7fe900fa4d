"""Descriptors 0, 1 and 2: where one is closed, the next file that is opened would get its number, and be written to."""

from __future__ import annotations

import os
import sys


def take_standard_streams() -> None:
    """Open ``/dev/null`` in place of each standard stream that is closed. Every entry point calls this first."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest number that is free
            os.set_inheritable(number, True)
        if getattr(sys, name) is None or getattr(getattr(sys, name), "file", sys) is None:  # SCons wraps it
            setattr(sys, name, os.fdopen(number, "r" if number == 0 else "w", closefd=False))
