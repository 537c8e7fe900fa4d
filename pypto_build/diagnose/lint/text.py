"""C++ read as text: comments blanked, lines counted, parentheses matched. Enough for code that a compiler wrote."""

from __future__ import annotations

import re
from bisect import bisect_right
from functools import cached_property
from pathlib import Path

_COMMENT_OR_STRING = re.compile(r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"", re.DOTALL)


def without_comments(text: str) -> str:
    """The text with comments and the content of strings blanked; every character keeps its place."""
    return _COMMENT_OR_STRING.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text)


class Code:
    """One file: its code without comments, and the line of every place."""

    def __init__(self, path: Path, name: str, raw: str) -> None:
        self.path, self.name, self.raw = path, name, raw
        self.code = without_comments(raw)

    @cached_property
    def _starts(self) -> list[int]:
        return [0] + [found.end() for found in re.finditer("\n", self.raw)]

    def line(self, offset: int) -> int:
        """The line of a place, from 1."""
        return bisect_right(self._starts, offset)


def matching(code: str, opening: int) -> int:
    """The place of the bracket that closes the one at `opening`; the end of the text if there is none."""
    pairs = {"(": ")", "{": "}", "[": "]"}
    close, depth = pairs[code[opening]], 0
    for at in range(opening, len(code)):
        depth += (code[at] == code[opening]) - (code[at] == close)
        if depth == 0:
            return at
    return len(code)


def split_arguments(text: str) -> list[str]:
    """The arguments of a call, at the top level's commas."""
    parts, depth, start = [], 0, 0
    for at, character in enumerate(text):
        depth += (character in "([{<") - (character in ")]}>" and text[at - 1 : at] != "-")
        if character == "," and depth == 0:
            parts.append(text[start:at].strip())
            start = at + 1
    last = text[start:].strip()
    return [*parts, last] if last else parts
