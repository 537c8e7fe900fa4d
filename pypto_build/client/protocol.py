"""The protocol between a command and the resident process.

The server sends the number of a process. The client sends the command, its environment, working directory and umask,
and the three standard streams. The server answers with an exit status; the client forwards signals. Without an answer,
the client runs the command in its own process.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # what `signal` is made of, without its enumerations
import _socket
import marshal
import os
import struct
import sys

from pypto_build.client.socket_address import same_user

TYPE_CHECKING = False  # the module of this name takes a millisecond to load
if TYPE_CHECKING:
    from types import FrameType

#: A number of the protocol.
NUMBER = struct.Struct("i")
#: The start of ``scons``: Python's own words and those before the command's, Python's module path, and the scripts that
#: SCons has read before the request.
SconsStart = tuple[str, list[str], list[str], list[str]]
_CONNECT_S = 2.0


def ask(socket_path: str, situation: str, words: list[str], scons: SconsStart | None = None) -> int | None:
    """Run the command in the resident process and return its exit status; None if that process did not run it.

    ``words`` are the arguments of ``scons`` if ``scons`` is set, else of ``pypto-build``.
    """
    connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    connection.settimeout(_CONNECT_S)
    passed_on = None
    try:
        connection.connect(socket_path)
        if not same_user(connection):
            return None
        child = _number(connection)  # first: streams that lie in a socket unread are kept open by it
        if child is None:
            return None
        passed_on = _PassedOn(child)
        request = marshal.dumps((situation, words, dict(os.environ), os.getcwd(), _umask(), scons))
        streams = struct.pack("3i", 0, 1, 2)
        connection.sendmsg([NUMBER.pack(len(request))], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, streams)])
        connection.sendall(request)
    except OSError:  # no server, or a busy one; or one of the streams is closed
        if passed_on:
            passed_on.stop()
        return None
    connection.settimeout(None)
    try:
        status = _number(connection)
    except OSError:
        status = None
    passed_on.stop()
    if status is None and passed_on.last:
        return 128 + passed_on.last
    if status is None:
        print("pypto-build: the background process ended during the command; the command runs again", file=sys.stderr)
    return status


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def _number(connection: _socket.socket) -> int | None:
    """Return the next number that the other end sends; None at the end of the stream."""
    data = b""
    while len(data) < NUMBER.size:
        piece = connection.recv(NUMBER.size - len(data))
        if not piece:
            return None
        data += piece
    return int(NUMBER.unpack(data)[0])


class _PassedOn:
    """Forwards the signals that would end this command to the process group that executes it."""

    _SIGNALS = (_signal.SIGINT, _signal.SIGTERM, _signal.SIGHUP, _signal.SIGQUIT)

    def __init__(self, group: int) -> None:
        self.last = 0
        self._group = group
        self._before = {number: _signal.signal(number, self._pass_on) for number in self._SIGNALS}

    def _pass_on(self, number: int, _frame: FrameType | None) -> None:
        self.last = number
        try:  # noqa: SIM105
            os.killpg(self._group, number)
        except OSError:  # it has ended
            pass

    def stop(self) -> None:
        """Stop forwarding signals: this process handles them again."""
        for number, handler in self._before.items():
            _signal.signal(number, handler)
