"""Preforked processes for repeated commands: each stops where SCons calls our tool, and is forked for later commands.

The first command of its kind leaves such a process behind (`Leaving`), which registers with the resident process
through a socket. A later command with the same words, environment, directory, umask and kind of streams is handed to it
(`hand_over`). All that SCons does before the call is then done already, and the process of the next replay is kept
ready (`rules.machinery.prefork`). The files of an artifact are looked at after the fork, as in any process. The
process that hands a command over stays the leader of the command's group.
"""

from __future__ import annotations

import hashlib
import marshal
import os
import select
import signal
import socket
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

import msgspec

import pypto_build.rules
from pypto_build.client.protocol import NUMBER, SconsStart
from pypto_build.proof.digests import changed_since
from pypto_build.proof.looking import Identity, identity
from pypto_build.rules.machinery import prefork
from pypto_build.rules.targets import STATUS_VARIABLE
from pypto_build.toolchain.forks import flush_streams, take_streams

_STANDS_S = 300.0
# Time limit of its answer; then the command goes on without it.
_ANSWERS_S = 2.0
# After so much time without a command there is time to look at what the next one will need.
_QUIET_S = 0.2
_LARGEST = 1 << 16
_SCONSTRUCT = str(Path(pypto_build.rules.__file__).with_name("SConstruct"))


def key_of(words: Sequence[str], environment: Mapping[str, str], start: SconsStart | None = None) -> bytes:
    """Return a digest of everything that two commands must share to use the same preforked process."""
    umask = os.umask(0o077)
    os.umask(umask)
    where = os.stat(".")  # not its name alone: another one may be there by now
    terminals = [os.isatty(stream) for stream in range(3)]
    others = sorted(pair for pair in environment.items() if pair[0] != STATUS_VARIABLE)
    return hashlib.sha256(
        marshal.dumps((list(words), start, others, os.getcwd(), where.st_dev, where.st_ino, umask, terminals))
    ).digest()


def stamps(paths: Iterable[str]) -> dict[str, Identity]:
    """Return the identities of files (device, inode, mode, size, times); files that do not exist are left out."""
    identities = {}
    for path in paths:
        with suppress(OSError):
            identities[path] = identity(os.stat(path))
    return identities


def is_settled(identities: Mapping[str, Identity], started: int) -> bool:
    """Return True if none of these files has changed since ``started``, the start of a process by the system's
    clock.
    """
    return not any(changed_since(stamp, started) for stamp in identities.values())


def hand_over(stand: socket.socket, environment: Mapping[str, str]) -> int | None:
    """Hand a command to the preforked process at ``stand``; return its exit status, or None if that process refuses.

    Raises `EOFError` if the connection ended in the middle of the command.
    """
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours:
        with theirs:
            request = marshal.dumps((os.getpid(), environment.get(STATUS_VARIABLE, "")))
            try:
                socket.send_fds(stand, [request], [0, 1, 2, theirs.fileno()], socket.MSG_DONTWAIT)
            except OSError:
                return None
        ready, _, _ = select.select([ours], [], [], _ANSWERS_S)
        if not ready or not ours.recv(1):
            return None
        ours.send(b"!")
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):  # it gets those too, and ends by itself
            signal.signal(number, lambda *_: None)
        status = ours.recv(NUMBER.size)
    if len(status) < NUMBER.size:
        raise EOFError
    return int(NUMBER.unpack(status)[0])


