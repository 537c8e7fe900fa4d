"""Which translation an operation has: by its family and function, or its family."""

from __future__ import annotations

from ..model import Operation
from ..ops import TABLE
from . import (  # noqa: F401  (they register what they translate)
    communication,
    control,
    converting,
    elementwise,
    pipes,
    products,
    rearranging,
    reducing,
    scalars,
    tiles,
    transfers,
)
from .writer import LOWERINGS, Lower, Writer


@LOWERINGS.of("async:context", "async:prefetch", "async:prefetch_session", "async:session")
@LOWERINGS.of("crosscore:set", "crosscore:wait", "fence", "none")
def nothing(w: Writer, op: Operation) -> None:
    """Orders pipelines, prefetches, prints or hints: nothing that changes a value."""
    for value in w.resolved.results(op):
        w.bind(value, "None")


@LOWERINGS.of("trap")
def trap(w: Writer, op: Operation) -> None:
    """The kernel ends itself."""
    w.add(op, 'raise RuntimeError("the kernel ended itself (pto.trap)")')


def find_lowering(op: Operation) -> Lower | None:
    """The translation of an operation; None when it has none."""
    definition = TABLE.get(op.name)
    return LOWERINGS.find(definition) if definition else None
