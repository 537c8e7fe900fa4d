"""Translates cross-core pipes to Python: pushes and pops become calls, which a member of a scheduled group yields
from.
"""

from __future__ import annotations

from ..model import Operation, StrAttr, SymbolAttr, int_value
from ..ops import TABLE
from ..types import TileType
from .tiles import declare_popped
from .writer import LOWERINGS, Unsupported, Writer

SPLITS = range(5)


def pipe_name(direction: str, number: int) -> str:
    """Return the name of a pipe: `to_aiv`, or `to_aiv#1` for the pipe with id 1."""
    return f"{direction}#{number}" if number else direction


def split_of(op: Operation) -> int:
    split = int_value(op.attrs.get("split"))
    if split not in SPLITS:
        raise Unsupported(f"split must be a number from 0 to 4, found {split}")
    return split


@LOWERINGS.of("pipe:open")
def open_pipe(w: Writer, op: Operation) -> None:
    number, mask = int_value(op.attrs.get("id")), int_value(op.attrs.get("dir_mask"))
    if mask not in (1, 2, 3):
        raise Unsupported(f"dir_mask must be 1, 2 or 3, found {mask}")
    slots = int_value(op.attrs.get("slot_num"), 4 if mask == 3 else 8)
    consumes = 1 if w.function.kernel_kind == "vector" else 2
    names = [pipe_name(d, number) for bit, d in ((1, "to_aiv"), (2, "to_aic")) if mask & bit]
    role = "c2v_consumer_buf" if consumes == 1 else "v2c_consumer_buf"
    local = int_value(op.attrs.get("local_slot_num"), slots)
    buffer = w.names.unique("popped")
    listed = ", ".join(f'"{name}"' for name in names) + ("," if len(names) == 1 else "")
    how = w.scope.unsplit.get(number, "none")
    if "nosplit" in op.attrs:
        how = "none" if int_value(op.attrs["nosplit"]) else how if how != "none" else "empty"
    w.add(
        op,
        f"{buffer} = _open_pipe(({listed}), {slots}, {w.operand(op, role, '0')}, "
        f'{int_value(op.attrs.get("slot_size"))}, {local}, "{how}")',
    )
    for name in names:
        w.buffers[(name.partition("#")[0], number)] = buffer


@LOWERINGS.of("pipe:push")
def push(w: Writer, op: Operation) -> None:
    if "pipe" in op.operands:
        raise Unsupported("with the pipe as a value")
    direction = TABLE[op.name].direction
    tile = w.operand(op, "tile")
    if not isinstance(w.value(op, "tile").type, TileType):
        raise Unsupported("a view of a slot")
    pipe = f"_pipes['{pipe_name(direction, int_value(op.attrs.get('id')))}']"
    name = f"_tpush_{direction}"
    if w.is_generator:
        w.add(op, f"(yield from {name}_g({pipe}, {tile}, {split_of(op)}))")
    else:
        w.add(op, f"{name}({pipe}, {tile}, {split_of(op)})")


@LOWERINGS.of("pipe:pop")
def pop(w: Writer, op: Operation) -> None:
    if "pipe" in op.operands:
        raise Unsupported("with the pipe as a value")
    direction, number = TABLE[op.name].direction, int_value(op.attrs.get("id"))
    type_ = op.result_types[0]
    if not isinstance(type_, TileType):
        raise Unsupported(f"a view of a slot ({type_})")
    buffer = w.buffers.get((direction, number))
    tile = declare_popped(w, op, type_, f"{buffer}.next()" if buffer else "0")
    source = "aic" if direction == "to_aiv" else "aiv"
    call = f"_tpop_from_{source}{{}}(_pipes['{pipe_name(direction, number)}'], {split_of(op)}, {tile})"
    if w.is_generator:
        w.add(op, f"{tile} = (yield from {call.format('_g')})")
    else:
        w.add(op, f"{tile} = {call.format('')}")


@LOWERINGS.of("pipe:free")
def free(w: Writer, op: Operation) -> None:
    """Write nothing: a popped tile is a copy."""


@LOWERINGS.of("pipe:reserve")
def reserve(w: Writer, op: Operation) -> None:
    w.bind(w.resolved.results(op)[0], str(int_value(op.attrs.get("base"))))


@LOWERINGS.of("pipe:import")
def import_buffer(w: Writer, op: Operation) -> None:
    """Bind the peer's buffer of that name; its address only matters to the consumer."""
    peer, name = op.attrs.get("peer_func"), op.attrs.get("name")
    for function in w.scope.module.functions():
        if function.body is None or not (isinstance(peer, SymbolAttr) and function.name == peer.name):
            continue
        for other in function.body.walk():
            if other.name == "pto.reserve_buffer" and isinstance(name, StrAttr) and other.attrs.get("name") == name:
                w.bind(w.resolved.results(op)[0], str(int_value(other.attrs.get("base"))))
                return
    w.bind(w.resolved.results(op)[0], "0")


@LOWERINGS.of("crosscore:all")
def barrier(w: Writer, op: Operation) -> None:
    """Write a barrier of all members of the group and all blocks of the launch."""
    if w.is_generator:
        w.add(op, "yield from _barrier_g()")
