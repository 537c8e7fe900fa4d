"""Steps of `pypto-build setup`: write a new file, add to an existing one, or leave it unchanged.

The first line of a generated file says so, with a digest of the rest. The file is rewritten only while the digest
matches.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

from pypto_build.artifact.files import read_text

# JSON with comments, as VS Code's files are: read with the positions of its values.
# An addition leaves every other byte as it was. Libraries that read comments do not keep them.

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
    """Return the value of a text; raises JsoncError."""
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
            self.fail(at, f"{match[0]} is not a value")

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
    """Return the value without its byte positions."""
    if value.members is not None:
        return {name: plain(member) for name, member in value.members.items()}
    return [plain(item) for item in value.items] if value.items is not None else value.scalar


def added(text: str, to: Value, entries: list[str]) -> str:
    """Return the text with more entries (`"name": value`, or values) at the end of an object or an array."""
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
    """Return the blanks at the beginning of the line that contains an offset."""
    line = text[text.rfind("\n", 0, at) + 1 : at]
    return line[: len(line) - len(line.lstrip())]


def _indented(entry: str, indent: str) -> str:
    return "\n".join(indent + line for line in entry.split("\n"))


_MARK = re.compile(r"written by pypto-build setup, ([0-9a-f]{12})")


@dataclass(frozen=True)
class Step:
    """The change of one file, and its new text (None: unchanged). `todo` is text for the user to add by hand."""

    path: Path
    what: str
    text: str | None = None
    todo: str = ""


def current(path: Path) -> str | None:
    """Return the text of a file; None if it is missing. Raises OSError if it cannot be read."""
    try:
        return read_text(path)
    except FileNotFoundError:
        return None


def own_file(path: Path, body: str, comment: str = "#", head: str = "", otherwise: str = "") -> Step:
    """Return the step for a file that setup generates completely.

    `head` precedes the line that marks it; `otherwise` is the advice if the user wrote the file.
    """
    digest = hashlib.sha256(body.encode()).hexdigest()[:12]
    text = f"{head}{comment} written by pypto-build setup, {digest}; edited, it is left alone\n{body}"
    before = current(path)
    if before is None:
        return Step(path, "new", text)
    if before == text:
        return Step(path, "up to date")
    match = _MARK.search(before[: len(head) + 200])
    rest = before.removeprefix(head).partition("\n")[2]
    if match and hashlib.sha256(rest.encode()).hexdigest()[:12] == match[1]:
        return Step(path, "renewed", text)
    return Step(path, "yours, left alone", todo=otherwise or "to have ours, remove it and run setup again")


def json_file(path: Path, members: dict[str, object]) -> Step:
    """Return the step that adds missing members to a JSON object. List items are matched by `label`, else by value;
    comments stay.
    """
    before = current(path)
    if before is None or not before.strip():
        return Step(path, "new", json.dumps(members, indent=2, ensure_ascii=False) + "\n")
    try:
        text, names = _merged(before, members)
    except JsoncError as error:
        return Step(path, f"left alone: is not JSON, {error}", todo=f"add {json.dumps(members)}")
    return Step(path, f"adds {', '.join(names)}", text) if names else Step(path, "up to date")


def _merged(text: str, members: dict[str, object]) -> tuple[str, list[str]]:
    """Return the text with the missing members, and their names. Raises JsoncError."""
    names: list[str] = []
    for name, value in members.items():
        root = read(text)
        if root.members is None:
            raise JsoncError("line 1: expected an object")
        there = root.members.get(name)
        if there is None:
            text = added(text, root, [_entry(name, value)])
            names.append(name)
        elif isinstance(value, dict) and there.members is not None:
            missing = {key: item for key, item in value.items() if key not in there.members}
            text = added(text, there, [_entry(key, item) for key, item in missing.items()])
            names += [f"{name}.{key}" for key in missing]
        elif isinstance(value, list) and there.items is not None:
            items = [item for item in value if not any(_is_same(item, each) for each in there.items or ())]
            text = added(text, there, [json.dumps(item, indent=2, ensure_ascii=False) for item in items])
            names += [str(item.get("label", item)) if isinstance(item, dict) else str(item) for item in items]
    read(text)  # what cannot be added to in this way is left alone
    return text, names


def _entry(name: str, value: object) -> str:
    return f"{json.dumps(name)}: {json.dumps(value, indent=2, ensure_ascii=False)}"


def _is_same(item: object, there: Value) -> bool:
    """Return whether the list's value matches this item: a task by label, an input by id, a flag by name, else by
    value.
    """
    if isinstance(item, dict) and there.members is not None:
        keys = [key for key in ("label", "id") if key in item]
        return any(key in there.members and there.members[key].scalar == item[key] for key in keys)
    if isinstance(item, str) and isinstance(there.scalar, str) and item.startswith("--"):
        return item.split("=")[0] == there.scalar.split("=")[0]
    return there.scalar == item


def sections_file(path: Path, sections: dict[str, dict[str, str]]) -> Step:
    """Return the step for an `.editorconfig`: sections with missing headings are added."""
    before = current(path) or ""
    missing = {head: rows for head, rows in sections.items() if f"[{head}]" not in before.replace(" ", "")}
    if not missing:
        return Step(path, "up to date")
    parts = [
        "\n".join([f"[{head}]", *(f"{key} = {value}" for key, value in rows.items())]) for head, rows in missing.items()
    ]
    text = (before.rstrip("\n") + "\n\n" if before.strip() else "") + "\n\n".join(parts) + "\n"
    return Step(path, f"adds {', '.join(f'[{head}]' for head in missing)}" if before else "new", text)
