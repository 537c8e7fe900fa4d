"""A text by itself: C++ or Python with fewer lines, as long as it ends in the same way.

Lines go in halves, quarters, … down to single ones, blocks as a whole or without what encloses them. As with
candidates of a run, endings are remembered in a log, and the order of trials depends on nothing but the text.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice

from pypto_build import terminal
from pypto_build.diagnose.reduce.search import Log, runs

#: What of a text may go: a candidate's lines.
Ways = Callable[[list[str]], Iterable[list[str]]]


class TextSearch:
    """Tries shorter texts. ``ending`` says in a line how one ends; what can be done for ``jobs`` of them at once,
    ``ahead`` does. Kept is what ends as ``wanted``."""

    def __init__(
        self, ending: Callable[[str], str], wanted: str, log: Log, jobs: int, ahead: Callable[[str], object]
    ) -> None:
        self._ending, self.wanted, self.log, self.jobs, self._ahead = ending, wanted, log, max(1, jobs), ahead
        self.tried = self.kept = self.remembered = 0
        terminal.show_progress(lambda: f"[reduce] {self.tried} tried")

    def holds(self, text: str) -> bool:
        """Whether a text ends in the same way."""
        return self._hold([text])[0]

    def _hold(self, texts: list[str]) -> list[bool]:
        """The same for several at once."""
        digests = [hashlib.sha256(text.encode()).hexdigest()[:32] for text in texts]
        new = {digest: text for digest, text in zip(digests, texts, strict=True) if digest not in self.log.known}
        self.remembered += len(set(digests)) - len(new)
        if len(new) > 1:
            with ThreadPoolExecutor(self.jobs) as pool:
                list(pool.map(self._ahead, new.values()))
        for digest, text in new.items():
            self.log.add(digest, self._ending(text))
        return [self.log.known[digest] == " ".join(self.wanted.split()) for digest in digests]

    def reduced(self, text: str, ways: Ways) -> str:
        """The shortest text that is come to from one that ends as wanted."""
        while (shorter := self._first(text, ways)) is not None:
            self.kept += 1
            text = shorter
        return text

    def _first(self, text: str, ways: Ways) -> str | None:
        """The first candidate that is kept; whatever the number of jobs, it is the same one."""
        candidates = _distinct(text, ways(text.splitlines()))
        while batch := list(islice(candidates, self.jobs)):
            for candidate, held in zip(batch, self._hold(batch), strict=True):
                self.tried += 1
                if held:
                    return candidate
        return None


def _distinct(text: str, candidates: Iterable[list[str]]) -> Iterator[str]:
    seen = {text}
    for lines in candidates:
        shorter = "\n".join(lines) + "\n" if lines else ""
        if shorter not in seen and _size(shorter) < _size(text):
            seen.add(shorter)
            yield shorter


def _size(text: str) -> int:
    """What there is to read: indentation and `pass` are nothing."""
    return sum(len(line.strip()) for line in text.splitlines() if line.strip() != "pass") + text.count("\n")


def fewer_lines(lines: list[str]) -> Iterator[list[str]]:
    """C++ without lines: half of them, a quarter, …, one; then without blocks, or without what encloses them."""
    for start, stop in runs(len(lines)):
        yield [*lines[:start], *lines[stop:]]
    for first, last in _blocks(lines):
        yield [*lines[:first], *lines[last + 1 :]]
        yield [*lines[:first], *lines[first + 1 : last], *lines[last + 1 :]]
    yield from ([*lines[:at], *lines[at + 2 :]] for at in range(len(lines) - 1))  # two that belong together


def _blocks(lines: list[str]) -> Iterator[tuple[int, int]]:
    """First and last lines of what stands between braces, or #if and #endif, the outer ones first."""
    found, opened, directives = [], [], []
    for at, line in enumerate(lines):
        if line.lstrip().startswith("#if"):
            directives.append(at)
        elif line.lstrip().startswith("#endif") and directives:
            found.append((directives.pop(), at))
        for char in line.partition("//")[0]:
            if char == "{":
                opened.append(at)
            elif char == "}" and opened:
                found.append((opened.pop(), at))
    yield from sorted((first, last) for first, last in found if last > first)


def fewer_statements(lines: list[str]) -> Iterator[list[str]]:
    """Python without statements: runs of them, halves first, then each; the only one of a body becomes `pass`."""
    try:
        tree = ast.parse("\n".join(lines))
    except (SyntaxError, ValueError, RecursionError):
        return
    for body in _bodies(tree):
        spans = [(_first_line(one), one.end_lineno or one.lineno) for one in body]
        for start, stop in runs(len(spans), max(len(spans) // 2, 1)):
            first, last = spans[start][0] - 1, spans[stop - 1][1]
            indent = lines[first][: len(lines[first]) - len(lines[first].lstrip())]
            instead = [f"{indent}pass"] if stop - start == len(spans) and indent else []
            yield [*lines[:first], *instead, *lines[last:]]
    yield from _opened(lines, tree)
    for at, line in enumerate(lines):  # comments, blank lines
        if not line.strip() or line.lstrip().startswith("#"):
            yield [*lines[:at], *lines[at + 1 :]]


def _opened(lines: list[str], tree: ast.AST) -> Iterator[list[str]]:
    """A statement without its `else`, and the body of one in its place."""
    for node in ast.walk(tree):
        if isinstance(node, ast.If | ast.For | ast.While | ast.Try | ast.With):
            body, first, last = node.body, node.lineno - 1, node.end_lineno or node.lineno
            end = body[-1].end_lineno or body[-1].lineno
            inner = lines[_first_line(body[0]) - 1 : end]
            indent = body[0].col_offset - node.col_offset
            if getattr(node, "orelse", []) and not isinstance(node, ast.Try):
                yield [*lines[:end], *lines[last:]]
            yield [*lines[:first], *(line[indent:] for line in inner), *lines[last:]]


def _bodies(tree: ast.AST) -> Iterator[list[ast.stmt]]:
    """Every sequence of statements, the outer ones first."""
    todo = [tree]
    while todo:
        node = todo.pop(0)
        for field in ("body", "orelse", "finalbody"):
            body = getattr(node, field, None)
            if isinstance(body, list) and body and isinstance(body[0], ast.stmt):
                yield body
                todo += body
        todo += getattr(node, "handlers", [])


def _first_line(statement: ast.stmt) -> int:
    decorators: list[ast.expr] = getattr(statement, "decorator_list", [])
    return min([statement.lineno, *(one.lineno for one in decorators)])
