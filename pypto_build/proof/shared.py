"""The user's local store in front of a shared remote store.

Results missing in the local store are fetched from the remote store and kept. New results are listed in ``outbox/``,
and a separate process sends them. So no command waits for it, and nothing is lost while the network is down.
"""

from __future__ import annotations

import hashlib
import os
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

import msgspec

from pypto_build.artifact.files import write_bytes

from .digests import bytes_digest
from .locks import locked
from .remote import Remote, RemoteDamage, RemoteError, RemoteRefusal, open_remote
from .store import Store, decode_entry, decoded, encode_entry, read_file

OUTBOX = "outbox"
# A server that could not be reached is not asked again within this time.
_AWAY_S = 60.0
# So much longer than its answers are worth, in seconds, may a server take in one run: an answer of use is worth the
# first of these seconds, and one for each of so many bytes.
_PATIENCE_S, _ANSWER_S, _BYTES_A_SECOND = 30.0, 0.25, 1 << 20
#: Limit of the results of an action, in bytes.
_LARGEST_ENTRY = 16 << 20
# Time limit of one sending process.
_SENDING_S = 600.0
# Results that wait to be sent; the oldest are given up beyond it.
_WAITING = 20_000


class Upload(Enum):
    """Ways to send new results."""

    NO = "no"
    BACKGROUND = "background"
    WAIT = "wait"


@dataclass
class Traffic:
    """Counts of a run's requests to the remote store: hits, misses and damaged files."""

    hits: int = 0
    misses: int = 0
    damaged: int = 0
    away: str = ""  # why it is not asked any more

    @property
    def line(self) -> str:
        """Return a summary line for users; empty if the remote store was not used and had no fault."""
        if self.away:
            return f"cannot be used: {self.away}; going on without it"
        if not self.hits and not self.damaged:
            return ""
        damaged = f"; {self.damaged} damaged there and not used" if self.damaged else ""
        return f"had {self.hits} of {self.hits + self.misses} results that are not here{damaged}"


class SharedStore(Store):
    """A store in ``directory`` of ``size`` bytes, with the results ``shipped`` with the installation, in front of the
    remote store at ``url``.

    ``start_sending`` starts a process that sends the waiting results, and returns at once.
    """

    def __init__(
        self,
        directory: Path,
        size: int,
        url: str,
        upload: Upload,
        start_sending: Callable[[], None],
        shipped: Path | None = None,
    ) -> None:
        super().__init__(directory, size, shipped)
        self.url = url
        self._start_sending = start_sending
        self.traffic = Traffic()
        self._upload = upload
        self._remote: Remote | None = None
        self._away = directory / f".away.{hashlib.sha256(url.encode()).hexdigest()[:16]}"
        self._lock = threading.Lock()
        self._patience = _PATIENCE_S
        self._news = 0

    def find(self, key: str) -> Iterator[bytes]:
        """Yield the results of an action: local results first, then those from the remote store."""
        here = self.local_results(key)
        yield from here
        data = self._get(f"ac/{key}", _LARGEST_ENTRY)
        there = decode_entry(key, data)
        if data and there:
            self._earn(len(data))
        new = [result for result in there if result not in here]
        self._count(bool(new), damaged=data is not None and not there)
        if new:
            with suppress(OSError):
                self._write(self._path("actions", key), encode_entry(key, [*here, *new]))
        yield from new

    def read(self, digest: str) -> bytes | None:
        """Return the content with this digest, from the local or the remote store."""
        data = super().read(digest)
        if data is not None:
            return data
        data = self._get(f"cas/{digest}", self.largest)
        if data is None:
            return None
        if bytes_digest(data) != digest:
            self._count_damage()
            return None
        self._earn(len(data))
        with suppress(OSError):
            self._write(self._path("content", digest), data)
        return data

    def publish(self, key: str, result: bytes, contents: Iterable[bytes]) -> None:
        """Keep a result, and queue it for sending."""
        contents = list(contents)
        super().publish(key, result, contents)
        if self._size and self._upload is not Upload.NO:
            with suppress(OSError):
                digests = list(map(bytes_digest, contents))
                write_bytes(self.directory / OUTBOX / key, msgspec.msgpack.encode(digests))
                self._news += 1

    def close(self) -> None:
        """Record the written files, and start sending the queue."""
        super().close()
        news, self._news = self._news, 0
        if not news or self._is_away():
            return
        if self._upload is Upload.WAIT:
            try:
                send(self, self._opened())
            except RemoteError as error:
                self._give_up(error)
        elif self._upload is Upload.BACKGROUND:
            self._start_sending()

    def report(self) -> str:
        """Return a line about the use of the remote store; empty if there is nothing to say."""
        return f"{without_password(self.url)} {self.traffic.line}" if self.traffic.line else ""

    def _opened(self) -> Remote:
        if self._remote is None:
            self._remote = open_remote(self.url)
        return self._remote

    def _get(self, name: str, largest: int) -> bytes | None:
        """Return a file of the remote store; None if it is missing or unusable."""
        if not self._size or self._is_away():
            return None
        started = time.monotonic()
        try:
            if self._patience <= 0:
                raise RemoteError("the store is too slow")
            data = self._opened().get(name, largest, self._patience)
            if data is None:
                self._earn(0)
            return data
        except RemoteDamage:
            self._count_damage()
        except RemoteError as error:
            self._give_up(error)
        finally:
            with self._lock:
                self._patience -= time.monotonic() - started
        return None

    def _earn(self, size: int) -> None:
        with self._lock:
            self._patience = min(_PATIENCE_S, self._patience + _ANSWER_S + size / _BYTES_A_SECOND)

    def _count_damage(self) -> None:
        with self._lock:
            self.traffic.damaged += 1

    def _count(self, hit: bool, damaged: bool) -> None:
        with self._lock:
            self.traffic.damaged += damaged
            if not self.traffic.away:
                self.traffic.hits += hit
                self.traffic.misses += not hit

    def _is_away(self) -> bool:
        if not self.traffic.away:
            with suppress(OSError, UnicodeDecodeError):
                if time.time() - self._away.stat().st_mtime < _AWAY_S:
                    self.traffic.away = self._away.read_text(encoding="utf-8")[:200]
        return bool(self.traffic.away)

    def _give_up(self, error: RemoteError) -> None:
        self.traffic.away = str(error) or "no answer"
        with suppress(OSError):
            write_bytes(self._away, self.traffic.away.encode())


