"""Checks memory spaces of operands, and capacity and alignment of tiles on each platform.

Capacities in bytes and the 32-byte rules: pto-isa's tile instruction reference.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ..errors import DeviceRule
from ..model import Function, Operation, case_of, int_value
from ..ops import TABLE, TILE_ALLOCATIONS
from ..resolve import Problem, Resolved
from ..types import ScalarType, TileType, element_bytes
from .rules import AXES, Messages, extents_of, tile_of

# Requirements of instructions on their scratch tile (`tmp`), and when they need one.
# Facts: the constraints in the manual of the operations, as ptoas 0.48 enforces them. The extents hold on a2a3; on
# a5 the operand is kept but not used.

_REPEAT, _BLOCK = 256, 32  # bytes that a vector instruction takes at once, and of the blocks it writes


class _Scratch:
    """One operation with a tile for `tmp`, and the facts about its tiles."""

    def __init__(self, resolved: Resolved, op: Operation, tile: TileType) -> None:
        self.resolved, self.op, self.tile = resolved, op, tile
        self.rows, self.cols = self.extents("tmp")

    def type(self, role: str) -> TileType | None:
        return tile_of(self.resolved, self.op, role)

    def extents(self, role: str) -> tuple[int | None, int | None]:
        return extents_of(self.resolved, self.op, role)


def check_scratch(resolved: Resolved, op: Operation, arch: str) -> Messages:
    rules = TABLE[op.name].scratch
    if not rules:
        return
    tile = tile_of(resolved, op, "tmp")
    for rule in rules:
        if rule.name in PRESENCE:
            yield from PRESENCE[rule.name](resolved, op, *rule.args)
        elif tile is not None and rule.arch in ("", arch):
            yield from SCRATCH_RULES[rule.name](_Scratch(resolved, op, tile), *rule.args)


# --- whether it is there ---------------------------------------------------------------------------------------------


def _with_high_precision(resolved: Resolved, op: Operation) -> Messages:
    if case_of(op.attrs.get("precisionType")) == "high_precision" and "tmp" not in op.operands:
        yield "needs a tmp for precisionType high_precision"


def _with_floats(resolved: Resolved, op: Operation, role: str) -> Messages:
    tile, there = tile_of(resolved, op, role), "tmp" in op.operands
    if tile is not None and isinstance(tile.dtype, ScalarType):
        if tile.dtype.is_float and not there:
            yield f"needs a tmp for elements {tile.dtype}"
        elif there and not tile.dtype.is_float:
            yield f"takes no tmp for elements {tile.dtype}"


def _with_binary(resolved: Resolved, op: Operation) -> Messages:
    there = "tmp" in op.operands
    if there != ("isBinary" in op.attrs):
        yield "has a tmp without isBinary" if there else "needs a tmp for isBinary"


# --- what it is like -------------------------------------------------------------------------------------------------


def _same_elements(scratch: _Scratch, role: str) -> Messages:
    """Check that the scratch tile has the element type of another operand."""
    other = scratch.type(role)
    if other is not None and other.dtype != scratch.tile.dtype:
        yield f"tmp has elements {scratch.tile.dtype}, {role} has {other.dtype}"


def _covers(scratch: _Scratch, role: str, rows: str) -> Messages:
    """Check that the scratch tile has at least `rows` valid rows, as wide as another operand."""
    if scratch.rows is not None and scratch.rows < int(rows):
        yield DeviceRule(f"tmp has {scratch.rows} valid rows, expected at least {rows}")
    columns = scratch.extents(role)[1]
    if scratch.cols is not None and columns is not None and scratch.cols < columns:
        yield f"tmp has {scratch.cols} valid columns, {role} has {columns}"


def _same_extents(scratch: _Scratch, role: str) -> Messages:
    for axis, mine, other in zip(AXES, scratch.extents("tmp"), scratch.extents(role), strict=True):
        if mine is not None and other is not None and mine != other:
            yield f"tmp has {mine} valid {axis}, {role} has {other}"


def _bits(scratch: _Scratch) -> Messages:
    """Check that the scratch tile has a bit for each element, and one physical row more than the operand."""
    if element_bytes(scratch.tile.dtype) != 1:
        yield f"tmp holds a mask of 8-bit integers, found elements {scratch.tile.dtype}"
    rows, cols = scratch.extents("dst")
    if rows is not None and scratch.tile.rows < rows + 1:
        yield f"tmp has {scratch.tile.rows} rows, expected one more than the {rows} of dst"
    if cols is not None and scratch.cols is not None and scratch.cols < -(-cols // 8):
        yield f"tmp has {scratch.cols} valid columns, expected {-(-cols // 8)}, a bit for each of dst"


def _stride(scratch: _Scratch, cols: int) -> int:
    """Return the number of columns that hold the partial positions and values of one row."""
    size = max(element_bytes(scratch.tile.dtype), 1)
    block, repeats = _BLOCK // size, -(-cols * size // _REPEAT)
    return (-(-repeats * 2 // block) + -(-repeats // block)) * block


def _partial_positions(scratch: _Scratch, axis: str) -> Messages:
    """Check the scratch of argmax and argmin: as large as src, or with room for the partial results."""
    rows, cols = scratch.extents("src")
    if rows is None or cols is None or scratch.rows is None or scratch.cols is None:
        return
    if (scratch.rows, scratch.cols) == (rows, cols):
        return
    size = max(element_bytes(scratch.tile.dtype), 1)
    min_rows = rows if axis == "row" else 1
    if axis == "row" and cols * size <= _REPEAT:
        if scratch.cols == 1 and scratch.tile.blayout == "col_major":
            min_rows, min_cols = 2 * rows, 1
        else:
            min_cols = 2
    else:
        min_cols = _stride(scratch, cols)
    if scratch.rows < min_rows:
        yield f"tmp has {scratch.rows} valid rows, expected at least {min_rows}"
    if scratch.cols < min_cols:
        yield f"tmp has {scratch.cols} valid columns, expected at least {min_cols} for {cols} of src"


def _as_wide_as(scratch: _Scratch, role: str) -> Messages:
    """Check that the scratch tile has as many columns as another operand."""
    other = scratch.type(role)
    yield from _wide(scratch, role, other.cols if other is not None else None)


def _as_wide_as_valid(scratch: _Scratch, role: str) -> Messages:
    """Check that the scratch tile has as many columns as another operand has valid columns."""
    yield from _wide(scratch, role, scratch.extents(role)[1])


def _wide(scratch: _Scratch, role: str, columns: int | None) -> Messages:
    if columns is not None and scratch.tile.cols < columns:
        yield f"tmp has {scratch.tile.cols} columns, expected at least the {columns} of {role}"


PRESENCE: dict[str, Callable[..., Messages]] = {
    "with_high_precision": _with_high_precision,
    "with_floats": _with_floats,
    "with_binary": _with_binary,
}
SCRATCH_RULES: dict[str, Callable[..., Messages]] = {
    "like": _same_elements,
    "covers": _covers,
    "same_extents": _same_extents,
    "bits": _bits,
    "partial_positions": _partial_positions,
    "as_wide_as": _as_wide_as,
    "as_wide_as_valid": _as_wide_as_valid,
}


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
    """Check that all tiles have an address if ``pto.tassign`` moves one: the assembler then plans no memory."""
    operations = list(resolved.function.walk())
    if any(op.name == "pto.tassign" for op in operations):
        for op in operations:
            if op.name == "pto.alloc_tile" and "addr" not in op.operands:
                yield Problem(op, "has no addr, which each tile needs beside pto.tassign", resolved.function)


def check_buffers(resolved: Resolved) -> Iterator[Problem]:
    """Check that no tile of a function overlaps a pipe's buffer."""
    function = resolved.function
    buffers = list(_buffers(function))
    for op in function.walk() if buffers else ():
        if op.name in TILE_ALLOCATIONS and op.result_types and isinstance(op.result_types[0], TileType):
            for message in _in_a_buffer(resolved, op, op.result_types[0], buffers):
                yield Problem(op, message, function)


def _buffers(function: Function) -> Iterator[tuple[str, str, int, int]]:
    """Yield name, memory space, start and end of the buffers that pipes fill."""
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
