"""Memory spaces of operands, and capacity and alignment of tiles on each platform.

Capacities in bytes and the 32-byte rules: pto-isa's tile instruction reference.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..attributes import case_of, int_value
from ..errors import DeviceRule
from ..model import Function, Operation
from ..ops import TABLE, TILE_ALLOCATIONS
from ..resolve import Problem, Resolved
from ..types import TileType, element_bytes
from .rules import Messages

KIB = 1024
CAPACITY = {
    "a2a3": {"vec": 192 * KIB, "mat": 512 * KIB, "left": 64 * KIB, "right": 64 * KIB, "acc": 128 * KIB, "bias": KIB},
    "a5": {"vec": 248 * KIB, "mat": 512 * KIB, "left": 64 * KIB, "right": 64 * KIB, "acc": 256 * KIB, "bias": 4 * KIB},
}
ALIGNMENT = 32


def check_memory(resolved: Resolved, op: Operation, arch: str) -> Messages:
    yield from _spaces(resolved, op)
    if op.name in TILE_ALLOCATIONS and op.result_types and isinstance(op.result_types[0], TileType):
        yield from _allocation(resolved, op, op.result_types[0], arch)


def check_addresses(resolved: Resolved) -> Iterator[Problem]:
    """Every tile of a function that moves one by ``pto.tassign`` has an address: the assembler plans no memory then."""
    operations = list(resolved.function.walk())
    if any(op.name == "pto.tassign" for op in operations):
        for op in operations:
            if op.name == "pto.alloc_tile" and "addr" not in op.operands:
                yield Problem(op, "has no addr, which each tile needs beside pto.tassign", resolved.function)


def check_buffers(resolved: Resolved) -> Iterator[Problem]:
    """No tile of a function lies where a pipe's buffer is."""
    function = resolved.function
    buffers = list(_buffers(function))
    for op in function.walk() if buffers else ():
        if op.name in TILE_ALLOCATIONS and op.result_types and isinstance(op.result_types[0], TileType):
            for message in _in_a_buffer(resolved, op, op.result_types[0], buffers):
                yield Problem(op, message, function)


def _buffers(function: Function) -> Iterator[tuple[str, str, int, int]]:
    """Name, memory space, start and end of the buffers that pipes fill."""
    for op in function.walk():
        if op.name == "pto.reserve_buffer" and "base" in op.attrs:
            base = int_value(op.attrs["base"])
            end = base + int_value(op.attrs.get("size"))
            yield str(op.attrs.get("name")), case_of(op.attrs.get("location")), base, end


def _in_a_buffer(
    resolved: Resolved, op: Operation, tile: TileType, buffers: list[tuple[str, str, int, int]]
) -> Iterator[str]:
    address = resolved.constant(op, "addr")
    for name, space, start, end in buffers:
        if address is not None and space == tile.loc and address < end and start < address + tile.bytes:
            yield f"bytes {address} to {address + tile.bytes} lie in the buffer {name} ({space} {start} to {end})"


def _spaces(resolved: Resolved, op: Operation) -> Iterator[str]:
    definition = TABLE[op.name]
    for name in op.operands:
        role = definition.role(name, op.variant)
        if role is None or not role.spaces:
            continue
        for value in resolved.values(op, name):
            if isinstance(value.type, TileType) and value.type.loc not in role.spaces:
                yield f"{name} is a tile in {' or '.join(role.spaces)}, but {value.name} is in {value.type.loc}"


def _allocation(resolved: Resolved, op: Operation, tile: TileType, arch: str) -> Iterator[str]:
    address = resolved.constant(op, "addr")
    capacity = CAPACITY.get(arch, {}).get(tile.loc)
    if address is not None:
        if address % ALIGNMENT:
            yield f"address {address} is not a multiple of {ALIGNMENT}"
        if address < 0:
            yield f"address {address} is negative"
    if capacity is not None and (address or 0) + tile.bytes > capacity:
        start = address or 0
        yield f"bytes {start} to {start + tile.bytes} do not fit into {tile.loc}, which has {capacity} on {arch}"
    yield from map(DeviceRule, _layout(tile))


def _layout(tile: TileType) -> Iterator[str]:
    size = element_bytes(tile.dtype)
    if tile.loc not in ("vec", "mat", "left", "right", "acc") or size == 0 or str(tile.dtype) in ("i1", "i4"):
        return
    if tile.slayout == "none_box":
        axis, extent = ("row", tile.cols) if tile.blayout == "row_major" else ("column", tile.rows)
        if extent * size % ALIGNMENT:
            yield f"a {axis} of {extent} {tile.dtype} has {extent * size} bytes, not a multiple of {ALIGNMENT}"
        return
    rows, cols = tile.fractal_extents
    if tile.rows % rows and tile.rows != 1 and tile.loc != "vec":
        yield f"{tile.rows} rows are not a multiple of the {rows} x {cols} fractal of {tile.dtype}"
    if tile.cols % cols:
        yield f"{tile.cols} columns are not a multiple of the {rows} x {cols} fractal of {tile.dtype}"
