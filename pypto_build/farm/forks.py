"""Commands of ``pypto-build`` as forks of one process, which loads what they need once."""

from __future__ import annotations

import marshal
import os
import signal
import socket
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from pypto_build.facts.jobs import FORK_NUMBER, LARGEST_FORK
from pypto_build.toolchain.python import own_environment, own_tool


class Forks:
    """The process, which starts with the first job and ends with this one. Jobs may come from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None

    def run(
        self,
        words: Sequence[str],
        directory: Path,
        environment: Mapping[str, str],
        output: int,
        memory: int,
        begun: Callable[[int], None],
    ) -> tuple[int, int] | None:
        """Run a command line, which writes to the descriptor ``output``: its exit status, negative for a signal, and
        its peak of memory in bytes. ``begun`` is told its process group. ``memory`` limits the address space of each of
        its processes in bytes, 0 for none. None where it did not begin: what was loaded is out of date, or cannot be.
        """
        message = marshal.dumps((memory, list(words), str(directory), dict(environment)))
        told, write_told = os.pipe()
        with open(told, "rb", buffering=0) as news:
            try:
                if len(message) > LARGEST_FORK:
                    return None
                with self._lock:
                    socket.send_fds(self._started(), [message], [output, write_told])
            except OSError:
                return None
            finally:
                os.close(write_told)
            if not (told_group := news.read(FORK_NUMBER.size)):
                return None
            (group,) = FORK_NUMBER.unpack(told_group)
            begun(group)
            ended = news.read(2 * FORK_NUMBER.size)
        if len(ended) < 2 * FORK_NUMBER.size:  # that process was killed
            with suppress(OSError):
                os.killpg(group, signal.SIGKILL)
            return -signal.SIGKILL, 0
        status, peak = (number for (number,) in FORK_NUMBER.iter_unpack(ended))
        return status, peak << 10

    def start(self) -> None:
        """Have it load before it is needed."""
        with self._lock:
            self._started()

    def _started(self) -> socket.socket:
        if self._socket is None:
            self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            with theirs:
                command = [*own_tool("pypto_build.resident.jobs"), str(theirs.fileno())]
                self._process = subprocess.Popen(
                    command, env=own_environment(), stdin=subprocess.DEVNULL, pass_fds=[theirs.fileno()]
                )
        return self._socket

    def close(self) -> None:
        """End it, and whatever it still does."""
        with self._lock:
            if self._socket is not None and self._process is not None:
                self._socket.close()
                self._process.wait()
            self._socket = self._process = None
