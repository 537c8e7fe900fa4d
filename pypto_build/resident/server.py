"""The resident process: loads the code that every command needs, then forks for each command.

It has one thread and keeps no state of any command, so a fork behaves like a new process. Each fork works in its own
process group, with the streams, environment and directory of the caller.
"""

from __future__ import annotations

import fcntl
import gc
import marshal
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, NoReturn

from pypto_build.client.protocol import NUMBER, SconsStart
from pypto_build.client.socket_address import address, describe_situation
from pypto_build.proof.looking import Identity
from pypto_build.resident.loaded import load, run_command, take_over
from pypto_build.resident.prefork import Leaving, end_fork, hand_over, is_settled, key_of, stamps
from pypto_build.toolchain.forked import may_ask
from pypto_build.toolchain.forks import signal_group, status_of

IDLE_S = 900.0
_REQUEST_S = 5.0
_LARGEST_REQUEST = 16 << 20
# A command whose caller is gone is asked to end, and made to after this time.
_GRACE_S = 5.0
# So many processes that stand for commands that come again.
_STANDS = 4
_LARGEST_KEY = 64


@dataclass
class _Command:
    """A running command: its process group leader, its caller's connection."""

    process: int
    connection: socket.socket
    end_requested: float = 0.0


@dataclass
class _Stand:
    """The socket of a preforked process, and the key of the commands that it accepts, once it has reported it."""

    socket: socket.socket
    key: bytes = b""


class _Server:
    def __init__(self, listening: socket.socket, loaded: dict[str, Identity]) -> None:
        self._listening, self._loaded = listening, loaded
        self._commands: dict[int, _Command] = {}  # by the descriptor of the process
        self._stands: dict[int, _Stand] = {}  # by the descriptor of the socket, the newest last
        self._poll = select.poll()
        self._poll.register(listening, select.POLLIN)
        self._last = time.monotonic()

    def serve(self) -> None:
        """Serve until the idle time is over, or a loaded file has changed."""
        while self._commands or time.monotonic() - self._last < IDLE_S:
            events = [descriptor for descriptor, _ in self._poll.poll(1000 if self._commands else 60_000)]
            for descriptor in sorted(
                events, key=self._listening.fileno().__eq__
            ):  # those who come last: numbers return
                if descriptor == self._listening.fileno():
                    if not self._accept():
                        return
                elif descriptor in self._commands:
                    self._finish(descriptor)
                elif descriptor in self._stands:
                    self._hear(descriptor)
                else:
                    self._lose(descriptor)
            self._end_abandoned()
            if not self._commands and stamps(self._loaded) != self._loaded:
                return

    def _accept(self) -> bool:
        """Accept one request; return False if this process is out of date and must be replaced by a new one."""
        connection, _ = self._listening.accept()
        self._last = time.monotonic()
        if stamps(self._loaded) != self._loaded:
            connection.close()
            return False
        if not may_ask(connection):
            connection.close()
            return True
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        process = os.fork()
        if not process:
            started = time.time_ns()
            self._listening.close()
            ours.close()
            for command in self._commands.values():
                command.connection.close()
            _Worker(connection, list(self._stands.values()), theirs, started).work()
        theirs.close()
        self._stands[ours.fileno()] = _Stand(ours)
        self._poll.register(ours, select.POLLIN)
        with suppress(OSError):
            os.setpgid(process, process)
        descriptor = os.pidfd_open(process)
        self._commands[descriptor] = _Command(process, connection)
        self._poll.register(descriptor, select.POLLIN)
        self._poll.register(connection, select.POLLHUP | select.POLLRDHUP)
        return True

    def _finish(self, descriptor: int) -> None:
        """Send the caller the status of a finished command, and end the processes that the command left running."""
        command = self._commands.pop(descriptor)
        self._poll.unregister(descriptor)
        os.close(descriptor)
        if command.connection.fileno() >= 0:
            with suppress(KeyError):
                self._poll.unregister(command.connection)
            command.connection.close()
        os.waitpid(command.process, 0)
        self._last = time.monotonic()

    def _hear(self, descriptor: int) -> None:
        """Read from a preforked process which commands it accepts, or that it has ended; end the oldest processes if
        there are too many.
        """
        stand = self._stands.pop(descriptor)
        stand.key = b""
        with suppress(OSError):
            stand.key = stand.socket.recv(_LARGEST_KEY)
        gone = [] if stand.key else [stand]
        if stand.key:
            others = [other for other in self._stands.values() if other.key]
            gone += [other for other in others if other.key == stand.key]
            gone += [other for other in others if other not in gone][: len(others) - len(gone) + 1 - _STANDS]
            self._stands[descriptor] = stand
        for other in gone:
            self._stands.pop(other.socket.fileno(), None)
            self._poll.unregister(other.socket)
            other.socket.close()

    def _lose(self, descriptor: int) -> None:
        """End the command of a caller that has disconnected, most likely killed."""
        for command in self._commands.values():
            if command.connection.fileno() == descriptor:
                self._poll.unregister(descriptor)
                command.connection.close()
                command.end_requested = time.monotonic()
                signal_group(command.process, signal.SIGTERM)
                return

    def _end_abandoned(self) -> None:
        for command in self._commands.values():
            if command.end_requested and time.monotonic() - command.end_requested > _GRACE_S:
                signal_group(command.process, signal.SIGKILL)


