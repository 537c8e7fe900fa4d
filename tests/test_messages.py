"""The table of messages is current, and no message breaks the rules that a program can check."""

from __future__ import annotations

import re

from tests.messages import TABLE, table

#: Openings and words by which a message says what a thing is not, or hides who does what.
_RIDDLES = re.compile(r"\b(somebody|someone who|whoever|is no (?!longer)[a-z]+ nor|that nobody|what it was)\b")
_MOST_WORDS = 40


def test_the_table_is_current() -> None:
    assert TABLE.read_text(encoding="utf-8") == table(), (
        "run: python -m tests.messages > tests/messages.txt, and read the rows that changed"
    )


def test_messages_are_plain() -> None:
    rows = table().splitlines()
    assert [row for row in rows if _RIDDLES.search(row)] == []
    assert [row for row in rows if len(row.split(" | ", 1)[1].split()) > _MOST_WORDS] == []
