"""A sample of the planted bugs, one a side of the modules, is found at its line; the whole table is `planted`."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.diagnose.planted import plant, triage
from tests.diagnose.planted_bugs import PLANTED

_SAMPLE = ("program: operator", "golden.py: operator", "module: operation", "orchestration: input")


@pytest.mark.parametrize("bug", [bug for bug in PLANTED if bug.name in _SAMPLE], ids=lambda bug: bug.name)
def test_found_at_its_line(bug, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    artifact, expected = plant(bug, tmp_path)
    answer = triage(artifact)
    assert answer.names(expected), answer.text
    assert answer.replays <= 10
    assert answer.certain == (bug.stage != "before" or bug.file == "golden.py"), answer.text


def test_there_are_ten_on_each_side() -> None:
    assert Counter(bug.stage for bug in PLANTED) == {"before": 10, "module": 10, "after": 10}
