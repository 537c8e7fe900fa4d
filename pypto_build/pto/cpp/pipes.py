"""Converts cross-core pipes to C++: a `TPipe` for each opened pipe, and TPUSH, TPOP and TFREE."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

from ..model import Operation, StrAttr, SymbolAttr, case_of, int_value
from ..ops import TABLE
from ..types import DYNAMIC, TileType, ViewType
from . import emitter
from .emitter import LOWERINGS, Emitter, GlobalView, Scalar, row_major_strides

# Transfers between devices, signals, collectives, and barriers between the blocks of a task to C++.

_ATOMIC = {"atomic_add": "AtomicType::AtomicAdd"}
_NOTIFY = {"atomic_add": "AtomicAdd", "set": "Set"}
_CORES = {"mix": "Mix", "aiv_only": "AIVOnly", "aic_only": "AICOnly"}


@LOWERINGS.of("comm:tput", "comm:tget")
def transfer(e: Emitter, op: Operation) -> None:
    """Write tput and tget: dst = src, through staging tiles."""
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
    """Write a collective on the views of all ranks, executed by the calling rank."""
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
    """Declare a C++ object for the operation's result; return its name."""
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
    """Write an asynchronous transfer; its event is set on completion."""
    operands = ", ".join(e.text(op, role) for role in ("dst", "src", "session"))
    _object(e, op, "pto::comm::AsyncEvent", f"pto::comm::{TABLE[op.name].fn.upper()}({operands})")


@LOWERINGS.of("async:wait_async_event", "async:test_async_event")
def finished(e: Emitter, op: Operation) -> None:
    """Write wait_async_event and test_async_event."""
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
    """Write a flag operation on the group's other cores, set or wait, by the calls of the platform."""
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
    """Write a barrier of all blocks of the task."""
    cores = _CORES[case_of(op.attrs.get("core_type"), "aiv_only")]
    operands = e.resolved.values(op, "operands")
    used = operands[-1] if len(operands) > 2 and not isinstance(operands[-1].type, TileType) else None
    if case_of(op.attrs.get("mode")) == "soft" and used is not None and operands[0].type is not None:
        workspace = e.expression(operands[0], op)
        if not workspace.endswith("_tensor"):
            e.fail(op, "the workspace of a soft barrier must be a view of global memory")
        e.out.add(f"SYNCALL<SyncAllMode::Soft, SyncCoreType::{cores}>({workspace}, (int32_t){e.expression(used, op)});")
        return
    e.out.add(f"SYNCALL<SyncCoreType::{cores}>();")


_DIRECTIONS = {1: "DIR_C2V", 2: "DIR_V2C", 3: "DIR_BOTH"}
_SPLITS = ("TILE_NO_SPLIT", "TILE_UP_DOWN", "TILE_LEFT_RIGHT", "TILE_UP_DOWN_ODD", "TILE_LEFT_RIGHT_ODD")


@LOWERINGS.of("pipe:open")
def open_pipe(e: Emitter, op: Operation) -> None:
    number = int_value(op.attrs.get("id"))
    gm = e.text(op, "gm_slot_buffer", "nullptr")
    consumer = [e.text(op, role, "0") for role in ("c2v_consumer_buf", "v2c_consumer_buf")]
    _declare(e, op, f"pipe{number}", number, [gm, *consumer], split_used(e, number))


@LOWERINGS.of("pipe:open_l2l", "pipe:open_l2g2l")
def open_value(e: Emitter, op: Operation) -> None:
    """Write the forms whose result is the pipe: local buffer(s), or global and local ones."""
    value = e.resolved.results(op)[0]
    args = [e.expression(v, op) for v in e.resolved.values(op, "args")]
    through_gm = op.name == "pto.initialize_l2g2l_pipe"
    gm = args.pop(0) if through_gm and args else "nullptr"
    buffers = [*args, "0", "0"][:2]
    if int_value(op.attrs.get("dir_mask")) == 2 and len(args) == 1:
        buffers.reverse()
    used = any(
        int_value(user.attrs.get("split"))
        for user in e.function.walk()
        if "pipe" in user.operands and e.resolved.value(user, "pipe") is value
    )
    _declare(e, op, value.name, id(value), [gm, *buffers], used)


def _declare(e: Emitter, op: Operation, name: str, key: int, args: list[str], used_split: bool) -> None:
    mask = int_value(op.attrs.get("dir_mask"))
    if mask not in _DIRECTIONS:
        e.fail(op, f"dir_mask must be 1, 2 or 3, found {mask}")
    slots = int_value(op.attrs.get("slot_num"), 4 if mask == 3 else 8)
    local = int_value(op.attrs.get("local_slot_num"), slots)
    flag = int_value(op.attrs.get("flag_base"), 2 * int_value(op.attrs.get("id")))
    unsplit = int_value(op.attrs["nosplit"]) if "nosplit" in op.attrs else not used_split
    size = int_value(op.attrs.get("slot_size"))
    variable = e.names.new(name)
    kind = f"TPipe<{flag}, Direction::{_DIRECTIONS[mask]}, {size}, {slots}, {local}, {'true' if unsplit else 'false'}>"
    e.out.add(f"auto {variable} = {kind}({', '.join(args)});")
    e.pipes[key] = variable


