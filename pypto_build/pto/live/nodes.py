"""The statements of a function as they were read, kept from one text to the next where their lines are the same.

A leaf is one operation or a few. A block is an operation with regions. It is read without its regions, so that a key
inside a loop reads one line again and not the loop.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from ..errors import PtoError
from ..lexer import END
from ..model import Operation, Source
from ..parser import ModuleReader
from ..resolve import Problem, Value
from .outline import Statement

_SSA = re.compile(r"%[\w$.\-]+(?:#\d+)?")
_DEFINED = re.compile(r"^\s*(%[\w$.\-]+(?:\s*,\s*%[\w$.\-]+)*)\s*=(?!=)", re.MULTILINE)


@dataclass(eq=False, slots=True)
class Node:
    """One statement. `text` are its own lines, joined, and `rows` their numbers from `start`, the first.

    `operations` stand in its own lines: a leaf's outer operations, or a block's one. After resolving, `uses` has the
    names in the text with their values, `defines` the names left in scope, `summaries` the facts that others rely on.
    """

    start: int
    text: str
    rows: tuple[int, ...]
    source: Source
    operations: list[Operation]
    error: PtoError | None
    regions: list[list[Node]] = field(default_factory=list)
    is_block: bool = False
    names: tuple[str, ...] = ()
    fresh: bool = True  # not resolved yet
    unchecked: bool = True
    uses: dict[str, Value | None] = field(default_factory=dict)
    defines: dict[str, Value] = field(default_factory=dict)
    arguments: list[dict[str, Value]] = field(default_factory=list)  # of the regions of a block
    summaries: dict[str, object] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)  # names and types
    broken: list[Problem] = field(default_factory=list)  # checks of single operations
    resized: frozenset[int] = frozenset()
    kept: list[Operation] = field(default_factory=list)  # that defined a value before the text could not be read

    def line(self, row: int) -> int:
        """The number in the document of a line of the text, both from 0."""
        return self.start + self.rows[min(row, len(self.rows) - 1)]

    def place(self, token: int) -> tuple[int, int]:
        """The row in the text and the column of a token, from 0."""
        if token == 0 and self.text.lstrip(" ")[:1] in ("%", "p"):  # nearly all: no token before it is looked for
            return 0, len(self.text) - len(self.text.lstrip(" "))
        position = self.source.position(token)
        return max(position.line - 1, 0), max(position.column - 1, 0)

    def walk(self) -> Iterator[Node]:
        """The node, and all in its regions."""
        yield self
        for region in self.regions:
            for node in region:
                yield from node.walk()

    def own(self) -> Iterator[Operation]:
        """The operations whose text is the node's: of a leaf also those in regions that it holds itself."""
        for op in self.operations:
            yield op
            if not self.is_block:
                for region in op.regions:
                    yield from region.walk()

    def find_names(self) -> None:
        """Collect the names in the text."""
        defined = [name for op in self.own() for name in op.results]
        self.names = tuple(dict.fromkeys([*_SSA.findall(self.text), *defined]))

    def attach(self) -> None:
        """Give the operation of a block its current regions."""
        for region, nodes in zip(self.operations[0].regions if self.operations else (), self.regions, strict=False):
            region.ops = [op for node in nodes for op in node.operations]


