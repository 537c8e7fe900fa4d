"""Resolves the statements of a function again after a change, only where something changed."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from ..errors import PtoError
from ..model import END, Function, Module, Operation, Source
from ..ops import TABLE
from ..parser import ModuleReader
from ..resolve import Problem, Resolved, Resolver, Value
from .outline import Statement

# The statements of a function as they were read, kept from one text to the next where their lines are the same.
# A leaf is one operation or a few. A block is an operation with regions. It is read without its regions, so that a
# key inside a loop reads one line again and not the loop.

_SSA = re.compile(r"%[\w$.\-]+(?:#\d+)?")
_DEFINED = re.compile(r"^\s*(%[\w$.\-]+(?:\s*,\s*%[\w$.\-]+)*)\s*=(?!=)", re.MULTILINE)


@dataclass(eq=False, slots=True)
class Node:
    """One statement.

    `text` is the text of its own lines, and `rows` their numbers relative to `start`, the first. `operations` are the
    operations on these lines, without nested ones; a block has a single one. After resolving, `uses` has the names in
    the text with their values, `defines` the names left in scope, `summaries` the facts that other nodes rely on.
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
        """Return the document line of a line of the text, both from 0."""
        return self.start + self.rows[min(row, len(self.rows) - 1)]

    def place(self, token: int) -> tuple[int, int]:
        """Return the row in the text and the column of a token, from 0."""
        if token == 0 and self.text.lstrip(" ")[:1] in ("%", "p"):  # nearly all: no token before it is looked for
            return 0, len(self.text) - len(self.text.lstrip(" "))
        position = self.source.position(token)
        return max(position.line - 1, 0), max(position.column - 1, 0)

    def walk(self) -> Iterator[Node]:
        """Yield the node, and all nodes in its regions."""
        yield self
        for region in self.regions:
            for node in region:
                yield from node.walk()

    def own(self) -> Iterator[Operation]:
        """Yield the operations in the node's own text; for a leaf, also those in its regions."""
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
    """Creates nodes for statements, reusing earlier nodes with the same text."""

    def __init__(self, path: str, lines: Sequence[str]) -> None:
        self.path, self.lines = path, lines
        self.dropped: list[Node] = []
        self.changed = False

    def nodes(self, statements: list[Statement], before: list[Node], depth: int) -> list[Node]:
        """Return the nodes of a region, in order. Unused nodes of `before` are added to `dropped`."""
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
        """Return whether a node still has the text of a statement, and move the node there; the regions of a block
        may differ.
        """
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
        """Move a block to a statement with the same own lines."""
        node.start = statement.start
        node.rows = tuple(at - statement.start for at in statement.spine)
        for number, inner in enumerate(statement.regions):
            kept = self.nodes(inner, node.regions[number], depth + 1)
            if kept is not node.regions[number]:
                node.regions[number] = kept
                node.unchecked = True
        node.attach()

    def aligned(self, statements: list[Statement], before: list[Node], depth: int) -> list[Node]:
        """Return nodes for replaced statements: a block whose own lines changed keeps its regions."""
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
        """Reuse the regions of a block whose own lines changed, and its operation if the new lines cannot be parsed."""
        node.arguments = old.arguments
        if not node.operations and old.operations:
            node.operations = [op_without_regions(old.operations[0])]

    def read(self, statement: Statement, depth: int) -> Node:
        """Parse a new statement; the regions of a block are empty."""
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
    """Return a copy of the operation with empty regions."""
    return replace(op, regions=tuple(replace(region, ops=[]) for region in op.regions))


def read_operations(source: Source, depth: int) -> tuple[list[Operation], PtoError | None]:
    """Return the operations of a text up to the first invalid one, and its error."""
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


Scope = dict[str, Value]


class UnknownValue(Value):
    """A value that an unreadable statement seems to define; its uses are not checked."""


@dataclass(frozen=True, slots=True)
class _Earlier:
    """A value of a removed statement, its summary, and the operands of its operation."""

    value: Value
    summary: object
    operands: dict[str, tuple[Value, ...]]


_MISSING = object()


def summary(resolved: Resolved, value: Value) -> object:
    """Return the facts of a value that checks of other operations read: its type, and its definition's constants."""
    if value.op is None:
        return (value.type, value.constant, value.is_argument)
    constants = tuple(
        (role, tuple(one.constant for one in values))
        for role, values in resolved.operands_of.get(id(value.op), {}).items()
    )
    return (value.type, value.constant, value.op.name, constants)


