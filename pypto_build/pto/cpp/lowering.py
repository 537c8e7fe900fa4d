"""Which lowering an operation has: by its family and function, its family, or as a plain instruction."""

from __future__ import annotations

from ..model import Operation
from ..ops import TABLE
from . import communication, control, pipes, scalars, tiles  # noqa: F401  (they register what they lower)
from .emitter import LOWERINGS, Emit, Emitter
from .instructions import INSTRUCTIONS, instruction

LOWERINGS.update(INSTRUCTIONS)


def refuse(e: Emitter, op: Operation) -> None:
    """Fails with the sentence that says why no simulated platform can run the operation."""
    e.fail(op, TABLE[op.name].refused)


@LOWERINGS.of("none", "fence")
def nothing(e: Emitter, op: Operation) -> None:
    """Orders pipelines, prefetches or hints: instructions complete in order on a simulated platform."""


def find_lowering(op: Operation) -> Emit | None:
    """The lowering of an operation, None when it has none; what is refused lowers to the error that says why."""
    definition = TABLE[op.name]
    if definition.refused:
        return refuse
    plain = instruction if definition.cpp and not definition.results else None
    return LOWERINGS.find(definition) or plain
