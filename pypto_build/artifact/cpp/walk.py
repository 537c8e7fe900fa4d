"""Walks an orchestration's entry function, statement by statement, following helper functions and lambdas."""

from __future__ import annotations

import re
from collections.abc import Callable

from tree_sitter import Node

from .calls import TASK_ARGS_TYPE
from .expressions import evaluate, parameters_of
from .loops import counter
from .state import WalkState
from .syntax import NestedTooDeeply, declared_name, integer, line_of, source_text
from .values import UNKNOWN, Function, TaskArgs, Value, join

_MAX_DEPTH = 24
#: Statements and expressions inside of each other.
_MAX_NESTING = 220
#: Limit of visited statements and expressions, behind which calls are not followed: functions that call each other
#: several times are walked once for each call chain.
_MOST_STEPS = 1 << 17
_EXPRESSION_SUFFIXES = ("_expression", "_literal", "identifier")
_ARGUMENTS_TYPE = re.compile(r"\b\w*TaskArgs?\b|OrchArg\b|uint64_t\b")


class Walker(WalkState):
    """One walk: the functions it is in, and how far it may still go."""

    def __init__(self, root: Node) -> None:
        super().__init__()
        self.root = root
        self._active: list[Node] = []
        self._returns: list[list[Value]] = []
        self._in_loop = False
        self._nesting = 0
        self._steps = 0
        self._most_steps = max(_MOST_STEPS, 4 * root.descendant_count)

    def run(self, entry: str) -> bool:
        """Walks function ``entry``; false if there is none. Raises `NestedTooDeeply`."""
        self._globals(self.root)
        functions = self.lookup(entry).functions
        if not functions:
            return False
        arguments: list[Value] = []
        for parameter in functions[-1].parameters:
            text = source_text(parameter)
            is_entry = bool(_ARGUMENTS_TYPE.search(text))
            self.found.shares_slots |= is_entry and "*" in text
            arguments.append(Value(is_entry=is_entry, is_runtime="Runtime" in text))
        self.call(functions[-1], arguments, [])
        return True

    def value(self, node: Node | None) -> Value:
        if node is None:
            return UNKNOWN
        self._enter(node)
        value = evaluate(self, node)
        self._nesting -= 1
        return value

    def _enter(self, node: Node) -> None:
        self._steps += 1
        self._nesting += 1
        if self._nesting > _MAX_NESTING:
            raise NestedTooDeeply(line_of(node))

    def call(self, function: Function, arguments: list[Value], template: list[Value]) -> Value:
        if function.body in self._active or len(self._active) >= _MAX_DEPTH or self._steps > self._most_steps:
            return join([argument.as_part() for argument in arguments])
        names = [declared_name(parameter.child_by_field_name("declarator")) for parameter in function.parameters]
        local = dict(zip(function.template_names, template, strict=False)) | dict(zip(names, arguments, strict=False))
        for name, parameter in zip(names, function.parameters, strict=True):
            if name not in local:
                local[name] = self.value(parameter.child_by_field_name("default_value"))
        outer, self.scopes = self.scopes, [*function.scopes, local]
        self._active.append(function.body)
        self._returns.append([])
        try:
            self.statement(function.body)
            return join(self._returns[-1])
        finally:
            self._returns.pop()
            self._active.pop()
            self.scopes = outer

    # -- definitions at file level ------------------------------------------------------------------------------

    def _globals(self, node: Node, template_names: tuple[str, ...] = ()) -> None:
        self._enter(node)
        for child in node.named_children:
            if child.type == "preproc_def":
                self._macro(child)
            elif child.type == "function_definition":
                self._define_function(child, template_names)
            elif child.type in ("declaration", "enum_specifier"):
                self.statement(child)
            elif child.type == "template_declaration":
                listed = child.child_by_field_name("parameters")
                parameters = listed.named_children if listed is not None else []
                self._globals(child, tuple(declared_name(p.child_by_field_name("declarator")) for p in parameters))
            elif child.type not in ("comment", "preproc_include", "preproc_function_def"):
                self._globals(child)
        self._nesting -= 1

    def _macro(self, node: Node) -> None:
        name, body = node.child_by_field_name("name"), node.child_by_field_name("value")
        if name is None or body is None:
            return
        text = re.sub(r"/[/*].*", "", source_text(body)).strip()
        number = integer(text)
        self.scopes[-1][source_text(name)] = self.lookup(text) if number is None else Value.number(number)

    def _define_function(self, node: Node, template_names: tuple[str, ...]) -> None:
        declarator, body = node.child_by_field_name("declarator"), node.child_by_field_name("body")
        while declarator is not None and declarator.type != "function_declarator":
            declarator = declarator.child_by_field_name("declarator") or next(iter(declarator.named_children), None)
        if declarator is None or body is None:
            return
        name = declared_name(declarator)
        function = Function(parameters_of(declarator), body, template_names, tuple(self.scopes))
        self.scopes[-1][name] = Value(functions=(*self.lookup(name).functions, function))

    # -- statements ---------------------------------------------------------------------------------------------

    def statement(self, node: Node) -> None:
        """Walks one statement of any kind; kinds without a meaning of their own are walked through."""
        handler = _STATEMENTS.get(node.type)
        if handler is None and node.type.endswith(_EXPRESSION_SUFFIXES):
            self.value(node)
            return
        self._enter(node)
        if handler is not None:
            handler(self, node)
        else:
            self.each(node)
        self._nesting -= 1

    def each(self, node: Node) -> None:
        for child in node.named_children:
            self.statement(child)

    def _block(self, node: Node) -> None:
        with self.scope():
            self.each(node)

    def _part(self, node: Node, field: str) -> None:
        """Walks a part of a statement, if it has it."""
        child = node.child_by_field_name(field)
        if child is not None:
            self.statement(child)

    def _scope_macro(self, node: Node) -> None:
        """``PTO2_SCOPE(...) {`` looks like a nested function definition to the grammar."""
        self._part(node, "body")

    def _return(self, node: Node) -> None:
        values = [self.value(child) for child in node.named_children]
        if self._returns:  # a damaged file has some outside of functions
            self._returns[-1] += values

    def _loop(self, node: Node) -> None:
        outermost, self._in_loop = not self._in_loop, True
        with self.scope():
            for _ in range(2 if outermost else 1):
                for field in ("initializer", "condition", "update"):
                    self._part(node, field)
                self.scopes[-1].update(counter(self, node))
                self._part(node, "body")
        if outermost:
            self._in_loop = False

    def _range_loop(self, node: Node) -> None:
        name = declared_name(node.child_by_field_name("declarator"))
        with self.scope():
            self.scopes[-1][name] = self.value(node.child_by_field_name("right")).element(None)
            self._part(node, "body")

    def _declaration(self, node: Node) -> None:
        type_node = node.child_by_field_name("type")
        type_text = source_text(type_node) if type_node is not None else ""
        if type_node is not None and type_node.type == "enum_specifier":
            self._enumeration(type_node)
        for declarator in node.children_by_field_name("declarator"):
            name = declared_name(declarator)
            value = self._initial(declarator)
            if TASK_ARGS_TYPE.match(type_text) and value.args is None:
                value = Value(args=TaskArgs())
            self.found.name(name, type_text, value)
            self.scopes[-1][name] = value

    def _initial(self, declarator: Node) -> Value:
        """The value a declaration gives; ``Tensor t(x);`` looks like a function declaration to the grammar."""
        if declarator.type == "function_declarator":
            return join([self.lookup(source_text(parameter)) for parameter in parameters_of(declarator)])
        return self.value(declarator.child_by_field_name("value"))

    def _enumeration(self, node: Node) -> None:
        following: int | None = 0
        body = node.child_by_field_name("body")
        for item in body.named_children if body is not None else []:
            name, initializer = item.child_by_field_name("name"), item.child_by_field_name("value")
            number = following if initializer is None else self.value(initializer).single
            if name is not None and number is not None:
                self.scopes[-1][source_text(name)] = Value.number(number)
                following = number + 1


def _skip(walker: Walker, node: Node) -> None:
    """Says nothing about values."""


_STATEMENTS: dict[str, Callable[[Walker, Node], None]] = {
    "compound_statement": Walker._block,
    "function_definition": Walker._scope_macro,
    "declaration": Walker._declaration,
    "enum_specifier": Walker._enumeration,
    "return_statement": Walker._return,
    "for_statement": Walker._loop,
    "while_statement": Walker._loop,
    "do_statement": Walker._loop,
    "for_range_loop": Walker._range_loop,
    "comment": _skip,
}
