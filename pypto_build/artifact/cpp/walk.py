"""Walks an orchestration's entry function, statement by statement, following helper functions and lambdas."""

from __future__ import annotations

import re
from collections.abc import Callable

import msgspec
from tree_sitter import Node

from .calls import FUNCTIONS, METHODS, PLAIN_FIELDS, TASK_ARGS_TYPE, decoded
from .findings import WalkState
from .syntax import (
    NestedTooDeeply,
    call_arguments,
    callee,
    declared_name,
    integer,
    line_of,
    source_text,
    template_arguments,
)
from .values import UNKNOWN, Function, TaskArgs, Value, join

# Evaluates C++ expressions: one small function for each kind that orchestrations use.

_PARAMETERS = ("parameter_declaration", "optional_parameter_declaration")
_NUMBER_BITS = 64  # of the longest number that C++ has
_ARITHMETIC: dict[str, Callable[[int, int], int]] = {
    "+": lambda left, right: left + right,
    "-": lambda left, right: left - right,
    "*": lambda left, right: left * right,
}


def evaluate(walk: WalkState, node: Node) -> Value:
    """Return the possible values of expression ``node``; an unsupported kind is searched for calls."""
    handler = _EXPRESSIONS.get(node.type)
    if handler is not None:
        return handler(walk, node)
    walk.each(node)
    return UNKNOWN


def parameters_of(declarator: Node | None) -> list[Node]:
    """Return the parameter declarations of a function or lambda declarator."""
    listed = declarator.child_by_field_name("parameters") if declarator is not None else None
    return [child for child in listed.named_children if child.type in _PARAMETERS] if listed is not None else []


def _call(walk: WalkState, node: Node) -> Value:
    name, owner = callee(node)
    arguments = [walk.value(argument) for argument in call_arguments(node)]
    if owner is not None:
        method = METHODS.get(name)
        value = walk.value(owner)
        return method(walk, node, value, arguments) if method is not None else UNKNOWN
    function = FUNCTIONS.get(name)
    if function is not None:
        return function(walk, node, arguments)
    functions = walk.lookup(name).functions
    if functions:
        template = [walk.value(argument) for argument in template_arguments(node)]
        fitting = next((f for f in functions if len(f.parameters) >= len(arguments)), functions[0])
        return walk.call(fitting, arguments, template)
    # A function that is not in this file may return a view of anything it was given.
    return join([argument.as_part() for argument in arguments])


def _identifier(walk: WalkState, node: Node) -> Value:
    return walk.lookup(source_text(node).rpartition("::")[2])


def _number(walk: WalkState, node: Node) -> Value:
    number = integer(source_text(node))
    return UNKNOWN if number is None else Value.number(number)


def _unary(walk: WalkState, node: Node) -> Value:
    number = walk.value(node.child_by_field_name("argument")).single
    if number is None or source_text(node)[0] not in "+-":
        return UNKNOWN
    return Value.number(-number if source_text(node)[0] == "-" else number)


def _binary(walk: WalkState, node: Node) -> Value:
    left = walk.value(node.child_by_field_name("left")).single
    right = walk.value(node.child_by_field_name("right")).single
    sign = node.child_by_field_name("operator")
    operation = _ARITHMETIC.get(source_text(sign)) if sign is not None else None
    if operation is None or left is None or right is None:
        return UNKNOWN
    result = operation(left, right)
    return Value.number(result) if result.bit_length() <= _NUMBER_BITS else UNKNOWN


def _conditional(walk: WalkState, node: Node) -> Value:
    walk.value(node.child_by_field_name("condition"))
    return join([walk.value(node.child_by_field_name(branch)) for branch in ("consequence", "alternative")])


def _members(walk: WalkState, node: Node) -> Value:
    items = tuple(walk.value(child) for child in node.named_children if child.type != "comment")
    value = join(items, exact=True)
    return msgspec.structs.replace(value, items=items) if node.type == "initializer_list" and len(items) > 1 else value


def _inner(walk: WalkState, node: Node) -> Value:
    child = node.child_by_field_name("argument") or node.child_by_field_name("value")
    return walk.value(child or next(iter(node.named_children), None))


def _cast(walk: WalkState, node: Node) -> Value:
    value, target = walk.value(node.child_by_field_name("value")), node.child_by_field_name("type")
    return decoded(walk, value, source_text(target)) if target is not None else value


def _field(walk: WalkState, node: Node) -> Value:
    field = node.child_by_field_name("field")
    if field is not None and source_text(field) in PLAIN_FIELDS:
        return UNKNOWN
    return walk.value(node.child_by_field_name("argument"))


def _subscript(walk: WalkState, node: Node) -> Value:
    owner = walk.value(node.child_by_field_name("argument"))
    index = walk.value(node.child_by_field_name("indices"))
    if owner.is_entry:
        slots = walk.findings.slots(node, index.numbers)
        walk.findings.scalar_slots |= slots
        return Value(slots=slots)
    return owner.element(index.single)


