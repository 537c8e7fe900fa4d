"""`scons` and `pypto-build` in forks of one process that has loaded them, which most runs of a test would do first.

A run is what a job of the farm or of the resident process is: a fork with the environment, directory and streams of
whoever asked. What is about processes themselves (signals, how they start, what they leave) starts real ones.
"""

from __future__ import annotations

import gc
import marshal
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from pypto_build.client.meeting import START_VARIABLES

_REPOSITORY = str(Path(__file__).resolve().parents[1])
_SCONS, _CLI = "SCons", "pypto_build.cli"
_LARGEST = 1 << 18


def run(
    module: str, words: Sequence[str], directory: Path, environment: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    """What ``python -m module words`` is in a directory and an environment, both of its streams as one."""
    command = [sys.executable, "-m", module, *words]
    if module not in (_SCONS, _CLI) or _start(environment) != _start({**os.environ, "PYTHONPATH": _REPOSITORY}):
        return subprocess.run(
            command,
            cwd=directory,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
    with tempfile.TemporaryFile() as output:
        status = _FORKS.run((module, list(words), str(directory), dict(environment)), output.fileno())
        output.seek(0)
        return subprocess.CompletedProcess(command, status, output.read().decode())


def _start(environment: Mapping[str, str]) -> list[tuple[str, str]]:
    """What decides how Python starts."""
    return sorted(pair for pair in environment.items() if pair[0].startswith(START_VARIABLES))


class _Forks:
    """The process, which starts with the first run and ends with this one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None

    def run(self, request: tuple[str, list[str], str, dict[str, str]], output: int) -> int:
        """The exit status of a command, negative for a signal."""
        told, write_told = os.pipe()
        with open(told, "rb") as news:
            with self._lock:
                socket.send_fds(self._started(), [marshal.dumps(request)], [output, write_told])
            os.close(write_told)
            return int(news.read() or -signal.SIGKILL)

    def _started(self) -> socket.socket:
        if self._socket is None:
            self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            with theirs:
                subprocess.Popen(
                    [sys.executable, "-m", __name__, str(theirs.fileno())],
                    env={**os.environ, "PYTHONPATH": _REPOSITORY},
                    cwd="/",
                    stdin=subprocess.DEVNULL,
                    pass_fds=[theirs.fileno()],
                )
        return self._socket


_FORKS = _Forks()


def main(argv: Sequence[str]) -> int:
    """Serve whoever holds the other end of the socket ``argv[0]``."""
    from pypto_build.resident.loaded import load

    load()
    gc.collect()
    gc.freeze()
    with socket.socket(fileno=int(argv[0])) as owner:
        while True:
            request, descriptors, _, _ = socket.recv_fds(owner, _LARGEST, 2)
            if not request:
                return 0
            _reap()
            if not os.fork():
                owner.close()
                _work(request, *descriptors)
            for descriptor in descriptors:
                os.close(descriptor)


def _reap() -> None:
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _work(request: bytes, output: int, told: int) -> NoReturn:
    """Be the command, in this process, which ends with it."""
    from pypto_build.resident.loaded import run_command, take_over
    from pypto_build.rules.run import run_scons
    from pypto_build.toolchain.forks import status_of

    status = 1
    try:
        os.set_inheritable(told, False)
        module, words, directory, environment = marshal.loads(request)
        take_over([os.open(os.devnull, os.O_RDONLY), os.dup(output), output], environment, directory)
        scons = module == _SCONS
        status = status_of(lambda: run_scons(words)) if scons else run_command(words, _scons)
    except BaseException:
        sys.excepthook(*sys.exc_info())
    os.write(told, b"%d" % (status & 0xFF))
    os._exit(0)


def _scons(words: Sequence[str], environment: dict[str, str]) -> int:
    from pypto_build.rules.run import run_scons

    os.environ.clear()
    os.environ.update(environment)
    return run_scons(words)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
