"""Kinds of a module's tokens, for colours; each distinct line is scanned once."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

from pypto_build.pto.lexer import TOKEN
from pypto_build.pto.ops import TABLE

#: The protocol's names, by the numbers that `Colour` uses.
TOKEN_TYPES = (
    "comment", "string", "number", "keyword", "type", "function", "parameter", "variable", "property", "enumMember",
    "macro",
)  # fmt: skip
TOKEN_MODIFIERS = ("declaration",)
_NUMBER_OF = {name: number for number, name in enumerate(TOKEN_TYPES)}
Colour = tuple[int, int, int, int]  # column, length, type, modifiers

_ARGUMENT = re.compile(r"%arg\d+\Z")
_SCALAR = re.compile(r"(?:[su]?i\d+|b?f\d+\w*|index|none)\Z")
_COMMENT = re.compile(r'(?:[^"/]|"(?:[^"\\]|\\.)*"|/(?!/))*(//.*)')


@lru_cache(maxsize=1 << 16)
def colours_of(line: str) -> tuple[Colour, ...]:
    """The coloured tokens of a line, columns in UTF-16 units."""
    comment = _COMMENT.match(line) if "//" in line else None
    end = comment.start(1) if comment else len(line)
    tokens = [(match[1], match.start(1)) for match in TOKEN.finditer(line[:end]) if match[1]]
    colours = []
    for number, (text, start) in enumerate(tokens):
        following = tokens[number + 1][0] if number + 1 < len(tokens) else ""
        kind, modifiers = _kind(text, following)
        if kind:
            colours.append((start, len(text), _NUMBER_OF[kind], modifiers))
    if comment:
        colours.append((end, len(line) - end, _NUMBER_OF["comment"], 0))
    if not line.isascii():
        colours = [(_units(line[:a]), _units(line[a : a + n]), kind, more) for a, n, kind, more in colours]
    return tuple(colours)


def _units(text: str) -> int:
    return len(text.encode("utf-16-le")) // 2


def _kind(text: str, following: str) -> tuple[str, int]:
    """Type and modifiers of a token; an empty type for punctuation."""
    first = text[0]
    if first == "%":
        return ("parameter" if _ARGUMENT.match(text) else "variable"), int(following == "=")
    if first == "!":
        return "type", 0
    if first == "#":
        return "enumMember", 0
    if first == "@":
        return "function", 0
    if first == '"':
        return "string", 0
    if first.isdigit() or (first == "-" and len(text) > 1 and text[1].isdigit()):
        return "number", 0
    if text in TABLE:
        return ("keyword" if text.startswith(("scf.", "func.")) or "." not in text else "macro"), 0
    if _SCALAR.match(text):
        return "type", 0
    if first.isalpha():
        return ("property" if following == "=" else "keyword"), 0
    return "", 0


def encoded(lines: Iterable[str]) -> list[int]:
    """The protocol's numbers, five a token: lines and columns since the one before, length, type, modifiers."""
    data: list[int] = []
    skipped = 0
    for line in lines:
        before = 0
        for column, length, kind, modifiers in colours_of(line):
            data += (skipped, column - before, length, kind, modifiers)
            before, skipped = column, 0
        skipped += 1
    return data