def _assignment(walk: WalkState, node: Node) -> Value:
    left, sign = node.child_by_field_name("left"), node.child_by_field_name("operator")
    value = walk.value(node.child_by_field_name("right"))
    if sign is not None and source_text(sign) != "=":
        value = Value(open=True)
    target = left
    while target is not None and target.type in ("field_expression", "subscript_expression", "pointer_expression"):
        target = target.child_by_field_name("argument")
    if left is None or target is None or target.type != "identifier":
        return value
    name = source_text(target)
    held = walk.lookup(name).args
    if held is not None and value.args is not None and left.type == "subscript_expression":
        held.extend(value.args.entries)
    else:
        walk.update(name, value)
    return value


def _update(walk: WalkState, node: Node) -> Value:
    operand = node.child_by_field_name("argument")
    if operand is not None and operand.type == "identifier":
        walk.update(source_text(operand), Value(open=True))
    return UNKNOWN


def _lambda(walk: WalkState, node: Node) -> Value:
    body = node.child_by_field_name("body")
    if body is None:
        return UNKNOWN
    parameters = parameters_of(node.child_by_field_name("declarator"))
    return Value(functions=(Function(parameters, body, (), tuple(walk.scopes)),))


_EXPRESSIONS: dict[str, Callable[[WalkState, Node], Value]] = {
    **dict.fromkeys(("identifier", "qualified_identifier", "type_identifier"), _identifier),
    **dict.fromkeys(("initializer_list", "subscript_argument_list", "argument_list"), _members),
    **dict.fromkeys(
        (
            "type_descriptor",
            "initializer_pair",
            "parenthesized_expression",
            "condition_clause",
            "pointer_expression",
            "compound_literal_expression",
        ),
        _inner,
    ),
    "number_literal": _number,
    "unary_expression": _unary,
    "binary_expression": _binary,
    "conditional_expression": _conditional,
    "cast_expression": _cast,
    "field_expression": _field,
    "subscript_expression": _subscript,
    "assignment_expression": _assignment,
    "update_expression": _update,
    "lambda_expression": _lambda,
    "call_expression": _call,
}


# The values a counting loop gives its counter, where its bounds are constants.

_MAX_TRIPS = 4096


def counter(walk: WalkState, loop: Node) -> dict[str, Value]:
    """Return the counter of ``for (int i = a; i < b; i += c)`` by name, with all its values; empty for other loops."""
    start, test = loop.child_by_field_name("initializer"), loop.child_by_field_name("condition")
    if start is None or start.type != "declaration" or test is None or test.type != "binary_expression":
        return {}
    declarator = start.child_by_field_name("declarator")
    if declarator is None:
        return {}
    first = walk.value(declarator.child_by_field_name("value")).single
    last = walk.value(test.child_by_field_name("right")).single
    step = _step(walk, loop.child_by_field_name("update"))
    sign = test.child_by_field_name("operator")
    comparison = source_text(sign) if sign is not None else ""
    name = declared_name(declarator)
    if first is None or last is None or step <= 0 or comparison not in ("<", "<="):
        return {name: Value(open=True)}
    trips = range(first, last + (comparison == "<="), step)
    return {name: Value(numbers=frozenset(trips[:_MAX_TRIPS]), exact=False, open=bool(trips[_MAX_TRIPS:]))}


def _step(walk: WalkState, update: Node | None) -> int:
    """Return the increment of ``i++`` or ``i += c``; 0 where it is unknown."""
    if update is None:
        return 0
    if update.type == "update_expression":
        return 1 if "++" in source_text(update) else 0
    sign = update.child_by_field_name("operator")
    if sign is None or source_text(sign) != "+=":
        return 0
    return walk.value(update.child_by_field_name("right")).single or 0


_MAX_DEPTH = 24
#: Statements and expressions inside of each other.
_MAX_NESTING = 220
#: Limit of visited statements and expressions, behind which calls are not followed: functions that call each other
#: several times are walked once for each call chain.
_MOST_STEPS = 1 << 17
_EXPRESSION_SUFFIXES = ("_expression", "_literal", "identifier")
_ARGUMENTS_TYPE = re.compile(r"\b\w*TaskArgs?\b|OrchArg\b|uint64_t\b")


class Walker(WalkState):
    """One walk: the stack of functions it is in, and its remaining step limits."""

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
        """Walk function ``entry``; return False if it does not exist. Raises `NestedTooDeeply`."""
        self._globals(self.root)
        functions = self.lookup(entry).functions
        if not functions:
            return False
        arguments: list[Value] = []
        for parameter in functions[-1].parameters:
            text = source_text(parameter)
            is_entry = bool(_ARGUMENTS_TYPE.search(text))
            self.findings.shares_slots |= is_entry and "*" in text
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
        """Walk one statement; for a kind without special handling, walk its parts."""
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
        """Walk a part of a statement, if the statement has it."""
        child = node.child_by_field_name(field)
        if child is not None:
            self.statement(child)

    def _scope_macro(self, node: Node) -> None:
        """Walk ``PTO2_SCOPE(...) {``, which the grammar parses as a nested function definition."""
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
            self.findings.name(name, type_text, value)
            self.scopes[-1][name] = value

    def _initial(self, declarator: Node) -> Value:
        """Return the value a declaration gives; ``Tensor t(x);`` looks like a function declaration to the grammar."""
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
    """Ignore a node that has no effect on values."""


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
