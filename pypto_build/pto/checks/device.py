"""Checks the rules of a device (`ops/device.py`) on the operations of a module, as far as operands are known before
a run.
"""

from __future__ import annotations

from ..errors import DeviceRule
from ..model import Attribute, Operation, case_of
from ..ops import TABLE
from ..ops.constraints import Constraint, Facts, PartFacts, TileFacts
from ..ops.device import constraints
from ..resolve import Resolved, Value
from ..types import DYNAMIC, ScalarType, TileType, ViewType
from .rules import Messages

#: Attributes that have two spellings.
_SPELLINGS = {"quant_type": "quantType"}
#: Operations whose result is the bytes of their operand under another type.
_SAME_BYTES = "reinterpret"


def check_device(resolved: Resolved, op: Operation, arch: str) -> Messages:
    rows = constraints(op.name)
    if not rows:
        return
    facts = facts_of(resolved, op)
    for row in rows:
        if row.arch in ("both", arch) and row.is_broken(facts):
            message = row.explain(facts)
            yield message if _is_verified(row, facts) else DeviceRule(message)


def _is_verified(row: Constraint, facts: Facts) -> bool:
    """Return whether the assembler checks the rule. It sees that operands share bytes only if they are the same
    value.
    """
    tiles = [facts.tiles[role] for role in row.roles if role in facts.tiles]
    is_seen = row.kind != "overlap" or len({tile.identity for tile in tiles}) < len(tiles)
    return is_seen and "verifier" in row.source.split()


def facts_of(resolved: Resolved, op: Operation) -> Facts:
    """Return the known facts about an operation's operands."""
    tiles, scalars, parts = {}, {}, {}
    for role in op.operands:
        value = resolved.value(op, role)
        if value is None:
            continue
        if isinstance(value.type, TileType):
            tiles[role] = _tile(resolved, value, value.type)
        elif isinstance(value.type, ViewType):
            parts[role] = _part(resolved, value, value.type)
        elif value.type is None or isinstance(value.type, ScalarType):
            scalars[role] = (value.type, value.constant)
    attrs = {_SPELLINGS.get(name, name): _word(value) for name, value in op.attrs.items()}
    order = tuple(role.name for role in TABLE[op.name].variants[max(op.variant, 0)].ins)
    present = frozenset(role for role, names in op.operands.items() if names)
    return Facts(tiles, scalars, attrs, order, present, parts)


def _tile(resolved: Resolved, value: Value, type_: TileType) -> TileFacts:
    rows, cols = resolved.extents(value)
    root = value
    while root.op is not None and TABLE[root.op.name].fn == _SAME_BYTES:
        source = resolved.value(root.op, "src")
        if source is None:
            break
        root = source
    return TileFacts(type_, rows, cols, resolved.address(root), id(root), is_written=type_.loc != "left")


def _part(resolved: Resolved, value: Value, type_: ViewType) -> PartFacts:
    """Return the extents of a window of global memory, and the strides and order of its view."""
    shape = tuple(None if extent == DYNAMIC else extent for extent in type_.shape)
    window = value.op if value.op is not None and TABLE[value.op.name].keys[0] == "view:partition" else None
    if window is not None:
        shape = tuple(size.constant for size in resolved.values(window, "sizes"))
        view = resolved.value(window, "view")
        if view is not None and view.op is not None and view.op.name == "pto.make_tensor_view":
            strides = tuple(stride.constant for stride in resolved.values(view.op, "strides"))
            order = case_of(view.op.attrs.get("layout")) or ("nd" if strides[-1:] == (1,) else "")
            return PartFacts(type_.element, shape, strides, order)
    return PartFacts(type_.element, shape)


def _word(attribute: Attribute) -> str:
    """Return an attribute as the constraints compare it."""
    return case_of(attribute) or str(getattr(attribute, "value", attribute)).lower()
