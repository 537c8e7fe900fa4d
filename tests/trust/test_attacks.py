"""A few of what ``python -m tests.trust.kills`` and ``python -m tests.trust.flips`` do at length."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from tests.trust.flips import Victim, flips
from tests.trust.kills import Killer, many
from tests.trust.space import MISMATCH, PASS
from tests.trust.tested import Tested


def test_killed_anywhere(tested: Tested, tmp_path: Path) -> None:
    faults = many(Killer(tested, tmp_path), 6, "a", print, ("replay", "replay of a module", "compile"))
    assert not faults, "\n".join(faults)


@pytest.fixture(scope="module")
def victim_of(tested: Tested, tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], Victim]:
    """A workspace that is put back after each damage, one for each verdict."""
    return cache(lambda expected: Victim(tested, tmp_path_factory.mktemp("victim"), expected))


@pytest.mark.parametrize(
    ("first", "kind", "expected"),
    [
        (0, "flip at 30%", PASS),
        (1, "neighbour", MISMATCH),
        (2, "truncate", PASS),
        (3, "empty", MISMATCH),
        (4, "delete", PASS),
    ],
)
def test_5_every_file_damaged(victim_of: Callable[[int], Victim], first: int, kind: str, expected: int) -> None:
    """Damage files; every kind of damage is done to other files."""
    victim = victim_of(expected)
    faults = [fault for flip in flips(victim, [kind], 12, first) if (fault := victim.fault(flip, edit=False))]
    assert not faults, f"{len(faults)} faults\n" + "\n\n".join(faults)


@pytest.mark.parametrize(("first", "kind"), [(5, "directory"), (6, "fifo"), (7, "dangling link")])
def test_5_something_else_in_place_of_a_file(victim_of: Callable[[int], Victim], first: int, kind: str) -> None:
    victim = victim_of(PASS)
    faults = [fault for flip in flips(victim, [kind], 12, first) if (fault := victim.fault(flip))]
    assert not faults, f"{len(faults)} faults\n" + "\n\n".join(faults)
