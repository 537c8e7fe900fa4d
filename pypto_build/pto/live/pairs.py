"""Pairs of lines: those of a module, and those of the C++ generated from it.

Assemblers translate instructions in the order of the module. So the names of the calls in a kernel's body align with
the operations of its function. That needs no line table, which ptoas does not write, and holds for bodies that were
edited by hand. A line between two instructions belongs to the one before it.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher

from ..errors import PtoError
from ..ops import TABLE
from ..ops.spec import INSTRUCTIONS
from ..splice import find_sentinels
from .module import LiveFunction

_CALL = re.compile(r"\b(?:(?P<call>[A-Z][A-Z0-9_]+)\s*(?:<[^;()]*>)?\s*\(|(?P<word>for|if|while)\s*\()")
_COMMENT = re.compile(r"//[^\n]*")
_GENERATED_WORDS = {"scf.for": "for", "scf.if": "if", "scf.while": "while", "pto.alloc_tile": "TASSIGN"}
_NAMES = {*INSTRUCTIONS, "TASSIGN", "TPUSH", "TPOP", "TFREE"}
_LONGEST = 1_000_000  # pairs of instructions that are compared
Anchor = tuple[str, int]  # name, line from 0


@dataclass(frozen=True)
class Pairs:
    """Matching lines, from 0, of the instructions that occur in both texts, in the order of each text."""

    module: tuple[int, ...]
    cpp: tuple[int, ...]

    def in_cpp(self, line: int) -> int | None:
        """Return the line of the C++ for a line of the module."""
        return _follow(self.module, self.cpp, line)

    def in_module(self, line: int) -> int | None:
        """Return the line of the module for a line of the C++."""
        return _follow(self.cpp, self.module, line)


def _follow(ours: tuple[int, ...], theirs: tuple[int, ...], line: int) -> int | None:
    at = bisect_right(ours, line) - 1
    return theirs[at] if at >= 0 else None


def pair(function: LiveFunction, wrapper: str) -> Pairs:
    """Return the matching instructions of a function and of the body in its kernel's file."""
    ours, theirs = list(_of_module(function)), list(_of_cpp(wrapper, function.model.name))
    first, last, common = 0, 0, min(len(ours), len(theirs))
    while first < common and ours[first][0] == theirs[first][0]:
        first += 1
    while last < common - first and ours[-1 - last][0] == theirs[-1 - last][0]:
        last += 1
    head = list(zip(ours[:first], theirs[:first], strict=True))
    tail = list(zip(ours[len(ours) - last :], theirs[len(theirs) - last :], strict=True))
    middle = _aligned(ours[first : len(ours) - last], theirs[first : len(theirs) - last])
    pairs = [*head, *middle, *tail]
    return Pairs(tuple(a[1] for a, _ in pairs), tuple(b[1] for _, b in pairs))


def _aligned(ours: list[Anchor], theirs: list[Anchor]) -> list[tuple[Anchor, Anchor]]:
    """Return the longest common runs of both lists; empty for very long lists, where that takes seconds."""
    if not ours or not theirs or len(ours) * len(theirs) > _LONGEST:
        return []
    blocks = SequenceMatcher(None, [n for n, _ in ours], [n for n, _ in theirs], autojunk=False).get_matching_blocks()
    return [(ours[b.a + i], theirs[b.b + i]) for b in blocks for i in range(b.size)]


def _of_module(function: LiveFunction) -> Iterator[Anchor]:
    for node in function.every:
        for op in node.own():
            row = TABLE[op.name]
            name = _GENERATED_WORDS.get(op.name) or (row.cpp if row.cpp in _NAMES else "")
            name = name or ({"push": "TPUSH", "pop": "TPOP", "free": "TFREE"}.get(row.fn, "") if row.direction else "")
            if name:
                yield name, node.line(node.source.position(op.token).line - 1)


def _of_cpp(wrapper: str, function: str) -> Iterator[Anchor]:
    """Yield the calls of instructions in the body of a function between the sentinels."""
    try:
        body = find_sentinels(wrapper)
    except PtoError:
        return
    text = _COMMENT.sub(lambda match: " " * len(match[0]), wrapper[: body.end])
    start = re.compile(rf"\b{re.escape(function)}\s*\([^;{{]*\{{").search(text, body.begin)
    at = start.end() if start else body.begin
    line = text.count("\n", 0, at)
    for number, row in enumerate(text[at:].split("\n")):
        for match in _CALL.finditer(row):
            name = match["call"] or match["word"]
            if name in _NAMES or match["word"]:
                yield name, line + number
