"""The domains of a host program: which ranks share the windows that its buffers lie in.

Buffers whose windows go to the same ranks lie in one domain. Ranks that are known when compiling are named; where a
rank depends on how many there are, all of them share the windows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from .errors import CompileError
from .host import HostProgram
from .ir import Block, Op, Operand
from .values import BufferType, Const, Dim, Ref, Values, expect

Ranks = tuple[int, ...]  # none: all of them


@dataclass(frozen=True)
class Domain:
    """`ranks` are its members, none for all; `buffers` the names of its buffers in their order."""

    number: int
    ranks: Ranks
    buffers: tuple[str, ...]

    @property
    def name(self) -> str:
        return f"comm_d{self.number}"

    @property
    def handle(self) -> str:
        """The driver's variable."""
        return f"__{self.name}"


def domains_of(host: HostProgram) -> list[Domain]:
    """Return the domains, in the order of their first buffers. Raises CompileError for an unused buffer."""
    function = host.function
    used: dict[str, list[Ranks]] = {}
    _collect(function.body, {}, {}, used)
    groups: dict[Ranks, list[str]] = {}
    for op in function.body.walk():
        if op.name == "alloc_window_buffer":
            if op.result not in used:
                name = function.values[op.result].variable
                raise CompileError(op.position, f"no dispatch takes a window of {name}", "leave it out")
            groups.setdefault(_union(used[op.result]), []).append(op.result)
    return [Domain(number, ranks, tuple(names)) for number, (ranks, names) in enumerate(groups.items())]


def _collect(block: Block, indices: dict[str, Ranks], windows: dict[str, str], used: dict[str, list[Ranks]]) -> None:
    """Collect the ranks that windows of each buffer go to; `indices` has the values of loop indices, if constant."""
    for op in block.ops:
        if op.name == "window":
            windows[op.result] = op.ref(0).name
        elif op.name == "for":
            bounds = [int(a.value) if isinstance(a, Const) else None for a in op.args[:3]]
            counted = tuple(range(*bounds)) if None not in bounds else ()  # type: ignore[arg-type]
            _collect(op.blocks[0], {**indices, op.blocks[0].params[0]: counted}, windows, used)
        else:
            for inner in op.blocks:
                _collect(inner, indices, windows, used)
        if op.name == "call":
            ranks = _ranks(op, indices)
            for arg in op.args:
                if isinstance(arg, Ref) and arg.name in windows:
                    used.setdefault(windows[arg.name], []).append(ranks)


def _ranks(op: Op, indices: dict[str, Ranks]) -> Ranks:
    device: Operand | None = op.launch.device
    if isinstance(device, Const):
        return (int(device.value),)
    return indices.get(device.name, ()) if isinstance(device, Ref) else ()


def _union(sets: list[Ranks]) -> Ranks:
    return () if () in sets else tuple(sorted({rank for ranks in sets for rank in ranks}))


def buffer_count(values: Values, name: str) -> list[Dim]:
    """Return the extents whose product is a buffer's number of elements."""
    buffer = expect(values.types[name], BufferType, name)
    constant = math.prod(extent for extent in buffer.shape if isinstance(extent, int))
    rest: list[Dim] = [extent for extent in buffer.shape if not isinstance(extent, int)]
    return [*rest, constant] if constant != 1 or not rest else rest


def buffer_bytes(values: Values, name: str) -> list[Dim]:
    """The factors of a buffer's size in bytes."""
    buffer = expect(values.types[name], BufferType, name)
    size = buffer.dtype.size if buffer.dtype else 1
    *rest, last = buffer_count(values, name)
    return [*rest, last * size] if isinstance(last, int) else [*rest, last, size]
