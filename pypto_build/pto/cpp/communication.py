"""Transfers between devices, signals, and barriers between the blocks of a task to C++.

A replay runs one device whose memory every rank shares, so a transfer is a copy, and an asynchronous one is finished
when it has been started.
"""

from __future__ import annotations

from ..attributes import case_of
from ..model import Operation
from ..ops import TABLE
from ..types import TileType
from .emitter import LOWERINGS, Emitter, Scalar

_ATOMIC = {"atomic_add": "AtomicType::AtomicAdd"}
_NOTIFY = {"atomic_add": "AtomicAdd", "set": "Set"}
_CORES = {"mix": "Mix", "aiv_only": "AIVOnly", "aic_only": "AICOnly"}


@LOWERINGS.of("comm:tput", "comm:tget")
def transfer(e: Emitter, op: Operation) -> None:
    """tput and tget: dst = src, through staging tiles."""
    dst, src = e.text(op, "dst"), e.text(op, "src")
    buffers = [e.expression(value, op) for value in e.resolved.values(op, "buffers")] or [dst]
    atomic = _ATOMIC.get(case_of(op.attrs.get("atomicType")), "")
    name = "TPUT" if TABLE[op.name].fn == "tput" else "TGET"
    e.out.add(f"pto::comm::{name}{f'<{atomic}>' if atomic else ''}({', '.join([dst, src, *buffers])});")


@LOWERINGS.of("comm:notify")
def notify(e: Emitter, op: Operation) -> None:
    kind = _NOTIFY[case_of(op.attrs.get("notifyOp"), "set")]
    e.out.add(f"pto::comm::TNOTIFY({e.text(op, 'signal')}, {e.text(op, 'value')}, pto::comm::NotifyOp::{kind});")


def _condition(e: Emitter, op: Operation) -> str:
    comparison = case_of(op.attrs.get("cmp"), "eq").upper()
    return f"{e.text(op, 'signal')}, {e.text(op, 'value')}, pto::comm::WaitCmp::{comparison}"


@LOWERINGS.of("comm:wait")
def wait(e: Emitter, op: Operation) -> None:
    e.out.add(f"pto::comm::TWAIT({_condition(e, op)});")


@LOWERINGS.of("comm:test")
def test(e: Emitter, op: Operation) -> None:
    e.define(op, f"pto::comm::TTEST({_condition(e, op)})")


@LOWERINGS.of("async:session", "async:prefetch_session", "async:context", "async:prefetch")
def handle(e: Emitter, op: Operation) -> None:
    """Sessions and contexts: nothing is kept, since nothing is ever under way."""
    e.bind(op, Scalar("true", "bool"))


@LOWERINGS.of("async:tput_async", "async:tget_async")
def start(e: Emitter, op: Operation) -> None:
    """An asynchronous transfer, done at once; its event is always complete."""
    dst, src = e.text(op, "dst"), e.text(op, "src")
    name = "TPUT" if TABLE[op.name].fn == "tput_async" else "TGET"
    e.out.add(f"pto::comm::{name}({dst}, {src}, {dst});")
    handle(e, op)


@LOWERINGS.of("async:wait_async_event", "async:test_async_event")
def finished(e: Emitter, op: Operation) -> None:
    """wait_async_event and test_async_event."""
    e.bind(op, Scalar("true", "bool"))


@LOWERINGS.of("crosscore:all")
def sync_all(e: Emitter, op: Operation) -> None:
    """Every block of the task reaches this point before any goes on."""
    cores = _CORES[case_of(op.attrs.get("core_type"), "aiv_only")]
    operands = e.resolved.values(op, "operands")
    used = operands[-1] if len(operands) > 2 and not isinstance(operands[-1].type, TileType) else None
    if case_of(op.attrs.get("mode")) == "soft" and used is not None and operands[0].type is not None:
        workspace = e.expression(operands[0], op)
        if not workspace.endswith("_tensor"):
            e.fail(op, "the workspace of a soft barrier is a view of global memory")
        e.out.add(f"SYNCALL<SyncAllMode::Soft, SyncCoreType::{cores}>({workspace}, (int32_t){e.expression(used, op)});")
        return
    e.out.add(f"SYNCALL<SyncCoreType::{cores}>();")
