"""The instruments that make runs of several ranks: schedules that differ, and what causes it."""

from __future__ import annotations

from pathlib import Path

import pytest

from pypto_build.diagnose.ranks import flaky
from tests.replay.chips import Chips

#: Both come to their parts after a random time in a seeded schedule.
_LATE = "for (int i = 0; i < 8; ++i) notify(peer(signal + 8 + i, rank), 1);"
_RACE = f"{_LATE} if (rank == 1) *peer(data, 0) = 7; else y[0] = *data;"
_ORDERED = """
    if (rank == 1) { *peer(data, 0) = 7; notify(peer(signal, 0), 1); } else { wait(signal, 1); y[0] = *data; }
"""


def _words(chips: Chips, *more: str) -> list[str]:
    """The command line of a tool on what is built."""
    command = chips.command()
    words = command[command.index("pypto_build.replay.chips") + 1 :]
    return [*words, *more]


def _chips(root: Path, body: str) -> Chips:
    return Chips(root, 2, {"step": body}, [("step", 0), ("step", 1)])


def test_schedules_of_an_ordered_program_agree(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert flaky.main(_words(_chips(tmp_path, _ORDERED), "--rounds", "5")) == 0
    assert capsys.readouterr().out.splitlines() == [
        "[flaky] 5 schedules of all ranks: the same outputs",
        "[flaky] _jit_chips: nothing found",
    ]


def test_a_schedule_that_differs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert flaky.main(_words(_chips(tmp_path, _RACE), "--rounds", "60")) == 1
    said = capsys.readouterr().out
    assert "output 'y' varies in 1 of 32 elements, first at (0, 0) with the schedule of the ranks (SHUFFLE=1" in said
    assert "[flaky/schedule]" in said


def test_a_schedule_that_does_not_end(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Rank 0 resets the signal that rank 1 notifies: if it comes late, that is lost."""
    body = (
        f"{_LATE} if (rank == 1) notify(peer(signal, 0), 1); else {{ set(signal, 0); usleep(2000); wait(signal, 1); }}"
    )
    assert flaky.main(_words(_chips(tmp_path, body), "--rounds", "60")) in (1, 6)
    assert "the ranks wait for each other" in "".join(capsys.readouterr())
