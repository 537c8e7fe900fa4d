"""The part of one line in the shape of a text; computed once for each distinct line."""

from __future__ import annotations

import re
from enum import Enum
from functools import lru_cache

from ..ops import TABLE


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
    """The facts of a line, without its end."""
    return LineFacts(text)
