"""Requests to fork servers, and the end of forked processes.

A request is a message with descriptors. The last descriptor is the pipe through which the requester learns the outcome.
"""

from __future__ import annotations

import errno
import io
import os
import signal
import socket
import stat
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, NoReturn

from pypto_build.toolchain.python import own_tool

# Output whose reader has gone, as in `pypto-build replay x | head -1`: the work goes on, and the exit status holds.


def outlive_readers() -> None:
    """Discard all later output of this process and its children to a pipe whose reader has closed."""
    for name, descriptor in (("stdout", 1), ("stderr", 2)):
        stream = getattr(sys, name)
        buffer = getattr(stream, "buffer", None)
        raw = getattr(buffer, "raw", buffer)
        if not isinstance(raw, io.FileIO) or isinstance(raw, _Outliving) or not _is_pipe(descriptor):
            continue
        stream.flush()
        outliving = _Outliving(descriptor, "w", closefd=False)
        at_once = raw is buffer  # as PYTHONUNBUFFERED has it
        mine: Any = outliving if at_once else io.BufferedWriter(outliving)
        by_line = stream.line_buffering
        text = io.TextIOWrapper(
            mine, stream.encoding, stream.errors, line_buffering=by_line, write_through=stream.write_through
        )
        setattr(sys, name, text)
        setattr(sys, f"__{name}__", text)  # which SCons goes back to at its end


def _is_pipe(descriptor: int) -> bool:
    try:
        mode = os.fstat(descriptor).st_mode
    except OSError:
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)


class _Outliving(io.FileIO):
    """A descriptor that is redirected to ``/dev/null`` after the first write that fails because the reader has
    closed.
    """

    def write(self, data: Any, /) -> int:
        """Write bytes as a file does."""
        try:
            return super().write(data)
        except BrokenPipeError:
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, self.fileno())
            os.close(null)
            return len(data)


#: A number that is told through such a pipe.
NUMBER = struct.Struct("i")
#: Bytes of a request, at most; the system may take less.
LARGEST = 1 << 18


def start(
    module: str,
    words: Sequence[str],
    environment: Mapping[str, str],
    output: int | None = None,
    inherited: Sequence[int] = (),
) -> tuple[subprocess.Popen[bytes], socket.socket]:
    """Start a process that runs a module of this package; return the process, and the socket for its requests.

    The process ends when that socket is closed. The descriptor of the socket's other end comes before its ``words``. It
    prints to ``output``, else to this process's output. ``inherited`` are further descriptors that it gets.
    """
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        process = subprocess.Popen(
            [*own_tool(module), str(theirs.fileno()), *words],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            pass_fds=[theirs.fileno(), *inherited],
        )
    return process, ours


def send(connection: socket.socket, request: bytes, descriptors: Sequence[int], flags: int = 0) -> int:
    """Send a request; return the descriptor from which its outcome can be read. Raises `OSError`."""
    reader, tell = os.pipe()
    try:
        if len(request) > LARGEST:
            raise OSError(errno.EMSGSIZE, os.strerror(errno.EMSGSIZE))
        socket.send_fds(connection, [request], [*descriptors, tell], flags)
    except OSError:
        os.close(reader)
        raise
    finally:
        os.close(tell)
    return reader


@contextmanager
def request(connection: socket.socket, count: int) -> Iterator[tuple[bytes, list[int]]]:
    """Yield the next request with its descriptors, which are closed at the end of the block.

    The descriptors are empty if their number is not ``count``. Both are empty when the other end is closed.
    """
    data, descriptors, _, _ = socket.recv_fds(connection, LARGEST, count)
    try:
        yield data, descriptors if len(descriptors) == count else []
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


def take_streams(streams: Sequence[int]) -> None:
    """Make these descriptors the standard streams of this process, and close the originals."""
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    outlive_readers()


def flush_streams() -> None:
    """Flush the buffered output; ignore streams whose reader has closed."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()


def status_of(command: Callable[[], object]) -> int:
    """Run a command in this process, including Python's exit handlers; return the exit status."""
    status: object = 1
    try:
        status = command()
    except SystemExit as exit_:
        status = 0 if exit_.code is None else exit_.code
        if not isinstance(status, int):
            print(status, file=sys.stderr)
    except KeyboardInterrupt:
        status = 128 + signal.SIGINT
    flush_streams()
    return status if isinstance(status, int) else 1


def do(command: Callable[[], object], tell: int) -> NoReturn:
    """Run a command in this forked process, which ends with it. ``tell`` is the pipe that gets the exit status as a
    byte.
    """
    status = 1
    try:
        status = status_of(command)
    except BaseException:
        sys.excepthook(*sys.exc_info())
    flush_streams()
    with suppress(OSError):  # no process waits any more
        os.write(tell, bytes([status & 0xFF]))
    os._exit(0)


def signal_group(group: int, number: int) -> None:
    """Send a signal to the processes of a group, if there are any."""
    with suppress(OSError):
        os.killpg(group, number)
