"""Finds the lowering of an operation: by its family and function, its family, or as a plain instruction."""

from __future__ import annotations

from ..model import Operation
from ..ops import TABLE
from ..types import PtrType
from . import control, pipes, tiles  # noqa: F401  (they register what they lower)
from .emitter import LOWERINGS, Emit, Emitter
from .instructions import INSTRUCTIONS, instruction

LOWERINGS.update(INSTRUCTIONS)


def refuse(e: Emitter, op: Operation) -> None:
    """Raise the error that says why no simulated platform can run the operation."""
    e.fail(op, TABLE[op.name].refused)


@LOWERINGS.of("none")
def order(e: Emitter, op: Operation) -> None:
    """Write flags and barriers between a core's pipelines, which matter on weakly ordered machines; hints write
    nothing.
    """
    if TABLE[op.name].cpp:
        instruction(e, op)


@LOWERINGS.of("print")
def print_scalar(e: Emitter, op: Operation) -> None:
    """Print a number by the operation's format; half types are printed as float."""
    printed, value = e.text(op, "scalar"), e.resolved.value(op, "scalar")
    half = value is not None and str(value.type) in ("f16", "bf16")
    e.out.add(f"cce::printf({op.attrs['format']}, {f'float({printed})' if half else printed});")


@LOWERINGS.of("fence:all")
def fence(e: Emitter, op: Operation) -> None:
    """Write a fence that makes the core's stores visible to others, from any pipeline."""
    e.out.add("pipe_barrier(PIPE_ALL);")
    e.out.add("dsb(DSB_DDR);")


@LOWERINGS.of("fence:cache")
def cache(e: Emitter, op: Operation) -> None:
    """Write code that writes back and drops a line of the data cache, or the whole cache."""
    if "addr" not in op.operands:
        e.out.add("dcci((__gm__ void*)0, cache_line_t::ENTIRE_DATA_CACHE);")
        return
    value = e.resolved.value(op, "addr")
    address = e.text(op, "addr") + ("" if value is not None and isinstance(value.type, PtrType) else ".data()")
    e.out.add(f"dcci((__gm__ void*){address}, cache_line_t::SINGLE_CACHE_LINE);")


def find_lowering(op: Operation) -> Emit | None:
    """Return the lowering of an operation, or None; a refused operation lowers to its error."""
    definition = TABLE[op.name]
    if definition.refused:
        return refuse
    plain = instruction if definition.cpp and not definition.results else None
    return LOWERINGS.find(definition) or plain