class _Worker:
    """Runs the command of the caller at ``connection`` in this process, which ends with it.

    ``stands`` are preforked processes for repeated commands; a new one registers with the resident process through
    ``register``.
    """

    def __init__(
        self, connection: socket.socket, stands: Sequence[_Stand], register: socket.socket, started: int
    ) -> None:
        self._connection, self._stands, self._register, self._started = connection, stands, register, started

    def work(self) -> NoReturn:
        """Run the command from beginning to end."""
        status = 1
        with suppress(OSError):
            os.setpgid(0, 0)
        try:
            self._connection.sendall(NUMBER.pack(os.getpid()))
            request, streams = _receive(self._connection)
            words, start = _take_over(request, streams)
            self._connection.settimeout(None)
            if start:
                status = status_of(partial(self._scons, words, dict(os.environ), start))
            else:
                status = run_command(words, self._scons)
        except (OSError, ValueError, EOFError, TypeError):
            os._exit(1)
        with suppress(OSError):
            self._connection.sendall(NUMBER.pack(status))
        os._exit(status)

    def _scons(self, words: Sequence[str], environment: dict[str, str], start: SconsStart | None = None) -> int:
        from pypto_build.rules.run import run_scons

        key = key_of(words, environment, start)
        for stand in self._stands:
            if stand.key == key and (status := hand_over(stand.socket, environment)) is not None:
                return status
        os.environ.clear()
        os.environ.update(environment)
        leaving = Leaving(key, self._register, self._close, self._started, start[-1] if start else ())
        status = run_scons(words, leaving.leave, start)
        leaving.tell()
        if leaving.in_fork is not None:
            end_fork(leaving.in_fork, status)
        return status

    def _close(self) -> None:
        for connection in (self._connection, *(stand.socket for stand in self._stands)):
            connection.close()


def _receive(connection: socket.socket) -> tuple[Any, Sequence[int]]:
    connection.settimeout(_REQUEST_S)
    head, streams, _, _ = socket.recv_fds(connection, NUMBER.size, 3)
    (size,) = NUMBER.unpack(head)
    if len(streams) != 3 or not 0 < size <= _LARGEST_REQUEST:
        raise ValueError(size)
    data = bytearray()
    while len(data) < size:
        piece = connection.recv(size - len(data))
        if not piece:
            raise EOFError
        data += piece
    return marshal.loads(bytes(data)), streams


def _take_over(request: Any, streams: Sequence[int]) -> tuple[list[str], SconsStart | None]:
    """Use the caller's streams, directory, environment and umask; return its command line, and the start parameters
    of SCons.
    """
    situation, words, environment, directory, umask, start = request
    if situation != describe_situation():
        raise ValueError(situation)
    take_over(streams, environment, directory)
    os.umask(umask)
    return [str(word) for word in words], start


# Its start


def main(argv: Sequence[str]) -> int:
    """Serve at the socket ``argv[0]``. Return at once if another process serves there, or if this process's
    situation differs from that of the commands there.
    """
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    (path,) = argv
    if address(os.path.dirname(path), describe_situation()) != path:
        return 0
    with open(f"{path}.pid", "a", encoding="ascii") as note:
        try:
            fcntl.flock(note, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return 0  # another one is there, or is just starting
        note.truncate(0)
        note.write(str(os.getpid()))
        note.flush()
        started = time.time_ns()
        loaded = stamps(load())
        if not is_settled(loaded, started):
            return 0  # a file changed while it was loaded: the loaded text is unknown
        with suppress(OSError):
            os.unlink(path)
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listening:
            listening.bind(path)
            os.chmod(path, 0o600)
            listening.listen(16)
            gc.collect()
            gc.freeze()
            try:
                _Server(listening, loaded).serve()
            finally:
                with suppress(OSError):
                    os.unlink(path)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
