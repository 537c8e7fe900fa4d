"""Finds the translation of an operation: by its family and function, or its family."""

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

#: Operations that are an expression of their operands; and statements of them.
_EXPRESSIONS = {
    "arith_select": "{on_true} if {cond} else {on_false}",
    "core_id:block_idx": "_block[0]",
    "core_id:block_num": "_block[1]",
    "core_id:subblock_idx": "_current_sb[0]",
    "core_id:subblock_num": "_lanes[0]",
    "pointer:add": "{ptr} + {offset}",
    "scalar:load": "{ptr}[{index}]",
    "tile:address": "{tile}.address",
    "tile:slot": "{tiles}[{slot}]",
    "view:dim": "{view}.shape[{dim}]",
}
_STATEMENTS = {
    "element:set": "{tile}.flat[{offset}] = {value}",
    "scalar:store": "{ptr}[{index}] = {value}",
    "tile:set_valid": "{tile}.valid = ({row}, {col})",
}


def _written(w: Writer, op: Operation, forms: dict[str, str]) -> str:
    form = next(forms[key] for key in TABLE[op.name].keys if key in forms)
    return form.format(**{role: w.operand(op, role) for role in op.operands})


@LOWERINGS.of(*_EXPRESSIONS)
def expression(w: Writer, op: Operation) -> None:
    w.define(op, _written(w, op, _EXPRESSIONS))


@LOWERINGS.of(*_STATEMENTS)
def statement(w: Writer, op: Operation) -> None:
    w.add(op, _written(w, op, _STATEMENTS))


@LOWERINGS.of("async:context", "async:prefetch", "async:prefetch_session", "async:session")
@LOWERINGS.of("crosscore:set", "crosscore:wait", "fence", "none", "print")
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
