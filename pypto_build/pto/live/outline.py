"""Finds beginning and end of functions and operations from lines alone, so that half-typed text has an outline too.

Braces decide. Typing makes braces mismatch; then indentation decides. In text that is indented as usual both agree, so
that a missing brace moves nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import lru_cache
from itertools import pairwise

from ..ops import TABLE
from ..parse_operations import MAX_DEPTH

# The part of one line in the shape of a text; computed once for each distinct line.


class LineKind(Enum):
    OPERATION = "an operation begins"
    FUNCTION = "a function begins"
    CLOSER = "a brace closes"
    LABEL = "the label of a block"
    BLANK = "nothing, or a comment"
    OTHER = "something goes on"


_HIDDEN = re.compile(r'"(?:[^"\\]|\\.)*"|//.*')
_NAME = r"%[\w$.\-]+(?::\d+)?"
_UNDOTTED = "|".join(sorted(name for name in TABLE if "." not in name))
_OPERATION = re.compile(rf'(?:{_NAME}(?:\s*,\s*{_NAME})*\s*=(?!=)|"[\w.]+"\s*\(|[A-Za-z_]\w*\.|(?:{_UNDOTTED})\b)')
_UNENDED = {name for name, row in TABLE.items() if row.variants[0].format.startswith(("V:", "[? V:"))}
_BRACES = re.compile(r"[{}]")


class LineFacts:
    """Facts about one line.

    `delta` is the change of the depth of braces, `low` the least depth on the way (0 or less). A line that `opens` ends
    with an opening brace. `indent` counts blanks. An `unended` line takes a value from the next line if that begins
    `with_value`.
    """

    __slots__ = ("delta", "indent", "kind", "low", "opens", "unended", "with_value")

    def __init__(self, text: str) -> None:
        if '"' in text or "//" in text:
            text = _HIDDEN.sub(lambda match: "" if match[0][0] == "/" else '"s"', text)
        stripped = text.strip()
        self.indent = len(text.expandtabs(4)) - len(text.expandtabs(4).lstrip()) if stripped else 0
        self.opens = stripped.endswith("{")
        self.unended = stripped in _UNENDED
        self.with_value = stripped[:1] == "%"
        self.kind = _kind(stripped)
        depth = low = 0
        for brace in _BRACES.findall(stripped):
            depth += 1 if brace == "{" else -1
            low = min(low, depth)
        self.delta, self.low = depth, low


def _kind(stripped: str) -> LineKind:
    if not stripped:
        return LineKind.BLANK
    if stripped[0] == "}":
        return LineKind.CLOSER
    if stripped[0] == "^":
        return LineKind.LABEL
    if stripped.startswith("func.func"):
        return LineKind.FUNCTION
    return LineKind.OPERATION if _OPERATION.match(stripped) else LineKind.OTHER


@lru_cache(maxsize=1 << 16)
def facts_of(text: str) -> LineFacts:
    """Return the facts of a line, without its line end."""
    return LineFacts(text)


@dataclass(slots=True)
class Statement:
    """Lines `start` up to `end`. `spine` has the lines of a statement that lie outside its `regions`."""

    start: int
    end: int
    spine: tuple[int, ...] = ()
    regions: list[list[Statement]] = field(default_factory=list)


@dataclass(slots=True)
class FunctionOutline:
    """A function on lines `start` up to `end`: its header, up to line `header`, and its body. `body` is None for a
    declaration, or if the lines do not show one. `closed`: its last line closes it. `matched`: its braces match.
    """

    start: int
    header: int
    end: int
    body: list[Statement] | None = None
    closed: bool = True
    matched: bool = True


def outline(lines: Sequence[str]) -> list[FunctionOutline]:
    """Return the functions of a text."""
    facts = [facts_of(line) for line in lines]
    starts = [number for number, line in enumerate(facts) if line.kind is LineKind.FUNCTION]
    return [_function(facts, start, limit) for start, limit in pairwise([*starts, len(facts)])]


def _function(facts: list[LineFacts], start: int, limit: int) -> FunctionOutline:
    header = _header(facts, start, limit)
    if header is None:
        return FunctionOutline(start, start, _declared(facts, start, limit))
    depth = 1
    for at in range(header, limit):
        line = facts[at]
        if depth + line.low <= 0:
            rest = facts[at + 1 : limit]
            if any(f.kind is LineKind.OPERATION for f in rest):
                break
            if line.kind is LineKind.CLOSER:
                return FunctionOutline(start, header, at + 1, _Braces(facts).statements(header, at, 0))
            return FunctionOutline(start, header, at + 1, [Statement(header, at + 1)])  # closed behind an operation
        depth += line.delta
    body, at = _Indents(facts).statements(header, limit, 0, top=True)
    closed = at < limit
    return FunctionOutline(start, header, at + closed, body, closed, matched=False)


def _header(facts: list[LineFacts], start: int, limit: int) -> int | None:
    """Return the line after the one that opens the body; None without a body."""
    depth = 0
    for at in range(start, min(limit, start + 64)):
        line = facts[at]
        if at > start and line.kind in (LineKind.OPERATION, LineKind.CLOSER):
            return None
        depth += line.delta
        if depth == 1 and line.opens:
            return at + 1
    return None


def _declared(facts: list[LineFacts], start: int, limit: int) -> int:
    """Return the end of a function without a recognizable body."""
    depth, at = facts[start].delta, start + 1
    while at < limit and (depth > 0 or facts[at].kind is LineKind.OTHER):
        depth += facts[at].delta
        at += 1
    return at


class _Braces:
    """Finds statements in lines whose braces match."""

    def __init__(self, facts: list[LineFacts]) -> None:
        self.facts = facts

    def statements(self, at: int, end: int, nested: int) -> list[Statement]:
        statements = []
        while at < end:
            start, depth = at, self.facts[at].delta
            at += 1
            while at < end and (depth > 0 or self.facts[at].kind is not LineKind.OPERATION or self.taken(at)):
                depth += self.facts[at].delta
                at += 1
            statements.append(self.statement(start, at, nested))
        return statements

    def taken(self, at: int) -> bool:
        """Return whether the beginning of this line is a value of the statement on the line before."""
        return self.facts[at - 1].unended and self.facts[at].with_value

    def statement(self, start: int, end: int, nested: int) -> Statement:
        facts = self.facts
        single = Statement(start, end)
        if not facts[start].opens or facts[start].delta != 1 or end - start < 2 or nested >= MAX_DEPTH:
            return single
        spine, spans, first, depth = [start], [], start + 1, 1
        for at in range(start + 1, end):
            line = facts[at]
            if depth == 0:
                if line.kind is not LineKind.BLANK:
                    return single
            elif depth + line.low <= 0:
                if line.kind is not LineKind.CLOSER or (depth + line.delta > 0) != line.opens:
                    return single
                spans.append((first, at))
                spine.append(at)
                first = at + 1
            elif line.kind is LineKind.LABEL and depth == 1:
                if any(facts[before].kind is not LineKind.BLANK for before in range(first, at)):
                    return single
                spine.append(at)
                first = at + 1
            depth += line.delta
        regions = [self.statements(begin, stop, nested + 1) for begin, stop in spans]
        return Statement(start, end, tuple(spine), regions)


class _Indents:
    """Finds statements in lines whose braces do not match, by indentation."""

    def __init__(self, facts: list[LineFacts]) -> None:
        self.facts = facts

    def statements(self, at: int, end: int, nested: int, top: bool = False) -> tuple[list[Statement], int]:
        """Return the statements, and the line that closes the function if this is its `top`."""
        facts = self.facts
        statements: list[Statement] = []
        while at < end:
            if top and facts[at].kind is LineKind.CLOSER:
                rest = (facts[other].kind for other in range(at + 1, end))
                if not any(kind is LineKind.OPERATION for kind in rest):
                    return statements, at
            start = at
            at = self.behind(start, end)
            statements.append(self.statement(start, at, nested))
        return statements, at

    def behind(self, start: int, end: int) -> int:
        """Return the end of the statement that begins on a line."""
        facts, first = self.facts, self.facts[start]
        is_open, at = first.opens and first.kind is LineKind.OPERATION, start + 1
        while at < end and first.kind is not LineKind.CLOSER:
            line = facts[at]
            if line.kind is LineKind.OPERATION and line.indent <= first.indent:
                break
            if line.kind is LineKind.CLOSER and not (is_open and line.indent > first.indent):
                if not is_open or line.indent < first.indent:
                    break
                is_open = line.opens
            at += 1
        return at

    def statement(self, start: int, end: int, nested: int) -> Statement:
        facts, first = self.facts, self.facts[start]
        if not first.opens or first.kind is not LineKind.OPERATION or nested >= MAX_DEPTH:
            return Statement(start, end)
        spine, spans, begin = [start], [], start + 1
        for at in range(start + 1, end):
            if facts[at].kind is LineKind.CLOSER and facts[at].indent == first.indent:
                spans.append((begin, at))
            elif facts[at].kind is not LineKind.LABEL or facts[at].indent > first.indent + 2:
                continue
            spine.append(at)
            begin = at + 1
        if begin < end and (facts[spine[-1]].opens or facts[spine[-1]].kind is LineKind.LABEL):
            spans.append((begin, end))
        regions = [self.statements(first_, stop, nested + 1)[0] for first_, stop in spans]
        return Statement(start, end, tuple(spine), regions)
