"""Values that operations and blocks use, and their replacement."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from .ir import Block, Op, Operand
from .values import Ref


def refs(operand: Operand) -> Iterator[str]:
    """Yield the names an operand mentions, also in nested operations."""
    if isinstance(operand, Ref):
        yield operand.name
    elif isinstance(operand, tuple):
        for item in operand:
            yield from refs(item)
    elif isinstance(operand, Op):
        yield from op_refs(operand)


def op_refs(op: Op) -> Iterator[str]:
    """Names an operation itself mentions; blocks not included."""
    for arg in op.args:
        yield from refs(arg)
    if "launch" in op.attrs:
        yield from refs(op.launch.operands)


def map_operand(operand: Operand, change: Callable[[Ref], Operand]) -> Operand:
    """Return the operand with every name replaced by `change` of it."""
    if isinstance(operand, Ref):
        return change(operand)
    if isinstance(operand, tuple):
        return tuple(map_operand(item, change) for item in operand)
    if isinstance(operand, Op):
        return replace(operand, args=tuple(map_operand(a, change) for a in operand.args))
    return operand


def map_op(op: Op, change: Callable[[Ref], Operand]) -> Op:
    """A copy of the operation with its own operands changed; blocks are kept as they are."""
    attrs = dict(op.attrs)
    if "launch" in attrs:
        attrs["launch"] = op.launch.map(lambda operand: map_operand(operand, change))
    return replace(op, args=tuple(map_operand(a, change) for a in op.args), attrs=attrs)


def mentions(op: Op) -> set[str]:
    """Names that an operation and its blocks use or pass on."""
    return set(op_refs(op)).union(*map(uses, op.blocks))


def uses(block: Block) -> set[str]:
    return set(refs(block.yields)).union(*map(mentions, block.ops))


def free_names(block: Block) -> set[str]:
    """Names a block uses but does not define."""
    used: set[str] = set()
    defined = set(block.params)
    for op in block.ops:
        used |= set(op_refs(op)) - defined
        for inner in op.blocks:
            used |= free_names(inner) - defined
        defined |= set(op.results)
    return used | set(refs(block.yields)) - defined
