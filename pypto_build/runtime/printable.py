"""Text from a process that may have been written over, as it can be shown."""

from __future__ import annotations

LONGEST = 8192


def printable(text: str) -> str:
    """The text on one line, no longer than a message, with nothing in it that a terminal would obey."""
    kept = "".join(map(_shown, text[:LONGEST]))
    return kept if len(text) <= LONGEST else f"{kept}..."


def _shown(letter: str) -> str:
    if letter.isprintable():
        return letter
    return " " if letter.isspace() else "\ufffd"
