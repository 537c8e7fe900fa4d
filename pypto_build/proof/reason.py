"""Why an action has to be done again, in words."""

from __future__ import annotations

from .action import Result

NEVER = "not built before"


def explain(before: Result, now: Result, differing: str, otherwise: str) -> str:
    """What differs between the record of an action and what it would be now, as one phrase.

    ``differing`` is an input that the tool itself was seen to read, ``otherwise`` the answer if nothing differs.
    Files are named as records name them: by the root that they lie in.
    """
    files = [name for name in now.declared if name in before.declared and before.declared[name] != now.declared[name]]
    files += [differing] if differing else []
    settings = sorted({label for label, _ in before.settings.items() ^ now.settings.items()})
    changed = ([f"content of {few(list(map(_short, files)))}"] if files else []) + ([few(settings)] if settings else [])
    if changed:
        return f"{' and '.join(changed)} changed"
    if added := [_short(name) for name in now.declared if name not in before.declared]:
        return f"{few(added)} {'is a new input' if len(added) == 1 else 'are new inputs'}"
    if gone := [_short(name) for name in before.declared if name not in now.declared]:
        return f"{few(gone)} {'is no longer an input' if len(gone) == 1 else 'are no longer inputs'}"
    if before.words != now.words:
        return "its command line changed"
    return otherwise


def _short(name: str) -> str:
    """A name without the root that it is told by."""
    return name.partition("}/")[2] if name.startswith("{") else name


def few(names: list[str], most: int = 3) -> str:
    """The first names, and how many more there are."""
    shown = ", ".join(names[:most])
    return f"{shown} (+{len(names) - most} more)" if len(names) > most else shown
