"""Runs one command and ends with its parent: ``python -m pypto_build.toolchain.keeper BYTES COMMAND...``.

The parent holds the standard input of this process open. When the parent ends, in whatever way, the command and all its
processes get SIGTERM, and SIGKILL after some seconds. BYTES limits the address space of each process, 0 for no limit.
"""

from __future__ import annotations

import os
import resource
import select
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress

_TO_END_S = 5


def main(argv: Sequence[str]) -> int:
    """Return the exit status of the command; 128 plus the signal number if a signal ended it."""
    limit, *command = argv
    if int(limit):
        resource.setrlimit(resource.RLIMIT_AS, (int(limit), int(limit)))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # what is sent to the group is for the command
    ended = os.pidfd_open(process.pid)
    ready = select.select([ended, sys.stdin.fileno()], [], [])[0]
    if ended not in ready:
        os.killpg(0, signal.SIGTERM)  # this process is the first of the group
        with suppress(subprocess.TimeoutExpired):
            process.wait(_TO_END_S)
        os.killpg(0, signal.SIGKILL)
    status = process.wait()
    return 128 - status if status < 0 else status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
