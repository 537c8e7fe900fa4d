"""A few of what ``python -m tests.trust.kills`` and ``python -m tests.trust.flips`` do at length."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.trust.flips import Victim, flips
from tests.trust.kills import Killer, many
from tests.trust.space import MISMATCH, PASS
from tests.trust.tested import Tested


def test_killed_anywhere(tested: Tested, tmp_path: Path) -> None:
    faults = many(Killer(tested, tmp_path), 6, "a", print, ("replay", "replay of a module", "compile"))
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [("flip at 30%", PASS), ("neighbour", MISMATCH), ("truncate", PASS), ("empty", MISMATCH), ("delete", PASS)],
)
def test_5_every_file_damaged(tested: Tested, tmp_path: Path, kind: str, expected: int) -> None:
    victim = Victim(tested, tmp_path, expected)
    faults = [fault for flip in flips(victim, [kind], every=12) if (fault := victim.fault(flip, edit=False))]
    assert not faults, f"{len(faults)} faults\n" + "\n\n".join(faults)


@pytest.mark.parametrize("kind", ["directory", "fifo", "dangling link"])
def test_5_something_else_in_place_of_a_file(tested: Tested, tmp_path: Path, kind: str) -> None:
    victim = Victim(tested, tmp_path, PASS)
    faults = [fault for flip in flips(victim, [kind], every=12) if (fault := victim.fault(flip))]
    assert not faults, f"{len(faults)} faults\n" + "\n\n".join(faults)
