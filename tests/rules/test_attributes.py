"""The table of attributes has a row for each, and docs/lookup/attributes.md is that table."""

from __future__ import annotations

from pypto_build.rules.docs import attributes_of_files
from tests.rules.attributes import NO_RULE, PAGE, ROWS, RULE_ROWS, page


def test_every_attribute_has_a_row() -> None:
    assert sorted(ROWS) == sorted(attributes_of_files())


def test_a_rules_result_is_given_or_there_is_none() -> None:
    assert sorted([*RULE_ROWS, *NO_RULE]) == sorted(ROWS)


def test_the_page_is_current() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), (
        "run: python -m tests.rules.attributes > docs/lookup/attributes.md"
    )
