"""Ends what a process started once that process is gone, however it went: a file of its own, which imports nothing.

Lines of the standard input are ``+N`` and ``-N``, for groups of processes that begin and end. At its end, which is that
of whoever writes, those still there are killed.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterable
from contextlib import suppress


def main(lines: Iterable[str]) -> None:
    """Read to the end, then kill."""
    groups: set[int] = set()
    for line in lines:
        number = int(line[1:])
        (groups.add if line[0] == "+" else groups.discard)(number)
    for group in groups:
        with suppress(ProcessLookupError):
            os.killpg(group, signal.SIGKILL)


if __name__ == "__main__":
    main(sys.stdin)
