"""Remote stores: a directory on a network file system, an HTTP server, or redis.

Names are those of Bazel's caches, ``ac/KEY`` and ``cas/DIGEST``, so that their servers work here too. No remote store
is trusted: the caller verifies each answer, whose size and time are limited.
"""

from __future__ import annotations

import base64
import errno
import http.client
import io
import os
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, Protocol
from urllib.parse import SplitResult, unquote, urlsplit

from pypto_build.artifact.files import open_file, write_bytes

from .eviction import Entry, entries

# Limits of an answer from another machine: its bytes, and its time.
# A server is not trusted to end its answer, nor to send it in time.

#: Time limit of each step of an exchange, in seconds.
STEP_S = 10.0


class TooMuch(OSError):
    """The answer is larger than allowed."""


class TooSlow(OSError):
    """The answer did not arrive in time."""


class Bounds(threading.local):
    """The remaining time and bytes for the current exchange of this thread."""

    left = 0
    deadline = 0.0

    def renew(self, size: int, seconds: float) -> None:
        """Start an exchange that may receive ``size`` bytes within ``seconds``."""
        self.left, self.deadline = size, time.monotonic() + seconds

    def step(self) -> float:
        """Return the seconds left for the next step. Raises `TooSlow` if none are left."""
        remaining = self.deadline - time.monotonic()
        if remaining <= 0:
            raise TooSlow("the store is too slow")
        return min(STEP_S, remaining)

    def count(self, size: int) -> None:
        """Count ``size`` received bytes. Raises `TooMuch`."""
        self.left -= size
        if self.left < 0:
            raise TooMuch("sends more bytes than expected")


class BoundedSocket:
    """A connected socket that enforces ``bounds``, with the methods that clients of HTTP and redis use."""

    _PIECE = 1 << 16

    def __init__(self, connected: socket.socket, bounds: Bounds) -> None:
        self._socket, self._bounds = connected, bounds
        self._readers, self._closed = 0, False

    def recv(self, size: int, *flags: int) -> bytes:
        self._limit()
        data = self._socket.recv(size, *flags)
        self._bounds.count(len(data))
        return data

    def recv_into(self, buffer: Any, *sizes: int) -> int:
        self._limit()
        count = self._socket.recv_into(buffer, *sizes)
        self._bounds.count(count)
        return count

    def _limit(self) -> None:
        """Set the timeout of the next step to the time left."""
        if self._socket.gettimeout() != 0:
            self._socket.settimeout(self._bounds.step())

    def sendall(self, data: bytes) -> None:
        view = memoryview(data)
        for begin in range(0, len(view), self._PIECE):
            self._socket.settimeout(self._bounds.step())
            self._socket.sendall(view[begin : begin + self._PIECE])

    def makefile(self, *_: object) -> io.BufferedReader:
        """Return the file from which a response is read; the socket stays open until the file is closed."""
        self._readers += 1
        return io.BufferedReader(_Reader(self))

    def close(self) -> None:
        self._closed = True
        if not self._readers:
            self._socket.close()

    def reader_closed(self) -> None:
        """Record that a file made by `makefile` was closed."""
        self._readers -= 1
        if self._closed:
            self.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._socket, name)


class _Reader(io.RawIOBase):
    def __init__(self, bounded: BoundedSocket) -> None:
        self._bounded = bounded

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        return self._bounded.recv_into(buffer)

    def close(self) -> None:
        if not self.closed:
            self._bounded.reader_closed()
        super().close()


#: Time limit of one file, in seconds.
EXCHANGE_S = 60.0
#: Bytes that an answer may have besides the file: headers, and the beginning of a connection.
_AROUND = 1 << 18
_PIECE = 1 << 20
_TOO_LARGE = "has a file that is too large"
_ABSENT = (404, 410)
_REFUSED = (401, 403, 405, 501)
_STORED = range(200, 300)


class RemoteError(Exception):
    """A remote store is unreachable or gives an invalid answer; ``str()`` is a phrase."""


class RemoteDamage(RemoteError):
    """A remote file that cannot be valid: too large, or not a regular file."""


class RemoteRefusal(RemoteError):
    """The store refused a write, because this user has only read access."""


class Remote(Protocol):
    """A remote store of files by name. Every method raises RemoteError if the store cannot be reached."""

    def get(self, name: str, largest: int, seconds: float = EXCHANGE_S) -> bytes | None:
        """Return the file, at most ``largest`` bytes; None if it is missing. Raises RemoteDamage for an invalid
        file.
        """

    def has(self, name: str) -> bool:
        """Return True if the file is in the store."""

    def put(self, name: str, data: bytes) -> None:
        """Write the file. Raises RemoteRefusal if writing is not allowed."""