class LiveResolver:
    """The resolved names of one function. `resolved` is the object that checks read; it is updated in place."""

    def __init__(self, function: Function, module: Module) -> None:
        self.resolver = Resolver(function, module)
        self.resolved = self.resolver.out
        self.scope: Scope = {}
        self.owner: dict[int, Node] = {}
        self.earlier: dict[str, _Earlier] = {}
        self.argument_problems: list[Problem] = []
        self.touched: set[int] = set()  # values whose summary changed in this run
        self.resolved_anew = 0  # statements, in the last run
        self.is_pending = False  # statements that say the same are still resolved as in the text before
        self._until = math.inf

    def of(self, function: Function, module: Module) -> None:
        """Set the current function; unchanged arguments stay the same objects."""
        self.resolved.function = function
        self.resolver.callees = {f.name: f for f in module.functions()}
        before = {value.name: value for value in self.resolved.arguments}
        arguments = []
        for number, argument in enumerate(function.args):
            value = before.get(argument.name)
            if value is None or (value.type, value.number) != (argument.type, number):
                value = Value(argument.name, argument.type, None, number, is_argument=True)
            arguments.append(value)
        self.resolved.arguments = tuple(arguments)

    def _forget(self, node: Node) -> None:
        for op in node.kept:
            self.resolved.operands_of.pop(id(op), None)
        node.kept = []
        for op in node.own():
            self.owner.pop(id(op), None)
            self.resolved.operands_of.pop(id(op), None)
            self.resolved.results_of.pop(id(op), None)
            for region in op.regions:
                self.resolved.region_args.pop(id(region), None)

    def run(self, nodes: list[Node], dropped: Iterable[Node], until: float = math.inf) -> None:
        """Resolve the changes, after statements were `dropped`.

        A new value of the same type as its predecessor becomes the same object, so that its users need not be resolved
        again. They are checked again if its `summary` changed. Unchanged statements that use another value now are left
        from the time `until` on, by `time.perf_counter`: the next run goes on with them.
        """
        self.is_pending, self._until = False, until
        gone = list(dropped)
        self.scope, self.resolved_anew, self.touched = {}, 0, set()
        self.earlier = {}
        for node in gone:
            self._remember(node)
        for node in gone:
            self._forget(node)
        self.resolved.problems = []
        for value in self.resolved.arguments:
            self.resolver.define(value, self.scope, None)
        self.argument_problems = list(self.resolved.problems)
        self._region(nodes)

    def _region(self, nodes: list[Node]) -> None:
        scope = self.scope
        for node in nodes:
            if node.fresh or any(scope.get(name) is not value for name, value in node.uses.items()):
                if node.fresh or not self._is_late():
                    self._resolve(node)
            elif self.touched and any(id(value) in self.touched for value in node.uses.values()):
                self._touch(node)
            if node.is_block:
                for number, inner in enumerate(node.regions):
                    arguments = node.arguments[number] if number < len(node.arguments) else {}
                    self._inner(arguments, inner)
            scope.update(node.defines)

    def _is_late(self) -> bool:
        if self.resolved_anew and not self.is_pending:  # one at least in each run
            self.is_pending = time.perf_counter() > self._until
        return self.is_pending

    def _inner(self, arguments: Scope, nodes: list[Node]) -> None:
        """Resolve a region; its definitions go out of scope at its end."""
        scope = self.scope
        before: dict[str, object] = {name: scope.get(name, _MISSING) for name in arguments}
        for node in nodes:
            for name in node.defines if not node.fresh else node.names:
                before.setdefault(name, scope.get(name, _MISSING))
        scope.update(arguments)
        self._region(nodes)
        for name, value in before.items():
            if isinstance(value, Value):
                scope[name] = value
            else:
                scope.pop(name, None)

    def _touch(self, node: Node) -> None:
        """Mark a node for a new check, because a value that it uses may have other facts."""
        node.unchecked = True
        for op in node.own():
            results = self.resolved.results_of[id(op)]
            if len(results) == 1:
                results[0].constant = self.resolver.constant(op, self.resolved.operands_of[id(op)])
        for name, value in node.defines.items():
            now = summary(self.resolved, value)
            if now != node.summaries.get(name):
                node.summaries[name] = now
                self.touched.add(id(value))

    # --- one statement -------------------------------------------------------------------------------------------

    def _resolve(self, node: Node) -> None:
        self.resolved_anew += 1
        scope, resolver = self.scope, self.resolver
        self._remember(node)
        for arguments in node.arguments:
            for name, value in arguments.items():
                self.earlier.setdefault(name, _Earlier(value, summary(self.resolved, value), {}))
        self._forget(node)
        node.uses = {name: scope.get(name) for name in node.names}
        local = {name: value for name, value in node.uses.items() if value is not None}
        resolver.out.problems = node.problems = []
        if node.is_block:
            self._block(node, local)
        else:
            for op in node.operations:
                resolver.operation(op, local)
        for op in node.own():
            self.owner[id(op)] = node
        node.defines = {value.name: value for op in node.operations for value in self.resolved.results_of[id(op)]}
        self._same_objects(node)
        if node.error is not None:
            self._defined_by_broken(node)
        node.resized = frozenset(
            id(value)
            for op in node.own()
            if op.name == "pto.set_validshape"
            for value in self.resolved.values(op, "tile")
        )
        node.fresh, node.unchecked = False, True

    def _block(self, node: Node, local: Scope) -> None:
        """Resolve the operation of a block: its operands, region arguments and yields."""
        if not node.operations:
            unknown = {name: self._earlier(name, node) for name in node.names if name not in local}
            node.arguments = [unknown for _ in node.regions]
            return
        op = node.operations[0]
        self.resolver.operands(op, local)
        node.arguments = []
        for region in op.regions:
            self.resolver.region_arguments(op, region, dict(local))
            values = tuple(self._as_before(value) for value in self.resolved.region_args[id(region)])
            self.resolved.region_args[id(region)] = values
            node.arguments.append({value.name: value for value in values})
        self.resolver.results(op, local)

    def _remember(self, node: Node) -> None:
        for name, value in node.defines.items():
            operands = self.resolved.operands_of.get(id(value.op), {})
            self.earlier.setdefault(name, _Earlier(value, node.summaries.get(name), operands))

    def _earlier(self, name: str, node: Node) -> Value:
        """Return the previous value of that name, for a statement that cannot be parsed; else a value of unknown
        type.
        """
        earlier = self.earlier.pop(name, None)
        if earlier is None:
            return UnknownValue(name, None)
        node.summaries[name] = earlier.summary
        if earlier.value.op is not None:
            self.resolved.operands_of[id(earlier.value.op)] = earlier.operands
            node.kept.append(earlier.value.op)
        return earlier.value

    def _as_before(self, value: Value) -> Value:
        """Return the previous value of that name if it has the same type.

        It is `touched` if a fact changed that other nodes may rely on.
        """
        earlier = self.earlier.get(value.name)
        if earlier is None or earlier.value is value:
            return value
        if earlier.value.type != value.type:
            return value
        old = self.earlier.pop(value.name).value  # for one statement only
        old.op, old.number, old.constant, old.is_argument = value.op, value.number, value.constant, value.is_argument
        if earlier.summary != summary(self.resolved, old):
            self.touched.add(id(old))
        return old

    def _same_objects(self, node: Node) -> None:
        """Replace new values by the equal earlier objects."""
        kept = {id(value): old for value in node.defines.values() if (old := self._as_before(value)) is not value}
        node.summaries = {name: summary(self.resolved, value) for name, value in node.defines.items()}
        if not kept:
            return
        node.defines = {name: kept.get(id(value), value) for name, value in node.defines.items()}
        for op in node.own():
            results = self.resolved.results_of[id(op)]
            self.resolved.results_of[id(op)] = tuple(kept.get(id(value), value) for value in results)
            if len(node.operations) > 1:
                operands = self.resolved.operands_of[id(op)]
                self.resolved.operands_of[id(op)] = {
                    role: tuple(kept.get(id(value), value) for value in values) for role, values in operands.items()
                }

    def _defined_by_broken(self, node: Node) -> None:
        """Define the names that an unparsable statement seems to define: as before, or of unknown type."""
        for name in defined_names(node.text):
            if name not in node.defines and not (node.is_block and name in node.uses and node.uses[name]):
                node.defines[name] = self._earlier(name, node)


def calls(node: Node) -> bool:
    """Return whether the node depends on the parameters of other functions."""
    return any(TABLE[op.name].fn == "call" for op in node.own())
