"""Emits the .pto function of a kernel with planned addresses: views, allocations, instructions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from pypto_build.facts.dtypes import INT32, DType

from .errors import CompileError
from .ir import Const, Dim, IrFunction, Op, Operand, PipePlan, Ref, ScalarParam, TensorParam, Values, WindowType
from .memory import SIDES
from .operations import COMPARISONS
from .pto_text import Text, tile_text
from .pto_writer import PtoWriter

# In what order a kernel takes its arguments: tensors, numbers, the contexts of tensors in windows, dynamic extents,
# then what the launch tells it.
# The .pto function, the wrapper's unpacking and the orchestration's `add_*` calls all follow this one order.

GM_PIPE_BUFFER = "__gm_pipe_buffer"
LAUNCH_IDS = {
    "get_block_idx": "__pypto_spmd_block_idx",
    "get_block_num": "__pypto_spmd_block_num",
    "get_subblock_idx": "__pypto_spmd_subblock_idx",
}


def context_name(window: str) -> str:
    """Return the name of the argument with the context of a tensor in a window."""
    return f"{window}__ctx"


@dataclass(frozen=True)
class KernelSignature:
    """`contexts` has the tensors in windows, each with a context. `extents` has, for each dynamic extent,
    the parameter and axis it is read from; `launch_ids` the operations whose values are passed."""

    tensors: tuple[TensorParam, ...]
    scalars: tuple[ScalarParam, ...]
    contexts: tuple[TensorParam, ...]
    extents: tuple[tuple[str, TensorParam, int], ...]
    launch_ids: tuple[str, ...]


def signature_of(function: IrFunction) -> KernelSignature:
    extents: dict[str, tuple[str, TensorParam, int]] = {}
    for param in function.tensors():
        for number, extent in enumerate(param.type.shape):
            if isinstance(extent, Ref):
                extents.setdefault(extent.name, (extent.name, param, number))
    used = {op.name for op in function.body.walk()}
    # each block of a launched group has its own part of the pipe's buffer, so both members have to know theirs
    block = bool(used & {"get_block_idx", "get_block_num"}) or (function.spmd and function.pipe is not None)
    ids = [n for n in ("get_block_idx", "get_block_num") if block] + ["get_subblock_idx"] * ("get_subblock_idx" in used)
    return KernelSignature(
        function.tensors(), function.scalars(), function.windows(), tuple(extents.values()), tuple(ids)
    )


# Operations between ranks of one .pto function: remote addresses, transfers, signals, and visibility of writes.
# A context is read as 64-bit words. Word 2 has the rank in its low half and the number of ranks in its high half;
# word 4 + r is the address of rank r's window. The contract of ptoas: data written to a window leaves the cache and
# passes a fence before a signal announces it. Behind a wait, only data is read that was not cached before.

_RANKS_WORD, _WINDOWS_WORD = 2, 4


def viewed_here(op: Op) -> tuple[str, ...]:
    """Return the tensors of this rank that an operation of a kernel accesses through a view."""
    match op.name:
        case "load":
            return () if len(op.args) > 3 else (op.ref(0).name,)
        case "store":
            return () if len(op.args) > 3 else (op.ref(2).name,)
        case "wait" | "get":
            return (op.ref(0).name,)
        case "put":
            return (op.ref(2).name,)
        case "write":
            return (op.ref(0).name,)
    return ()


def peer_view(e: PtoWriter, window: Ref, peer: Operand) -> str:
    """Write and return a view of the same tensor in the window of another rank."""
    text, type_ = e.text, e.values.tensor(window.name)
    own, other = _window_of(e, window, _word(e, window, "rank")), _window_of(e, window, text.value(peer))
    distance, elements, at, pointer, view = (text.fresh() for _ in range(5))
    text.add(f"{distance} = arith.subi {other}, {own} : i64")
    text.add(f"{elements} = arith.divsi {distance}, {text.constant(type_.dtype.size, 'i64')} : i64")
    text.add(f"{at} = arith.index_cast {elements} : i64 to index")
    spelled = f"!pto.ptr<{type_.dtype.pto}>"
    text.add(f"{pointer} = pto.addptr {e.pointers[window.name]}, {at} : {spelled} -> {spelled}")
    e.view(view, pointer, type_)
    return view


def _window_of(e: PtoWriter, window: Ref, rank: str) -> str:
    """Return the address of a rank's window, an i64."""
    slot, address = e.text.fresh(), e.text.fresh()
    e.text.add(f"{slot} = arith.addi {e.text.constant(_WINDOWS_WORD)}, {rank} : index")
    e.text.add(f"{address} = pto.load_scalar {e.contexts[window.name]}[{slot}] : !pto.ptr<i64> -> i64")
    return address


