"""Operations of a kernel that become more than one plain instruction: moves of data, views, elements, control flow."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from .dtypes import INT32
from .errors import CompileError
from .ir import Const, Op, Ref, ScalarType, TensorType, TileType
from .pto_text import tile_text
from .signature import LAUNCH_IDS

if TYPE_CHECKING:
    from .emit_pto import FunctionEmitter


def _load(e: FunctionEmitter, op: Op) -> None:
    tensor = op.args[0]
    assert isinstance(tensor, Ref)
    out = e.alloc(op.result), e.spelled(op.result)
    part = e.partition(tensor, op.args[1], e.tile_type(op.result).valid)
    e.write("pto.tload", [part], [out])


def _store(e: FunctionEmitter, op: Op) -> None:
    tile, tensor = op.args[0], op.args[2]
    assert isinstance(tile, Ref) and isinstance(tensor, Ref)
    part = e.partition(tensor, op.args[1], e.tile_type(tile.name).valid)
    e.write("pto.tstore", [e.operand(tile)], [part])
    if op.attrs["atomic"]:
        last = e.text.lines[-1]
        head, mark, tail = last.partition(' loc("')
        e.text.lines[-1] = f"{head} {{atomicType = #pto<atomic_type atomic_add>}}{mark}{tail}"


def _extract(e: FunctionEmitter, op: Op) -> None:
    assert isinstance(op.args[1], tuple)
    source = e.operand(op.args[0])
    row, col = (e.text.value(o) for o in op.args[1])
    out = e.alloc(op.result), e.spelled(op.result)
    e.write("pto.textract", [source, (row, "index"), (col, "index")], [out])


def _move(e: FunctionEmitter, op: Op) -> None:
    out = e.alloc(op.result), e.spelled(op.result)
    e.write("pto.tmov", [e.operand(op.args[0])], [out])


def _alias(e: FunctionEmitter, op: Op) -> None:
    """Another view of the same bytes."""
    if op.name == "transpose" and e.tile_type(op.result).space != "mat":
        e.instruction(op)
        return
    e.alloc(op.result)


def _create_tile(e: FunctionEmitter, op: Op) -> None:
    e.alloc(op.result)


def _matmul_acc(e: FunctionEmitter, op: Op) -> None:
    ins = [e.operand(a) for a in op.args]
    out = e.alloc(op.result), e.spelled(op.result)
    e.write("pto.tmatmul.acc", ins, [out])


def _arange(e: FunctionEmitter, op: Op) -> None:
    """The instruction counts in signed numbers; an unsigned tile is a second view of the bytes."""
    name = e.alloc(op.result)
    type_ = e.tile_type(op.result)
    spelled = e.spelled(op.result)
    if type_.dtype != INT32:
        signed = replace(type_, dtype=INT32)
        name, spelled = f"{name}__signed", tile_text(signed, e.arch)
        e.alloc_as(name, signed, e.function.addresses[op.result], spelled)
    start = e.text.value(op.args[0], INT32)
    e.write("pto.tci", [(start, "i32")], [(name, spelled)], " {descending = false}")


def _read(e: FunctionEmitter, op: Op) -> None:
    pointer, index, dtype = _element(e, op)
    e.text.add(f"{e.text.define(op.result)} = pto.load_scalar {pointer}[{index}] : !pto.ptr<{dtype}> -> {dtype}")


def _write(e: FunctionEmitter, op: Op) -> None:
    pointer, index, dtype = _element(e, op)
    value = e.text.value(op.args[2], dtype) if not isinstance(op.args[2], Const) else _constant_of(e, op)
    e.text.add(f"pto.store_scalar {value}, {pointer}[{index}] : !pto.ptr<{dtype}>, {dtype}")


def _constant_of(e: FunctionEmitter, op: Op) -> str:
    tensor = op.args[0]
    assert isinstance(tensor, Ref) and isinstance(op.args[2], Const)
    type_ = e.types[tensor.name]
    assert isinstance(type_, TensorType)
    return e.text.constant(op.args[2].value, type_.dtype)


def _element(e: FunctionEmitter, op: Op) -> tuple[str, str, str]:
    """Pointer, linear index and element type of one element of a tensor."""
    tensor = op.args[0]
    assert isinstance(tensor, Ref) and isinstance(op.args[1], tuple)
    type_ = e.types[tensor.name]
    assert isinstance(type_, TensorType)
    total = e.text.value(op.args[1][0])
    for extent, index in zip(type_.shape[1:], op.args[1][1:], strict=True):
        scaled, summed = e.text.fresh(), e.text.fresh()
        e.text.add(f"{scaled} = arith.muli {total}, {e.text.extent(extent)} : index")
        e.text.add(f"{summed} = arith.addi {scaled}, {e.text.value(index)} : index")
        total = summed
    return e.pointers[tensor.name], total, type_.dtype.pto


def _launch_id(e: FunctionEmitter, op: Op) -> None:
    e.text.add(f"{e.text.define(op.result)} = arith.index_cast %{LAUNCH_IDS[op.name]} : i32 to index")


def _for(e: FunctionEmitter, op: Op) -> None:
    body = op.blocks[0]
    lower, upper, step = (e.text.value(a) for a in op.args[:3])
    carried = []
    for number, param in enumerate(body.params[1:]):
        type_ = e.types[param]
        if isinstance(type_, TileType):
            e.text.names[op.results[number]] = e.alloc(param)
            continue
        assert isinstance(type_, ScalarType)
        init = e.text.value(op.args[3 + number], type_.dtype)
        carried.append((number, f"%{param}", init, type_.dtype))
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


def _if(e: FunctionEmitter, op: Op) -> None:
    numbers = []
    for number, name in enumerate(op.results):
        type_ = e.types[name]
        if isinstance(type_, TileType):
            e.alloc(name)
        else:
            assert isinstance(type_, ScalarType)
            numbers.append((number, type_.dtype))
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


def _unexpected(e: FunctionEmitter, op: Op) -> None:
    raise CompileError(op.place, f"{op.name} is left in {e.function.name} although it should have been expanded")


SPECIAL: dict[str, Callable[[FunctionEmitter, Op], None]] = {
    "load": _load,
    "store": _store,
    "extract": _extract,
    "move": _move,
    "copy_tile": _move,
    "reshape": _alias,
    "transpose": _alias,
    "create_tile": _create_tile,
    "matmul_acc": _matmul_acc,
    "arange": _arange,
    "read": _read,
    "write": _write,
    "get_block_idx": _launch_id,
    "get_block_num": _launch_id,
    "get_subblock_idx": _launch_id,
    "for": _for,
    "if": _if,
    "cross": _unexpected,
}
