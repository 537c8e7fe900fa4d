"""Contents of memory after a number of instructions of a call, with the values of the reference.

Everything comes from the recording, so that a step back costs the same as a step forward.
"""

from __future__ import annotations

import mmap
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pypto_build.diagnose.why.runs import Expected
from pypto_build.diagnose.why.trace import AccessedView, Array, Instruction, Tile, TileOperand, decoded
from pypto_build.replay.reference.slots import TensorArgument
from pypto_build.replay.values import STORAGE, decode


@dataclass(frozen=True)
class Contents:
    """Elements with their values, which of them are known (something has read or written them), and for those that
    the reference has told, its values."""

    dtype: str
    values: Array
    known: Array
    expected: Array
    told: Array


def tile_contents(
    done: Sequence[Instruction], before: Sequence[Instruction], operand: TileOperand, expected: Expected
) -> Contents:
    """A tile after the instructions `done`; `before` are those that had told of memory nothing else has, later ones."""
    offsets = operand.offsets()
    low, high = operand.place + int(offsets.min()), operand.place + int(offsets.max()) + operand.element
    raw, filled = _memory(done, before, operand.space, low, high)
    index = (offsets + operand.place - low)[..., None] + np.arange(operand.element)
    stored = np.ascontiguousarray(raw[index]).view(np.dtype(f"u{operand.element}"))[..., 0]
    values, told = _expected(done, operand.space, offsets + operand.place, expected)
    return Contents(operand.dtype, decoded(stored, operand.dtype), np.asarray(filled[index].all(axis=-1)), values, told)


def _memory(
    done: Sequence[Instruction], later: Sequence[Instruction], space: int, low: int, high: int
) -> tuple[Array, Array]:
    """Bytes of a memory of the core, and which of them are known."""
    raw, filled = np.zeros(high - low, np.uint8), np.zeros(high - low, bool)
    for instruction in reversed(done):
        for tile in (*instruction.written, *instruction.read):
            if tile.space == space:
                _fill(raw, filled, low, tile.span[0], tile.data[tile.operand.at : tile.operand.at + tile.operand.size])
        if filled.all():
            return raw, filled
    for instruction in later:  # what is read, and was not written in between, had been there
        for tile in instruction.read:
            if tile.space == space:
                _fill(raw, filled, low, tile.span[0], tile.data[tile.operand.at : tile.operand.at + tile.operand.size])
        if any(tile.space == space and tile.span[0] < high and tile.span[1] > low for tile in instruction.written):
            break
    return raw, filled


def _fill(raw: Array, filled: Array, low: int, first: int, data: memoryview) -> None:
    """Put bytes that lie at `first` where nothing is known yet."""
    begin, end = max(first, low), min(first + len(data), low + len(raw))
    if begin >= end:
        return
    part = slice(begin - low, end - low)
    fresh = ~filled[part]
    raw[part][fresh] = np.frombuffer(data[begin - first : end - first], np.uint8)[fresh]
    filled[part] = True


def _expected(
    done: Sequence[Instruction], space: int | None, addresses: Array, expected: Expected
) -> tuple[Array, Array]:
    """Return the reference's values for the last writes to these addresses, and a mask of the known ones.

    ``space`` is a memory of the core, or None for global memory.
    """
    values, told = np.zeros(addresses.shape), np.zeros(addresses.shape, bool)
    left = np.ones(addresses.shape, bool)
    low, high = int(addresses.min(initial=1 << 62)), int(addresses.max(initial=-1)) + 1
    for instruction in reversed(done):
        written: Sequence[Tile | AccessedView] = [tile for tile in instruction.written if tile.space == space]
        result: Tile | AccessedView | None = next(iter(instruction.results), None)
        if space is None:
            written = [view for view in instruction.views if view.writes]
            result = next(iter(written), None)
        for one in written:
            if one.span[0] < high and one.span[1] > low:  # the reference has what the first result holds, no scratch
                there = expected.values.get(instruction.number) if one is result else None
                _take(one.addresses, addresses, left, there, values, told)
        if not left.any():
            break
    return values, told


def _take(written: Array, wanted: Array, left: Array, found: Array | None, values: Array, told: Array) -> None:
    """Take from `left` the wanted addresses that an instruction wrote, and store the reference's values for them.

    `found` holds the reference's result of the instruction, if there is one. `told` marks the values stored.
    """
    hit, rows, cols = _positions(written, wanted)
    hit &= left
    left &= ~hit
    if found is not None:
        inside = hit & (rows < found.shape[0]) & (cols < found.shape[1])
        values[inside] = found[rows[inside], cols[inside]].astype(np.float64)
        told |= inside


def _positions(addresses: Array, wanted: Array) -> tuple[Array, Array, Array]:
    """Return a mask of the wanted addresses that lie in a tile, with their rows and columns."""
    flat = addresses.reshape(-1)
    order = np.argsort(flat, kind="stable")
    at = np.minimum(np.searchsorted(flat, wanted, sorter=order), len(flat) - 1)
    number = order[at]
    rows, cols = np.divmod(number, addresses.shape[1])
    return np.asarray(flat[number] == wanted), rows, cols


def tensor_contents(
    done: Sequence[Instruction], slot: TensorArgument, before: bytes | mmap.mmap, expected: Expected
) -> Contents:
    """A task's tensor in global memory after the instructions `done`, as this call alone leaves it."""
    stored = np.dtype(STORAGE[slot.dtype])
    whole = np.frombuffer(before, np.uint8).copy()
    for instruction in done:
        for view in instruction.views:
            for first, data in view.runs:
                begin, end = max(first - slot.buffer, 0), min(first - slot.buffer + len(data), len(whole))
                if begin < end:
                    offset = slot.buffer - first
                    whole[begin:end] = np.frombuffer(data[begin + offset : end + offset], np.uint8)
    index = np.full(slot.shape, slot.offset, np.int64)
    for axis, (extent, stride) in enumerate(zip(slot.shape, slot.strides, strict=True)):
        index += (np.arange(extent) * stride).reshape([-1 if i == axis else 1 for i in range(len(slot.shape))])
    usable = whole[: len(whole) // stored.itemsize * stored.itemsize].view(stored)
    values = np.asarray(decode(usable[index], slot.dtype))
    wanted, told = _expected(done, None, slot.buffer + index * stored.itemsize, expected)
    return Contents(slot.dtype, values, np.ones(slot.shape, bool), wanted, told)
