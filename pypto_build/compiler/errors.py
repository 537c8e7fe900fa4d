"""Errors of a program: one line that names the user's line, the fault, and the remedy."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from pypto_build.facts.positions import SourcePosition


class CompileError(Exception):
    """A program cannot be compiled; `notes` are further lines of the message. `stage` names the failing pass, if
    known; `dumps` has the program after each earlier pass, if requested.
    """

    stage = ""

    def __init__(self, position: SourcePosition, message: str, hint: str = "", notes: tuple[str, ...] = ()) -> None:
        self.position = position
        self.message = message
        self.hint = hint
        self.notes = notes
        self.dumps: dict[str, str] = {}
        super().__init__(f"{position}: {message}" + (f"; {hint}" if hint else ""))

    @property
    def full(self) -> str:
        """Return the text with the name of the pass after its first line."""
        first, *rest = str(self).split("\n")
        return "\n".join([f"{first} [{self.stage}]" if self.stage else first, *rest])

    def __str__(self) -> str:
        return "\n".join([str(self.args[0]), *(f"  {note}" for note in self.notes)])


def similar(name: str, names: Iterable[str]) -> str:
    """Return `; did you mean 'load'?` for a name close to one of ``names``, else an empty text."""
    close = difflib.get_close_matches(name, sorted(names), 1)
    return f"; did you mean '{close[0]}'?" if close else ""
