"""Which kernel calls have a part in what bytes hold, and in which calls bytes have one, by what they load and store."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from pypto_build.diagnose.hazards.record import READ, WRITE
from pypto_build.diagnose.why.find import Call, Found, exact, is_atomic, pieces
from pypto_build.diagnose.why.trace import Array, Intervals


@dataclass
class Cone:
    """Calls, the last first, and the bytes that they load and none of them has stored."""

    calls: list[Call] = field(default_factory=list)
    left: Intervals = field(default_factory=Intervals)


def cone_of(found: Found, wanted: Intervals, before: int, given: Iterable[Call] = ()) -> Cone:
    """The calls of tasks before number `before` that have a part in what the bytes hold then, or in what calls that are
    `given` load; these are among them."""
    asked: dict[int, set[int]] = {}
    for number, block in given:
        asked.setdefault(number, set()).add(block)
    cone = Cone()
    low, high = found.stored_hulls
    for number in range(before - 1, -1, -1):
        first, end = wanted.hull
        if number not in asked and not (low[number] < end and high[number] > first):
            continue
        blocks = _storing(found, number, wanted, asked.get(number, set()))
        if blocks:
            wanted = _before(found, number, wanted, blocks)
            cone.calls += [(number, block) for block in sorted(blocks, reverse=True)]
    cone.left = wanted
    return cone


def _storing(found: Found, number: int, wanted: Intervals, blocks: set[int]) -> set[int]:
    """The blocks of a task that store some of the bytes, and those whose stores they load."""
    regions = found.regions_of(number)
    if found.is_opaque(number):
        args = [arg.span for arg in found.tasks[number].args if arg.writes]
        spans = np.array(args, np.int64).reshape(-1, 2)
        if blocks or wanted.touched(spans[:, 0], spans[:, 1]).any():
            return set(range(max(found.tasks[number].block_num, 1)))
    stores = regions[(regions["kind"] & WRITE) > 0]
    blocks = set(blocks)
    asked = wanted
    loads = regions[np.isin(regions["block"], list(blocks)) & ((regions["kind"] & READ) > 0)]
    if blocks and found.tasks[number].block_num > 1:
        asked = asked.with_(pieces(loads))
    while len(stores):
        more = set(stores["block"][_touching(stores, asked)].tolist()) - blocks
        if not more:
            break
        blocks |= more
        if found.tasks[number].block_num == 1:
            break
        asked = pieces(regions[np.isin(regions["block"], list(more)) & ((regions["kind"] & READ) > 0)])
    return blocks


def _touching(regions: Array, wanted: Intervals) -> Array:
    """Which regions share a byte with some."""
    base, rows = regions["base"].astype(np.int64), regions["rows"].astype(np.int64)
    stride, length = regions["stride"].astype(np.int64), regions["length"].astype(np.int64)
    hit = wanted.touched(base, base + (rows - 1) * stride + length)
    for index in np.flatnonzero(hit & (rows > 1)).tolist():  # between the rows, perhaps
        part = pieces(regions[index : index + 1])
        hit[index] = bool(wanted.touched(part.low, part.high).any())
    return hit


def _before(found: Found, number: int, wanted: Intervals, blocks: set[int]) -> Intervals:
    """What is wanted of the tasks before, where these blocks of a task store some of it."""
    regions = found.regions_of(number)
    if len(blocks) < found.tasks[number].block_num:
        regions = regions[np.isin(regions["block"], list(blocks))]
    stores = regions[((regions["kind"] & WRITE) > 0) & ~is_atomic(regions)]
    if len(stores) and exact(stores):
        wanted = wanted.without(pieces(stores))
    loads = pieces(regions[((regions["kind"] & READ) > 0) | is_atomic(regions)])
    if found.is_opaque(number):
        spans = np.array([arg.span for arg in found.tasks[number].args if arg.reads], np.int64).reshape(-1, 2)
        loads = loads.with_(Intervals.of(spans[:, 0], spans[:, 1]))
    return wanted.with_(loads)


def reached_by(found: Found, source: Intervals) -> list[Call]:
    """Calls that load the bytes, or what such calls store, in order; more than those that truly have them."""
    carried, calls = source, []
    low, high = found.loaded_hulls
    for number in range(len(found.tasks)):
        first, end = carried.hull
        if not (low[number] < end and high[number] > first):
            continue
        regions = found.regions_of(number)
        loads = regions[((regions["kind"] & READ) > 0)]
        blocks = set(loads["block"][_touching(loads, carried)].tolist())
        if found.is_opaque(number):
            blocks = set(range(max(found.tasks[number].block_num, 1)))
        if blocks:
            calls += [(number, block) for block in sorted(blocks)]
            kept = regions[np.isin(regions["block"], list(blocks)) & ((regions["kind"] & WRITE) > 0)]
            carried = carried.with_(pieces(kept))
    return calls
