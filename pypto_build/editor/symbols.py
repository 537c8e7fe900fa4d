"""The token at a position of a module, its definition, and its uses."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pypto_build.pto.live.module import LiveFinding, LiveFunction, LiveModule
from pypto_build.pto.live.values import Node
from pypto_build.pto.model import TOKEN, Operation
from pypto_build.pto.resolve import Value

_VALUE = re.compile(r"%[\w$.\-]+(?:#\d+)?", re.ASCII)
_NEW_NAME = re.compile(r"%?([A-Za-z_][\w$.\-]*|\d+)\Z", re.ASCII)


@dataclass(frozen=True)
class Span:
    """Part of a line; line and columns count from 0, `end` is exclusive."""

    line: int
    column: int
    end: int


@dataclass(frozen=True)
class Token:
    """A token of a line. `function` and `node` are None outside of functions; `operation` is None if the line has no
    valid one.
    """

    text: str
    span: Span
    function: LiveFunction | None = None
    node: Node | None = None
    operation: Operation | None = None


class RenameError(Exception):
    """A name is invalid for a value or function; `str()` is the reason in one line."""


def token_at(live: LiveModule, line: int, column: int) -> Token | None:
    """Return the token that contains a position or ends there."""
    if not 0 <= line < len(live.lines):
        return None
    best = None
    for text, start in _tokens(live.lines[line]):
        if start <= column <= start + len(text):
            best = (text, start)
            if column < start + len(text):
                break
    if best is None:
        return None
    span = Span(line, best[1], best[1] + len(best[0]))
    function = next((f for f in live.functions if f.outline.start <= line < max(f.outline.end, 1)), None)
    if function is None or function.whole:
        whole = [f for f in live.functions if f.whole and f.header.place(f.model.token)[0] + f.header.start <= line]
        function = whole[-1] if whole else None
    if function is None:
        return Token(best[0], span)
    node, row = _node_at(function, line)
    operation = _operation_at(node, row, best[1]) if node is not None else None
    return Token(best[0], span, function, node, operation)


def _tokens(line: str) -> Iterator[tuple[str, int]]:
    for match in TOKEN.finditer(line):
        if match[1]:
            yield match[1], match.start(1)


def _node_at(function: LiveFunction, line: int) -> tuple[Node | None, int]:
    """Return the statement of a line, and the line's index within the statement."""
    for node in reversed(function.every):
        if node.start <= line <= node.start + node.rows[-1] and line - node.start in node.rows:
            return node, node.rows.index(line - node.start)
    return None, 0


def _offset(node: Node, row: int, column: int) -> int:
    return sum(len(text) + 1 for text in node.text.split("\n")[:row]) + column


def _operation_at(node: Node, row: int, column: int) -> Operation | None:
    """Return the operation whose text in a statement includes a column."""
    offset, operation = _offset(node, row, column), None
    for op in node.own():
        if op.token >= 0 and node.source.offsets[op.token] <= offset:
            operation = op
    return operation


def span_of(live: LiveModule, finding: LiveFinding) -> Span:
    """Return the span to underline for a finding: the value it names, else the operation, else the rest of the line."""
    line = live.lines[finding.line]
    if not finding.syntax:
        names = _VALUE.findall(finding.message)
        for name in (*names, finding.name):
            for text, start in _tokens(line[finding.column :]):
                if text == name:
                    return Span(finding.line, finding.column + start, finding.column + start + len(text))
        return Span(finding.line, finding.column, finding.end)
    text = next((text for text, start in _tokens(line[finding.column :]) if start == 0), "")
    return Span(finding.line, finding.column, finding.column + len(text) if text else finding.end)


def value_of(token: Token) -> Value | None:
    """Return the value that a token names; None for other tokens."""
    function, node, op, name = token.function, token.node, token.operation, token.text
    if name[:1] != "%" or function is None or node is None or function.names is None:
        return None
    resolved = function.names.resolved
    if op is not None and id(op) in resolved.operands_of:
        name = name if ":" not in name else f"{name.split(':')[0]}#0"
        regions = [value for region in op.regions for value in resolved.region_args.get(id(region), ())]
        operands = [value for values in resolved.operands_of[id(op)].values() for value in values]
        for value in (*resolved.results_of.get(id(op), ()), *regions, *operands):
            if value.name == name:
                return value
    if node is function.header:
        return next((value for value in resolved.arguments if value.name == name), None)
    return node.defines.get(name) or node.uses.get(name)


