"""The documented table is the corpus, which covers every tool, and no bug is in it twice."""

from __future__ import annotations

from collections import Counter

from tests.diagnose.corpus.table import PAGE, bugs, page


def test_documented_table() -> None:
    """`python -m tests.diagnose.corpus.table` writes it."""
    text = PAGE.read_text(encoding="utf-8")
    assert text == page(text)


def test_every_tool_has_its_bugs() -> None:
    planted = [(bug.tool, bug.name) for bug in bugs()]
    assert len(set(planted)) == len(planted) >= 40
    assert set(Counter(tool for tool, _ in planted)) == {"hazards", "flaky", "lint", "hang", "passes"}
