"""The rules of a device (`ops/device.py`) on the operations of a module, as far as operands are known before a run."""

from __future__ import annotations

from ..attributes import Attribute, case_of
from ..model import Operation
from ..ops import TABLE
from ..ops.constraints import Facts, TileFacts
from ..ops.device import constraints
from ..resolve import Resolved, Value
from ..types import ScalarType, TileType
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
            yield row.explain(facts)


def facts_of(resolved: Resolved, op: Operation) -> Facts:
    """Return the known facts about an operation's operands."""
    tiles, scalars = {}, {}
    for role in op.operands:
        value = resolved.value(op, role)
        if value is None:
            continue
        if isinstance(value.type, TileType):
            tiles[role] = _tile(resolved, value, value.type)
        elif value.type is None or isinstance(value.type, ScalarType):
            scalars[role] = (value.type, value.constant)
    attrs = {_SPELLINGS.get(name, name): _word(value) for name, value in op.attrs.items()}
    order = tuple(role.name for role in TABLE[op.name].variants[max(op.variant, 0)].ins)
    return Facts(tiles, scalars, attrs, order, frozenset(role for role, names in op.operands.items() if names))


def _tile(resolved: Resolved, value: Value, type_: TileType) -> TileFacts:
    rows, cols = resolved.extents(value)
    root = value
    while root.op is not None and TABLE[root.op.name].fn == _SAME_BYTES:
        source = resolved.value(root.op, "src")
        if source is None:
            break
        root = source
    return TileFacts(type_, rows, cols, resolved.address(root), id(root), is_written=type_.loc != "left")


def _word(attribute: Attribute) -> str:
    """An attribute as the constraints compare it."""
    return case_of(attribute) or str(getattr(attribute, "value", attribute)).lower()
