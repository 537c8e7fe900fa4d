"""Removes dead code: unused values, and unused carried values of loops and conditions."""

from __future__ import annotations

from .ir import Block, Op
from .uses import refs, uses

EFFECTS = frozenset(
    {
        "store",
        "write",
        "call",
        "push",
        "pop",
        "free",
        "pipe",
        "notify",
        "wait",
        "put",
        "get",
        "remote_store",
        "tensor_remote_store",
    }
)


def has_effect(op: Op) -> bool:
    return op.name in EFFECTS or any(has_effect(inner) for block in op.blocks for inner in block.ops)


def prune(body: Block, keep: frozenset[str] = frozenset()) -> None:
    """Until nothing changes; in place. `keep` are names used by other things than operations."""
    while True:
        used = uses(body) | keep
        if not _prune(body, used):
            return


def _prune(block: Block, used: set[str]) -> bool:
    changed = False
    kept: list[Op] = []
    for op in block.ops:
        for inner in op.blocks:
            changed |= _prune(inner, used)
        if op.name == "for" and op.results:
            changed |= _drop_carried(op, used)
        elif op.name == "if" and op.results:
            changed |= _drop_phis(op, used)
        if has_effect(op) or any(name in used for name in op.results):
            kept.append(op)
        else:
            changed = True
    block.ops[:] = kept
    return changed


def _drop_carried(op: Op, used: set[str]) -> bool:
    """Drop carried values that only pass through: a use is one in the body or behind the loop."""
    body = op.blocks[0]
    elsewhere = uses(Block(body.ops))
    for other in range(len(op.results)):
        elsewhere |= {n for n in refs(body.yields[other]) if n != body.params[other + 1]}
    keep = [
        i for i, (name, param) in enumerate(zip(op.results, body.params[1:], strict=True))
        if name in used or param in elsewhere
    ]  # fmt: skip
    if len(keep) == len(op.results):
        return False
    op.args = (*op.args[:3], *(op.args[3 + i] for i in keep))
    body.yields = tuple(body.yields[i] for i in keep)
    body.params = (body.params[0], *(body.params[1 + i] for i in keep))
    op.results = tuple(op.results[i] for i in keep)
    return True


def _drop_phis(op: Op, used: set[str]) -> bool:
    keep = [i for i, name in enumerate(op.results) if name in used]
    if len(keep) == len(op.results):
        return False
    for block in op.blocks:
        block.yields = tuple(block.yields[i] for i in keep)
    op.results = tuple(op.results[i] for i in keep)
    return True