def _word(e: PtoWriter, window: Ref, name: str) -> str:
    """Return this rank's number, or the number of ranks, as an index."""
    text = e.text
    pair, half, number = text.fresh(), text.fresh(), text.fresh()
    word = text.constant(_RANKS_WORD)
    text.add(f"{pair} = pto.load_scalar {e.contexts[window.name]}[{word}] : !pto.ptr<i64> -> i64")
    if name == "nranks":
        high = text.fresh()
        text.add(f"{high} = arith.shrui {pair}, {text.constant(32, 'i64')} : i64")
        pair = high
    text.add(f"{half} = arith.trunci {pair} : i64 to i32")
    text.add(f"{number} = arith.index_cast {half} : i32 to index")
    return number


def _rank(e: PtoWriter, op: Op) -> None:
    e.text.names[op.result] = _word(e, op.ref(0), op.name)


def publish(e: PtoWriter, tensor: Ref, part: tuple[str, str]) -> None:
    """Write a fence that makes data in a window visible to the ranks that a signal then notifies."""
    if isinstance(e.values.tensor(tensor.name), WindowType):
        e.text.add(f"pto.cmo.cacheinvalid {part[0]} single_cache_line : {part[1]}")
        e.text.add("pto.fence.barrier_all #pto.fence_scope<gm>")


def _notify(e: PtoWriter, op: Op) -> None:
    signal, value = op.ref(0), e.text.value(op.args[3], INT32)
    name, type_ = e.part(signal, op.items(2), _one(e, signal), peer_view(e, signal, op.args[1]))
    e.text.add("pto.barrier <PIPE_ALL>")
    e.text.add(f"pto.comm.tnotify({name}, {value} : {type_}, i32) {{notifyOp = #pto<notify_op {op.attrs['op']}>}}")


def _wait(e: PtoWriter, op: Op) -> None:
    signal, value = op.ref(0), e.text.value(op.args[2], INT32)
    name, type_ = e.part(signal, op.items(1), _one(e, signal))
    e.text.add(f"pto.comm.twait({name}, {value} : {type_}, i32) {{cmp = #pto<wait_cmp {op.attrs['cmp']}>}}")
    e.text.add("pto.cmo.cacheinvalid all #pto.address_space<gm>")


def _one(e: PtoWriter, signal: Ref) -> list[Dim]:
    return [1] * len(e.values.tensor(signal.name).shape)


def _transfer(e: PtoWriter, op: Op) -> None:
    """Write put or get: a peer's part on one side, this rank's part on the other, and staging tiles."""
    dst, peer, src = op.ref(0), op.args[1], op.ref(2)
    sizes = [int(size.value) if isinstance(size, Const) else size for size in op.items(5)]
    views = ("", peer_view(e, src, peer)) if op.name == "get" else (peer_view(e, dst, peer), "")
    to = e.part(dst, op.items(3), sizes, views[0])  # type: ignore[arg-type]
    source = e.part(src, op.items(4), sizes, views[1])  # type: ignore[arg-type]
    stages = [e.operand(stage) for stage in op.args[6:]]
    types = ", ".join([to[1], source[1], *(type_ for _, type_ in stages)])
    atomic = f" {{atomicType = #pto<atomic_type atomic_{'add' if op.attrs['atomic'] else 'none'}>}}"
    e.text.add("pto.barrier <PIPE_ALL>")
    e.text.add(
        f"pto.comm.t{op.name}({to[0]}, {source[0]}, buf({', '.join(name for name, _ in stages)}) : {types})"
        f"{atomic if op.name == 'put' else ''}"
    )
    e.text.add("pto.barrier <PIPE_ALL>")
    publish(e, dst, to)


