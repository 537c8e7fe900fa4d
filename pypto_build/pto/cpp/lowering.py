"""Which lowering an operation has: by its family and function, its family, or as a plain instruction."""

from __future__ import annotations

from ..model import Operation
from ..ops import TABLE
from . import communication, control, pipes, scalars, tiles
from .emitter import Emit, Emitter
from .instructions import INSTRUCTIONS, instruction


def refuse(e: Emitter, op: Operation) -> None:
    """Fails with the sentence that says why no simulated platform can run the operation."""
    e.fail(op, TABLE[op.name].refused)


def nothing(e: Emitter, op: Operation) -> None:
    """Orders pipelines, prefetches or hints: instructions complete in order on a simulated platform."""


_LOWERINGS: dict[str, Emit] = {
    "constant": scalars.constant,
    "arith": scalars.arithmetic,
    "arith_compare": scalars.compare,
    "arith_select": scalars.select,
    "cast": scalars.cast,
    "core_id": scalars.core_id,
    "view:tensor": scalars.tensor_view,
    "view:partition": scalars.partition_view,
    "view:dim": scalars.view_dim,
    "pointer:add": scalars.add_pointer,
    "pointer:cast": scalars.cast_pointer,
    "scalar:load": scalars.load_scalar,
    "scalar:store": scalars.store_scalar,
    "tile:alloc": tiles.alloc_tile,
    "tile:declare": tiles.declare_tile,
    "tile:alloc_multi": tiles.alloc_multi,
    "tile:slot": tiles.multi_slot,
    "tile:subview": tiles.subview,
    "tile:reinterpret": tiles.reinterpret,
    "tile:assign": tiles.assign_tile,
    "tile:set_valid": tiles.set_valid,
    "tile:get_valid": tiles.get_valid,
    "element:get": tiles.get_element,
    "array:declare": tiles.declare_array,
    "array:get": tiles.get_array,
    "array:set": tiles.set_array,
    "control:for": control.loop,
    "control:if": control.branch,
    "control:while": control.while_loop,
    "control:yield": control.passing,
    "control:condition": control.passing,
    "control:call": control.function_call,
    "control:return": control.function_return,
    "control:section": control.section,
    "pipe:open": pipes.open_pipe,
    "pipe:open_l2l": pipes.open_value,
    "pipe:open_l2g2l": pipes.open_value,
    "pipe:push": pipes.push,
    "pipe:pop": pipes.pop,
    "pipe:free": pipes.free,
    "pipe:acquire": pipes.acquire,
    "view:declare": pipes.declare_slot,
    "pipe:reserve": pipes.reserve,
    "pipe:import": pipes.import_buffer,
    "comm:tput": communication.transfer,
    "comm:tget": communication.transfer,
    "comm:notify": communication.notify,
    "comm:wait": communication.wait,
    "comm:test": communication.test,
    "async:session": communication.handle,
    "async:prefetch_session": communication.handle,
    "async:context": communication.handle,
    "async:prefetch": communication.handle,
    "async:tput_async": communication.start,
    "async:tget_async": communication.start,
    "async:wait_async_event": communication.finished,
    "async:test_async_event": communication.finished,
    "crosscore:all": communication.sync_all,
    "none": nothing,
    "fence": nothing,
} | INSTRUCTIONS


def find_lowering(op: Operation) -> Emit | None:
    """The lowering of an operation, None when it has none; what is refused lowers to the error that says why."""
    definition = TABLE[op.name]
    if definition.refused:
        return refuse
    for key in definition.keys:
        if key in _LOWERINGS:
            return _LOWERINGS[key]
    return instruction if definition.cpp and not definition.results else None
