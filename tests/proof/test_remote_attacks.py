"""Stores of other machines that mean no good: an answer has a size and a time, whatever the other end does."""

from __future__ import annotations

import gzip
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from pypto_build.proof import shared as shared_module
from pypto_build.proof.eviction import entries
from pypto_build.proof.remote import DirectoryStore, RemoteDamage, RemoteError, open_remote
from pypto_build.proof.shared import SharedStore, Upload, send
from tests.proof.test_remote import KEY, digest, redis_serving, serving

_MANY = b"x" * (1 << 20)
#: More than any of these tests lets an answer have.
_MOST = 64 << 20


class Attacker:
    """A server of which every connection gets the same pieces, whatever it asks; it counts what was taken."""

    def __init__(self, pieces: Callable[[], Iterator[bytes]]) -> None:
        self._pieces = pieces
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listening.getsockname()[1]}"
        self.taken = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                threading.Thread(target=self._serve, args=(self._listening.accept()[0],), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, suppress(OSError):
            connection.recv(1 << 16)
            for piece in self._pieces():
                connection.sendall(piece)
                self.taken += len(piece)
                assert self.taken < 2 * _MOST

    def close(self) -> None:
        self._listening.close()


@contextmanager
def attacking(pieces: Callable[[], Iterator[bytes]]) -> Iterator[Attacker]:
    attacker = Attacker(pieces)
    try:
        yield attacker
    finally:
        attacker.close()


def endless(head: bytes, piece: bytes = _MANY) -> Callable[[], Iterator[bytes]]:
    def pieces() -> Iterator[bytes]:
        yield head
        while True:
            yield piece

    return pieces


def dripping(head: bytes) -> Callable[[], Iterator[bytes]]:
    """One byte after the other, each in time."""

    def pieces() -> Iterator[bytes]:
        yield head
        while True:
            time.sleep(0.02)
            yield b"x"

    return pieces


_OK = b"HTTP/1.1 200 OK\r\n"
_HTTP = {
    "a body without end": endless(_OK + b"\r\n"),
    "a length that is a terabyte": endless(_OK + b"Content-Length: 1099511627776\r\n\r\n"),
    "chunks without end": endless(_OK + b"Transfer-Encoding: chunked\r\n\r\n", b"100000\r\n" + _MANY + b"\r\n"),
    "a chunk that is a terabyte": endless(_OK + b"Transfer-Encoding: chunked\r\n\r\n10000000000\r\n"),
    "trailers without end": endless(_OK + b"Transfer-Encoding: chunked\r\n\r\n0\r\n", b"a: b\r\n"),
    "announcements without end": endless(b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    "headers without end": endless(_OK, b"a: b\r\n"),
    "a header without end": endless(_OK + b"a: "),
    "a status without end": endless(b"HTTP/1.1 200 "),
    "a body with status 404": endless(b"HTTP/1.1 404 Not Found\r\n\r\n"),
    "a length that is none": endless(_OK + b"Content-Length: -5\r\n\r\n"),
    "something else": endless(b"\0\0\0\0\r\n\r\n"),
}
_REDIS = {
    "a value without end": endless(b"$1099511627776\r\n"),
    "a line without end": endless(b"+"),
    "an array without end": endless(b"*1099511627776\r\n", b"$1\r\nx\r\n"),
    "arrays in arrays": endless(b"*1\r\n" * 100_000, b"*1\r\n"),
    "a number that is none": endless(b":abc\r\n", b":abc\r\n"),
    "a length that is none": endless(b"$abc\r\n", b"$abc\r\n"),
    "something else": endless(b"\0\0\0\0\r\n\r\n", b"\0\r\n"),
}
_CASES = [("http", name) for name in _HTTP] + [("redis", name) for name in _REDIS]


@pytest.mark.parametrize(("scheme", "name"), _CASES, ids=[f"{scheme}: {name}" for scheme, name in _CASES])
def test_an_answer_has_an_end(scheme: str, name: str) -> None:
    with attacking((_HTTP if scheme == "http" else _REDIS)[name]) as attacker:
        store = open_remote(f"{scheme}://{attacker.address}/0")
        with suppress(RemoteError):
            assert store.get(f"cas/{KEY}", 1 << 20, seconds=20.0) is None
        assert attacker.taken < _MOST


_KINDS = [
    b"*2\r\n$1\r\na\r\n$1\r\nb\r\n",
    b"*-1\r\n",
    b":5\r\n",
    b"#t\r\n",
    b"_\r\n",
    b"%1\r\n+a\r\n+b\r\n",
    b"~0\r\n",
    b"$-9\r\n",
]


@pytest.mark.parametrize("answer", _KINDS)
def test_a_redis_answer_of_another_kind_is_damage_or_an_error(answer: bytes) -> None:
    with attacking(lambda: iter([answer] * 8)) as attacker:
        store = open_remote(f"redis://{attacker.address}/0")
        with suppress(RemoteError):
            assert store.get(f"cas/{KEY}", 1 << 20, seconds=5.0) is None


@pytest.mark.parametrize("status", ["301 Moved", "302 Found", "307 Temporary Redirect"])
def test_an_http_answer_leads_nowhere_else(tmp_path: Path, status: str) -> None:
    (tmp_path / "secret").write_text("secret")
    head = f"HTTP/1.1 {status}\r\nLocation: file://{tmp_path}/secret\r\nContent-Length: 0\r\n\r\n".encode()
    with attacking(lambda: iter([head])) as attacker:
        store = open_remote(f"http://{attacker.address}/x")
        with pytest.raises(RemoteError, match="answers the request with status 30"):
            store.get(f"cas/{KEY}", 1 << 20, seconds=5.0)


def test_an_http_answer_is_not_unpacked() -> None:
    bomb = gzip.compress(bytes(1 << 26))
    head = b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(bomb)
    with attacking(lambda: iter([_OK + head + bomb])) as attacker:
        assert open_remote(f"http://{attacker.address}/x").get(f"cas/{KEY}", 1 << 20, seconds=5.0) == bomb


@pytest.mark.parametrize("head", [b"", _OK, _OK + b"\r\n", _OK + b"a: ", b"HTTP/1.1 100 "])
def test_an_http_answer_that_drips_is_given_up(head: bytes) -> None:
    with attacking(dripping(head)) as attacker:
        store = open_remote(f"http://{attacker.address}/x")
        with pytest.raises(RemoteError, match=r"too slow|timed out"):
            store.get(f"cas/{KEY}", 1 << 30, seconds=0.5)


@pytest.mark.parametrize("head", [b"", b"+", b"$1000000000\r\n"])
def test_a_redis_answer_that_drips_is_given_up(head: bytes) -> None:
    with attacking(dripping(head)) as attacker:
        store = open_remote(f"redis://{attacker.address}/0")
        with pytest.raises(RemoteError):
            store.get(f"cas/{KEY}", 1 << 30, seconds=0.5)


def test_a_slow_server_costs_a_run_a_limited_time(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Every answer comes in time, but together they take longer than they are worth."""
    monkeypatch.setattr(shared_module, "_PATIENCE_S", 0.5)

    def pieces() -> Iterator[bytes]:
        time.sleep(0.4)
        yield b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nConnection: close\r\n\r\nx"

    with attacking(pieces) as attacker:
        store = SharedStore(tmp_path, 1 << 30, f"http://{attacker.address}/x", Upload.NO, lambda: None)
        for number in range(40):
            assert list(store.find(f"{number:064}")) == []
        assert store.report().endswith("too slow; going on without it") or "timed out" in store.report()
        assert attacker.taken < 10 * 80


def _make_sparse(path: Path) -> None:
    path.touch()
    os.truncate(path, 1 << 40)


def _make_socket(path: Path) -> None:
    os.chdir(path.parent)  # the address of a socket is short
    socket.socket(socket.AF_UNIX).bind(path.name)


_ENTRIES: dict[str, Callable[[Path], object]] = {
    "a pipe": os.mkfifo,
    "a device": lambda path: path.symlink_to("/dev/zero"),
    "a terminal": lambda path: path.symlink_to("/dev/tty"),
    "a terabyte": _make_sparse,
    "a directory": Path.mkdir,
    "a circle": lambda path: path.symlink_to(path),
    "a socket": _make_socket,
}


@pytest.mark.parametrize("name", _ENTRIES)
def test_entries_of_a_directory_that_are_no_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.chdir(tmp_path)
    there = tmp_path / "t"
    for kind, file in (("ac", KEY), ("cas", digest(b"x"))):
        path = there / kind / file[:2] / file
        path.parent.mkdir(parents=True)
        _ENTRIES[name](path)
        with pytest.raises(RemoteDamage):
            open_remote(str(there)).get(f"{kind}/{file}", 1 << 20)
    store = SharedStore(tmp_path / "here", 1 << 30, str(there), Upload.WAIT, lambda: None)
    assert list(store.find(KEY)) == [] and store.read(digest(b"x")) is None
    assert store.report() == f"{there} had 0 of 1 results that are not here; 2 damaged there and not used"
    if name != "a directory":  # which no file takes the place of
        store.publish(KEY, b"result", [b"y"])
        store.close()
        other = SharedStore(tmp_path / "other", 1 << 30, str(there), Upload.NO, lambda: None)
        assert list(other.find(KEY)) == [b"result"]


def test_eviction_follows_no_links(tmp_path: Path) -> None:
    """Else `scons gc STORE_REMOTE=` removes files of whoever runs it."""
    there, mine = tmp_path / "there", tmp_path / "mine"
    mine.mkdir()
    (mine / "thesis").write_text("years")
    (there / "cas").mkdir(parents=True)
    (there / "cas" / "aa").symlink_to(mine)
    (there / "cas" / "bb").mkdir()
    (there / "cas" / "bb" / "link").symlink_to(mine / "thesis")
    stored = list(DirectoryStore(there).entries())
    assert [entry.path for entry in stored] == [there / "cas" / "bb" / "link"]
    assert stored[0].size < 1000
    (there / "ac").symlink_to(tmp_path)
    assert len(list(entries(there, ("ac", "cas")))) == 1, "what a link for all of a kind leads to"


def test_large_files_come_whole(tmp_path: Path) -> None:
    """Limits do not get in the way of what is in order."""
    large = os.urandom(3 << 20)
    with serving() as server, redis_serving() as address:
        for number, url in enumerate((server.url, address, str(tmp_path / "directory"))):
            (tmp_path / "directory").mkdir(exist_ok=True)
            store = SharedStore(tmp_path / f"one{number}", 1 << 30, url, Upload.WAIT, lambda: None)
            store.publish(KEY, b"result", [large])
            store.close()
            other = SharedStore(tmp_path / f"other{number}", 1 << 30, url, Upload.NO, lambda: None)
            assert list(other.find(KEY)) == [b"result"] and other.read(digest(large)) == large


def test_sending_ends(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(shared_module, "_SENDING_S", -1.0)
    with serving() as server:
        store = SharedStore(tmp_path, 1 << 30, server.url, Upload.BACKGROUND, lambda: None)
        store.publish(KEY, b"result", [b"x"])
        with pytest.raises(RemoteError, match="too slow"):
            send(store, open_remote(server.url))