def without_password(url: str) -> str:
    """Return an address without its password, even if the address is malformed."""
    scheme = re.match(r"[\w+.-]+:/*", url)
    _, at, host = url.rpartition("@")
    return f"{scheme[0]}…@{host}" if scheme and at else url


def send(store: Store, remote: Remote) -> int:
    """Send all waiting results, one process at a time and for ten minutes at most; return the number sent.

    A user who may only read sends nothing, and the waiting results are dropped.

    Raises:
        RemoteError: the store cannot be reached; the rest goes on waiting.
    """
    outbox = store.directory / OUTBOX
    outbox.mkdir(parents=True, exist_ok=True)
    sent, until = 0, time.monotonic() + _SENDING_S
    with locked(outbox / ".lock"):
        while waiting := _waiting(outbox):
            for path in waiting:
                if time.monotonic() > until:
                    raise RemoteError("the store is too slow")
                try:
                    sent += _send_one(store, remote, path)
                except RemoteRefusal:
                    for refused in waiting:
                        refused.unlink(missing_ok=True)
                    return sent
                path.unlink(missing_ok=True)
    return sent


def _waiting(outbox: Path) -> list[Path]:
    paths = [path for path in outbox.iterdir() if not path.name.startswith(".")]
    paths.sort(key=lambda path: path.stat().st_mtime_ns, reverse=True)
    for path in paths[_WAITING:]:
        path.unlink(missing_ok=True)
    return paths[:_WAITING]


def _send_one(store: Store, remote: Remote, path: Path) -> bool:
    """Send a result after its contents, so that the remote store never has a result without contents."""
    key, results = path.name, store.local_results(path.name)
    digests = decoded(read_file(path), list[str])
    if digests is None or not results:
        return False
    for digest in digests:
        data = store.read(digest)
        if data is None:
            return False  # evicted meanwhile
        if not remote.has(f"cas/{digest}"):
            remote.put(f"cas/{digest}", data)
    try:
        there = decode_entry(key, remote.get(f"ac/{key}", _LARGEST_ENTRY))
    except RemoteDamage:
        there = []
    if results != there:
        remote.put(f"ac/{key}", encode_entry(key, [*results, *there]))
    return True


def worker(directory: Path) -> int:
    """Send the waiting results, as the main function of a process; return its exit status."""
    with suppress(RemoteError, OSError):
        send(Store(directory), open_remote(os.environ["PYPTO_BUILD_REMOTE"]))
    return 0