RANK_OPS: dict[str, Callable[[PtoWriter, Op], None]] = {
    "get_comm_ctx": lambda e, op: None,
    "rank": _rank,
    "nranks": _rank,
    "notify": _notify,
    "wait": _wait,
    "put": _transfer,
    "get": _transfer,
}


# Numbers of a kernel as `arith` operations.

_INTEGER = {
    "add": "addi", "sub": "subi", "mul": "muli", "floordiv": "divsi", "mod": "remsi", "min": "minsi", "max": "maxsi",
    "bitwise_and": "andi", "bitwise_or": "ori", "shl": "shli", "shr": "shrsi", "and": "andi", "or": "ori",
}  # fmt: skip
_FLOAT = {"add": "addf", "sub": "subf", "mul": "mulf", "div": "divf", "min": "minimumf", "max": "maximumf"}


def scalar_op(text: Text, op: Op, values: Values) -> None:
    """Write an `s.<name>` operation; `attrs["dtype"]` is the element type of the computation."""
    name, dtype = op.name[2:], op.dtype
    if name == "cast":
        text.add(f"{text.define(op.result)} = {_cast(text, op, values, dtype)}")
        return
    if name == "select":
        condition = text.value(op.args[0], "i1")
        a, b = (text.value(x, dtype) for x in op.args[1:])
        text.add(f"{text.define(op.result)} = arith.select {condition}, {a}, {b} : {dtype.pto}")
        return
    args = [text.value(a, dtype) for a in op.args]
    if name in COMPARISONS:
        kind = "cmpf" if dtype.is_float else "cmpi"
        word = (
            ("une" if name == "ne" else "o" + name) if dtype.is_float else name if name in ("eq", "ne") else "s" + name
        )
        text.add(f"{text.define(op.result)} = arith.{kind} {word}, {args[0]}, {args[1]} : {dtype.pto}")
    elif name == "neg":
        line = f"arith.negf {args[0]}" if dtype.is_float else f"arith.subi {text.constant(0, dtype)}, {args[0]}"
        text.add(f"{text.define(op.result)} = {line} : {dtype.pto}")
    elif name == "not":
        text.add(f"{text.define(op.result)} = arith.xori {args[0]}, {text.constant(True, 'i1')} : i1")
    else:
        table = _FLOAT if dtype.is_float else _INTEGER
        if name not in table:
            raise CompileError(op.position, f"{name} is not available for the dtype {dtype}")
        text.add(f"{text.define(op.result)} = arith.{table[name]} {args[0]}, {args[1]} : {dtype.pto}")


def _cast(text: Text, op: Op, values: Values, to: DType) -> str:
    if isinstance(op.args[0], Const):
        raise CompileError(op.position, "a constant must be converted at compile time")
    source = op.ref(0)
    value, a, b = text.value(source), values.scalar(source.name).dtype, to
    if a == b:
        return f"arith.addi {value}, {text.constant(0, a)} : {a.pto}"
    if a.is_float and b.is_float:
        name = "extf" if a.size < b.size else "truncf"
    elif a.is_float:
        name = "fptosi"
    elif b.is_float:
        if a.name == "INDEX":
            held = text.fresh()
            text.add(f"{held} = arith.index_cast {value} : index to i64")
            return f"arith.sitofp {held} : i64 to {b.pto}"
        name = "uitofp" if a.name == "BOOL" else "sitofp"
    elif "INDEX" in (a.name, b.name):
        name = "index_cast"
    elif a.name == "BOOL":
        name = "extui"
    else:
        name = "extsi" if a.size < b.size else "trunci"
    return f"arith.{name} {value} : {a.pto} to {b.pto}"


# Pipes between the members of a group: opening them, and what travels.

