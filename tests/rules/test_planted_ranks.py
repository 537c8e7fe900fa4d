"""Bugs planted in the example programs for several chips: one of each kind here, all by the module's command."""

from __future__ import annotations

import pytest

from tests.diagnose.corpus import ranks
from tests.rules.project import Project

_PLANTED = (
    "a row is taken before it is there",
    "a slot is given back before it is read",
    "Set in neighbouring cells",
    "the sender tells itself that a slot is full",
)


@pytest.mark.parametrize("name", _PLANTED)
def test_planted_bugs_are_found(project: Project, name: str) -> None:
    bug = next(bug for bug in ranks.BUGS if bug.name == name)
    output = ranks.plant(bug, project)
    assert ranks.found(bug, output, project), output


def test_the_page_has_every_bug() -> None:
    assert len(ranks.BUGS) == len({bug.name for bug in ranks.BUGS}) == 42
    text = ranks.PAGE.read_text(encoding="utf-8")
    assert ranks.page(text) == text
    for bug in ranks.BUGS:
        program = (ranks.EXAMPLES / f"dist_{bug.program}.py").read_text(encoding="utf-8")
        assert [program.count(old) for old, _ in bug.edits] == [1] * len(bug.edits)
