"""Reads a kernel's C++ file: its functions, and how `kernel_entry` unpacks its arguments and passes them on.

Facts: the wrappers that PyPTO writes around assembled kernels, of all vintages.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from tree_sitter import Node

from .syntax import NestedTooDeeply, Unparseable, call_arguments, callee, declared_name, descend, integer, parse
from .syntax import source_text as text_of

ENTRY = "kernel_entry"
#: Words that the grammar takes for types.
_QUALIFIERS = re.compile(r"\b(?:__gm__|__ubuf__|__aicore__|AICORE)\b")
_CORE = re.compile(r"\b(?:__aicore__|AICORE)\b")
_LAUNCH = {"get_block_idx": "block", "get_block_num": "blocks", "get_sub_block_id": "lane"}


@dataclass(frozen=True)
class Variable:
    """A variable of the entry, initialised from `args[slot]`, another variable (`source`), or an id of the launch.

    Its `kind` is `descriptor` for a pointer to a tensor, `tensor` for one to its elements, `scalar`, `extent` (of
    `axis`), `block`, `blocks` or `lane`. `ctype` is its type, empty for an assignment. `value` is its C++ expression.
    """

    name: str
    ctype: str
    value: str
    line: int
    kind: str
    slot: int = 0
    axis: int = 0
    source: str = ""

    @property
    def plain(self) -> str:
        """Return the name without the affixes that wrappers add."""
        return self.name.removesuffix("_tensor").removesuffix("_conv")


@dataclass(frozen=True)
class Unpacked:
    """One `args[slot]`. `ctype` is the element or scalar type, empty if the code does not tell."""

    slot: int
    kind: str
    name: str
    line: int
    ctype: str = ""
    uses_offset: bool = True


@dataclass(frozen=True)
class CppFunction:
    """A function with a body. `start` and `end` are the body's offsets; `name` has no namespaces."""

    name: str
    parameters: tuple[str, ...]
    line: int
    start: int
    end: int


class Call(NamedTuple):
    """A call that is a statement of its own."""

    name: str
    arguments: tuple[str, ...]
    line: int
    node: Node


class KernelFile:
    """The parsed file of a kernel; offsets count characters.

    A text that cannot be parsed has no functions. With `only_entry` the functions before the entry, which may be long,
    are not read.
    """

    def __init__(self, text: str, *, only_entry: bool = False) -> None:
        mention = max(text.find(ENTRY), 0) if only_entry else 0
        self._start = text.rfind("\n", 0, mention) + 1
        self._first_line = text.count("\n", 0, self._start)
        code = text[self._start :].encode("ascii", "replace").decode()
        self.functions: list[CppFunction] = []
        self.entry: CppFunction | None = None
        self._bodies: dict[str, Node] = {}
        with suppress(Unparseable, NestedTooDeeply):
            for node in descend(parse(_QUALIFIERS.sub(lambda match: " " * len(match[0]), code).encode())):
                if node.type == "function_definition" and (function := self._function(node)):
                    if function.name == ENTRY:
                        self.entry = function
                    elif _CORE.search(code, node.start_byte, node.start_byte + code[node.start_byte :].find("(")):
                        self.functions.append(function)
        self._assigned = list(_assignments(self._bodies[ENTRY])) if self.entry else []

    def _function(self, node: Node) -> CppFunction | None:
        declarator, body = node.child_by_field_name("declarator"), node.child_by_field_name("body")
        listed = declarator.child_by_field_name("parameters") if declarator is not None else None
        if declarator is None or body is None or listed is None:
            return None
        name, start = declared_name(declarator), self._start + body.start_byte
        parameters = tuple(declared_name(each.child_by_field_name("declarator")) for each in listed.named_children
                           if each.type != "comment")  # fmt: skip
        self._bodies[name] = body
        return CppFunction(name, parameters, self._line(node), start, start + body.end_byte - body.start_byte)

    def _line(self, node: Node) -> int:
        return self._first_line + node.start_point[0] + 1

    def calls(self) -> list[Call]:
        """Return the calls in the entry that are statements."""
        nodes = descend(self._bodies[ENTRY]) if self.entry else ()
        unpacked = (
            each.named_children[0] for each in nodes if each.type == "expression_statement" and each.named_children
        )
        return [
            Call(callee(node)[0], tuple(map(text_of, call_arguments(node))), self._line(node), node)
            for node in unpacked
            if node.type == "call_expression"
        ]

    @cached_property
    def variables(self) -> list[Variable]:
        """Return the variables of the entry that are derived from its arguments, in order."""
        names: dict[str, Variable] = {}
        for name, type_, value, node in self._assigned:
            if (origin := _origin(value, names)) is not None:
                names[name] = Variable(name, type_, text_of(value), self._line(node), *origin)
        return list(names.values())

    def slots(self) -> dict[int, str]:
        """Return, by argument index i, the name of the first variable that the entry initialises from `args[i]`."""
        own = [each for each in self.variables if each.kind in ("descriptor", "scalar") and not each.source]
        return {each.slot: each.plain for each in reversed(own)}

    def unpacked(self) -> list[Unpacked]:
        """Return the tensors and scalars that the entry takes from its arguments, by slot."""
        unpacked = []
        for each in self.variables:
            user = next((one for one in self.variables if one.source == each.name and one.kind != "extent"), None)
            ctype, value = (user.ctype, user.value) if user else ("", "start_offset")
            if each.kind == "descriptor":
                unpacked.append(Unpacked(each.slot, "tensor", each.plain, each.line, ctype, "start_offset" in value))
            elif each.kind == "scalar" and each.name.endswith("_conv"):
                unpacked.append(Unpacked(each.slot, "scalar", each.plain, each.line, ctype))
        return sorted(unpacked, key=lambda item: item.slot)

    def uses(self, slot: int) -> bool:
        """Return whether the code may use argument `slot`.

        Return False only if the code clearly does not use it. The entry unpacks the argument and passes it to the body
        by position; the body names its parameters.
        """
        calls = self.calls()
        names, nodes = set[str](), list[Node]()
        for name, _, value, node in self._assigned:
            if names & identifiers(value) or (not names and _slot(value) == slot):
                names.add(name)
                nodes.append(node)
        if self.entry is None or not names or not calls:
            return self.entry is None or bool(names)
        last = calls[-1]
        if names & identifiers(self._bodies[ENTRY], (*nodes, last.node)):
            return True
        positions = [at for at, argument in enumerate(call_arguments(last.node)) if names & identifiers(argument)]
        body = next((function for function in self.functions if function.name == last.name), None)
        if body is None:
            return bool(positions)
        used = identifiers(self._bodies[body.name])
        return any(at >= len(body.parameters) or body.parameters[at] in used for at in positions)


