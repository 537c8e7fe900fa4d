"""Operations of a kernel that become more than one plain instruction: moves of data, views, elements, control flow."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from .dtypes import INT32
from .ir import Op
from .pto_ranks import peer_view, publish
from .pto_text import tile_text
from .pto_writer import PtoWriter
from .signature import LAUNCH_IDS


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
    """A tile that nothing writes here: a new one, or another view of the same bytes."""
    if op.name == "transpose" and e.values.tile(op.result).space != "mat":
        e.instruction(op)
        return
    e.alloc(op.result)


def _arange(e: PtoWriter, op: Op) -> None:
    """The instruction counts in signed numbers; an unsigned tile is a second view of the bytes."""
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
    """Pointer, linear index and element type of one element of a tensor."""
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
