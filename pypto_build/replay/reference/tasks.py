"""Executes one task in PyTorch: its kernels with the task's tensors and scalars, the members of a group in turns.

Arguments are descriptors: a tensor's memory, shape, strides and element type. Tensors are views of that memory, so the
next kernel sees what a kernel stores.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch

from pypto_build.facts.dtypes import ITEMSIZE
from pypto_build.pto.torch.dtypes import TORCH
from pypto_build.replay.reference.entry import BLOCK, BLOCKS, EXTENT, LANE, SCALAR
from pypto_build.replay.reference.slots import Slot, TensorArgument
from pypto_build.replay.reference.units import Body, Unit
from pypto_build.replay.scalars import scalar_value


@dataclass(frozen=True)
class Member:
    """One kernel of a task: `lane` is the number of its vector core in the group."""

    name: str
    body: Body
    lane: int = 0


#: The layout of a CommContext, which a kernel gets as a scalar that is its address.
CONTEXT_BYTES = 1056


@lru_cache(maxsize=4096)
def memory(address: int, size: int) -> torch.Tensor:
    """Return memory of this process as a tensor of bytes on it."""
    return torch.frombuffer((ctypes.c_uint8 * size).from_address(address), dtype=torch.uint8)


def run_task(members: Sequence[Member], slots: Sequence[Slot], block: int, blocks: int) -> None:
    """Run one block of a task. A kernel's error (a window beyond a tensor, a deadlock) raises an exception of the
    generated text."""
    if len(members) > 1 or members[0].body.is_generator:
        _run_group(members, slots, [block], blocks)
        return
    _start(members[0], slots, block, blocks)


def run_blocks(members: Sequence[Member], slots: Sequence[Slot], blocks: int) -> None:
    """Run all blocks of a task together, for kernels that wait for each other."""
    if len(members) == 1 and members[0].body.is_generator:
        _run_group(members, slots, list(range(blocks)), blocks)
        return
    for block in range(blocks):
        run_task(members, slots, block, blocks)


def _run_group(members: Sequence[Member], slots: Sequence[Slot], numbers: Sequence[int], blocks: int) -> None:
    """Run members that are generators in turns. Others run first if they push to pipes, else last."""
    namespace = members[0].body.unit.namespace
    if "_reset_pipes" in namespace:
        namespace["_reset_pipes"]()
        namespace["_lanes"][0] = max(1, max(member.lane for member in members) + 1)
    tasks: list[tuple[str, Any, int]] = []
    for member in sorted(members, key=_consumes):
        for number in numbers:
            started = _start(member, slots, number, blocks)
            if member.body.is_generator:
                tasks.append((member.name, started, member.lane))
    if tasks:
        namespace["_run_scheduler"](tasks)


def _consumes(member: Member) -> bool:
    """Return whether a member pops from pipes and never pushes."""
    body = member.body.function.body
    assert body is not None
    names = {op.name for op in body.walk()}
    return any("tpop_from" in name for name in names) and not any("tpush_to" in name for name in names)


def _start(member: Member, slots: Sequence[Slot], block: int, blocks: int) -> Any:
    """Call a kernel; if it is a generator, it has not begun when this returns."""
    body = member.body
    namespace = body.unit.namespace
    if "_block" in namespace:
        namespace["_block"][:] = [block, blocks]
    if "_current_sb" in namespace:
        namespace["_current_sb"][0] = member.lane
    values: list[Any] = []
    for (kind, slot, axis, _), type_, address in zip(body.passed, body.types, body.addresses, strict=True):
        given = slots[slot]
        if kind == BLOCK:
            values.append(block)
        elif kind == BLOCKS:
            values.append(blocks)
        elif kind == LANE:
            values.append(member.lane)
        elif kind == SCALAR:
            assert isinstance(given, int)
            context = TensorArgument(given, CONTEXT_BYTES, 0, "int64", (), ())
            values.append(_pointer(body.unit, context) if address else scalar_of(given, type_))
        else:
            assert isinstance(given, TensorArgument)
            values.append(given.shape[axis] if kind == EXTENT else _pointer(body.unit, given))
    return body.call(*values)


def _pointer(unit: Unit, given: TensorArgument) -> Any:
    """Return a tensor in the form of the generated text. Results are cached, since the same memory recurs in loops."""
    key = given[:4]
    found = unit.pointers.get(key)
    if found is None and "Pointer" in unit.namespace:
        dtype = getattr(torch, given.dtype)
        whole = memory(given.buffer, given.size)[: given.size // dtype.itemsize * dtype.itemsize].view(dtype)
        if len(unit.pointers) >= _POINTERS:
            unit.pointers.clear()
        found = unit.pointers[key] = unit.namespace["Pointer"](whole, given.offset)
    return found


_POINTERS = 4096  # so many are remembered


def scalar_of(bits: int, kind: str) -> Any:
    """Return the value of a .pto scalar type that is encoded in 64 bits of a task's argument."""
    if kind == "i1":
        return bool(bits & 1)
    dtype = TORCH.get(kind, "int64")
    return scalar_value((bits & (1 << 64) - 1).to_bytes(8, "little")[: ITEMSIZE[dtype]], dtype)
