"""Findings on one kernel's text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from tree_sitter import Node

from pypto_build.artifact.cpp.syntax import (
    NestedTooDeeply,
    Unparseable,
    call_arguments,
    callee,
    line_of,
    parse,
    source_text,
)
from pypto_build.facts.broken_rules import BrokenRule
from pypto_build.pto.ops.constraints import Constraint, Facts
from pypto_build.pto.ops.device import constrained, constraints

from .flags import Balance, joined, step_of, unbalanced
from .operands import bound
from .tiles import Names, declared_tile, resized

_DEEPEST = 200  # statements in each other


def check_kernel(text: bytes, path: str, arch: str) -> list[BrokenRule]:
    """Return the broken rules of the platform, in the order of the lines; none for a text that cannot be parsed."""
    try:
        root = parse(text)
    except (Unparseable, NestedTooDeeply):
        return []
    broken: dict[BrokenRule, None] = {}
    for function in _functions(root):
        broken |= dict.fromkeys(_Walk(path, arch).function(function))
    return sorted(broken, key=lambda one: (one.line, one.message))


@dataclass(frozen=True)
class OpenCall:
    """A call of a kernel with rules that only a run decides, since extents or addresses are not constant."""

    line: int
    name: str
    text: str
    facts: Facts
    constraints: tuple[Constraint, ...]


def open_calls(text: bytes, arch: str) -> list[OpenCall]:
    """Return the calls of a kernel's text with rules that only a run decides."""
    try:
        root = parse(text)
    except (Unparseable, NestedTooDeeply):
        return []
    calls = []
    for function in _functions(root):
        walk = _Walk("", arch)
        walk.function(function)
        calls += walk.open
    return calls


def preload_rules() -> None:
    """Compile all rules ahead, for processes that are forked."""
    for name in constrained():
        for constraint in constraints(name):
            assert constraint.compiles, constraint.text


def _functions(root: Node) -> Iterator[Node]:
    stack = [root]
    while stack:
        node = stack.pop()
        if node.type == "function_definition":
            yield node
        elif node.type in ("translation_unit", "linkage_specification", "declaration_list", "namespace_definition") or (
            node.type.startswith("preproc") or node.type == "ERROR"
        ):
            stack += reversed(node.named_children)


class _Walk:
    """One function: variables as they are declared, instructions as they come."""

    def __init__(self, path: str, arch: str) -> None:
        self.path, self.arch = path, arch
        self.names = Names()
        self.found: list[BrokenRule] = []
        self.freed: dict[str, int] = {}  # popped tile -> line of the free
        self.popped: dict[str, list[str]] = {}  # pipe -> tiles in slots, the oldest first
        self.open: list[OpenCall] = []

    def function(self, node: Node) -> list[BrokenRule]:
        body = node.child_by_field_name("body")
        if body is not None:
            self.names.resized = resized(source_text(body))
            balance = self.statement(body, 0)
            for line, rule, message in unbalanced(balance):
                self.found.append(BrokenRule(self.path, line, rule, message))
        return self.found

    def statement(self, node: Node, depth: int) -> Balance:
        """Look at a statement and those within, in text order."""
        if depth > _DEEPEST:
            return Balance()
        if node.type == "declaration":
            declared_tile(self.names, node)
            return Balance()
        if node.type == "alias_declaration":
            self._alias(node)
            return Balance()
        if node.type == "call_expression":
            return self._call(node)
        parts = []
        for child in node.named_children:
            if child.type in ("compound_statement", "else_clause"):  # a free counts for its own block
                popped, freed = dict(self.popped), dict(self.freed)
                parts.append(self.statement(child, depth + 1))
                self.popped, self.freed = popped, freed
            elif child.type != "comment":
                parts.append(self.statement(child, depth + 1))
        return joined(_branches(node, parts), node)

    def _alias(self, node: Node) -> None:
        name, type_ = node.child_by_field_name("name"), node.child_by_field_name("type")
        if name is not None and type_ is not None:
            self.names.aliases[source_text(name)] = source_text(type_)

    def _call(self, node: Node) -> Balance:
        name, _ = callee(node)
        arguments = [source_text(argument) for argument in call_arguments(node)]
        balance = Balance()
        if step := step_of(name, arguments, node):
            key, change, where = step
            balance.open, balance.last = Counter({key: change}), {key: where}
        if name == "TASSIGN" and len(arguments) == 2:
            self.names.assign(arguments[0], arguments[1])
        elif name == "TRESHAPE" and len(arguments) == 2:
            self._reshape(*arguments)
        else:
            self._pipe(name, arguments)
            self._uses(name, arguments, node)
            self._rules(name, arguments, node)
        return balance

    def _reshape(self, dst: str, src: str) -> None:
        if dst in self.names.tiles and src in self.names.tiles:
            self.names.tiles[dst].address = self.names.tiles[src].address

    def _pipe(self, name: str, arguments: list[str]) -> None:
        if name == "TPOP" and len(arguments) == 2:
            self.popped[arguments[0]] = [*self.popped.get(arguments[0], []), arguments[1]]
            self.freed.pop(arguments[1], None)
        elif name == "TFREE" and arguments and self.popped.get(arguments[0]):
            oldest, *others = self.popped[arguments[0]]
            self.popped[arguments[0]] = others
            self.freed[oldest] = 1

    def _uses(self, name: str, arguments: list[str], node: Node) -> None:
        for argument in arguments if name not in ("TFREE", "TPOP") else ():
            if self.freed.pop(argument, None):
                message = f"{name} uses {argument} behind the TFREE that gave its slot back"
                self.found.append(BrokenRule(self.path, line_of(node), "order", message))

    def _rules(self, name: str, arguments: list[str], node: Node) -> None:
        operation = bound(self.names, name, arguments, source_text(node))
        if operation is None:
            return
        row, facts = operation
        text, undecided = f"{name}({', '.join(arguments)})", []
        for constraint in constraints(row.name):
            if constraint.is_for_modules or constraint.arch not in ("both", self.arch):
                continue
            broken = constraint.judge(facts)
            if broken:
                message = f"{text} {constraint.explain(facts)}"
                self.found.append(BrokenRule(self.path, line_of(node), constraint.kind, message))
            elif broken is None:
                undecided.append(constraint)
        if undecided:
            self.open.append(OpenCall(line_of(node), name, text, facts, tuple(undecided)))


def _branches(node: Node, parts: list[Balance]) -> list[Balance]:
    """Return what the branches of a condition leave, the condition itself left out."""
    if node.type != "if_statement":
        return parts
    inside = ("consequence", "alternative")
    fields = [child for name in inside if (child := node.child_by_field_name(name)) is not None]
    numbers = [number for number, child in enumerate(c for c in node.named_children if c.type != "comment")
               if child in fields]  # fmt: skip
    return [parts[number] for number in numbers]
