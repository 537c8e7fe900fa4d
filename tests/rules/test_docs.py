"""docs/lookup/rules.md is what the tables say."""

from __future__ import annotations

from pathlib import Path

from pypto_build.rules.docs import document
from pypto_build.rules.targets import SECTIONS, TARGETS


def test_the_page_is_current() -> None:
    page = Path(__file__).resolve().parents[2] / "docs" / "lookup" / "rules.md"
    assert page.read_text(encoding="utf-8") == document(), (
        "run: python -m pypto_build.rules.docs > docs/lookup/rules.md"
    )


def test_every_target_is_listed_once() -> None:
    assert sorted(name for names in SECTIONS.values() for name in names) == sorted(TARGETS)
