"""Tools that take longer to load than to work: a process that has loaded them is forked for each command.

python -m pypto_build.toolchain.forked DESCRIPTOR LOG_VARIABLE MODULE...

The process is the child of whoever needs it, and ends with it. A command gets its environment, and the streams to which
it writes; its status comes back, or nothing if it was killed. Where a library writes down what tools read, in the file
that LOG_VARIABLE names, a command's log begins with what was read to load the tools, and goes on in a file of its own.
"""

from __future__ import annotations

import ctypes
import importlib
import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from pypto_build.toolchain.python import own_environment, own_tool, run_tool

_SIZE = struct.Struct("I")
#: What the library that watches tools has under this name: where it writes from now on.
_REDIRECT = "pypto_witness_redirect"
_KILLED = 137
#: Ends the part of a log that tells what was read before the command was asked for.
EARLIER = b"Z\t\n"


class ForkedTools:
    """Runs commands that are one of our tools (`own_tool`) in forks of one process, which starts with the first.

    ``run`` may be called from several threads. What cannot be forked runs as a process of its own.
    """

    def __init__(self, modules: Sequence[str], log_variable: str = "") -> None:
        self._modules, self._log_variable = tuple(modules), log_variable
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: socket.socket | None = None
        self._directory = ""

    def run(self, command: Sequence[str], environment: Mapping[str, str]) -> tuple[int, str]:
        """The status of ``command``, and what it printed."""
        tool = own_tool(command[2]) if len(command) > 2 else []
        if not tool or list(command[:3]) != tool or command[2] not in self._modules:
            return run_tool(command, environment)
        try:
            output, status = self._ask(list(command[2:]), environment)
        except OSError:
            return run_tool(command, environment)
        with open(output, "rb") as said, open(status, "rb") as ended:
            text, number = said.read().decode(errors="replace"), ended.read()
        return (number[0] if number else _KILLED), text

    def close(self) -> None:
        """End the process."""
        with self._lock:
            if self._connection is not None and self._process is not None:
                self._connection.close()
                self._process.wait()
                shutil.rmtree(self._directory, ignore_errors=True)
            self._connection = self._process = None

    def _ask(self, words: list[str], environment: Mapping[str, str]) -> tuple[int, int]:
        """Have a command started; the descriptors of what it prints and of its status."""
        output, write_output = os.pipe()
        status, write_status = os.pipe()
        try:
            request = json.dumps([words, dict(environment), os.getcwd()]).encode()
            with self._lock:
                connection = self._connection or self._start(environment)
                socket.send_fds(connection, [_SIZE.pack(len(request))], [write_output, write_status])
                connection.sendall(request)
        except OSError:
            os.close(output)
            os.close(status)
            raise
        finally:
            os.close(write_output)
            os.close(write_status)
        return output, status

    def _start(self, environment: Mapping[str, str]) -> socket.socket:
        """Start the process, watched as the command is that it is started for."""
        ours, theirs = socket.socketpair()
        self._directory = tempfile.mkdtemp(prefix="pypto-forked-")
        variables = own_environment(environment) | {"TMPDIR": self._directory}
        if self._log_variable in environment:
            log = Path(self._directory, "log")
            log.touch()
            variables[self._log_variable] = str(log)
        with theirs:
            command = [*own_tool(__name__), str(theirs.fileno()), self._log_variable, *self._modules]
            self._process = subprocess.Popen(
                command, env=variables, stdin=subprocess.DEVNULL, pass_fds=[theirs.fileno()]
            )
        self._connection = ours
        return ours


def main(argv: Sequence[str]) -> int:
    """Serve until the other end closes."""
    connection = socket.socket(fileno=int(argv[0]))
    log_variable, modules = argv[1], argv[2:]
    for name in modules:
        importlib.import_module(name)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # whoever asked says what there is to say
    while True:
        header, descriptors, _, _ = socket.recv_fds(connection, _SIZE.size, 2)
        if len(header) < _SIZE.size or len(descriptors) < 2:
            return 0
        request = _receive(connection, _SIZE.unpack(header)[0])
        if os.fork() == 0:
            connection.close()
            _work(request, descriptors, log_variable)
        for descriptor in descriptors:
            os.close(descriptor)


def _receive(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size and (piece := connection.recv(size - len(data))):
        data += piece
    return data


def _work(request: bytes, descriptors: list[int], log_variable: str) -> NoReturn:
    """Be the command, in this process, which ends with it."""
    status, (output, ended) = 1, descriptors
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.close(output)
        os.set_inheritable(ended, False)
        words, environment, directory = json.loads(request)
        become(words, environment, directory, log_variable)
        status = importlib.import_module(words[0]).main(words[1:])
    except SystemExit as error:
        status = error.code if isinstance(error.code, int) else 1
    except BaseException:
        sys.excepthook(*sys.exc_info())
    leave(ended, status)


def become(words: Sequence[str], environment: Mapping[str, str], directory: str, log_variable: str) -> None:
    """Have the arguments, environment and directory of a command, and be watched as it."""
    _be_watched(os.environ.get(log_variable, ""), environment.get(log_variable, ""))
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(directory)
    tempfile.tempdir = None
    sys.argv = list(words)


def leave(told: int, status: int) -> NoReturn:
    """End this process, and tell by a pipe with which exit status the command would have."""
    with suppress(OSError, ValueError):
        sys.stdout.flush()
        sys.stderr.flush()
    with suppress(OSError):  # nobody waits any more
        os.write(told, bytes([status & 0xFF]))
    os._exit(0)


def _be_watched(before: str, log: str) -> None:
    """From now on, what is read is written down in ``log``, which begins with what was read ``before``."""
    redirect = getattr(ctypes.CDLL(None), _REDIRECT, None) if before and log else None
    if redirect is None:
        return
    redirect(os.fsencode(os.devnull))  # what follows is our own business
    with open(log, "ab") as file:
        file.write(Path(before).read_bytes() + EARLIER)
    redirect(os.fsencode(log))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
