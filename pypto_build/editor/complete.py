"""Completions at a position of a module: operations, values in scope, functions, types, attributes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from pypto_build.editor.symbols import Span
from pypto_build.pto.live.module import LiveFunction, LiveModule
from pypto_build.pto.live.nodes import Node
from pypto_build.pto.ops import TABLE
from pypto_build.pto.ops.meaning import what_it_does

_WORD = re.compile(r"[%@!#]?[\w$.\-]*\Z")
_NAMED = re.compile(r'"?([A-Za-z_]\w*\.[\w.]+)"?')


@dataclass(frozen=True)
class Proposal:
    """A text for a part of a line; `kind` is value, operation, function, type or attribute."""

    text: str
    kind: str
    detail: str
    span: Span


def proposals(live: LiveModule, line: int, column: int) -> list[Proposal]:
    """Return the completions of the word that ends at a column."""
    text = live.lines[line][:column]
    match = _WORD.search(text)
    word = match[0] if match else ""
    span = Span(line, column - len(word), column)
    function = next((f for f in live.functions if f.outline.start <= line < f.outline.end), None)
    if word[:1] == "%":
        rows = _values(function, line)
    elif word[:1] == "@":
        rows = ((f"@{f.model.name}", "function", f.model.kernel_kind) for f in live.functions if f.model.name)
    elif word[:1] == "!":
        types = {t: "" for row in live.lines for t in re.findall(r"![\w.]+(?:<[^<>]*>)?", row)}
        rows = ((name, "type", "") for name in types)
    elif "{" in text.rsplit("}", 1)[-1] and (named := _NAMED.search(text)) and named[1] in TABLE:
        rows = ((a.name, "attribute", " | ".join(a.cases) or a.kind) for a in TABLE[named[1]].attrs.values())
    else:
        rows = ((name, "operation", what_it_does(row)) for name, row in TABLE.items())
    return [Proposal(name, kind, detail, span) for name, kind, detail in rows if name.startswith(word)]


def _values(function: LiveFunction | None, line: int) -> Iterator[tuple[str, str, str]]:
    """The values that are in scope on a line."""
    if function is None or function.names is None:
        return
    for value in function.resolved.arguments:
        yield value.name, "value", str(value.type)
    yield from _of_region(function.nodes, line)


def _of_region(nodes: list[Node], line: int) -> Iterator[tuple[str, str, str]]:
    for node in nodes:
        if node.start >= line:
            return
        last = max((inner.start for region in node.regions for inner in region), default=node.start)
        if node.is_block and line <= max(last, node.start + node.rows[-1]):
            for arguments, region in zip(node.arguments, node.regions, strict=False):
                if region and region[0].start <= line:
                    yield from ((name, "value", str(value.type)) for name, value in arguments.items())
                    yield from _of_region(region, line)
        else:
            yield from ((name, "value", str(value.type)) for name, value in node.defines.items())