def spans_of(live: LiveModule, token: Token) -> list[Span]:
    """Return all spans that name a token's value or function: its definition first, then in the order of the text."""
    if token.text[:1] == "@":
        return _symbol_spans(live, token.text)
    value, function = value_of(token), token.function
    if value is None or function is None:
        return []
    plain = value.name.split("#")[0]
    spans = []
    for node in function.every:
        if plain not in node.text:
            continue
        for row, text in enumerate(node.text.split("\n")):
            for word, start in _tokens(text):
                if word.split("#")[0].split(":")[0] != plain:
                    continue
                op = _operation_at(node, row, start)
                span = Span(node.line(row), start, start + len(word))
                if value_of(Token(word, span, function, node, op)) is value:
                    spans.append(span)
    return sorted(spans, key=lambda span: (span.line, span.column))


def _symbol_spans(live: LiveModule, name: str) -> list[Span]:
    spans = [
        Span(number, start, start + len(word))
        for number, line in enumerate(live.lines)
        if name in line
        for word, start in _tokens(line)
        if word == name
    ]
    heads = {function.outline.start for function in live.functions if f"@{function.model.name}" == name}
    return sorted(spans, key=lambda span: (span.line not in heads, span.line, span.column))


def definition_of(live: LiveModule, token: Token) -> Span | None:
    """Return the span that defines a token's value or function."""
    spans = spans_of(live, token)
    if token.text[:1] == "@" and not any(f"@{function.model.name}" == token.text for function in live.functions):
        return None
    return spans[0] if spans else None


def renamed(live: LiveModule, token: Token, new: str, path: Path | None) -> list[tuple[Span, str]]:
    """Return the edits that rename the value or function of a token. Raises RenameError."""
    if token.text[:1] == "@":
        return _renamed_function(live, token, new, path)
    value, function = value_of(token), token.function
    if value is None or function is None:
        raise RenameError(f"{token.text}: only values (%name) and functions (@name) can be renamed")
    if "#" in value.name or ":" in token.text:
        raise RenameError(f"{token.text}: is one of several results that share one name, so it cannot be renamed alone")
    if not (match := _NEW_NAME.match(new)):
        raise RenameError(f"{new}: a name is a letter followed by letters, digits and _ $ . -, or a number")
    name = f"%{match[1]}"
    if name != value.name and any(_uses(node, name) for node in function.every):
        raise RenameError(f"the name {name} is already used in @{function.model.name}")
    if name != value.name and any(argument.name == name for argument in function.model.args):
        raise RenameError(f"the name {name} is already used in @{function.model.name}")
    return [(span, name) for span in spans_of(live, token)]


def _uses(node: Node, name: str) -> bool:
    """Return whether a line may define or use a value; a cheap test that excludes most lines."""
    return name in node.names or (name in node.text and name in node.text.split())


def _renamed_function(live: LiveModule, token: Token, new: str, path: Path | None) -> list[tuple[Span, str]]:
    if not re.match(r"@?[A-Za-z_]\w*\Z", new, re.ASCII):
        raise RenameError(f"{new}: a function's name is a letter followed by letters, digits and _")
    name = f"@{new.removeprefix('@')}"
    if any(f"@{function.model.name}" == name for function in live.functions):
        raise RenameError(f"a function named {name} already exists")
    if path is not None and kernel_files(path, token.text[1:]):
        raise RenameError(
            f"{token.text} is a kernel, which wrapper, manifest and orchestration also name; it cannot be renamed here"
        )
    return [(span, name) for span in _symbol_spans(live, token.text)]


def kernel_files(module: Path, name: str) -> list[Path]:
    """Return the C++ files of a kernel whose module lies in an artifact's `ptoas/`."""
    return sorted(module.parent.parent.glob(f"kernels/*/{name}.cpp")) if module.parent.name == "ptoas" else []
