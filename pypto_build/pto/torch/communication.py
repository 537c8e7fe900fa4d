"""Transfers between ranks, signals and collectives to Python.

A pointer into a window reaches the windows of other ranks if all of them lie in one tensor.
"""

from __future__ import annotations

from ..attributes import case_of
from ..model import Operation
from ..ops import TABLE
from .writer import LOWERINGS, Writer


@LOWERINGS.of("comm:tput", "comm:tget")
def transfer(w: Writer, op: Operation) -> None:
    add = case_of(op.attrs.get("atomicType")) == "atomic_add"
    w.add(op, f"put({w.operand(op, 'dst')}, {w.operand(op, 'src')}{', add=True' if add else ''})")


@LOWERINGS.of("comm:notify")
def notify(w: Writer, op: Operation) -> None:
    add = case_of(op.attrs.get("notifyOp"), "set") == "atomic_add"
    w.add(op, f"notify({w.operand(op, 'signal')}, {w.operand(op, 'value')}, add={add})")


def _condition(w: Writer, op: Operation) -> str:
    return f'{w.operand(op, "signal")}, {w.operand(op, "value")}, "{case_of(op.attrs.get("cmp"), "eq")}"'


@LOWERINGS.of("comm:wait")
def wait(w: Writer, op: Operation) -> None:
    w.add(op, f"{'yield from wait_g' if w.is_generator else 'wait'}({_condition(w, op)})")


@LOWERINGS.of("comm:test")
def test(w: Writer, op: Operation) -> None:
    w.define(op, f"holds({_condition(w, op)})")


@LOWERINGS.of("comm:tbroadcast", "comm:tgather", "comm:tscatter", "comm:treduce")
def collective(w: Writer, op: Operation) -> None:
    name = {"tbroadcast": "broadcast", "tgather": "gather_ranks", "tscatter": "scatter_ranks"}.get(TABLE[op.name].fn)
    group = ", ".join(w.text(value) for value in w.resolved.values(op, "group"))
    operands = f"[{group}], {w.operand(op, 'data')}"
    if name is None:
        w.add(op, f'reduce_ranks({operands}, "{case_of(op.attrs.get("reduceOp"), "sum")}")')
    else:
        w.add(op, f"{name}({operands})")


@LOWERINGS.of("async:tput_async", "async:tget_async")
def start(w: Writer, op: Operation) -> None:
    """Do the transfer at once: a wait for its event finds it complete, and a missing wait is a fault of the kernel."""
    w.add(op, f"put({w.operand(op, 'dst')}, {w.operand(op, 'src')})")
    w.bind(w.resolved.results(op)[0], "None")


@LOWERINGS.of("async:wait_async_event", "async:test_async_event")
def finished(w: Writer, op: Operation) -> None:
    w.bind(w.resolved.results(op)[0], "True")
