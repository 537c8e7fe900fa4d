"""Commands of ``pypto-build`` as forks of one process, which loads what they need once."""

from __future__ import annotations

import marshal
import signal
import socket
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from pypto_build.toolchain import forks
from pypto_build.toolchain.forks import NUMBER
from pypto_build.toolchain.python import own_environment


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
        """Run a command line and return its exit status, negative for a signal, and its peak memory in bytes.

        The command writes to the descriptor ``output``. ``begun`` gets its process group. ``memory`` limits the address
        space of each of its processes in bytes; 0 is no limit. Returns None if the command did not start: the fork
        server is out of date or cannot start.
        """
        message = marshal.dumps((memory, list(words), str(directory), dict(environment)))
        try:
            with self._lock:
                answers = forks.send(self._started(), message, [output])
        except OSError:
            return None
        with open(answers, "rb", buffering=0) as news:
            if not (packed := news.read(NUMBER.size)):
                return None
            (group,) = NUMBER.unpack(packed)
            begun(group)
            ended = news.read(2 * NUMBER.size)
        if len(ended) < 2 * NUMBER.size:  # that process was killed
            forks.signal_group(group, signal.SIGKILL)
            return -signal.SIGKILL, 0
        status, peak = (number for (number,) in NUMBER.iter_unpack(ended))
        return status, peak << 10

    def start(self) -> None:
        """Have it load before it is needed."""
        with self._lock:
            self._started()

    def _started(self) -> socket.socket:
        if self._socket is None:
            self._process, self._socket = forks.start("pypto_build.resident.jobs", [], own_environment())
        return self._socket

    def close(self) -> None:
        """End the fork server and its processes."""
        with self._lock:
            if self._socket is not None and self._process is not None:
                self._socket.close()
                self._process.wait()
            self._socket = self._process = None
