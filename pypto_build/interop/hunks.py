"""Splits the difference between two texts into hunks, and applies each by itself."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import Path


@dataclass(frozen=True)
class Hunk:
    """A change of a file: lines `first` to `last` (from 0, `last` excluded) become `lines`. `place` names it for
    people."""

    file: str
    first: int
    last: int
    lines: tuple[str, ...]

    @property
    def place(self) -> str:
        """Return `kernels/aiv/x.cpp:12-14`; if lines are only added, the line before which they come."""
        first, last = self.first + 1, self.last
        return f"{self.file}:{first}-{last}" if last > first else f"{self.file}:{first}"


def hunks_of(file: str, old: str, new: str) -> list[Hunk]:
    """Return the hunks that change one text into the other, in line order."""
    before, after = old.splitlines(keepends=True), new.splitlines(keepends=True)
    matcher = SequenceMatcher(None, before, after, autojunk=False)
    return [
        Hunk(file, first, last, tuple(after[begin:end]))
        for kind, first, last, begin, end in matcher.get_opcodes()
        if kind != "equal"
    ]


def apply(root: Path, hunks: Iterable[Hunk]) -> None:
    """Replace these lines in the files below a directory."""
    for hunk in sorted(hunks, key=lambda hunk: hunk.first, reverse=True):  # from the end: line numbers stay valid
        path = root / hunk.file
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
        lines[hunk.first : hunk.last] = hunk.lines
        path.write_text("".join(lines), encoding="utf-8")
