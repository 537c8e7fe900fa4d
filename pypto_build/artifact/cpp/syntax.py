"""A thin layer over tree-sitter's C++ grammar: parse, and read off names, arguments and numbers."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from typing import NamedTuple

import tree_sitter_cpp
from tree_sitter import Language, Node, Parser

_INTEGER = re.compile(
    r"((?P<hex>0[xX][0-9a-fA-F]+)|(?P<binary>0[bB][01]+)|(?P<octal>0[0-7]*)|(?P<decimal>[1-9][0-9]*))[uUlLzZ]*\Z"
)
#: Bytes that are parsed at a time.
_PIECE = 1 << 16
#: Seconds of the processor for the parsing of a file, and more for each megabyte, which takes 0.3 s of generated code.
_LIMIT_S, _MORE_S = 1.0, 1.5
_LONGEST = 70  # characters; a 64-bit number in binary, with its suffix
# Brackets in each other, which the grammar's recovery goes through again and again and does not ask whether to go on.
_DEEPEST = 5000

#: Wrappers that name the same value: parentheses, references, attributes.
_DECLARATORS = (
    "init_declarator",
    "reference_declarator",
    "pointer_declarator",
    "array_declarator",
    "parenthesized_declarator",
    "attributed_declarator",
    "function_declarator",
)


class Unparseable(Exception):
    """The parser exceeds its time limit on a text: some texts need time quadratic in their length."""


class NestedTooDeeply(Exception):
    """Statements or expressions are nested too deeply to be followed; ``line`` is their position."""

    def __init__(self, line: int) -> None:
        super().__init__(line)
        self.line = line


def parse(text: bytes) -> Node:
    """Return the translation unit; unparsable parts become ERROR nodes. Raises `Unparseable`, `NestedTooDeeply`."""
    if sum(map(text.count, (b"(", b"[", b"{"))) > _DEEPEST:
        _require_shallow(text)
    parser = Parser(Language(tree_sitter_cpp.language()))
    _require_end(parser, text)
    return parser.parse(text).root_node


def _require_shallow(text: bytes) -> None:
    """Raise `NestedTooDeeply` if too many brackets are open at once, including brackets in comments and strings."""
    depth = 0
    for bracket in re.finditer(rb"[][(){}]", text):
        depth += 1 if bracket[0] in (b"(", b"[", b"{") else -1
        if depth > _DEEPEST:
            raise NestedTooDeeply(text.count(b"\n", 0, bracket.start()) + 1)


def _require_end(parser: Parser, text: bytes) -> None:
    """Parse the text in pieces under a time limit: only such a parse can be abandoned."""
    began = time.process_time()
    limit = _LIMIT_S + _MORE_S * len(text) / (1 << 20)

    def read(offset: int, _: object) -> bytes:
        return text[offset : offset + _PIECE]

    def takes_too_long(*_: object) -> bool:
        return time.process_time() - began > limit

    try:
        parser.parse(read, progress_callback=takes_too_long)
    except ValueError:
        raise Unparseable from None


def descend(root: Node) -> Iterator[Node]:
    """Yield ``root`` and all named nodes below it, in the order of the text."""
    stack = [root]
    while stack:
        node = stack.pop()
        yield node
        stack += reversed(node.named_children)


def source_text(node: Node) -> str:
    """Return the node as written."""
    return (node.text or b"").decode("utf-8", "replace")


def line_of(node: Node) -> int:
    """Return the 1-based line the node starts on."""
    return node.start_point[0] + 1


def integer(text: str) -> int | None:
    """Return the value of a C++ integer literal; None for any other text."""
    match = _INTEGER.match(text.strip().strip("()").replace("'", ""))
    if match is None or len(match[0]) > _LONGEST:
        return None
    base = next(base for base, group in ((16, "hex"), (2, "binary"), (8, "octal"), (10, "decimal")) if match[group])
    return int(match[1], base)


def declared_name(node: Node | None) -> str:
    """Return the name a declarator declares, through pointers, references, arrays and initialisers; empty if none."""
    while node is not None and node.type in _DECLARATORS:
        inner = node.child_by_field_name("declarator")
        node = inner if inner is not None else next(iter(node.named_children), None)
    if node is None or node.type not in ("identifier", "field_identifier", "type_identifier", "qualified_identifier"):
        return ""
    return source_text(node).rpartition("::")[2]


def callee(node: Node) -> tuple[str, Node | None]:
    """Return the last name of the called function (``rt_submit``, ``view``) and the object of a method call."""
    function = node.child_by_field_name("function")
    owner: Node | None = None
    if function is not None and function.type == "field_expression":
        owner = function.child_by_field_name("argument")
        function = function.child_by_field_name("field")
    while function is not None and function.type in ("template_function", "template_method", "qualified_identifier"):
        function = function.child_by_field_name("name")
    return (source_text(function) if function is not None else ""), owner


def template_arguments(node: Node) -> list[Node]:
    """Return the template arguments of a call, in order."""
    function = node.child_by_field_name("function")
    while function is not None:
        arguments = function.child_by_field_name("arguments")
        if arguments is not None and arguments.type == "template_argument_list":
            return list(arguments.named_children)
        function = function.child_by_field_name("field") or function.child_by_field_name("name")
    return []


def call_arguments(node: Node) -> list[Node]:
    """Return the arguments of a call, comments left out."""
    arguments = node.child_by_field_name("arguments")
    return [] if arguments is None else [child for child in arguments.named_children if child.type != "comment"]


class Loop(NamedTuple):
    """A loop's first and last line, and whether it has both an end condition and a step."""

    line: int
    last: int
    has_end: bool
    has_step: bool


_LOOPS = ("for_statement", "for_range_loop", "while_statement", "do_statement")
_STEP_OF_NOTHING = re.compile(r"\w+\s*[+-]=\s*0")


def loops(text: str) -> list[Loop]:
    """Return the loops of a text, outer before inner ones; none if it cannot be parsed."""
    try:
        nodes = [node for node in descend(parse(text.encode())) if node.type in _LOOPS]
    except (Unparseable, NestedTooDeeply):
        return []
    return [Loop(line_of(node), node.end_point[0] + 1, _has_end(node), _has_step(node)) for node in nodes]


def _has_end(node: Node) -> bool:
    condition = node.child_by_field_name("condition")
    text = source_text(condition).strip("() ") if condition is not None else ""
    return node.type == "for_range_loop" or text not in ("", "true", "1")


def _has_step(node: Node) -> bool:
    update = node.child_by_field_name("update")
    return node.type != "for_statement" or (update is not None and not _STEP_OF_NOTHING.fullmatch(source_text(update)))
