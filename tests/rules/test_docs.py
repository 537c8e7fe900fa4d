"""docs/rules.md is what the tables say."""

from __future__ import annotations

from pathlib import Path

from pypto_build.rules.docs import document


def test_the_page_is_current() -> None:
    page = Path(__file__).resolve().parents[2] / "docs" / "rules.md"
    assert page.read_text(encoding="utf-8") == document(), "run: python -m pypto_build.rules.docs > docs/rules.md"
