"""The instruments that make runs of several ranks: schedules that differ, and what causes it."""

from __future__ import annotations

from pathlib import Path

import pytest

from pypto_build.diagnose.flaky import __main__ as flaky
from pypto_build.diagnose.hazards.__main__ import main as hazards_main
from pypto_build.diagnose.hazards.ranks import dispatched
from pypto_build.replay.chips.memory import Domain
from pypto_build.replay.chips.records import DispatchRow, RanksRecord
from tests.replay.chips import INOUT, NO_DEP, Chips

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
        "[flaky] 5 schedules of all ranks give the same outputs",
        "[flaky] _jit_chips: nothing found",
    ]


def test_a_schedule_that_differs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert flaky.main(_words(_chips(tmp_path, _RACE), "--rounds", "60")) == 1
    output = capsys.readouterr().out
    assert (
        "output 'y' varies in 1 of 32 elements, first at (0, 0) with the task order of all ranks (SHUFFLE=1"
    ) in output
    assert "[flaky/schedule]" in output


def test_a_schedule_that_does_not_end(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Rank 0 resets the signal that rank 1 notifies: if it comes late, that is lost."""
    body = (
        f"{_LATE} if (rank == 1) notify(peer(signal, 0), 1); else {{ set(signal, 0); usleep(2000); wait(signal, 1); }}"
    )
    assert flaky.main(_words(_chips(tmp_path, body), "--rounds", "60")) in (1, 6)
    assert "the ranks wait for each other" in "".join(capsys.readouterr())


def _found(chips: Chips, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """Return the findings of `scons hazards`. The kernels are plain C++, so their usual build is the checked one."""
    words = _words(chips)
    for directory in chips.out.iterdir():
        if directory.is_dir() and not (directory / "check").exists():
            (directory / "check").symlink_to(".")
    hazards_main(words)
    return [line for line in capsys.readouterr().out.splitlines() if "[hazards/" in line]


_FREE = "y[0] = 0;"


def test_a_dispatch_that_may_overtake(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Rank 0's second dispatch does not wait for the first, which waits for rank 1."""
    rows = [("slow", 1, INOUT), ("first", 0, INOUT, False), ("second", 0, NO_DEP, False)]
    programs = dict.fromkeys(("slow", "first", "second"), _FREE)
    shared = Chips(tmp_path / "without", 2, programs, rows)
    text = (shared.artifact / "orchestration/host_orch.py").read_text()
    shared.write("orchestration/host_orch.py", text.replace('tensors["x"][r]', 'tensors["x"][0]'))
    (message,) = _found(shared, capsys)
    assert (
        "rank 0 d1 'second' can start before rank 0 d0 'first', which waits for other ranks: both use domain"
    ) in message
    assert message.startswith("orchestration/host_orch.py:") and message.endswith("[hazards/missing-token]")
    ordered = Chips(tmp_path / "with", 2, programs, [(*row[:3], True) for row in rows])
    assert _found(ordered, capsys) == []


def test_a_collective_that_a_rank_skips(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It waits for all, so nobody comes to an end; and dispatches that have not begun count."""
    body = "for (int to = 0; to < ranks; ++to) notify(peer(signal, to), 1); wait(signal, ranks);"
    programs = {"meet": body, "other": _FREE}
    rows = [("meet", 0), ("meet", 1), ("other", 2), ("other", 0), ("other", 1)]
    messages = _found(Chips(tmp_path, 3, programs, rows), capsys)
    assert any(
        "'meet' on domain comm_d0 is dispatched 1 times by some ranks, but by rank 2 0 times" in line
        and line.endswith("[hazards/collective-skipped]")
        for line in messages
    )
    rows = [("meet", 0), ("meet", 1), ("meet", 2), ("other", 2), ("other", 0), ("other", 1)]
    assert _found(Chips(tmp_path / "all", 3, programs, rows), capsys) == []


def _row(number: int, rank: int, program: str, shape: str = "float32[4]") -> DispatchRow:
    return DispatchRow(number, program, rank, number // 2, 10 + number, [], 0.0, 1.0, ["d"], [shape])


def test_collectives_in_another_order_or_shape() -> None:
    domain = Domain("d", [0, 1], [0, 4096], 64, [])

    def said(*rows: DispatchRow) -> list[str]:
        return [finding.message for finding in dispatched(RanksRecord(2, list(rows), [domain], []), failed=False)]

    one, two = "builtin.tensor.allreduce__a", "builtin.tensor.barrier__b"
    assert said(_row(0, 0, one), _row(1, 1, one), _row(2, 0, two), _row(3, 1, two)) == []
    assert said(_row(0, 0, one), _row(1, 1, two), _row(2, 0, two), _row(3, 1, one)) == [
        f"domain d: rank 1 d0 is '{two}' where rank 0 has '{one}'"
    ]
    assert said(_row(0, 0, one), _row(1, 1, one, "float32[8]")) == [
        f"domain d: rank 1 d0 '{one}' gives float32[8] where rank 0 gives float32[4]"
    ]
    assert said(_row(0, 0, "stage"), _row(1, 1, "other")) == []  # programs of their own may differ
