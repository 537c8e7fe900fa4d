"""Stores that machines share: what is not here comes from there, what is wrong there is a miss, nobody waits for it."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from pypto_build.proof import Store
from pypto_build.proof.remote import RemoteError, RemoteRefusal, open_remote
from pypto_build.proof.shared import OUTBOX, SharedStore, Upload, send

KEY, OTHER_KEY = "ab" * 32, "cd" * 32


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


class Server(ThreadingHTTPServer):
    """Keeps files by their paths; ``answer`` gives the status of every request in place of it."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.files: dict[str, bytes] = {}
        self.asked: list[str] = []
        self.refused: dict[str, int] = {}
        self.headers: list[str | None] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/cache"


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def _answer(self, status: int, body: bytes = b"", head: bool = False) -> None:
        self.server.asked.append(f"{self.command} {self.path[:12]}")
        self.server.headers.append(self.headers["Authorization"])
        self.send_response(self.server.refused.get(self.command, status))
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if not head:
            self.wfile.write(body)

    def do_GET(self) -> None:
        content = self.server.files.get(self.path)
        self._answer(404 if content is None else 200, content or b"")

    def do_HEAD(self) -> None:
        content = self.server.files.get(self.path)
        self._answer(404 if content is None else 200, content or b"", head=True)

    def do_PUT(self) -> None:
        data = self.rfile.read(int(self.headers["Content-Length"]))
        if "PUT" not in self.server.refused:
            self.server.files[self.path] = data
        self._answer(201)

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def serving() -> Iterator[Server]:
    server = Server()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def redis_serving() -> Iterator[str]:
    from fakeredis import TcpFakeServer

    server = TcpFakeServer(("127.0.0.1", 0))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"redis://127.0.0.1:{server.server_address[1]}/0"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture(params=["directory", "http", "redis"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A store of each kind, with nothing in it."""
    match request.param:
        case "directory":
            (tmp_path / "there").mkdir()
            yield str(tmp_path / "there")
        case "http":
            with serving() as server:
                yield server.url
        case _:
            with redis_serving() as address:
                yield address


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as started:
        yield started


def shared(
    directory: Path, url: str, upload: Upload = Upload.WAIT, start: Callable[[], None] = lambda: None
) -> SharedStore:
    return SharedStore(directory, 1 << 30, url, upload, start)


def test_each_kind_keeps_files(url: str) -> None:
    remote = open_remote(url)
    assert remote.get(f"cas/{KEY}", 99) is None and not remote.has(f"cas/{KEY}")
    remote.put(f"cas/{KEY}", b"\0data\xff")
    assert remote.get(f"cas/{KEY}", 99) == b"\0data\xff" and remote.has(f"cas/{KEY}")
    assert open_remote(url).get(f"ac/{KEY}", 99) is None


def test_what_one_publishes_another_finds(url: str, tmp_path: Path) -> None:
    one = shared(tmp_path / "one", url)
    one.publish(KEY, b"result", [b"x", b"y"])
    one.close()
    assert list((tmp_path / "one" / OUTBOX).glob("[!.]*")) == []

    other = shared(tmp_path / "other", url)
    assert list(other.find(KEY)) == [b"result"]
    assert (other.read(digest(b"x")), other.read(digest(b"z"))) == (b"x", None)
    assert list(other.find(OTHER_KEY)) == []
    assert other.report() == f"{url} had 1 of 2 results that are not here"
    # what was taken once is here
    assert Store(tmp_path / "other").local_results(KEY) == [b"result"]
    assert Store(tmp_path / "other").read(digest(b"x")) == b"x"


def test_results_of_two_are_both_kept(url: str, tmp_path: Path) -> None:
    for name in ("one", "other"):
        store = shared(tmp_path / name, url)
        store.publish(KEY, name.encode(), [])
        store.close()
    assert list(shared(tmp_path / "third", url).find(KEY)) == [b"other", b"one"]


@pytest.mark.parametrize("damage", [b"", b"else", b"neighbour"])
def test_what_is_damaged_there_is_a_miss(server: Server, tmp_path: Path, damage: bytes) -> None:
    one = shared(tmp_path / "one", server.url)
    one.publish(KEY, b"result", [b"x"])
    one.publish(OTHER_KEY, b"other result", [b"y"])
    one.close()
    places = {path.rpartition("/")[2]: path for path in server.files}
    content, entry = places[digest(b"x")], places[KEY]
    neighbour = damage == b"neighbour"
    server.files[content] = server.files[places[digest(b"y")]] if neighbour else damage
    server.files[entry] = server.files[places[OTHER_KEY]] if neighbour else damage
    other = shared(tmp_path / "other", server.url)
    assert list(other.find(KEY)) == [] and other.read(digest(b"x")) is None
    assert other.report() == f"{server.url} had 0 of 1 results that are not here; 2 damaged there and not used"
    assert Store(tmp_path / "other").local_results(KEY) == []


def test_a_server_that_is_away_is_asked_once_a_minute(tmp_path: Path) -> None:
    with serving() as server:
        url = server.url
    store = shared(tmp_path, url)
    assert list(store.find(KEY)) == [] and list(store.find(OTHER_KEY)) == []
    assert store.report() == f"{url} cannot be used: Connection refused; going on without it"
    store.publish(KEY, b"result", [b"x"])
    store.close()
    assert [path.name for path in (tmp_path / OUTBOX).glob("[!.]*")] == [KEY]  # waits
    later = shared(tmp_path, url)
    assert list(later.find(KEY)) == [b"result"] and list(later.find(OTHER_KEY)) == []
    assert later.report() == f"{url} cannot be used: Connection refused; going on without it"
    with serving() as back:
        for path in tmp_path.glob(".away.*"):
            os.utime(path, (1, 1))
        assert send(Store(tmp_path), open_remote(back.url)) == 1
        assert len(back.files) == 2


def test_who_may_only_read_sends_nothing(server: Server, tmp_path: Path) -> None:
    one = shared(tmp_path / "one", server.url)
    one.publish(KEY, b"result", [b"x"])
    one.close()
    server.refused["PUT"] = 403
    reader = shared(tmp_path / "reader", server.url)
    assert list(reader.find(KEY)) == [b"result"]
    reader.publish(OTHER_KEY, b"mine", [b"y"])
    reader.close()
    assert reader.traffic.away == "" and list((tmp_path / "reader" / OUTBOX).glob("[!.]*")) == []
    with pytest.raises(RemoteRefusal, match="answers a PUT request with status 403"):
        open_remote(server.url).put("cas/x", b"")


def test_nothing_is_sent_where_that_is_said(server: Server, tmp_path: Path) -> None:
    store = shared(tmp_path, server.url, Upload.NO)
    store.publish(KEY, b"result", [b"x"])
    store.close()
    assert server.asked == [] and not (tmp_path / OUTBOX).exists()


def test_a_run_does_not_wait_for_what_it_sends(server: Server, tmp_path: Path) -> None:
    started: list[str] = []
    store = shared(tmp_path, server.url, Upload.BACKGROUND, lambda: started.append("yes"))
    store.close()
    assert started == []  # nothing is new
    store.publish(KEY, b"result", [b"x"])
    store.close()
    assert started == ["yes"] and server.asked == []
    command = [sys.executable, "-m", "pypto_build.proof.upload", str(tmp_path)]
    subprocess.run(command, env={**os.environ, "PYPTO_BUILD_REMOTE": server.url}, check=True, timeout=60)
    assert server.asked == ["HEAD /cache/cas/2", "PUT /cache/cas/2", "GET /cache/ac/ab", "PUT /cache/ac/ab"]
    assert list(shared(tmp_path / "other", server.url).find(KEY)) == [b"result"]


def test_what_a_killed_process_left_is_sent_by_the_next(server: Server, tmp_path: Path) -> None:
    store = shared(tmp_path, server.url, Upload.BACKGROUND)
    for number in range(20):
        store.publish(f"{number:064}", b"result", [b"%d" % number])
    server.refused["HEAD"] = 500  # in the middle of it
    with pytest.raises(RemoteError, match="answers the request with status 500"):
        send(store, open_remote(server.url))
    assert len(list((tmp_path / OUTBOX).glob("[!.]*"))) == 20
    server.refused.clear()
    assert send(store, open_remote(server.url)) == 20
    assert len(server.files) == 40


def test_a_slow_answer_is_not_waited_for_for_ever(monkeypatch: pytest.MonkeyPatch, server: Server) -> None:
    monkeypatch.setattr("pypto_build.proof.remote.STEP_S", 0.2)
    monkeypatch.setattr(Handler, "do_GET", lambda _self: time.sleep(1))
    with pytest.raises(RemoteError, match="timed out"):
        open_remote(server.url).get("cas/x", 99)


def test_user_and_password(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    address = server.url.replace("http://", "http://me:s%40crt@")
    store = shared(tmp_path, address)
    assert list(store.find(KEY)) == []
    assert server.headers == ["Basic bWU6c0BjcnQ="]
    store.traffic.damaged = 1
    assert "crt" not in store.report() and store.report().startswith("http://…@127.0.0.1:")
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login me password other\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    open_remote(server.url).get("cas/x", 99)
    assert server.headers[-1] == "Basic bWU6b3RoZXI="


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("ftp://x/y", "ftp:// is not supported; use a directory, http(s):// or redis(s)://"),
        ("http:///x", "contains no host name; write it as http://HOST[:PORT]/PATH"),
        ("http://host:port/x", "contains no host name; write it as http://HOST[:PORT]/PATH"),
    ],
)
def test_addresses_of_nothing(address: str, message: str) -> None:
    with pytest.raises(RemoteError) as raised:
        open_remote(address)
    assert str(raised.value) == message


def test_a_directory_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    remote = open_remote(str(tmp_path / "there"))
    no_directory = "there is no such directory; create it, or mount its file system"
    with pytest.raises(RemoteError, match=no_directory):
        remote.get("cas/x", 99)
    with pytest.raises(RemoteError, match=no_directory):
        remote.put("cas/x", b"")
    assert list(tmp_path.iterdir()) == []