_SPACE = {"c2v": "vec", "v2c": "mat"}
_CONSUMER = {"c2v": "aiv", "v2c": "aic"}


def open_pipe(e: PtoWriter, pipe: PipePlan) -> None:
    """Write the setup of a pipe: the consumer reserves the buffer, the producer imports its address."""
    core, group = e.function.core, e.function.group
    buffers = {"c2v": e.text.constant(0, "i32"), "v2c": e.text.constant(0, "i32")}
    for mask, direction in ((1, "c2v"), (2, "v2c")):
        if not pipe.mask & mask:
            continue
        name = f"{group}_{direction}_slot_buffer"
        if _CONSUMER[direction] == core:
            buffers[direction] = f"%{name}"
            e.text.add(
                f'%{name} = pto.reserve_buffer {{name = "{name}", size = {pipe.slot_size * pipe.slots}, '
                f"location = #pto.address_space<{_SPACE[direction]}>, auto = false, base = 0}} -> i32"
            )
        else:
            buffers[direction] = f"%{name}_import"
            peer = f"{group}_{_CONSUMER[direction]}"
            e.text.add(f'%{name}_import = pto.import_reserved_buffer {{name = "{name}", peer_func = @{peer}}} -> i32')
    gm = e.pointers.get(GM_PIPE_BUFFER)
    through = f"gm_slot_buffer = {gm} : !pto.ptr<f32>, " if gm else ""
    e.text.add(
        f"pto.{core}_initialize_pipe {{dir_mask = {pipe.mask}, slot_size = {pipe.slot_size}, slot_num = {pipe.slots}}}",
        located=False,
    )
    e.text.add(f"    ({through}c2v_consumer_buf = {buffers['c2v']} : i32, v2c_consumer_buf = {buffers['v2c']} : i32)")


def _push(e: PtoWriter, op: Op) -> None:
    peer = "aiv" if e.function.core == "aic" else "aic"
    name, type_ = e.operand(op.args[0])
    e.text.add(f"pto.tpush_to_{peer}({name} : {type_}) {{split = {op.attrs['split']}}}")


def _pop(e: PtoWriter, op: Op) -> None:
    peer = "aiv" if e.function.core == "aic" else "aic"
    row, col = e.values.tile(op.result).valid
    valid = f"({e.text.extent(row)}, {e.text.extent(col)})"
    split = op.attrs["split"]
    e.text.add(
        f"{e.text.define(op.result)} = pto.tpop_from_{peer}{valid} {{split = {split}}} -> {e.spelled(op.result)}"
    )


def _free(e: PtoWriter, op: Op) -> None:
    peer = "aiv" if e.function.core == "aic" else "aic"
    e.text.add(f"pto.tfree_from_{peer} {{split = {op.attrs['split']}}}")


PIPE_OPS: dict[str, Callable[[PtoWriter, Op], None]] = {"push": _push, "pop": _pop, "free": _free}


# Operations of a kernel that become more than one plain instruction: moves of data, views, elements, control flow.


def _load(e: PtoWriter, op: Op) -> None:
    out = e.result(op)
    view = peer_view(e, op.ref(0), op.args[3]) if len(op.args) > 3 else ""
    part = e.partition(op.ref(0), op.items(1), e.values.tile(op.result).valid, view)
    e.write("pto.tload", [part], [out])


def _store(e: PtoWriter, op: Op) -> None:
    tile = op.ref(0)
    view = peer_view(e, op.ref(2), op.args[3]) if len(op.args) > 3 else ""
    part = e.partition(op.ref(2), op.items(1), e.values.tile(tile.name).valid, view)
    attrs = " {atomicType = #pto<atomic_type atomic_add>}" if op.attrs["atomic"] else ""
    e.write("pto.tstore", [e.operand(tile)], [part], attrs=attrs)
    publish(e, op.ref(2), part)


def _extract(e: PtoWriter, op: Op) -> None:
    source = e.operand(op.args[0])
    row, col = (e.text.value(o) for o in op.items(1))
    out = e.result(op)
    e.write("pto.textract", [source, (row, "index"), (col, "index")], [out])


