"""Checks operations between ranks: signals, moved elements and their stages, groups, and events of transfers."""

from __future__ import annotations

from collections.abc import Iterator

from ..errors import DeviceRule
from ..model import Operation, Region, int_value
from ..ops import TABLE
from ..resolve import Resolved, Value
from ..types import DYNAMIC, PtrType, TileType, Type, ViewType
from .rules import Messages, RuleFunction


def _element(type_: Type | None) -> str:
    if isinstance(type_, (ViewType, PtrType)):
        return str(type_.element)
    return str(type_.dtype) if isinstance(type_, TileType) else ""


def _signal(resolved: Resolved, op: Operation) -> Messages:
    value, number = resolved.value(op, "signal"), resolved.value(op, "value")
    if value is not None and _element(value.type) not in ("", "i32"):
        yield f"signals are i32, found {_element(value.type)}"
    if number is not None and str(number.type) not in ("i32", "ui32", "si32"):
        yield f"a signal is compared with and set to an i32, found {number.type}"


def _moved(resolved: Resolved, op: Operation, to: str, source: str) -> Messages:
    """Check that both ends of a transfer have the same element type and, if known, the same extents."""
    a, b = resolved.value(op, to), resolved.value(op, source)
    if a is None or b is None:
        return
    if _element(a.type) != _element(b.type):
        yield f"{to} has elements {_element(a.type)}, {source} {_element(b.type)}"
    elif isinstance(a.type, ViewType) and isinstance(b.type, ViewType):
        pairs = zip(a.type.shape, b.type.shape, strict=False)
        differ = any(DYNAMIC not in pair and pair[0] != pair[1] for pair in pairs)
        if differ or len(a.type.shape) != len(b.type.shape):
            yield f"{to} is {a.type}, {source} {b.type}"


def _staged(resolved: Resolved, op: Operation, stages: str, moved: str) -> Messages:
    """Check that staging tiles have the element type of the moved view."""
    values, tiles = resolved.values(op, moved), resolved.values(op, stages)
    element = _element(values[0].type) if values else ""
    for tile in tiles:
        if element and _element(tile.type) != element:
            yield f"{tile.name} stages elements {_element(tile.type)}, {moved} has {element}"
    if len(tiles) == 2 and _share(resolved, *tiles):
        yield DeviceRule(f"{tiles[0].name} and {tiles[1].name} share bytes: one is filled while the other is sent")
    if stages in ("recv", "buffers") and len(tiles) > 2:
        yield f"takes one tile to pass through, or two, found {len(tiles)}"


def _share(resolved: Resolved, one: Value, other: Value) -> bool:
    first, second = resolved.address(one), resolved.address(other)
    if one is other or not isinstance(one.type, TileType) or not isinstance(other.type, TileType):
        return one is other
    if first is None or second is None or one.type.loc != other.type.loc:
        return False
    return first < second + other.type.bytes and second < first + one.type.bytes


def _group(resolved: Resolved, op: Operation) -> Messages:
    """Check that a group has a view for each rank, all of one type, one of them the root's."""
    members, data = resolved.values(op, "group"), resolved.value(op, "data")
    if not members:
        yield "the group has no member"
        return
    other = next((m for m in members if m.type != members[0].type), None)
    if other is not None:
        yield f"members of a group have one type, found {members[0].type} and {other.type}"
    if data is not None and _element(data.type) != _element(members[0].type):
        yield f"data has elements {_element(data.type)}, group {_element(members[0].type)}"
    root = int_value(op.attrs.get("root"))
    if not 0 <= root < len(members):
        yield f"root is {root}, the group has {len(members)} members"


def _awaited(resolved: Resolved, op: Operation) -> Messages:
    """Check that the event of a transfer is waited for, with no signal before the wait."""
    event, body = resolved.results(op)[0], resolved.function.body
    assert body is not None
    waits = {
        id(user)
        for user in body.walk()
        if TABLE[user.name].fn in ("wait_async_event", "test_async_event") and resolved.value(user, "event") is event
    }
    passed = any(
        event in resolved.values(user, role) for user in body.walk() for role in user.operands if role != "event"
    )
    if not waits and not passed:
        yield "nothing waits for its event; use pto.comm.wait_async_event before what is moved is used"
    for region in _regions(body):
        yield from _premature_notification(op, region, waits)


def _premature_notification(op: Operation, region: Region, waits: set[int]) -> Messages:
    """Check one block for a notification between a transfer and the wait for it."""
    started = False
    for other in region.ops:
        if other is op:
            started = True
        elif started and (id(other) in waits or any(id(inner) in waits for r in other.regions for inner in r.walk())):
            return
        elif started and waits and TABLE[other.name].fn == "notify" and TABLE[other.name].family == "comm":
            yield f"{other.name} may tell of it before it is complete; wait for its event first"
            return


def _regions(region: Region) -> Iterator[Region]:
    yield region
    for op in region.ops:
        for inner in op.regions:
            yield from _regions(inner)


RULES: dict[str, RuleFunction] = {
    "signal": _signal,
    "moved": _moved,
    "staged": _staged,
    "group": _group,
    "awaited": _awaited,
}
