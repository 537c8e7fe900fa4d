"""Runs one command and ends with whoever started it: ``python -m pypto_build.toolchain.keeper BYTES COMMAND...``.

Its standard input is held open by whoever started it. When that ends, however it does, the command and all that it
started are killed; before that they are asked to end, and have some seconds to. BYTES is the address space that each of
its processes may have, 0 for any.
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
    """The exit status of the command; 128 and the signal that ended it."""
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
