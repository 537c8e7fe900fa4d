"""Fork server of a farm's worker, its owner: it has loaded what commands need, and forks for each job.

Its only argument is the descriptor of a socket of whole messages. A message is a job: the limit of address space of
each of its processes in bytes (0 for none), the words of ``pypto-build``, the working directory and the environment.
The descriptors of the job's output and of a pipe come with it.

The server writes three numbers (`NUMBER`) to the pipe: the process group, then the exit status and the peak of memory
in KiB. It writes nothing if a file that it has loaded has changed. When the owner closes the socket, running jobs get
SIGTERM, and after some seconds SIGKILL.
"""

from __future__ import annotations

import gc
import marshal
import os
import resource
import select
import signal
import socket
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import NoReturn

from pypto_build.proof.looking import Identity
from pypto_build.resident.loaded import load, run_command, take_over
from pypto_build.resident.prefork import is_settled, stamps
from pypto_build.toolchain.forks import NUMBER, request, signal_group

_TO_END_S = 5.0


class _Jobs:
    def __init__(self, owner: socket.socket, loaded: dict[str, Identity]) -> None:
        self._owner, self._loaded = owner, loaded
        self._running: dict[int, tuple[int, int]] = {}  # the process and its pipe by its descriptor
        self._poll = select.poll()
        self._poll.register(owner, select.POLLIN)

    def serve(self) -> None:
        """Serve until the owner is gone."""
        while True:
            for descriptor, _ in self._poll.poll():
                if descriptor in self._running:
                    self._finish(descriptor)
                elif not self._take():
                    return self._end()

    def _take(self) -> bool:
        with request(self._owner, 2) as (data, descriptors):
            if descriptors and stamps(self._loaded) == self._loaded:
                self._start(data, *descriptors)
            return bool(data)

    def _start(self, data: bytes, output: int, report: int) -> None:
        process = os.fork()
        if not process:
            os.setsid()
            self._owner.close()
            for _, other in self._running.values():
                os.close(other)
            os.close(report)
            _work(data, output)
        with suppress(OSError):
            os.write(report, NUMBER.pack(process))
        descriptor = os.pidfd_open(process)
        self._running[descriptor] = process, os.dup(report)
        self._poll.register(descriptor, select.POLLIN)

    def _finish(self, descriptor: int) -> None:
        process, report = self._running.pop(descriptor)
        self._poll.unregister(descriptor)
        os.close(descriptor)
        _, status, usage = os.wait4(process, 0)
        signal_group(process, signal.SIGKILL)  # what it left behind
        with suppress(OSError):
            os.write(report, NUMBER.pack(os.waitstatus_to_exitcode(status)) + NUMBER.pack(usage.ru_maxrss))
        os.close(report)

    def _end(self) -> None:
        for process, _ in self._running.values():
            signal_group(process, signal.SIGTERM)
        self._poll.unregister(self._owner)
        deadline = time.monotonic() + _TO_END_S
        while self._running and (left := deadline - time.monotonic()) > 0:
            for descriptor, _ in self._poll.poll(left * 1000):
                self._finish(descriptor)
        for process, _ in self._running.values():
            signal_group(process, signal.SIGKILL)


def _work(data: bytes, output: int) -> NoReturn:
    """Run the job in this process, which ends with it."""
    status = 1
    try:
        memory, words, directory, environment = marshal.loads(data)
        if memory:
            resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        take_over([os.open(os.devnull, os.O_RDONLY), os.dup(output), output], environment, directory)
        status = run_command(words, _scons)
    except BaseException:
        sys.excepthook(*sys.exc_info())
    os._exit(status & 0xFF)


def _scons(words: Sequence[str], environment: dict[str, str]) -> int:
    from pypto_build.rules.run import run_scons

    os.environ.clear()
    os.environ.update(environment)
    return run_scons(words)


def main(argv: Sequence[str]) -> int:
    """Serve the owner, which holds the other end of the socket whose descriptor is ``argv[0]``."""
    with socket.socket(fileno=int(argv[0])) as owner:
        started = time.time_ns()
        loaded = stamps(load())
        if is_settled(loaded, started):  # else the loaded text is unknown
            gc.collect()
            gc.freeze()
            _Jobs(owner, loaded).serve()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