def open_remote(url: str) -> Remote:
    """Return the store at ``url``: a path or ``file://``, ``http://``, ``https://``, ``redis://``, ``rediss://``.

    No request is sent yet.

    Raises:
        RemoteError: it is no address or one with another scheme, or its library is not installed.
    """
    try:
        parts = urlsplit(url)
    except ValueError:  # whose text may have the password
        raise RemoteError("is not an address; write it as http://HOST[:PORT]/PATH") from None
    match parts.scheme:
        case "http" | "https":
            if not parts.hostname or not _has_port(parts):
                raise RemoteError("contains no host name; write it as http://HOST[:PORT]/PATH")
            return HttpStore(parts)
        case "redis" | "rediss":
            return RedisStore(url)
        case "file" | "":
            return DirectoryStore(Path(unquote(parts.path) if parts.scheme else url))
    raise RemoteError(f"{parts.scheme}:// is not supported; use a directory, http(s):// or redis(s)://")


class DirectoryStore:
    """A store in a directory, usually on a network file system. A file appears by one rename."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory.absolute()

    def get(self, name: str, largest: int, seconds: float = EXCHANGE_S) -> bytes | None:
        try:
            with open_file(self._path(name)) as file:
                if os.fstat(file.fileno()).st_size > largest:
                    raise RemoteDamage(_TOO_LARGE)
                data = _read(file, largest, time.monotonic() + seconds)
                with suppress(OSError):
                    os.utime(file.fileno())  # what is used stays longest; who may only read cannot say so
                return data
        except FileNotFoundError:
            self._if_reached()
            return None
        except OSError as error:
            unfit = error.errno in (errno.EINVAL, errno.EISDIR, errno.ELOOP, errno.ENXIO)
            raise (RemoteDamage if unfit else RemoteError)(error.strerror or str(error)) from None

    def has(self, name: str) -> bool:
        return self._path(name).is_file()

    def put(self, name: str, data: bytes) -> None:
        self._if_reached()
        try:
            write_bytes(self._path(name), data)
        except PermissionError as error:
            raise RemoteRefusal(error.strerror) from None
        except OSError as error:
            raise RemoteError(error.strerror or str(error)) from None

    def entries(self) -> Iterator[Entry]:
        """Yield all files of the store. Raises RemoteError if the directory is missing."""
        self._if_reached()
        return entries(self._directory, ("ac", "cas"))

    def _if_reached(self) -> None:
        """Raise an error if the directory is not mounted; never create it."""
        if not self._directory.is_dir():
            raise RemoteError("there is no such directory; create it, or mount its file system")

    def _path(self, name: str) -> Path:
        kind, _, digest = name.partition("/")
        return self._directory / kind / digest[:2] / digest


class HttpStore:
    """A server with GET, HEAD and PUT, like nginx with its WebDAV module or bazel-remote; each thread has one
    connection.
    """

    def __init__(self, url: SplitResult) -> None:
        self._url = url
        self._path = url.path.rstrip("/")
        self._threads = threading.local()
        self._headers = _authorization(url)
        self._bounds = Bounds()

    def get(self, name: str, largest: int, seconds: float = EXCHANGE_S) -> bytes | None:
        status, body = self._ask("GET", name, largest=largest, seconds=seconds)
        return None if status in _ABSENT else self._expected(status, body)

    def has(self, name: str) -> bool:
        status, _ = self._ask("HEAD", name)
        return status not in _ABSENT and bool(self._expected(status, b"yes"))

    def put(self, name: str, data: bytes) -> None:
        status, _ = self._ask("PUT", name, data)
        if status in _REFUSED:
            raise RemoteRefusal(f"answers a PUT request with status {status}")
        self._expected(status, data)

    def _expected(self, status: int, body: bytes) -> bytes:
        if status not in _STORED:
            raise RemoteError(f"answers the request with status {status}")
        return body

    def _ask(
        self, method: str, name: str, data: bytes | None = None, largest: int = _AROUND, seconds: float = EXCHANGE_S
    ) -> tuple[int, bytes]:
        self._bounds.renew(largest + _AROUND, seconds)
        connection: http.client.HTTPConnection | None = getattr(self._threads, "connection", None)
        self._threads.connection = None
        try:
            if connection is not None:
                with suppress(ConnectionError, http.client.HTTPException):  # it may have been closed while it was idle
                    return self._exchange(connection, method, name, data, largest)
            return self._exchange(self._connected(), method, name, data, largest)
        except TooMuch:
            raise RemoteDamage(_TOO_LARGE) from None
        except (OSError, http.client.HTTPException) as error:
            raise RemoteError(_phrase(error)) from None

    def _exchange(
        self, connection: http.client.HTTPConnection, method: str, name: str, data: bytes | None, largest: int
    ) -> tuple[int, bytes]:
        """Send a request and return the status and body of its answer. A connection is closed if its answer was not
        read to the end.
        """
        try:
            connection.request(method, f"{self._path}/{name}", data, self._headers)
            answer = connection.getresponse()
            body = answer.read(largest + 1)
            if len(body) > largest and answer.status in _STORED and method == "GET":
                raise TooMuch
            whole = answer.isclosed() or not answer.read(1)
        except BaseException:
            connection.close()
            raise
        if whole:
            self._threads.connection = connection
        else:
            connection.close()
        return answer.status, body

    def _connected(self) -> http.client.HTTPConnection:
        """Return a connection whose socket enforces the bounds, and that never reconnects by itself."""
        host, port = self._url.hostname or "", self._url.port
        if self._url.scheme == "https":
            context = ssl.create_default_context()
            connection: http.client.HTTPConnection = http.client.HTTPSConnection(
                host, port, timeout=STEP_S, context=context
            )
        else:
            connection = http.client.HTTPConnection(host, port, timeout=STEP_S)
        connection.connect()
        connection.auto_open = 0
        connection.sock = BoundedSocket(connection.sock, self._bounds)
        return connection


# Errors that the library for redis raises besides its own, after unexpected answers.
_SURPRISES = (OSError, ValueError, TypeError, AttributeError, LookupError, ArithmeticError, RecursionError)


class RedisStore:
    """A redis server; its own settings decide about eviction."""

    def __init__(self, url: str) -> None:
        try:
            import redis
        except ImportError:
            raise RemoteError("the library for redis is not installed; run pip install redis") from None
        self._error: type[Exception] = redis.RedisError
        self._bounds = bounds = Bounds()
        kind = redis.SSLConnection if url.startswith("rediss:") else redis.Connection

        class Connection(kind):  # type: ignore[misc, valid-type]
            """A connection whose socket keeps the limits."""

            def _connect(self) -> Any:
                return BoundedSocket(super()._connect(), bounds)

        timeouts = {"socket_timeout": STEP_S, "socket_connect_timeout": STEP_S}
        self._redis: Any = redis.Redis.from_url(url, **timeouts)
        self._redis.connection_pool.connection_class = Connection

    def get(self, name: str, largest: int, seconds: float = EXCHANGE_S) -> bytes | None:
        value = self._ask("get", name, largest=largest, seconds=seconds)
        if value is not None and not (isinstance(value, bytes) and len(value) <= largest):
            raise RemoteDamage("sends an answer that is not a file")
        return value

    def has(self, name: str) -> bool:
        return bool(self._ask("exists", name))

    def put(self, name: str, data: bytes) -> None:
        try:
            self._ask("set", name, data)
        except RemoteError as error:
            if "READONLY" in str(error) or "NOPERM" in str(error):
                raise RemoteRefusal(str(error)) from None
            raise

    def _ask(self, method: str, name: str, *values: bytes, largest: int = 0, seconds: float = EXCHANGE_S) -> Any:
        self._bounds.renew(largest + _AROUND, seconds)
        try:
            return getattr(self._redis, method)(f"pypto-build:{name}", *values)
        except (self._error, *_SURPRISES) as error:  # its answers may be anything
            if self._bounds.left < 0:
                raise RemoteDamage(_TOO_LARGE) from None
            raise RemoteError(_phrase(error)) from None


def _read(file: BinaryIO, largest: int, deadline: float) -> bytes:
    """Return the content of a file within the deadline, because its file system may be slow and the file may grow."""
    data = bytearray()
    while piece := file.read(_PIECE):
        data += piece
        if len(data) > largest:
            raise RemoteDamage(_TOO_LARGE)
        if time.monotonic() > deadline:
            raise RemoteError("the store is too slow")
    return bytes(data)


def _has_port(parts: SplitResult) -> bool:
    """Return True if the port is valid, or there is none."""
    try:
        return parts.port != 0
    except ValueError:
        return False


def _authorization(url: SplitResult) -> dict[str, str]:
    """Return the header for the user and password of a URL, else those that ~/.netrc has for its host."""
    user, password = url.username, url.password
    if user is None:
        import netrc

        with suppress(OSError, netrc.NetrcParseError):
            login = netrc.netrc(os.environ.get("NETRC")).authenticators(url.hostname or "")
            user, password = (login[0], login[2]) if login and login[0] != "default" else (None, None)
    if user is None:
        return {}
    words = f"{unquote(user)}:{unquote(password or '')}".encode()
    return {"Authorization": f"Basic {base64.b64encode(words).decode()}"}


def _phrase(error: Exception) -> str:
    text = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return " ".join(text.split())
