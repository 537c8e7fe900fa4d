"""The order in which workers are given files."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from tests import scheduling

_ROWS = {"tests/a.py": 1.4, "tests/b.py": 90.0, "tests/gone.py": 7.0}


@pytest.fixture(autouse=True)
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "tests" / "seconds.txt"
    path.parent.mkdir()
    path.write_text(scheduling.table_text(_ROWS))
    monkeypatch.setattr(scheduling, "TABLE", path)
    return path


def test_the_longest_file_comes_first_and_its_tests_stay_in_order() -> None:
    names = ["tests/a.py::z", "tests/a.py::a", "tests/new.py::x", "tests/b.py::q", "tests/b.py::p[a.py::b]"]
    items = [SimpleNamespace(nodeid=name) for name in names]
    scheduling.longest_first(items)  # type: ignore[arg-type]
    assert [item.nodeid for item in items] == [names[3], names[4], names[2], names[0], names[1]]


def test_the_table_is_amended_by_what_ran(table: Path) -> None:
    assert table.read_text() == "  90 tests/b.py\n   7 tests/gone.py\n   1 tests/a.py\n"
    for name in ("a.py", "b.py"):
        (table.parent / name).touch()
    recorder = scheduling.Recorder()
    for duration in (30.0, 70.6):
        recorder.pytest_runtest_logreport(SimpleNamespace(nodeid="tests/a.py::x", duration=duration))  # type: ignore[arg-type]
    recorder.pytest_sessionfinish()
    assert table.read_text() == " 101 tests/a.py\n  90 tests/b.py\n"
