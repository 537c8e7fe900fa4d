"""Digests are remembered by what no program can set, and never of a file that is younger than the clock's tick."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from pypto_build.proof import digests
from pypto_build.proof.digests import ABSENT, Digests


def sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


@pytest.fixture
def old(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock whose tick is over: files written just now count as old."""
    monkeypatch.setattr(digests, "_TICK_NS", -1_000_000_000)


def test_a_young_file_is_read_every_time(tmp_path: Path) -> None:
    file = tmp_path / "a"
    file.write_text("one")
    seen = Digests()
    assert seen.of(str(file)) == sha("one")
    assert seen.used == {}


def test_an_old_file_is_read_once(tmp_path: Path, old: None, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "a"
    file.write_text("one")
    seen = Digests()
    assert seen.of(str(file)) == sha("one")
    digests = Digests(seen.used)
    monkeypatch.setattr(Digests, "_read", lambda *_: pytest.fail("read again"))
    assert digests.of(str(file)) == sha("one")


@pytest.mark.parametrize("how", ["write", "replace", "grow"])
def test_no_time_hides_a_change(tmp_path: Path, old: None, how: str) -> None:
    file = tmp_path / "a"
    file.write_text("one")
    before = file.stat()
    seen = Digests()
    seen.of(str(file))
    if how == "replace":
        (tmp_path / "b").write_text("two")
        (tmp_path / "b").replace(file)
    else:
        file.write_text("two" if how == "write" else "one, and more")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert seen.of(str(file)) == hashlib.sha256(file.read_bytes()).hexdigest() != sha("one")


def test_what_is_no_file_is_absent(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("nowhere")
    seen = Digests()
    for name in ("pipe", "link", "missing", "", "a\0b"):
        assert seen.of(str(tmp_path / name)) == ABSENT


def test_a_link_counts_by_what_it_leads_to(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).write_text(name)
    link = tmp_path / "link"
    seen = Digests()
    for name in ("one", "two"):
        link.unlink(missing_ok=True)
        link.symlink_to(name)
        assert seen.of(str(link)) == sha(name)


def test_a_directory_counts_by_its_names(tmp_path: Path) -> None:
    seen, names = Digests(), f"{tmp_path}/"
    first = seen.of(names)
    for beside in ("a.cpp~", ".a.cpp.swp", "__pycache__", ".hidden"):
        (tmp_path / beside).write_text("")
    assert seen.of(names) == first
    (tmp_path / "a.cpp").write_text("")
    assert seen.of(names) != first
    assert seen.of(f"{tmp_path}/missing/") == ABSENT


def test_what_was_installed_counts_and_not_where(tmp_path: Path) -> None:
    records = {}
    compiled = "x/__pycache__/1.cpython-311.pyc,,\n"
    for directory, name, more in (("a", "1.py", ""), ("b", "1.py", compiled), ("c", "2.py", "")):
        info = tmp_path / directory / "x-1.dist-info"
        info.mkdir(parents=True)
        own = "".join(f"{file},sha256={directory},1\n" for file in ("../../../bin/x", "__editable__.x-1.pth"))
        info = info / "RECORD"
        info.write_text(f"{own}x-1.dist-info/direct_url.json,sha256={directory},1\n{more}x/{name},sha256=1,1\n")
        records[directory] = Digests().of(str(info))
    assert records["a"] == records["b"] != records["c"]
