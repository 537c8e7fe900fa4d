"""The life of a popped tile: from its pop to the free that gives its slot back, which comes after the last use.

The steps of a block are followed in their order, separately for every pipe and direction. A free gives back the oldest
slot that is still held, or the slot it names. Live tiles need slots of their own. Facts: what ptoas 0.48 accepts, and
the rings of the device headers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from ..attributes import int_value
from ..model import Operation, Region
from ..ops import TABLE
from ..resolve import Problem, Resolved, Value

Key = tuple[str, int]  # direction, pipe id
_VIEWS = {"reinterpret", "subview"}


@dataclass
class _Popped:
    value: Value
    last: int  # number of the last operation of the block that uses it
    freed: Operation | None = None


@dataclass
class _Block:
    """One block: its popped tiles, in order, by pipe."""

    held: dict[Key, list[_Popped]] = field(default_factory=dict)


def check_popped(resolved: Resolved) -> Iterator[Problem]:
    """Uses behind the free, and more tiles alive than there are slots."""
    assert resolved.function.body is not None
    slots = {int_value(op.attrs.get("id")): _slots(op) for op in _opened(resolved)}
    if slots:
        yield from _region(resolved, resolved.function.body, slots)


def _opened(resolved: Resolved) -> Iterator[Operation]:
    return (op for op in resolved.function.walk() if TABLE[op.name].keys[0] == "pipe:open")


def _slots(op: Operation) -> int:
    """Return how many popped tiles a core holds at a time."""
    both = int_value(op.attrs.get("dir_mask")) == 3
    return int_value(op.attrs.get("local_slot_num"), int_value(op.attrs.get("slot_num"), 4 if both else 8))


def _region(resolved: Resolved, region: Region, slots: dict[int, int]) -> Iterator[Problem]:
    block, uses = _Block(), _last_uses(resolved, region)
    for number, op in enumerate(region.ops):
        row = TABLE[op.name]
        for popped in _behind_its_free(resolved, op, block):
            assert popped.freed is not None
            message = f"uses {popped.value.name} behind {popped.freed.name}, which gave its slot back"
            yield Problem(op, message, resolved.function)
        if row.direction and row.fn == "pop" and resolved.results(op):
            key = (row.direction, int_value(op.attrs.get("id")))
            value = resolved.results(op)[0]
            held = block.held.setdefault(key, [])
            held.append(_Popped(value, uses.get(id(value), number)))
            alive = sum(1 for one in held if one.last >= number)
            if alive > slots.get(key[1], alive):
                message = f"{alive} popped tiles are alive, the pipe has {slots[key[1]]} slots for them"
                yield Problem(op, message, resolved.function)
        elif row.direction and row.fn == "free":
            _release(resolved, op, block.held.get((row.direction, int_value(op.attrs.get("id"))), []))
        for inner in op.regions:
            yield from _region(resolved, inner, slots)


def _release(resolved: Resolved, op: Operation, held: list[_Popped]) -> None:
    entry = resolved.value(op, "entry") if "entry" in op.operands else None
    waiting = [one for one in held if one.freed is None and (entry is None or one.value is entry)]
    if waiting:
        waiting[0].freed = op


def _behind_its_free(resolved: Resolved, op: Operation, block: _Block) -> Iterator[_Popped]:
    """Popped tiles whose slot was given back, which the operation uses; each is named once."""
    if TABLE[op.name].fn == "free" or not block.held:
        return
    used = _used(resolved, op)
    for held in block.held.values():
        for popped in [one for one in held if one.freed is not None and id(one.value) in used]:
            yield popped
            held.remove(popped)


def _used(resolved: Resolved, op: Operation) -> set[int]:
    """Return the tiles that an operation and its regions use; views count as their tile."""
    tiles = {id(_root(resolved, value)) for role in op.operands for value in resolved.values(op, role)}
    for region in op.regions:
        for inner in region.ops:
            tiles |= _used(resolved, inner)
    return tiles


def _root(resolved: Resolved, value: Value) -> Value:
    while value.op is not None and TABLE[value.op.name].fn in _VIEWS:
        source = resolved.value(value.op, "src")
        if source is None:
            break
        value = source
    return value


def _last_uses(resolved: Resolved, region: Region) -> dict[int, int]:
    """For each tile, return the number of the operation of this block that uses it last."""
    return {
        value: number
        for number, op in enumerate(region.ops)
        if TABLE[op.name].fn != "free"
        for value in _used(resolved, op)
    }
