"""Which translation an operation has: by its family and function, or its family."""

from __future__ import annotations

from ..model import Operation
from ..ops import TABLE
from . import control, converting, elementwise, pipes, products, rearranging, reducing, scalars, tiles, transfers
from .writer import Lower, Writer


def nothing(w: Writer, op: Operation) -> None:
    """Orders pipelines, prefetches, prints or hints: nothing that changes a value."""
    for value in w.resolved.results(op):
        w.bind(value, "None")


def trap(w: Writer, op: Operation) -> None:
    """The kernel ends itself."""
    w.add(op, 'raise RuntimeError("the kernel ended itself (pto.trap)")')


_LOWERINGS: dict[str, Lower] = {
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
    "tile:address": tiles.tile_address,
    "tile:set_valid": tiles.set_valid,
    "tile:get_valid": tiles.get_valid,
    "element:get": tiles.get_element,
    "element:set": tiles.set_element,
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
    "pipe:push": pipes.push,
    "pipe:pop": pipes.pop,
    "pipe:free": pipes.free,
    "pipe:reserve": pipes.reserve,
    "pipe:import": pipes.import_buffer,
    "crosscore:all": pipes.barrier,
    "crosscore:set": nothing,
    "crosscore:wait": nothing,
    "elementwise": elementwise.elementwise,
    "ternary": elementwise.ternary,
    "fill:scalar": elementwise.fill,
    "fill:sequence": elementwise.sequence,
    "fill:triangle": elementwise.triangle,
    "fill:random": elementwise.random,
    "convert": converting.convert,
    "rowreduce": reducing.reduce,
    "colreduce": reducing.reduce,
    "rowexpand": reducing.row_expand,
    "colexpand": reducing.col_expand,
    "partial": reducing.partial,
    "partialarg": reducing.partial_arg,
    "compare": elementwise.compare,
    "select": elementwise.select,
    "transpose": transfers.transpose,
    "concat": transfers.concat,
    "fillpad": transfers.fillpad,
    "transfer:load": transfers.load,
    "transfer:store": transfers.store,
    "transfer:store_fp": transfers.store,
    "move": transfers.move,
    "matmul": products.matmul,
    "matmul_mx": products.matmul_mx,
    "async:context": nothing,
    "async:prefetch": nothing,
    "async:prefetch_session": nothing,
    "trap": trap,
    "gather:index": rearranging.gather,
    "gather:block": rearranging.gather_blocks,
    "gather:gm": rearranging.gather_global,
    "scatter:index": rearranging.scatter,
    "scatter:gm": rearranging.scatter_global,
    "sort:blocks": rearranging.sort,
    "sort:merge": rearranging.merge,
    "pack": rearranging.pack,
    "quantize:scale": rearranging.quantize,
    "quantize:restore": rearranging.dequantize,
    "histogram": rearranging.histogram,
    "fence": nothing,
    "none": nothing,
}


def find_lowering(op: Operation) -> Lower | None:
    """The translation of an operation; None when it has none."""
    definition = TABLE.get(op.name)
    if definition is None:
        return None
    return next((_LOWERINGS[key] for key in definition.keys if key in _LOWERINGS), None)