class NodeReader:
    """Makes nodes of statements, out of the nodes that were there before wherever these say the same."""

    def __init__(self, path: str, lines: Sequence[str]) -> None:
        self.path, self.lines = path, lines
        self.dropped: list[Node] = []
        self.changed = False

    def nodes(self, statements: list[Statement], before: list[Node], depth: int) -> list[Node]:
        """The nodes of a region, in order. What is not used any more of `before` is in `dropped`."""
        first, last = 0, 0
        common = min(len(statements), len(before))
        while first < common and self.moved(statements[first], before[first], depth):
            first += 1
        while last < common - first and self.moved(statements[-1 - last], before[-1 - last], depth):
            last += 1
        middle = statements[first : len(statements) - last]
        replaced = before[first : len(before) - last]
        if not middle and not replaced:
            return before
        self.changed = True
        new = self.aligned(middle, replaced, depth)
        return [*before[:first], *new, *before[len(before) - last :]]

    def moved(self, statement: Statement, node: Node, depth: int) -> bool:
        """Return whether a node is that statement still, and move it there; the regions of a block may differ."""
        if bool(statement.spine) != node.is_block:
            return False
        if not node.is_block:
            if statement.end - statement.start != len(node.rows):
                return False
            if "\n".join(self.lines[statement.start : statement.end]) != node.text:
                return False
            node.start = statement.start
            return True
        if len(statement.regions) != len(node.regions) or self.spine(statement) != node.text:
            return False
        self.move(statement, node, depth)
        return True

    def spine(self, statement: Statement) -> str:
        return "\n".join(self.lines[at] for at in statement.spine)

    def move(self, statement: Statement, node: Node, depth: int) -> None:
        """Let a block be that statement, whose own lines say the same."""
        node.start = statement.start
        node.rows = tuple(at - statement.start for at in statement.spine)
        for number, inner in enumerate(statement.regions):
            kept = self.nodes(inner, node.regions[number], depth + 1)
            if kept is not node.regions[number]:
                node.regions[number] = kept
                node.unchecked = True
        node.attach()

    def aligned(self, statements: list[Statement], before: list[Node], depth: int) -> list[Node]:
        """Nodes of statements that replace those before: in a block whose own lines changed, the regions are kept."""
        blocks = [node for node in before if node.is_block]
        new = []
        for statement in statements:
            node = self.read(statement, depth)
            if node.is_block and blocks:
                old = next((b for b in blocks if len(b.regions) == len(node.regions)), None)
                if old is not None:
                    blocks.remove(old)
                    node.regions, old.regions = old.regions, []
                    self.take_over(node, old)
            if node.is_block:
                node.regions = [
                    self.nodes(inner, kept, depth + 1)
                    for inner, kept in zip(statement.regions, node.regions, strict=True)
                ]
                node.attach()
            new.append(node)
        self.dropped += [node for top in before for node in top.walk()]
        return new

    @staticmethod
    def take_over(node: Node, old: Node) -> None:
        """Keep the parts of a block whose own lines changed: its operation too, if they cannot be read."""
        node.arguments = old.arguments
        if not node.operations and old.operations:
            node.operations = [op_without_regions(old.operations[0])]

    def read(self, statement: Statement, depth: int) -> Node:
        """A statement read for the first time; the regions of a block are empty."""
        is_block = bool(statement.spine)
        numbers = statement.spine or range(statement.start, statement.end)
        text = "\n".join(self.lines[at] for at in numbers)
        source = Source(self.path, text)
        operations, error = read_operations(source, depth)
        regions: list[list[Node]] = [[] for _ in statement.regions]
        if is_block and error is not None and not operations:  # most often its brace is still to come
            operations, _ = read_operations(Source(self.path, f"{text}\n}}"), depth)
        if is_block and (len(operations) != 1 or len(operations[0].regions) != len(regions)):
            error = error or PtoError(source.position(0), "expected one operation")
            operations = []
        node = Node(statement.start, text, tuple(at - statement.start for at in numbers), source, operations, error)
        node.regions, node.is_block = regions, is_block
        node.find_names()
        return node


def op_without_regions(op: Operation) -> Operation:
    """The operation again, with regions of its own that are empty."""
    return replace(op, regions=tuple(replace(region, ops=[]) for region in op.regions))


def read_operations(source: Source, depth: int) -> tuple[list[Operation], PtoError | None]:
    """The operations of a text up to the first that cannot be read, and why not."""
    reader = ModuleReader(source)
    reader.depth = min(depth + 1, 60)
    operations: list[Operation] = []
    try:
        while reader.tokens[reader.at] != END:
            operations.append(reader.operation())
    except PtoError as error:
        return operations, error
    return operations, None


def defined_names(text: str) -> list[str]:
    """Return the names that a text, readable or not, seems to define."""
    return [name.strip() for match in _DEFINED.findall(text) for name in match.split(",")]