def split_used(e: Emitter, number: int) -> bool:
    """Return whether any traffic on the pipe is split between the two vector cores; both ends have to agree."""
    return any(
        int_value(op.attrs.get("split"))
        for function in e.module.functions()
        for op in function.walk()
        if TABLE[op.name].family == "pipe" and "split" in op.attrs and int_value(op.attrs.get("id")) == number
    )


def _pipe(e: Emitter, op: Operation) -> str:
    value = e.resolved.value(op, "pipe") if "pipe" in op.operands else None
    key = id(value) if value is not None else int_value(op.attrs.get("id"))
    if key not in e.pipes:
        e.fail(op, "the pipe was not opened in this function")
    return e.pipes[key]


def _split(op: Operation) -> str:
    split = int_value(op.attrs.get("split"))
    return f"TileSplitAxis::{_SPLITS[split]}" if 0 <= split < len(_SPLITS) else f"TileSplitAxis({split})"


@LOWERINGS.of("pipe:push")
def push(e: Emitter, op: Operation) -> None:
    pipe, entry = _pipe(e, op), e.text(op, "tile")
    e.out.add(f"TPUSH<decltype({pipe}), decltype({entry}), {_split(op)}>({pipe}, {entry});")


@LOWERINGS.of("pipe:pop", "pipe:acquire")
def take(e: Emitter, op: Operation) -> None:
    """Write a pop of the oldest slot, or the allocation of a free slot.

    The slot is stored in the entry operand, or becomes the result: a tile or a view.
    """
    pipe, instruction = _pipe(e, op), "TPOP" if TABLE[op.name].fn == "pop" else "TALLOC"
    if "tile" in op.operands:
        bound = e.bound.get(id(e.resolved.value(op, "tile")))
        entry = bound.variable if isinstance(bound, GlobalView) and bound.variable else e.text(op, "tile")
    elif isinstance(op.result_types[0], ViewType):
        declare_slot(e, op)
        entry = cast(GlobalView, e.bound[id(e.resolved.results(op)[0])]).variable
    elif isinstance(op.result_types[0], TileType):
        type_ = op.result_types[0]
        entry = e.declare_tile(op, type_, e.text(op, "valid_row"), e.text(op, "valid_col")).name
    else:
        raise emitter.UnsupportedCppType(f"a pipe entry of the type {op.result_types[0]} is not supported")
    e.out.add(f"{instruction}<decltype({pipe}), decltype({entry}), {_split(op)}>({pipe}, {entry});")


@LOWERINGS.of("view:declare")
def declare_slot(e: Emitter, op: Operation) -> None:
    """Declare a view that a pipe places later; its rows are contiguous unless it has strides."""
    type_ = op.result_types[0]
    if not isinstance(type_, ViewType) or DYNAMIC in type_.shape or not 0 < len(type_.shape) <= 5:
        raise emitter.UnsupportedCppType(f"the view of a slot must have constant extents, found {type_}")
    strides_ = [
        int_value(item)
        for name, value in op.attrs.items()
        if name.endswith("strides")
        for item in getattr(value, "items", ())
    ]
    strides = tuple(strides_) if len(strides_) == len(type_.shape) else row_major_strides(type_.shape)
    name = e.names.new(e.resolved.results(op)[0].name)
    element = emitter.scalar(type_.element)
    view = GlobalView(f"(__gm__ {element}*)nullptr", element, type_.shape, strides)
    e.out.add(view.declaration(name))
    e.bind(op, replace(view, pointer=f"{name}.data()", variable=name))


@LOWERINGS.of("pipe:free")
def free(e: Emitter, op: Operation) -> None:
    pipe = _pipe(e, op)
    value = e.resolved.value(op, "entry") if "entry" in op.operands else None
    if value is not None and isinstance(value.type, ViewType):
        entry = e.expression(value, op)
        e.out.add(f"TFREE<decltype({pipe}), decltype({entry}), {_split(op)}>({pipe}, {entry});")
    else:
        e.out.add(f"TFREE<decltype({pipe}), {_split(op)}>({pipe});")


@LOWERINGS.of("pipe:reserve")
def reserve(e: Emitter, op: Operation) -> None:
    base = int_value(op.attrs.get("base"), e.addresses.get(id(op), 0))
    e.bind(op, Scalar(str(base), "int32_t"))


@LOWERINGS.of("pipe:import")
def import_buffer(e: Emitter, op: Operation) -> None:
    """Bind the peer's buffer of that name, whose address both sides must know."""
    peer, name = op.attrs.get("peer_func"), op.attrs.get("name")
    for function in e.module.functions():
        if function.body is None or not (isinstance(peer, SymbolAttr) and function.name == peer.name):
            continue
        for other in function.body.walk():
            if other.name == "pto.reserve_buffer" and isinstance(name, StrAttr) and other.attrs.get("name") == name:
                e.bind(op, Scalar(str(int_value(other.attrs.get("base"), e.addresses.get(id(other), 0))), "int32_t"))
                return
    e.fail(op, f"{peer} has no pto.reserve_buffer named {name}")
