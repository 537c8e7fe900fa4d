"""Finds stale reads: a tile is read after another tile overwrote its bytes.

Two tiles at one address are normal: a tile that is never written itself reinterprets the other's bytes, and a window
into a tile shares them. A stale tile was written, then overwritten under another name, then read. Names that meet at a
branch or go round a loop share bytes on purpose, so the three steps have to follow each other. The overwrite is in the
block of the first write or one inside it, the read in the block of the overwrite or one inside it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from ..model import Operation, Region, int_value
from ..ops import TABLE
from ..resolve import Problem, Resolved, Value
from ..types import TileType

# The life of a popped tile: from its pop to the free that gives its slot back, which comes after the last use.
# The steps of a block are followed in their order, separately for every pipe and direction. A free gives back the
# oldest slot that is still held, or the slot it names. Live tiles need slots of their own. Facts: what ptoas 0.48
# accepts, and the rings of the device headers.

Key = tuple[str, int]  # direction, pipe id


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
    """Check for uses of popped tiles after their free, and for more live tiles than slots."""
    assert resolved.function.body is not None
    slots = {int_value(op.attrs.get("id")): _slots(op) for op in _opened(resolved)}
    if slots:
        yield from _popped_region(resolved, resolved.function.body, slots)


def _opened(resolved: Resolved) -> Iterator[Operation]:
    return (op for op in resolved.function.walk() if TABLE[op.name].keys[0] == "pipe:open")


def _slots(op: Operation) -> int:
    """Return how many popped tiles a core holds at the same time."""
    both = int_value(op.attrs.get("dir_mask")) == 3
    return int_value(op.attrs.get("local_slot_num"), int_value(op.attrs.get("slot_num"), 4 if both else 8))


def _popped_region(resolved: Resolved, region: Region, slots: dict[int, int]) -> Iterator[Problem]:
    block, uses = _Block(), _last_uses(resolved, region)
    for number, op in enumerate(region.ops):
        row = TABLE[op.name]
        for popped in _behind_its_free(resolved, op, block):
            assert popped.freed is not None
            message = f"uses {popped.value.name} after {popped.freed.name}, which released its slot"
            yield Problem(op, message, resolved.function)
        if row.direction and row.fn == "pop" and resolved.results(op):
            key = (row.direction, int_value(op.attrs.get("id")))
            value = resolved.results(op)[0]
            held = block.held.setdefault(key, [])
            held.append(_Popped(value, uses.get(id(value), number)))
            alive = sum(1 for one in held if one.last >= number)
            if alive > slots.get(key[1], alive):
                message = (
                    f"{alive} popped tiles are in use at the same time, but the pipe has only {slots[key[1]]} "
                    "slots for them"
                )
                yield Problem(op, message, resolved.function)
        elif row.direction and row.fn == "free":
            _release(resolved, op, block.held.get((row.direction, int_value(op.attrs.get("id"))), []))
        for inner in op.regions:
            yield from _popped_region(resolved, inner, slots)


def _release(resolved: Resolved, op: Operation, held: list[_Popped]) -> None:
    entry = resolved.value(op, "entry") if "entry" in op.operands else None
    waiting = [one for one in held if one.freed is None and (entry is None or one.value is entry)]
    if waiting:
        waiting[0].freed = op


def _behind_its_free(resolved: Resolved, op: Operation, block: _Block) -> Iterator[_Popped]:
    """Yield the popped tiles that the operation uses after their slot was freed; each is reported once."""
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


def _last_uses(resolved: Resolved, region: Region) -> dict[int, int]:
    """For each tile, return the number of the operation of this block that uses it last."""
    return {
        value: number
        for number, op in enumerate(region.ops)
        if TABLE[op.name].fn != "free"
        for value in _used(resolved, op)
    }


Block = tuple[int, ...]  # the regions around an operation, outermost first
_ALIASES = {"reinterpret", "subview"}


@dataclass(slots=True)
class _Bytes:
    """The byte range of a tile."""

    value: Value
    type: TileType
    start: int
    end: int

    def overlaps(self, other: _Bytes) -> bool:
        return self.type.loc == other.type.loc and self.start < other.end and other.start < self.end

    def window_of(self, other: _Bytes) -> bool:
        """Return whether this is a part of the other tile with the same element type and layout."""
        inside = other.start <= self.start and self.end <= other.end and self.type.bytes < other.type.bytes
        alike = (self.type.dtype, self.type.blayout, self.type.slayout) == (
            other.type.dtype,
            other.type.blayout,
            other.type.slayout,
        )
        return inside and alike


@dataclass
class _State:
    tiles: dict[int, _Bytes] = field(default_factory=dict)
    written: dict[int, Block] = field(default_factory=dict)  # id of value -> block of its last write
    overwritten: dict[int, tuple[_Bytes, Operation, Block]] = field(default_factory=dict)


def check_stale(resolved: Resolved) -> Iterator[Problem]:
    assert resolved.function.body is not None
    yield from _region(resolved, resolved.function.body, (), _State())


def _region(resolved: Resolved, region: Region, outer: Block, state: _State) -> Iterator[Problem]:
    block = (*outer, id(region))
    for op in region.ops:
        definition = TABLE[op.name]
        touched = [(role, _root(resolved, value)) for role, value in _values(resolved, op)]
        if definition.fn not in _ALIASES and definition.family != "control":
            for role_name, value in touched:
                role = definition.role(role_name, op.variant)
                if role is not None and "r" in role.access and id(value) in state.tiles:
                    yield from _read(resolved, op, state, value, block)
            for role_name, value in touched:
                role = definition.role(role_name, op.variant)
                if role is not None and role.access in ("w", "rw", "s") and id(value) in state.tiles:
                    _write(op, state, value, block)
        for inner in op.regions:
            yield from _region(resolved, inner, block, state)
        for value in resolved.results(op):
            address = resolved.address(value)
            if address is not None and isinstance(value.type, TileType):
                state.tiles[id(value)] = _Bytes(value, value.type, address, address + value.type.bytes)


def _values(resolved: Resolved, op: Operation) -> Iterator[tuple[str, Value]]:
    for role in op.operands:
        for value in resolved.values(op, role):
            yield role, value


def _root(resolved: Resolved, value: Value) -> Value:
    """Return the allocated tile that a view or reinterpretation refers to."""
    while value.op is not None and TABLE[value.op.name].fn in _ALIASES:
        source = resolved.value(value.op, "src")
        if source is None:
            break
        value = source
    return value


def _inside(inner: Block, outer: Block) -> bool:
    return inner[: len(outer)] == outer


def _read(resolved: Resolved, op: Operation, state: _State, value: Value, block: Block) -> Iterator[Problem]:
    lost = state.overwritten.get(id(value))
    if lost is None or not _inside(block, lost[2]):
        return
    tile, other = state.tiles[id(value)], lost[0]
    yield Problem(
        op,
        f"reads {value.name}, whose bytes ({tile.type.loc} {tile.start} to {tile.end}) {other.value.name} overwrote "
        f"({lost[1].name})",
        resolved.function,
    )
    del state.overwritten[id(value)]


def _write(op: Operation, state: _State, value: Value, block: Block) -> None:
    mine = state.tiles[id(value)]
    for key, before in list(state.written.items()):
        tile = state.tiles[key]
        if key == id(value) or not tile.overlaps(mine) or mine.window_of(tile) or tile.window_of(mine):
            continue
        del state.written[key]  # the others still hold their bytes; memory bounds them
        if _inside(block, before):  # else written in a branch or loop that is over: not followed further
            state.overwritten[key] = (mine, op, block)
    state.written[id(value)] = block
    state.overwritten.pop(id(value), None)
