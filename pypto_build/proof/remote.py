"""Stores of other machines: a directory that several see, a server that speaks HTTP, redis.

Names are those of Bazel's caches, ``ac/KEY`` and ``cas/DIGEST``, so that a server for these serves us as well. None of
them is trusted: what comes back is verified by those who asked for it.
"""

from __future__ import annotations

import base64
import http.client
import os
import ssl
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import SplitResult, unquote, urlsplit

from pypto_build.artifact.atomic import write_bytes

from .eviction import Entry, entries

#: How long a server may take to answer, in seconds.
_TIMEOUT_S = 10.0
_ABSENT = (404, 410)
_REFUSED = (401, 403, 405, 501)
_STORED = range(200, 300)


class RemoteError(Exception):
    """A remote store that does not answer as one; ``str()`` is a phrase."""


class RemoteRefusal(RemoteError):
    """Somebody who may only read wanted to write."""


class Remote(Protocol):
    """Files by name. Every method raises RemoteError where the store cannot be reached."""

    def get(self, name: str) -> bytes | None:
        """The file; None where there is none."""

    def has(self, name: str) -> bool:
        """Whether the file is there."""

    def put(self, name: str, data: bytes) -> None:
        """Write the file; RemoteRefusal where that is not allowed."""


def open_remote(url: str) -> Remote:
    """The store at ``url``: a path or ``file://``, ``http://``, ``https://``, ``redis://``, ``rediss://``.

    Nothing is asked of it yet.

    Raises:
        RemoteError: it is none of these, or the library for it is not installed.
    """
    parts = urlsplit(url)
    match parts.scheme:
        case "http" | "https":
            if not parts.hostname or not _has_port(parts):
                raise RemoteError("names no host; write it as http://HOST[:PORT]/PATH")
            return HttpStore(parts)
        case "redis" | "rediss":
            return RedisStore(url)
        case "file" | "":
            return DirectoryStore(Path(unquote(parts.path) if parts.scheme else url))
    raise RemoteError(f"{parts.scheme}:// is not spoken; use a directory, http(s):// or redis(s)://")


class DirectoryStore:
    """A directory, most likely of a network file system. A file appears by one rename."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory.absolute()

    def get(self, name: str) -> bytes | None:
        path = self._path(name)
        try:
            data = path.read_bytes()
            with suppress(OSError):
                os.utime(path)  # what is used stays longest; who may only read cannot say so
            return data
        except FileNotFoundError:
            self._if_reached()
            return None
        except OSError as error:
            raise RemoteError(error.strerror or str(error)) from None

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
        """All files of the store; RemoteError where the directory is not there."""
        self._if_reached()
        return entries(self._directory, ("ac", "cas"))

    def _if_reached(self) -> None:
        """One that is not mounted is not made."""
        if not self._directory.is_dir():
            raise RemoteError("there is no such directory; make it, or mount what it is on")

    def _path(self, name: str) -> Path:
        kind, _, digest = name.partition("/")
        return self._directory / kind / digest[:2] / digest


class HttpStore:
    """A server with GET, HEAD and PUT, like nginx with its WebDAV module or bazel-remote; a connection a thread."""

    def __init__(self, url: SplitResult) -> None:
        self._url = url
        self._path = url.path.rstrip("/")
        self._threads = threading.local()
        self._headers = _authorization(url)

    def get(self, name: str) -> bytes | None:
        status, body = self._ask("GET", name)
        return None if status in _ABSENT else self._expected(status, body)

    def has(self, name: str) -> bool:
        status, _ = self._ask("HEAD", name)
        return status not in _ABSENT and bool(self._expected(status, b"yes"))

    def put(self, name: str, data: bytes) -> None:
        status, _ = self._ask("PUT", name, data)
        if status in _REFUSED:
            raise RemoteRefusal(f"answers PUT with {status}")
        self._expected(status, data)

    def _expected(self, status: int, body: bytes) -> bytes:
        if status not in _STORED:
            raise RemoteError(f"answers with status {status}")
        return body

    def _ask(self, method: str, name: str, data: bytes | None = None) -> tuple[int, bytes]:
        known: http.client.HTTPConnection | None = getattr(self._threads, "connection", None)
        if known is not None:
            with suppress(OSError, http.client.HTTPException):  # it may have been closed while it was idle
                return self._exchange(known, method, name, data)
        self._threads.connection = None
        try:
            connection = self._connected()
            answer = self._exchange(connection, method, name, data)
        except (OSError, http.client.HTTPException) as error:
            raise RemoteError(_phrase(error)) from None
        self._threads.connection = connection
        return answer

    def _exchange(
        self, connection: http.client.HTTPConnection, method: str, name: str, data: bytes | None
    ) -> tuple[int, bytes]:
        connection.request(method, f"{self._path}/{name}", data, self._headers)
        answer = connection.getresponse()
        return answer.status, answer.read()

    def _connected(self) -> http.client.HTTPConnection:
        host, port = self._url.hostname or "", self._url.port
        if self._url.scheme == "https":
            return http.client.HTTPSConnection(host, port, timeout=_TIMEOUT_S, context=ssl.create_default_context())
        return http.client.HTTPConnection(host, port, timeout=_TIMEOUT_S)


class RedisStore:
    """A redis server. What it drops when it is full is for its own settings to say."""

    def __init__(self, url: str) -> None:
        try:
            import redis
        except ImportError:
            raise RemoteError("the library for redis is not installed; run pip install redis") from None
        self._error: type[Exception] = redis.RedisError
        timeouts = {"socket_timeout": _TIMEOUT_S, "socket_connect_timeout": _TIMEOUT_S}
        self._redis: Any = redis.Redis.from_url(url, **timeouts)

    def get(self, name: str) -> bytes | None:
        found: bytes | None = self._ask("get", name)
        return found

    def has(self, name: str) -> bool:
        return bool(self._ask("exists", name))

    def put(self, name: str, data: bytes) -> None:
        try:
            self._ask("set", name, data)
        except RemoteError as error:
            if "READONLY" in str(error) or "NOPERM" in str(error):
                raise RemoteRefusal(str(error)) from None
            raise

    def _ask(self, method: str, name: str, *values: bytes) -> Any:
        try:
            return getattr(self._redis, method)(f"pypto-build:{name}", *values)
        except (self._error, OSError) as error:
            raise RemoteError(_phrase(error)) from None


def _has_port(parts: SplitResult) -> bool:
    """Whether the port is one, if there is any."""
    try:
        return parts.port != 0
    except ValueError:
        return False


def _authorization(url: SplitResult) -> dict[str, str]:
    """The header for the user and password of a URL, else those that ~/.netrc has for its host."""
    user, password = url.username, url.password
    if user is None:
        import netrc

        with suppress(OSError, netrc.NetrcParseError):
            known = netrc.netrc(os.environ.get("NETRC")).authenticators(url.hostname or "")
            user, password = (known[0], known[2]) if known and known[0] != "default" else (None, None)
    if user is None:
        return {}
    words = f"{unquote(user)}:{unquote(password or '')}".encode()
    return {"Authorization": f"Basic {base64.b64encode(words).decode()}"}


def _phrase(error: Exception) -> str:
    text = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return " ".join(text.split())
