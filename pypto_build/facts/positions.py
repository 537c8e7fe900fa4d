"""Positions in source texts."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class SourcePosition:
    """A position in a source text; line and column count from 1, 0 means unknown."""

    path: str = "<program>"
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        return f"{self.at_line}:{self.column}" if self.line and self.column else self.at_line

    @property
    def at_line(self) -> str:
        """Return the position without the column."""
        return f"{self.path}:{self.line}" if self.line else self.path
