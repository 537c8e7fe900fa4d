"""The reference pages of docs/lookup/ are what the tables say, and the tables are complete."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pypto_build.replay.verdict import EXIT_STATUS
from pypto_build.rules.docs import MARKS, PAGES, RECORDS, STATUSES
from pypto_build.rules.machinery import help
from pypto_build.rules.targets import SECTIONS, TARGETS
from tests.rows import every

ROOT = Path(__file__).resolve().parents[2]
_MARK = re.compile(r"""["']\[([A-Za-z][A-Za-z_>.+-]*)\] """)
#: Fields of a record that are not written.
_UNWRITTEN = {"tainted", "fault", "events"}
_LINES_OF_A_SCREEN = 30


@pytest.mark.parametrize("name", PAGES)
def test_the_page_is_current(name: str) -> None:
    page = ROOT / "docs" / "lookup" / f"{name}.md"
    assert page.read_text(encoding="utf-8") == PAGES[name](), "run: python -m pypto_build.rules.docs docs/lookup"


def test_every_target_is_listed_once() -> None:
    assert sorted(name for names in SECTIONS.values() for name in names) == sorted(TARGETS)


def test_every_status_and_field_is_explained() -> None:
    assert STATUSES.keys() == EXIT_STATUS.keys()
    for type_, _, fields in RECORDS:
        assert fields.keys() == type_.__annotations__.keys() - _UNWRITTEN


def test_every_mark_of_a_log_line_is_explained() -> None:
    sources = (path.read_text(encoding="utf-8") for path in (ROOT / "pypto_build").rglob("*.py"))
    assert {mark for source in sources for mark in _MARK.findall(source)} <= MARKS.keys()


@every("verb", TARGETS)
def test_the_help_on_a_verb_is_one_screen(verb: str) -> None:
    lines = help._verb(verb)
    assert len(lines) <= _LINES_OF_A_SCREEN
    assert max(map(len, lines)) <= 80
    assert set(re.findall(r"\b[A-Z][A-Z_]+\b", "\n".join(lines))) >= TARGETS[verb].options
