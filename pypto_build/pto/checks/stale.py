"""Finds stale reads: a tile is read after another tile overwrote its bytes.

Two tiles at one address are normal: a tile that is never written itself reinterprets the other's bytes, and a window
into a tile shares them. A stale tile was written, then overwritten under another name, then read. Names that meet at a
branch or go round a loop share bytes on purpose, so the three steps have to follow each other. The overwrite is in the
block of the first write or one inside it, the read in the block of the overwrite or one inside it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from ..model import Operation, Region
from ..ops import TABLE
from ..resolve import Problem, Resolved, Value
from ..types import TileType

Block = tuple[int, ...]  # the regions around an operation, outermost first
_ALIASES = {"reinterpret", "subview"}


@dataclass(slots=True)
class _Bytes:
    """The bytes of a tile."""

    value: Value
    type: TileType
    start: int
    end: int

    def overlaps(self, other: _Bytes) -> bool:
        return self.type.loc == other.type.loc and self.start < other.end and other.start < self.end

    def window_of(self, other: _Bytes) -> bool:
        """A part of the other tile, element type and layout alike."""
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
    """The allocated tile that a view or reinterpretation stands for."""
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