def _move(e: PtoWriter, op: Op) -> None:
    out = e.result(op)
    e.write("pto.tmov", [e.operand(op.args[0])], [out])


def _allocate(e: PtoWriter, op: Op) -> None:
    """Allocate a tile that the kernel never writes: a new tile, or another view of the same bytes."""
    if op.name == "transpose" and e.values.tile(op.result).space != "mat":
        e.instruction(op)
        return
    e.alloc(op.result)


def _arange(e: PtoWriter, op: Op) -> None:
    """Write a range. The instruction counts in signed integers; an unsigned tile is a second view of the bytes."""
    name = e.alloc(op.result)
    type_ = e.values.tile(op.result)
    spelled = e.spelled(op.result)
    if type_.dtype != INT32:
        signed = replace(type_, dtype=INT32)
        name, spelled = f"{name}__signed", tile_text(signed, e.arch)
        e.alloc_as(name, signed, e.function.addresses[op.result], spelled)
    start = e.text.value(op.args[0], INT32)
    e.write("pto.tci", [(start, "i32")], [(name, spelled)], " {descending = false}")


def _read(e: PtoWriter, op: Op) -> None:
    pointer, index, dtype = _element(e, op)
    e.text.add(f"{e.text.define(op.result)} = pto.load_scalar {pointer}[{index}] : !pto.ptr<{dtype}> -> {dtype}")


def _write(e: PtoWriter, op: Op) -> None:
    pointer, index, dtype = _element(e, op)
    value = e.text.value(op.args[2], e.values.tensor(op.ref(0).name).dtype)
    e.text.add(f"pto.store_scalar {value}, {pointer}[{index}] : !pto.ptr<{dtype}>, {dtype}")
    if op.ref(0).name in e.contexts:
        sizes = [1] * len(e.values.tensor(op.ref(0).name).shape)
        publish(e, op.ref(0), e.part(op.ref(0), op.items(1), sizes))


def _element(e: PtoWriter, op: Op) -> tuple[str, str, str]:
    """Return pointer, linear index and element type of one element of a tensor."""
    tensor, indices = op.ref(0), op.items(1)
    type_ = e.values.tensor(tensor.name)
    total = e.text.value(indices[0])
    for extent, index in zip(type_.shape[1:], indices[1:], strict=True):
        scaled, summed = e.text.fresh(), e.text.fresh()
        e.text.add(f"{scaled} = arith.muli {total}, {e.text.extent(extent)} : index")
        e.text.add(f"{summed} = arith.addi {scaled}, {e.text.value(index)} : index")
        total = summed
    return e.pointers[tensor.name], total, type_.dtype.pto


def _launch_id(e: PtoWriter, op: Op) -> None:
    e.text.add(f"{e.text.define(op.result)} = arith.index_cast %{LAUNCH_IDS[op.name]} : i32 to index")


def _for(e: PtoWriter, op: Op) -> None:
    body = op.blocks[0]
    lower, upper, step = (e.text.value(a) for a in op.args[:3])
    carried = []
    for number, param in enumerate(body.params[1:]):
        if e.values.is_tile(param):
            e.text.names[op.results[number]] = e.alloc(param)
            continue
        dtype = e.values.scalar(param).dtype
        carried.append((number, f"%{param}", e.text.value(op.args[3 + number], dtype), dtype))
    index = e.text.define(body.params[0])
    head = f"scf.for {index} = {lower} to {upper} step {step}"
    if carried:
        names = ", ".join(e.text.define(op.results[n]) for n, _, _, _ in carried)
        pairs = ", ".join(f"{p} = {i}" for _, p, i, _ in carried)
        head = f"{names} = {head} iter_args({pairs}) -> ({', '.join(d.pto for *_, d in carried)})"
        for n, p, _, _ in carried:
            e.text.names[body.params[1 + n]] = p
    e.text.add(f"{head} {{", located=False)
    e.text.depth += 1
    e.block(body)
    if carried:
        values = ", ".join(e.text.value(body.yields[n], d) for n, _, _, d in carried)
        e.text.add(f"scf.yield {values} : {', '.join(d.pto for *_, d in carried)}")
    e.text.depth -= 1
    e.text.add("}", located=False)


