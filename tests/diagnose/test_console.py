"""What the instruments have in common on a terminal and off it."""

from __future__ import annotations

import threading

import pytest

from pypto_build.artifact import ArtifactError
from pypto_build.diagnose import console
from pypto_build.diagnose.console import one_of, progress, run_tool, table, taking_long


def test_what_takes_long_is_said_once(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(console, "_QUIET_S", 0.0)
    with taking_long("counting"):
        for thread in threading.enumerate():
            if isinstance(thread, threading.Timer):
                thread.join()
    assert capfd.readouterr().err == "counting ...\n"
    monkeypatch.setattr(console, "_QUIET_S", 60.0)
    with taking_long("counting"):
        pass
    assert capfd.readouterr().err == ""


def test_progress_off_a_terminal(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert list(progress(range(3), "counting", 3)) == [0, 1, 2]
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(console, "_QUIET_S", -1.0)
    assert list(progress(range(3), "counting", 3)) == [0, 1, 2]
    assert capsys.readouterr().err == "counting: 1 of 3\ncounting: 2 of 3\ncounting: 3 of 3\n"


def _fail(error: BaseException) -> int:
    raise error


@pytest.mark.parametrize(
    ("error", "status", "said"),
    [
        (ArtifactError("a.cpp:3", "is wrong", "write it again"), 2, "tool: a.cpp:3: is wrong; write it again\n"),
        (PermissionError(13, "Permission denied", "x.json"), 2, "tool: x.json: Permission denied\n"),
        (KeyboardInterrupt(), 130, ""),
    ],
)
def test_errors_are_one_line(error: BaseException, status: int, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_tool("tool", lambda: _fail(error)) == status
    assert capsys.readouterr().err == said


def test_values_of_other_tools() -> None:
    with pytest.raises(ArtifactError) as caught:
        one_of("EXPORT", "npy", ("dot", "html"))
    assert str(caught.value) == "EXPORT=npy: is for another tool; here it is dot, html"


def test_columns() -> None:
    assert table([["a", "1"], ["bcd", "20"]], ["name", "n"]) == ["name   n", "a      1", "bcd   20"]
