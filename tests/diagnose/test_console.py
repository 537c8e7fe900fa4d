"""Console output that all instruments share, on a terminal and off it."""

from __future__ import annotations

import time

import pytest

from pypto_build import terminal
from pypto_build.artifact import ArtifactError
from pypto_build.diagnose.console import one_of, progress, run_tool, table, taking_long


def test_no_progress_off_a_terminal(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(terminal, "QUIET_S", 0.0)
    monkeypatch.setattr(terminal, "_EVERY_S", 0.01)

    def slowly(number: int) -> int:
        time.sleep(0.03)
        return number

    with taking_long("counting"):
        assert list(map(slowly, progress(range(3), "counting", 3))) == [0, 1, 2]
    assert capfd.readouterr() == ("", "")


def _fail(error: BaseException) -> int:
    raise error


def test_piped_progress_counts_and_estimates_every_ten_seconds(capsys: pytest.CaptureFixture[str]) -> None:
    now = 0.0

    def clock() -> float:
        return now

    for _ in progress(range(40), "sweeping", 40, clock):
        now += 4.0
    lines = capsys.readouterr().err.splitlines()
    assert lines[:2] == ["sweeping: 3 of 40, about 148 s left", "sweeping: 6 of 40, about 136 s left"]
    assert len(lines) == 13


@pytest.mark.parametrize(
    ("error", "status", "message"),
    [
        (ArtifactError("a.cpp:3", "is wrong", "write it again"), 2, "tool: a.cpp:3: is wrong; write it again\n"),
        (PermissionError(13, "Permission denied", "x.json"), 2, "tool: x.json: Permission denied\n"),
        (KeyboardInterrupt(), 130, ""),
    ],
)
def test_errors_are_one_line(
    error: BaseException, status: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_tool("tool", lambda: _fail(error)) == status
    assert capsys.readouterr().err == message


def test_values_of_other_tools() -> None:
    with pytest.raises(ArtifactError) as caught:
        one_of("EXPORT", "npy", ("dot", "html"))
    assert str(caught.value) == "EXPORT=npy: is not supported by this tool; use dot or html"


def test_columns() -> None:
    assert table([["a", "1"], ["bcd", "20"]], ["name", "n"]) == ["name   n", "a      1", "bcd   20"]