def _if(e: PtoWriter, op: Op) -> None:
    numbers = []
    for number, name in enumerate(op.results):
        if e.values.is_tile(name):
            e.alloc(name)
        else:
            numbers.append((number, e.values.scalar(name).dtype))
    condition = e.text.value(op.args[0], "i1")
    types = ", ".join(d.pto for _, d in numbers)
    left = f"{', '.join(e.text.define(op.results[n]) for n, _ in numbers)} = " if numbers else ""
    e.text.add(f"{left}scf.if {condition}{f' -> ({types})' if numbers else ''} {{", located=False)
    for number, block in enumerate(op.blocks):
        if number and not block.ops and not numbers:
            break
        if number:
            e.text.add("} else {", located=False)
        e.text.depth += 1
        e.block(block)
        if numbers:
            e.text.add(f"scf.yield {', '.join(e.text.value(block.yields[n], d) for n, d in numbers)} : {types}")
        e.text.depth -= 1
    e.text.add("}", located=False)


SPECIAL: dict[str, Callable[[PtoWriter, Op], None]] = {
    "load": _load,
    "store": _store,
    "extract": _extract,
    "move": _move,
    "copy_tile": _move,
    "reshape": _allocate,
    "transpose": _allocate,
    "create_tile": _allocate,
    "arange": _arange,
    "read": _read,
    "write": _write,
    "get_block_idx": _launch_id,
    "get_block_num": _launch_id,
    "get_subblock_idx": _launch_id,
    "for": _for,
    "if": _if,
}


class FunctionEmitter(PtoWriter):
    def emit(self) -> list[str]:
        """Return the lines of the function, including header and closing brace."""
        arguments = self.arguments()
        self.text.position = self.function.position
        self.views()
        if self.function.pipe is not None:
            open_pipe(self, self.function.pipe)
        self.block(self.function.body)
        self.text.position = self.function.position
        kind = SIDES[self.function.core]
        header = (
            f"  func.func @{self.function.name}({', '.join(arguments)}) "
            f"attributes {{pto.kernel_kind = #pto.kernel_kind<{kind}>}} {{"
        )
        return [header, *self.text.header(), *self.text.lines, "  return", "  }"]

    # --- parameters --------------------------------------------------------------------------------------------------

    def arguments(self) -> list[str]:
        signature = signature_of(self.function)
        arguments: list[str] = []
        for param in (*signature.tensors, *signature.scalars):
            name = f"%arg{len(arguments)}"
            if isinstance(param, TensorParam):
                self.pointers[param.name] = name
                arguments.append(f"{name}: !pto.ptr<{param.type.dtype.pto}>")
            else:
                self.text.names[param.name] = name
                arguments.append(f"{name}: {param.type.dtype.pto}")
        for window in signature.contexts:
            name = self.contexts[window.name] = f"%arg{len(arguments)}"
            arguments.append(f"{name}: !pto.ptr<i64>")
        for extent, _, _ in signature.extents:
            name = f"%arg{len(arguments)}"
            self.text.names[extent] = name
            arguments.append(f"{name}: index")
        arguments += [f"%{LAUNCH_IDS[name]}: i32" for name in signature.launch_ids]
        return arguments

    def views(self) -> None:
        """Write a view of every tensor of this rank that tiles are loaded from or stored to."""
        used = {name for op in self.function.body.walk() for name in viewed_here(op)}
        for param in self.function.tensors():
            if param.name in used and param.name != GM_PIPE_BUFFER:
                self.view(f"%{param.name}_view", self.pointers[param.name], param.type)

    def op(self, op: Op) -> None:
        if op.name.startswith("s."):
            scalar_op(self.text, op, self.values)
            return
        special = SPECIAL.get(op.name) or PIPE_OPS.get(op.name) or RANK_OPS.get(op.name)
        if special is not None:
            special(self, op)
            return
        self.instruction(op)
