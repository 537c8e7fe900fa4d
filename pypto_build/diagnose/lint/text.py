"""C++ read as text: comments blanked, lines counted, parentheses matched. Enough for code that a compiler wrote."""

from __future__ import annotations

import re
from bisect import bisect_right
from functools import cached_property, lru_cache

_COMMENT_OR_STRING = re.compile(r"//[^\n]*|/\*.*?(?:\*/|\Z)|\"(?:\\.|[^\"\\\n])*(\"?)", re.DOTALL)


def without_comments(text: str) -> str:
    """The text with comments and the content of strings blanked; every character keeps its offset."""
    return _COMMENT_OR_STRING.sub(_blank, text)


def _blank(match: re.Match[str]) -> str:
    is_character = match[0].startswith('"') and not match[1]  # a quote alone, which may have code behind it
    return match[0] if is_character else re.sub(r"[^\n]", " ", match[0])


class Code:
    """One file: its code without comments, and the line of every offset."""

    def __init__(self, name: str, raw: str) -> None:
        self.name, self.raw = name, raw
        self.code = without_comments(raw)

    @cached_property
    def _starts(self) -> list[int]:
        return [0] + [match.end() for match in re.finditer("\n", self.raw)]

    def line(self, offset: int) -> int:
        """The line of an offset, from 1."""
        return bisect_right(self._starts, offset)


def matching(code: str, opening: int) -> int:
    """The offset of the bracket that closes the one at `opening`; the end of the text if there is none."""
    return _partners(code).get(opening, len(code))


@lru_cache(maxsize=4)
def _partners(code: str) -> dict[int, int]:
    """The closing bracket of every opening one; each kind is counted by itself."""
    partners: dict[int, int] = {}
    open_: dict[str, list[int]] = {"(": [], "{": [], "[": []}
    opening = {")": "(", "}": "{", "]": "["}
    for match in re.finditer(r"[(){}\[\]]", code):
        if match[0] in open_:
            open_[match[0]].append(match.start())
        elif open_[opening[match[0]]]:
            partners[open_[opening[match[0]]].pop()] = match.start()
    return partners


def arguments_at(code: str, opening: int) -> list[str]:
    """The arguments of the call whose bracket is at `opening`; none where it is not closed."""
    return split_arguments(code[opening + 1 : _partners(code).get(opening, opening + 1)])


def split_arguments(text: str, opening: str = "([{<", closing: str = ")]}>") -> list[str]:
    """The arguments of a call, at the top level's commas."""
    parts, depth, start = [], 0, 0
    for at, character in enumerate(text):
        depth += (character in opening) - (character in closing and text[at - 1 : at] != "-")
        if character == "," and depth == 0:
            parts.append(text[start:at].strip())
            start = at + 1
    last = text[start:].strip()
    return [*parts, last] if last else parts
