"""Planted bugs are found at their lines: a sample, one a side of the modules; with `-m slow` the whole table."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.diagnose.planted import examine, plant, triage
from tests.diagnose.planted_bugs import FRESH, PLANTED, Planted

_SAMPLE = (
    "program: operator",
    "golden.py: operator",
    "module: operation",
    "orchestration: input",
    "program: offset of a slice",
    "manifest: file of another kernel",
)


@pytest.mark.parametrize("bug", [bug for bug in (*PLANTED, *FRESH) if bug.name in _SAMPLE], ids=lambda bug: bug.name)
def test_found_at_its_line(bug: Planted, tmp_path: Path) -> None:
    artifact, expected = plant(bug, tmp_path)
    answer = triage(artifact)
    assert answer.names(expected), answer.text
    assert answer.replays <= 10
    assert answer.certain == (bug.stage != "before" or bug.file == "golden.py"), answer.text


@pytest.mark.slow
@pytest.mark.parametrize("bugs", [PLANTED, FRESH], ids=["PLANTED", "FRESH"])
def test_most_are_found_and_no_wrong_file_is_certain(bugs: tuple[Planted, ...]) -> None:
    answers = {bug.name: examine(bug) for bug in bugs}
    assert sum(answer.names(expected) for expected, answer in answers.values()) >= 24, answers
    certain = {name: (answer.position, expected) for name, (expected, answer) in answers.items() if answer.certain}
    assert {n: pair for n, pair in certain.items() if pair[0].partition(":")[0] != pair[1].partition(":")[0]} == {}
    assert max(answer.replays for _, answer in answers.values()) <= 10


@pytest.mark.parametrize("bugs", [PLANTED, FRESH], ids=["PLANTED", "FRESH"])
def test_there_are_ten_on_each_side(bugs: tuple[Planted, ...]) -> None:
    assert Counter(bug.stage for bug in bugs) == {"before": 10, "module": 10, "after": 10}
