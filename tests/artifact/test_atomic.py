"""Files appear whole or not at all."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from pypto_build.artifact.files import replace_file, write_bytes


def test_writes_and_makes_directories(tmp_path: Path) -> None:
    write_bytes(tmp_path / "a" / "b.txt", b"one")
    write_bytes(tmp_path / "a" / "b.txt", b"two")
    assert (tmp_path / "a" / "b.txt").read_bytes() == b"two"
    assert os.listdir(tmp_path / "a") == ["b.txt"]


def test_failure_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "b.txt"
    write_bytes(path, b"old")
    with pytest.raises(KeyboardInterrupt), replace_file(path) as file:
        file.write(b"half")
        raise KeyboardInterrupt
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["b.txt"]


def test_mode_follows_the_umask(tmp_path: Path) -> None:
    old = os.umask(0o027)
    try:
        write_bytes(tmp_path / "b.txt", b"")
        assert os.umask(0o027) == 0o027
    finally:
        os.umask(old)
    assert stat.S_IMODE((tmp_path / "b.txt").stat().st_mode) == 0o640


@pytest.mark.parametrize("path", ["/", ".", "made"])
def test_a_directory_is_not_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    """Such as ``JSON=/``: it is an error of the system, and leaves no file."""
    (tmp_path / "made").mkdir()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(OSError) as error:
        write_bytes(Path(path), b"x")
    assert error.value.filename == path
    assert [each.name for each in tmp_path.rglob("*")] == ["made"]
