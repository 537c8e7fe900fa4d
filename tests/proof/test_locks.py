"""A lock is a file that can be locked, whatever lies in its place."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import pytest

from pypto_build.proof.locks import open_lock


@pytest.mark.parametrize("kind", ["missing", "file", "pipe", "link to a device", "dangling link"])
def test_it_can_be_locked(tmp_path: Path, kind: str) -> None:
    lock = tmp_path / ".lock"
    match kind:
        case "file":
            lock.write_text("17")
        case "pipe":
            os.mkfifo(lock)
        case "link to a device":
            lock.symlink_to("/dev/null")
        case "dangling link":
            lock.symlink_to("elsewhere")
    with open_lock(lock) as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        assert file.read() == ("17" if kind == "file" else "")
    assert lock.is_file()


def test_a_directory_is_an_error(tmp_path: Path) -> None:
    (tmp_path / ".lock").mkdir()
    with pytest.raises(IsADirectoryError):
        open_lock(tmp_path / ".lock")
