"""Transfers between devices, signals, collectives, and barriers between the blocks of a task to C++."""

from __future__ import annotations

from ..attributes import case_of, int_value
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
    name = TABLE[op.name].fn.upper()
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


@LOWERINGS.of("comm:tbroadcast", "comm:tgather", "comm:tscatter", "comm:treduce")
def collective(e: Emitter, op: Operation) -> None:
    """A collective over the views of all ranks, done by the calling rank."""
    views = [e.expression(value, op) for value in e.resolved.values(op, "group")]
    stages = [e.expression(value, op) for value in e.resolved.values(op, "recv")]
    if not views or not stages:
        e.fail(op, "needs the views of all ranks in group(…), and a tile in recv(…)")
    name = e.names.new("group")
    kind, root = f"decltype({views[0]})", int_value(op.attrs.get("root"))
    e.out.add(f"{kind} {name}_views[] = {{{', '.join(views)}}};")
    e.out.add(f"pto::comm::ParallelGroup<{kind}> {name}({name}_views, {len(views)}, {root});")
    reduces = TABLE[op.name].fn == "treduce"
    operands = [name, e.text(op, "data"), *([e.text(op, "acc")] if reduces else []), *stages]
    if reduces:
        operands.append(f"pto::comm::ReduceOp::{case_of(op.attrs.get('reduceOp'), 'sum').capitalize()}")
    e.out.add(f"pto::comm::{TABLE[op.name].fn.upper()}({', '.join(operands)});")


# --- asynchronous transfers ------------------------------------------------------------------------------------------


def _object(e: Emitter, op: Operation, kind: str, *initial: str) -> str:
    """An object of C++ that the operation's result is from here on."""
    name = e.names.new(e.resolved.results(op)[0].name)
    e.out.add(f"{kind} {name}{' = ' if initial else ''}{''.join(initial)};")
    e.bind(op, Scalar(name, kind))
    return name


@LOWERINGS.of("async:session")
def session(e: Emitter, op: Operation) -> None:
    name = _object(e, op, "pto::comm::AsyncSession")
    scratch, workspace = e.text(op, "scratch"), e.text(op, "workspace")
    e.out.add(f"pto::comm::BuildAsyncSession({scratch}, (__gm__ uint8_t*){workspace}, {name});")


@LOWERINGS.of("async:tput_async", "async:tget_async")
def start(e: Emitter, op: Operation) -> None:
    """An asynchronous transfer; its event says when it is complete."""
    operands = ", ".join(e.text(op, role) for role in ("dst", "src", "session"))
    _object(e, op, "pto::comm::AsyncEvent", f"pto::comm::{TABLE[op.name].fn.upper()}({operands})")


@LOWERINGS.of("async:wait_async_event", "async:test_async_event")
def finished(e: Emitter, op: Operation) -> None:
    """wait_async_event and test_async_event."""
    word = "Wait" if TABLE[op.name].fn == "wait_async_event" else "Test"
    e.define(op, f"{e.text(op, 'event')}.{word}({e.text(op, 'session')})")


@LOWERINGS.of("async:context")
def prefetch_context(e: Emitter, op: Operation) -> None:
    name = e.names.new(e.resolved.results(op)[0].name)
    e.out.add(f"pto::PrefetchAsyncContext {name}((__gm__ uint8_t*){e.text(op, 'workspace')});")
    e.bind(op, Scalar(name, "pto::PrefetchAsyncContext"))


@LOWERINGS.of("async:prefetch_session")
def prefetch_session(e: Emitter, op: Operation) -> None:
    e.bind(op, Scalar(f"{e.text(op, 'context')}.GetSession()", "pto::comm::AsyncSession"))


@LOWERINGS.of("async:prefetch")
def prefetch(e: Emitter, op: Operation) -> None:
    operands = f"{e.text(op, 'src')}, {e.text(op, 'context')}"
    _object(e, op, "pto::comm::AsyncEvent", f"pto::TPREFETCH_ASYNC({operands})")


@LOWERINGS.of("crosscore:set", "crosscore:wait")
def core_flag(e: Emitter, op: Operation) -> None:
    """Set a flag of the group's other cores, or wait for one: by the calls of the platform."""
    pipe, sets = f"PIPE_{case_of(op.attrs['pipe']).removeprefix('PIPE_')}", TABLE[op.name].fn == "set"
    flag = e.text(op, "event_id") or str(int_value(op.attrs.get("event")))
    if e.arch == "a5":
        e.out.add(f"{'set' if sets else 'wait'}_intra_block({pipe}, {flag});")
    elif sets:
        mode = int_value(op.attrs.get("ffts_mode"), 2)
        e.out.add(f"ffts_cross_core_sync({pipe}, getFFTSMsg({'FFTS_MODE_VAL' if mode == 2 else mode}, {flag}));")
    else:
        e.out.add(f"wait_flag_dev({flag});")


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
