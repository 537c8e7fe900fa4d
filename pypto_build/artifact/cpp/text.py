"""C++ as text: comments blanked, lines counted, arguments split."""

from __future__ import annotations

import re
from bisect import bisect_right
from functools import cached_property

_COMMENT_OR_STRING = re.compile(r"//[^\n]*|/\*.*?(?:\*/|\Z)|\"(?:\\.|[^\"\\\n])*(\"?)", re.DOTALL)


def without_comments(text: str) -> str:
    """Return the text with comments and the content of strings blanked; every character keeps its offset.

    An unterminated comment or string ends at the end of the file or line, as for a compiler.
    """
    return _COMMENT_OR_STRING.sub(_blank, text)


def _blank(match: re.Match[str]) -> str:
    if not match[0].startswith('"'):
        return re.sub(r"[^\n]", " ", match[0])
    return f'"{" " * (len(match[0]) - 2)}"' if match[1] else match[0]  # a quote alone may have code behind it


class Code:
    """One file: its code without comments, and the line of every offset."""

    def __init__(self, name: str, raw: str) -> None:
        self.name, self.raw = name, raw
        self.code = without_comments(raw)

    @cached_property
    def _starts(self) -> list[int]:
        return [0] + [match.end() for match in re.finditer("\n", self.raw)]

    def line(self, offset: int) -> int:
        """Return the 1-based line of an offset."""
        return bisect_right(self._starts, offset)


def split_arguments(text: str, opening: str = "([{<", closing: str = ")]}>") -> list[str]:
    """Return the arguments of a call, split at the top-level commas."""
    parts, depth, start = [], 0, 0
    for at, character in enumerate(text):
        depth += (character in opening) - (character in closing and text[at - 1 : at] != "-")
        if character == "," and depth == 0:
            parts.append(text[start:at].strip())
            start = at + 1
    last = text[start:].strip()
    return [*parts, last] if last else parts