def identifiers(node: Node, without: tuple[Node, ...] = ()) -> set[str]:
    """Return the names of variables below a node, outside the subtrees ``without``."""
    unpacked, stack = set(), [node]
    while stack:
        one = stack.pop()
        if one in without:
            continue
        if one.type in ("identifier", "type_identifier"):  # `T name(a);` is taken for a function of a type a
            unpacked.add(text_of(one))
        stack += one.named_children
    return unpacked


def _assignments(body: Node) -> Iterator[tuple[str, str, Node, Node]]:
    """Yield the variables that get a value, members of unions under the union's name."""
    for node in descend(body):
        if node.type == "declaration":
            type_ = node.child_by_field_name("type")
            for declarator in node.children_by_field_name("declarator"):
                value = declarator.child_by_field_name("value")
                if value is not None:
                    yield declared_name(declarator), text_of(type_) if type_ else "", value, declarator
        elif node.type == "assignment_expression":
            left, value = node.child_by_field_name("left"), node.child_by_field_name("right")
            if left is not None and left.type == "field_expression":
                left = left.child_by_field_name("argument")
            if left is not None and left.type == "identifier" and value is not None:
                yield text_of(left), "", value, node


def _index(node: Node) -> int | None:
    listed = node.child_by_field_name("indices")
    return integer(text_of(listed).strip("[]")) if listed is not None else None


def _slot(value: Node) -> int | None:
    """Return the number of the argument that an expression reads."""
    for node in descend(value):
        owner = node.child_by_field_name("argument")
        if node.type == "subscript_expression" and owner is not None and text_of(owner) == "args":
            return _index(node)
    return None


def _origin(value: Node, names: dict[str, Variable]) -> tuple[str, int, int, str] | None:
    """Return kind, slot, axis and source of a variable that is initialised with this expression."""
    for node in descend(value):
        if node.type == "call_expression" and (kind := _LAUNCH.get(callee(node)[0])):
            return kind, 0, 0, ""
        owner = node.child_by_field_name("argument")
        if node.type != "field_expression" or owner is None or text_of(owner) not in names:
            continue
        of, member = names[text_of(owner)], text_of(node).rpartition("->")[2]
        if member.startswith(("buffer", "data_as")):
            return "tensor", of.slot, 0, of.name
        if member == "shapes" and node.parent is not None and node.parent.type == "subscript_expression":
            return "extent", of.slot, _index(node.parent) or 0, of.name
        if node == value:
            return of.kind, of.slot, of.axis, of.name
    slot = _slot(value)
    return None if slot is None else ("descriptor" if "Tensor" in text_of(value) else "scalar", slot, 0, "")
