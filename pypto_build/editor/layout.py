"""Formatting a module: indentation and blanks as PyPTO writes them. Comments, and which lines there are, stay."""

from __future__ import annotations

import re

from pypto_build.pto.lexer import TOKEN, tokenize
from pypto_build.pto.live.lines import LineKind, facts_of

_PARTS = re.compile(r'"(?:[^"\\\n]|\\.)*"|//.*|[ \t]+|[^"/ \t]+|.')


def formatted(text: str) -> str:
    """The text in the usual layout: the same tokens on the same lines. A text whose braces do not match stays."""
    lines = text.split("\n")
    new, depth, functions = [], 0, []
    for line in lines:
        facts = facts_of(line)
        if depth + facts.low < 0:
            return text
        if facts.kind is LineKind.FUNCTION:
            functions.append(depth)
        inside = depth + facts.low if facts.kind is LineKind.CLOSER else depth
        levels = inside - sum(1 for at in functions if at < inside)  # a body stands no deeper than its function
        if facts.kind is LineKind.LABEL:
            levels -= 1
        if facts.kind is LineKind.OTHER and not line.strip().startswith(("module", "#")):
            levels += 2
        depth += facts.delta
        while functions and depth <= functions[-1] and facts.delta < 0:
            functions.pop()
        new.append("  " * levels + _spaced(line.strip()) if line.strip() else "")
    result = "\n".join(new)
    return (
        result if depth == 0 and tokenize(result) == tokenize(text) and _comments(result) == _comments(text) else text
    )


def _spaced(line: str) -> str:
    """The line with single blanks, outside of strings and comments."""
    if "  " not in line and "\t" not in line:
        return line
    return "".join(" " if part.isspace() else part for part in _PARTS.findall(line))


def _comments(text: str) -> int:
    return sum(token[0].count("//") for token in TOKEN.finditer(text) if "//" in token[0])
