"""The values a counting loop gives its counter, where its bounds are constants."""

from __future__ import annotations

from tree_sitter import Node

from .state import WalkState
from .syntax import declared_name, source_text
from .values import Value

_MAX_TRIPS = 4096


def counter(walk: WalkState, loop: Node) -> dict[str, Value]:
    """The counter of ``for (int i = a; i < b; i += c)`` by name, with all its values; empty for other loops."""
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
