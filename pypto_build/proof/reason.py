"""Explains why an action has to be done again."""

from __future__ import annotations

from .action import Result
from .digests import ABSENT, LISTING
from .questions import is_question, phrase

NEVER = "not built before"


def explain(before: Result, now: Result, seen: str, otherwise: str) -> str:
    """Return the difference between the record of an action and its state now, as one phrase.

    ``seen`` is the phrase for an input that the tool was seen to read; ``otherwise`` is returned if nothing differs.
    Files are named as in records: relative to their roots.
    """
    files = [name for name in now.declared if name in before.declared and before.declared[name] != now.declared[name]]
    settings = sorted({label for label, _ in before.settings.items() ^ now.settings.items()})
    if before.words != now.words:  # what was no setting before, or is none now, follows from the words
        settings = [label for label in settings if label in before.settings and label in now.settings]
    changed = ([f"content of {few(list(map(_short, files)))}"] if files else []) + ([few(settings)] if settings else [])
    if changed:
        return f"{' and '.join(changed)} changed"
    if added := [_short(name) for name in now.declared if name not in before.declared]:
        return f"{few(added)} {'is a new input' if len(added) == 1 else 'are new inputs'}"
    if gone := [_short(name) for name in before.declared if name not in now.declared]:
        return f"{few(gone)} {'is no longer an input' if len(gone) == 1 else 'are no longer inputs'}"
    if seen:
        return seen
    if before.words != now.words:
        return "its command line changed"
    return otherwise


def difference(name: str, was: str, now: str) -> str:
    """Return the change of one input, as a phrase."""
    if is_question(name):
        return f"{phrase(_short(name))} changed"
    if was == ABSENT:
        return f"{_short(name)} is a new input"
    if now == ABSENT:
        return f"{_short(name)} is gone"
    return f"{'files in' if name.endswith(LISTING) else 'content of'} {_short(name)} changed"


def _short(name: str) -> str:
    """A name without its root."""
    return (name.partition("}/")[2] or ".") if name.startswith("{") else name


def few(names: list[str], most: int = 3) -> str:
    """The first names, and how many more there are."""
    shown = ", ".join(names[:most])
    return f"{shown} (+{len(names) - most} more)" if len(names) > most else shown
