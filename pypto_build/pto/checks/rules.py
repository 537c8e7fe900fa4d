"""Runs the rules of an operation's row (`OpDef.rules`): each check is registered in the table of its module."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from ..model import Operation
from ..ops import TABLE
from ..resolve import Resolved
from ..types import ScalarType, TileType, Type

Messages = Iterator[str]
RuleFunction = Callable[..., Messages]  # of the function, the operation, and what the row tells the rule
AXES = ("rows", "columns")


def messages(resolved: Resolved, op: Operation, arch: str, functions: Mapping[str, RuleFunction]) -> Messages:
    """Yield the messages of an operation's rules, limited to the checks in `functions`."""
    for rule in TABLE[op.name].rules:
        if rule.name in functions and rule.arch in ("", arch):
            yield from functions[rule.name](resolved, op, *rule.args)


def tile_of(resolved: Resolved, op: Operation, role: str) -> TileType | None:
    """Return the type of the tile in a role; None if there is none."""
    value = resolved.value(op, role) if role in op.operands else None
    return value.type if value is not None and isinstance(value.type, TileType) else None


def extents_of(resolved: Resolved, op: Operation, role: str) -> tuple[int | None, int | None]:
    """Return valid rows and columns of the tile in a role; None for unknown ones."""
    value = resolved.value(op, role) if role in op.operands else None
    return resolved.extents(value) if value is not None else (None, None)


def width_of(type_: Type | None) -> str:
    """Return `i32` for `ui32`, since signed and unsigned types count alike; empty for other types."""
    return type_.name.removeprefix("u").removeprefix("s") if isinstance(type_, ScalarType) else ""
