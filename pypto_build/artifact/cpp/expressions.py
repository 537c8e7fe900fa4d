"""Evaluates C++ expressions: one small function for each kind that orchestrations use."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from tree_sitter import Node

from .calls import FUNCTIONS, METHODS, PLAIN_FIELDS, decoded
from .state import WalkState
from .syntax import call_arguments, callee, integer, source_text, template_arguments
from .values import UNKNOWN, Function, Value, join

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
    """The parameter declarations of a function or lambda declarator."""
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
        slots = walk.found.slots(node, index.numbers)
        walk.found.scalar_slots |= slots
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
