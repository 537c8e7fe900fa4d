"""Pipes between the members of a group: opening them, and what travels."""

from __future__ import annotations

from collections.abc import Callable

from .ir import Op, PipePlan
from .pto_writer import PtoWriter
from .signature import GM_PIPE_BUFFER

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
