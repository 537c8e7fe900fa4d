"""JSON with comments, as VS Code's files are: read with the positions of its values.

An addition leaves every other byte as it was. Libraries that read comments do not keep them.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import NoReturn

_BLANK = re.compile(r"(?:\s+|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
_SCALAR = re.compile(r'"(?:[^"\\\n]|\\.)*"|-?\d[\d.eE+-]*|true|false|null')
_REST_OF_LINE = re.compile(r"[ \t]*(?:,[ \t]*)?(?://[^\n]*|/\*[^\n]*?\*/[ \t]*)?(?=\n)")
_DEEPEST = 100


class JsoncError(ValueError):
    """The text is invalid JSON; `str()` says where."""


@dataclass
class Value:
    """A value and the bytes it spans; an object has `members`, an array `items`."""

    start: int
    end: int
    scalar: object = None
    members: dict[str, Value] | None = None
    items: list[Value] | None = None
    children: list[Value] = field(default_factory=list)


def read(text: str) -> Value:
    """The value of a text; raises JsoncError."""
    reader = _Reader(text)
    value = reader.value(reader.skip(0), 0)
    if reader.skip(value.end) != len(text):
        reader.fail(reader.skip(value.end), "expected the end")
    return value


class _Reader:
    def __init__(self, text: str) -> None:
        self.text = text

    def fail(self, at: int, message: str) -> NoReturn:
        raise JsoncError(f"line {self.text.count(chr(10), 0, at) + 1}: {message}")

    def skip(self, at: int) -> int:
        match = _BLANK.match(self.text, at)
        return match.end() if match else at

    def value(self, at: int, depth: int) -> Value:
        opening = self.text[at : at + 1]
        if opening in ("{", "[") and opening:
            if depth > _DEEPEST:
                self.fail(at, "nested too deeply")
            return self.container(at, depth, "}" if opening == "{" else "]")
        match = _SCALAR.match(self.text, at)
        if match is None:
            self.fail(at, "expected a value")
        try:
            return Value(at, match.end(), json.loads(match[0]))
        except ValueError:
            self.fail(at, f"{match[0]} is no value")

    def container(self, start: int, depth: int, close: str) -> Value:
        members: dict[str, Value] = {}
        children: list[Value] = []
        at = self.skip(start + 1)
        while self.text[at : at + 1] != close:
            key = ""
            if close == "}":
                name = self.value(at, depth + 1)
                if not isinstance(name.scalar, str):
                    self.fail(at, "expected a name in quotes")
                key, at = name.scalar, self.skip(name.end)
                if self.text[at : at + 1] != ":":
                    self.fail(at, "expected ':'")
                at = self.skip(at + 1)
            child = self.value(at, depth + 1)
            children.append(child)
            members[key] = child
            at = self.skip(child.end)
            if self.text[at : at + 1] == ",":
                at = self.skip(at + 1)
            elif self.text[at : at + 1] != close:
                self.fail(at, f"expected ',' or '{close}'")
        if close == "}":
            return Value(start, at + 1, members=members, children=children)
        return Value(start, at + 1, items=children, children=children)


def plain(value: Value) -> object:
    """The value without its places."""
    if value.members is not None:
        return {name: plain(member) for name, member in value.members.items()}
    return [plain(item) for item in value.items] if value.items is not None else value.scalar


def added(text: str, to: Value, entries: list[str]) -> str:
    """The text with more entries (`"name": value`, or values) at the end of an object or an array."""
    if not entries:
        return text
    outer = _indent(text, to.start)
    if not to.children:
        inner = outer + "  "
        body = ",\n".join(_indented(entry, inner) for entry in entries)
        return f"{text[: to.start + 1]}\n{body}\n{outer}{text[to.end - 1 :]}"
    last = to.children[-1].end
    inner = _indent(text, to.children[-1].start)
    inner = inner if inner != outer else outer + "  "
    blank = _BLANK.match(text, last)
    following = blank.end() if blank else last
    comma = "" if text[following] == "," else ","
    rest = _REST_OF_LINE.match(text, last)
    stop = rest.end() if rest else last if comma else following + 1
    body = ",\n".join(_indented(entry, inner) for entry in entries)
    closing = "" if rest else f"\n{outer}"
    behind = text[stop:].lstrip(" ") if closing else text[stop:]
    return f"{text[:last]}{comma}{text[last:stop]}\n{body}{closing}{behind}"


def _indent(text: str, at: int) -> str:
    """The blanks that the line of a place begins with."""
    line = text[text.rfind("\n", 0, at) + 1 : at]
    return line[: len(line) - len(line.lstrip())]


def _indented(entry: str, indent: str) -> str:
    return "\n".join(indent + line for line in entry.split("\n"))