class Leaving:
    """Leaves a preforked process behind where SCons calls our tool.

    ``close`` is called first in that process. ``started`` is the start time of this process. ``scripts`` are the files,
    without modules, that SCons has read so far. `in_fork` is True in forks of the preforked process. They must not
    return to the code that called SCons.
    """

    def __init__(
        self, key: bytes, register: socket.socket, close: Callable[[], None], started: int, scripts: Sequence[str]
    ) -> None:
        self._scripts = scripts
        self._key, self._register, self._close, self._started = key, register, close, started
        self._reports = -1
        self.in_fork: socket.socket | None = None

    def leave(self, precheck: Callable[[], None]) -> None:
        """Fork the preforked process; return in this process, and later in each fork of the preforked process.

        Call this where SCons calls the tool.
        """
        modules = [getattr(module, "__file__", None) for module in list(sys.modules.values())]
        code = stamps([_SCONSTRUCT, *self._scripts, *filter(None, modules)])
        if not is_settled(code, self._started):
            return
        sys.stdout.flush()
        sys.stderr.flush()
        report, self._reports = os.pipe()
        if os.fork():
            os.close(report)
            self._register.close()
            return
        with suppress(OSError):
            os.setpgid(0, 0)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        self._close()
        os.close(self._reports)
        take_streams([os.open(os.devnull, os.O_RDWR) for _ in range(3)])
        self.in_fork, self._reports = _Stand(self._register, code, report, precheck).serve(self._key)

    def tell(self) -> None:
        """At the end of a command, tell the preforked process what the next command will need."""
        report = msgspec.json.encode(prefork.NEXT.upcoming)
        if self._reports >= 0:
            with suppress(OSError):
                os.set_blocking(self._reports, False)
                os.write(self._reports, report)
            os.close(self._reports)


class _Stand:
    """A preforked process: it only forks, and keeps the data for the next fork."""

    def __init__(
        self, register: socket.socket, code: Mapping[str, Identity], report: int, precheck: Callable[[], None]
    ) -> None:
        self._register, self._code, self._precheck = register, code, precheck
        self._has_precheck = False
        self._reports = {report}
        self._forks: dict[int, int] = {}  # processes by their descriptors

    def serve(self, key: bytes) -> tuple[socket.socket, int]:
        """Serve until a fork has a command to run, and return in that fork only.

        Return the connection to the caller, and the descriptor for the command's report at its end on what the next
        command needs.
        """
        try:
            self._register.send(key)
            while True:
                watched = [self._register.fileno(), *self._reports, *self._forks]
                ready, _, _ = select.select(watched, [], [], _QUIET_S if self._has_precheck else _STANDS_S)
                if not ready and self._has_precheck:
                    self._has_precheck = False
                    prefork.run_precheck(self._precheck)
                elif not ready and not self._forks:
                    os._exit(0)
                for descriptor in ready:
                    if descriptor == self._register.fileno():
                        if (request := self._take()) is not None:
                            return request
                    elif descriptor in self._reports:
                        self._learn(descriptor)
                    else:
                        os.waitpid(self._forks.pop(descriptor), 0)
                        os.close(descriptor)
        except Exception:
            os._exit(1)

    def _learn(self, descriptor: int) -> None:
        """Read the report of a finished command on what the next one needs."""
        self._reports.discard(descriptor)
        data = os.read(descriptor, _LARGEST)
        os.close(descriptor)
        if data:
            prefork.NEXT.upcoming = msgspec.json.decode(data, type=prefork.Kept)
            prefork.keep(prefork.NEXT.upcoming)
            self._has_precheck = prefork.NEXT.workspace is not None
            if not self._has_precheck:
                prefork.run_precheck(self._precheck)

    def _take(self) -> tuple[socket.socket, int] | None:
        """Fork for a command. In the fork, wait for the caller's consent and return the result of `serve`."""
        data, descriptors, _, _ = socket.recv_fds(self._register, _LARGEST, 4)
        if not data or stamps(self._code) != self._code:
            os._exit(0)
        if len(descriptors) != 4:
            return None
        report, tell = os.pipe()
        process = os.fork()
        if not process:
            return self._become(data, descriptors), tell
        for descriptor in (*descriptors, tell):
            os.close(descriptor)
        self._reports.add(report)
        self._forks[os.pidfd_open(process)] = process
        return None

    def _become(self, data: bytes, descriptors: Sequence[int]) -> socket.socket:
        leader, status_file = marshal.loads(data)
        self._register.close()
        connection = socket.socket(fileno=descriptors[3])
        with suppress(OSError):
            os.setpgid(0, leader)
        connection.send(b"+")
        if not connection.recv(1):
            os._exit(0)  # it took too long: the command runs without it
        take_streams(descriptors[:3])
        if status_file:
            os.environ[STATUS_VARIABLE] = status_file
        signal.signal(signal.SIGINT, signal.default_int_handler)
        return connection


def end_fork(connection: socket.socket, status: int) -> NoReturn:
    """End a fork that has run its command, and send the exit status to the caller."""
    flush_streams()
    with suppress(OSError):
        connection.send(NUMBER.pack(status))
    os._exit(status & 0xFF)
