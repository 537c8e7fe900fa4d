"""The store: what is read is what was written, or nothing; what is not used is evicted first."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pypto_build.proof import Store
from pypto_build.proof.eviction import excess

KEY = "ab" * 32


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def files(root: Path) -> list[Path]:
    return sorted(path for kind in ("actions", "content") for path in (root / kind).rglob("*") if path.is_file())


def test_what_is_published_is_found(tmp_path: Path) -> None:
    store = Store(tmp_path)
    assert (store.find(KEY), store.read(digest(b"x"))) == ([], None)
    store.publish(KEY, b"first", [b"x", b"y"])
    store.publish(KEY, b"second", [b"x"])
    assert store.find(KEY) == [b"second", b"first"]
    assert store.read(digest(b"x")) == b"x"
    store.publish(KEY, b"first", [])
    assert store.find(KEY) == [b"first", b"second"]


def test_results_of_one_key_are_bounded(tmp_path: Path) -> None:
    store = Store(tmp_path)
    for number in range(20):
        store.publish(KEY, str(number).encode(), [])
    assert store.find(KEY) == [str(number).encode() for number in range(19, 11, -1)]


@pytest.mark.parametrize("damage", ["flip", "truncate", "empty", "neighbour", "directory", "pipe"])
def test_damage_is_seen(tmp_path: Path, damage: str) -> None:
    Store(tmp_path).publish(KEY, b"result", [b"content", b"other content"])
    for path in files(tmp_path):
        data = path.read_bytes()
        others = [other.read_bytes() for other in files(tmp_path) if other != path]
        path.unlink()
        match damage:
            case "flip":
                path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
            case "truncate":
                path.write_bytes(data[:-1])
            case "empty":
                path.write_bytes(b"")
            case "neighbour":
                path.write_bytes(others[0])
            case "directory":
                path.mkdir()
            case "pipe":
                os.mkfifo(path)
        store = Store(tmp_path)
        assert store.find(KEY) in ([], [b"result"])
        for content in (b"content", b"other content"):
            assert store.read(digest(content)) in (None, content)
        if damage != "directory":
            store.publish(KEY, b"result", [b"content", b"other content"])
            assert (store.find(KEY), store.read(digest(b"content"))) == ([b"result"], b"content")
        else:
            path.rmdir()
            path.write_bytes(data)


def test_what_was_shipped_is_read_and_never_written(tmp_path: Path) -> None:
    shipped, own = tmp_path / "shipped", tmp_path / "own"
    Store(shipped).publish(KEY, b"theirs", [b"content"])
    before = {path: path.stat().st_mtime_ns for path in files(shipped)}
    store = Store(own, shipped=shipped)
    assert (store.find(KEY), store.read(digest(b"content"))) == ([b"theirs"], b"content")
    store.publish(KEY, b"ours", [b"ours"])
    assert store.find(KEY) == [b"ours", b"theirs"]
    store.shrink(0)
    assert store.find(KEY) == [b"theirs"]
    assert {path: path.stat().st_mtime_ns for path in files(shipped)} == before
    assert (Store(own, 0, shipped).find(KEY), Store(own, 0, shipped).read(digest(b"content"))) == ([], None)
    for path in files(shipped):
        path.write_bytes(path.read_bytes()[:-1] + b"?")
    assert (Store(own / "other", shipped=shipped).find(KEY), store.read(digest(b"content"))) == ([], None)


def test_least_recently_used_goes_first(tmp_path: Path) -> None:
    store = Store(tmp_path, 10_000)
    contents = [bytes([number]) * 500 for number in range(4)]
    for content in contents:
        store.publish(digest(content), b"r", [content])
    for number, path in enumerate(files(tmp_path)):
        os.utime(path, (number, number))
    assert store.read(digest(contents[2])) == contents[2]  # used
    assert store.find(digest(contents[2])) == [b"r"]
    assert excess(store.entries(), 10_000) == []
    store.shrink(700)
    assert store.read(digest(contents[2])) == contents[2]
    assert [store.read(digest(content)) for content in contents if content != contents[2]] == [None] * 3


def test_it_stays_within_its_size(tmp_path: Path) -> None:
    for number in range(30):
        store = Store(tmp_path, 20_000)
        store.publish(f"{number:02}" * 32, b"r", [bytes([number]) * 1000])
        store.close()
    assert sum(path.stat().st_size for path in files(tmp_path)) <= 20_000
    assert Store(tmp_path, 20_000).read(digest(bytes([29]) * 1000)) is not None


def test_what_is_too_large_is_not_kept(tmp_path: Path) -> None:
    store = Store(tmp_path, 1600)
    store.publish(KEY, b"r", [b"x" * 101])
    assert store.read(digest(b"x" * 101)) is None


def test_a_store_of_no_size_keeps_nothing(tmp_path: Path) -> None:
    store = Store(tmp_path / "store", 0)
    store.publish(KEY, b"r", [b"x"])
    store.close()
    assert (store.find(KEY), (tmp_path / "store").exists()) == ([], False)


def test_a_store_that_cannot_be_written_is_let_be(tmp_path: Path) -> None:
    (tmp_path / "store").write_text("a file")
    store = Store(tmp_path / "store")
    store.publish(KEY, b"r", [b"x"])
    store.close()
    assert store.find(KEY) == []


def test_two_at_once(tmp_path: Path) -> None:
    """Several processes publish the same contents under the same keys, while the store evicts."""
    code = (
        "import sys; from pathlib import Path; from pypto_build.proof import Store\n"
        "for n in range(200):\n"
        "    store = Store(Path(sys.argv[1]), 40_000)\n"
        "    content = bytes([n % 7]) * 2000\n"
        "    store.publish(f'{n % 7:02}' * 32, b'r', [content])\n"
        "    store.close()\n"
        "    for found in store.find(f'{n % 7:02}' * 32): assert found == b'r'\n"
    )
    running = [subprocess.Popen([sys.executable, "-c", code, str(tmp_path)]) for _ in range(3)]
    assert [process.wait() for process in running] == [0, 0, 0]
    assert not list(tmp_path.rglob("*.tmp"))


def test_what_is_known_of_one_action_is_not_taken_for_another(tmp_path: Path) -> None:
    store, other = Store(tmp_path), "cd" * 32
    store.publish(KEY, b"of this", [])
    store.publish(other, b"of the other", [])
    this, that = (next(path for path in files(tmp_path) if path.name == key) for key in (KEY, other))
    this.write_bytes(that.read_bytes())  # whole, and sealed
    assert (store.find(KEY), store.find(other)) == ([], [b"of the other"])
    store.publish(KEY, b"again", [])
    assert store.find(KEY) == [b"again"]
