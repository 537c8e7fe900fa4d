"""Finds tiles of a loop or branch that ptoas puts into several buffers.

A tile is a handle of a buffer. Modules without addresses leave the buffers to ptoas, which plans one for each
`pto.alloc_tile`. A loop that carries one tile and yields another, and a branch whose sides yield different tiles,
then read a buffer that nothing wrote. A module with addresses says itself which tiles share a buffer.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..errors import DeviceRule
from ..model import Operation
from ..ops import TABLE, TILE_ALLOCATIONS
from ..resolve import Problem, Resolved, Value

_SAME_BUFFER = {"reinterpret", "subview"}


def check_carried(resolved: Resolved) -> Iterator[Problem]:
    """Yield a device rule for each yielded tile without address whose buffer is not that of the carried tile."""
    operations = [op for op in resolved.function.walk() if op.name in ("scf.for", "scf.if")]
    tiles: dict[int, Value] = {}  # id of a carried value or result: the tile that it stands for
    for op in operations:
        first = _first(resolved, op)
        carried = resolved.region_args[id(op.regions[0])][1:] if op.name == "scf.for" else ()
        for values in (carried, resolved.results(op)):
            tiles |= {id(value): tile for value, tile in zip(values, first, strict=False)}
    for op in operations:
        for expected, value in zip(_first(resolved, op), _yielded(resolved, op, -1), strict=False):
            planned = [_planned(resolved, tile, tiles) for tile in (expected, value)]
            if None not in planned and planned[0] is not planned[1]:
                other = (
                    f"the loop carries {expected.name}" if op.name == "scf.for" else f"'then' yields {expected.name}"
                )
                message = f"yields {value.name}, but {other}: without addresses ptoas gives them two buffers; "
                message += f"write the result into {expected.name}"
                yield Problem(op.regions[-1].ops[-1], DeviceRule(message), resolved.function)


def _first(resolved: Resolved, op: Operation) -> tuple[Value, ...]:
    """Return the values that a loop starts with, or those that the first side of a branch yields."""
    return resolved.values(op, "init") if op.name == "scf.for" else _yielded(resolved, op, 0)


def _yielded(resolved: Resolved, op: Operation, region: int) -> tuple[Value, ...]:
    last = op.regions[region].ops[-1] if op.regions[region].ops else None
    return resolved.values(last, "args") if last is not None and last.name == "scf.yield" else ()


def _planned(resolved: Resolved, value: Value, tiles: dict[int, Value]) -> Value | None:
    """Return the allocation that a tile stands for, or None if it has an address or is not allocated here."""
    while True:
        if id(value) in tiles:
            source: Value | None = tiles[id(value)]
        elif value.op is not None and TABLE[value.op.name].fn in _SAME_BUFFER:
            source = resolved.value(value.op, "src")
        else:
            is_allocated = (
                value.op is not None and value.op.name in TILE_ALLOCATIONS and "addr" not in value.op.operands
            )
            return value if is_allocated else None
        if source is None:
            return None
        value = source
