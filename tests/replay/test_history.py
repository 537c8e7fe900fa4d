"""The history of runs: what it says of a job, what it keeps, damaged files."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

import pytest

from pypto_build.artifact import ArtifactError
from pypto_build.replay import history
from pypto_build.replay.history import History, Past, Result, Run, flips


@pytest.fixture
def kept(tmp_path: Path) -> History:
    """Return a history with four runs of `a`, which failed in the middle, and one of `b`."""
    history = History(tmp_path / "h.sqlite")
    for number, status in enumerate(("pass", "mismatch", "hang", "hang")):
        results = [Result("a", status, 1.0 + number, 100 * number, cached=number == 3)]
        history.add(Run(1000.0 + number, "replay", f"rev{number}"), results + [Result("b", "pass")] * (number == 0))
    return history


def test_since_when(kept: History) -> None:
    assert kept.past(["a", "b", "c"]) == {
        "a": Past("hang", "rev2", 2, 3.0, 200),  # what a cached run took says nothing
        "b": Past("pass", "rev0", 1),
    }
    assert [run for run, _, _ in flips(kept.results()["a"])] == [2, 3]


def test_nothing_is_written_by_looking(tmp_path: Path) -> None:
    assert History(tmp_path / "none.sqlite").past(["a"]) == {}
    assert list(tmp_path.iterdir()) == []


def test_old_runs_are_forgotten(kept: History, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "KEPT", 2)
    kept.add(Run(2000.0, "replay"), [Result("a", "pass")])
    assert [run.number for run in kept.runs()] == [4, 5]
    assert list(kept.results()) == ["a"]


def test_two_write_at_once(kept: History) -> None:
    other = sqlite3.connect(kept.path)
    other.execute("begin immediate")
    other.rollback()
    History(kept.path).add(Run(1.0, "lint"), [Result("a", "pass")])
    assert len(kept.runs()) == 5
    other.close()


@pytest.mark.parametrize("data", [b"no database", b"SQLite format 3\0" + b"\xff" * 4096])
def test_a_damaged_file(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "h.sqlite"
    path.write_bytes(data)
    for use in (lambda: History(path).past(["a"]), lambda: History(path).runs(), lambda: History(path).results()):
        with pytest.raises(
            ArtifactError,
            match=(
                r"h\.sqlite: is not a valid history of runs: .*; a new "
                r"history is started"
            ),
        ):
            use()


def test_a_pipe_and_another_version(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(ArtifactError, match="not a regular file"):
        History(tmp_path / "fifo").runs()
    with sqlite3.connect(tmp_path / "new") as database:
        database.execute("pragma user_version = 9")
    with pytest.raises(ArtifactError, match="another version"):
        History(tmp_path / "new").runs()


@pytest.mark.parametrize("change", ["update runs set revision = null", "update runs set began = 1e300"])
def test_rows_that_nobody_wrote(kept: History, change: str) -> None:
    with sqlite3.connect(kept.path) as database:
        database.execute("drop table runs")
        database.execute("create table runs(run, began, verbs, revision, seconds)")
        database.execute("insert into runs values (1, 1.0, 'replay', 'rev', 1.0)")
        database.execute(change)
    with pytest.raises(ArtifactError, match=r"is not a valid history of runs: .*; a new history is started"):
        kept.runs()
