"""Typing rules of operations between ranks, and of a host program's windows."""

from __future__ import annotations

from dataclasses import replace

from pypto_build.facts.comparisons import COMPARISON_NAMES
from pypto_build.facts.dtypes import BF16, FP16, FP32, INDEX, INT8, INT16, INT32

from .ir import BufferType, Const, ContextType, Op, Operand, Ref, ScalarType, TensorType, TileType, WindowType
from .operations import called
from .rules_kernel import (
    BLOCK,
    KERNEL_RULES,
    Rule,
    RuleContext,
    Typed,
    count_of,
    kind_text,
    rows_and_columns,
    static_extents,
)

_NOTIFY = ("atomic_add", "set")
_SUMMED = (FP32, FP16, BF16, INT32, INT16, INT8)


def _window(at: RuleContext, op: Op, number: int) -> WindowType:
    type_ = at.type_of(op.args[number])
    if not isinstance(type_, WindowType):
        name = at.operand_name(op, number)
        at.fail(
            op, f"{called(op.name)}: {name} must be a tensor in a window, found {kind_text(type_)}",
            "declare the parameter as pld.DistributedTensor",
        )  # fmt: skip
    return type_


def _get_comm_ctx(at: RuleContext, op: Op) -> Typed:
    _window(at, op, 0)
    return op, ContextType(op.ref(0).name)


def _rank(at: RuleContext, op: Op) -> Typed:
    type_ = at.type_of(op.args[0])
    if not isinstance(type_, ContextType):
        at.fail(
            op,
            f"{called(op.name)}: ctx must be a communication context, found {kind_text(type_)}",
            "get one from pld.get_comm_ctx(window)",
        )
    return replace(op, args=(Ref(type_.window),)), ScalarType(INDEX)


def _signal(at: RuleContext, op: Op) -> WindowType:
    window = _window(at, op, 0)
    if window.dtype != INT32:
        at.fail(op, f"{called(op.name)}: the dtype of signals must be INT32, found {window.dtype}")
    return window


def _word(at: RuleContext, op: Op, name: str, words: tuple[str, ...]) -> None:
    if op.attrs[name] not in words:
        where = "pld.NotifyOp" if name == "op" else "pld.WaitCmp"
        at.fail(op, f"{called(op.name)}: {name} must be one of {where}, found {op.attrs[name]!r}")


def _notify(at: RuleContext, op: Op) -> Typed:
    signal = _signal(at, op)
    _word(at, op, "op", _NOTIFY)
    peer, value = at.number(op, op.args[1], INDEX), at.number(op, op.args[3], INT32)
    offsets = _cell(at, op, signal, op.args[2])
    return replace(op, args=(op.args[0], peer, offsets, value)), None


def _wait(at: RuleContext, op: Op) -> Typed:
    signal = _signal(at, op)
    _word(at, op, "cmp", COMPARISON_NAMES)
    offsets = _cell(at, op, signal, op.args[1])
    return replace(op, args=(op.args[0], offsets, at.number(op, op.args[2], INT32))), None


def _cell(at: RuleContext, op: Op, signal: WindowType, operand: Operand) -> tuple[Operand, ...]:
    """Return the offsets of a signal; constant ones are checked to lie inside the window."""
    offsets = at.indices(op, operand, len(signal.shape), "offsets")
    for axis, (offset, extent) in enumerate(zip(offsets, signal.shape, strict=True)):
        if isinstance(offset, Const) and isinstance(extent, int) and not 0 <= int(offset.value) < extent:
            at.fail(op, f"{called(op.name)}: offset {offset.value} of axis {axis} is outside of {signal}")
    return offsets


def _remote_load(at: RuleContext, op: Op) -> Typed:
    """Type a load from another rank, which is the last operand."""
    _window(at, op, 0)
    target, peer, offsets, shape, valid = op.args
    local = replace(op, args=(target, offsets, shape, valid), attrs={"target": op.attrs["space"]})
    typed, tile = KERNEL_RULES["load"](at, local)
    return replace(typed, name="load", args=(*typed.args, at.number(op, peer, INDEX))), tile


def _remote_store(at: RuleContext, op: Op) -> Typed:
    """Type a store to another rank, which is the last operand."""
    _window(at, op, 1)
    tile, target, peer, offsets = op.args
    at.tile(op, 0)
    typed, _ = KERNEL_RULES["store"](at, replace(op, args=(tile, offsets, target)))
    return replace(typed, name="store", args=(*typed.args, at.number(op, peer, INDEX))), None


def _tensor_remote_store(at: RuleContext, op: Op) -> Typed:
    """Type a remote store of a tensor, which is loaded first; a tile is stored directly."""
    type_ = at.type_of(op.args[0])
    if isinstance(type_, TensorType):
        whole = (Const(0),) * len(type_.shape), tuple(d if isinstance(d, Ref) else Const(d) for d in type_.shape)
        load = Op("load", (op.args[0], *whole, ()), {"target": "vec"}, position=op.position)
        tile = at.emit(*KERNEL_RULES["load"](at, load), "pushed")  # type: ignore[arg-type]
        op = replace(op, args=(tile, *op.args[1:]))
    return _remote_store(at, op)


def _transfer(at: RuleContext, op: Op) -> Typed:
    """Type put and get: the operands of both sides, and the tiles that the elements pass through."""
    _window(at, op, 0 if op.name == "put" else 2)
    dst, src = at.tensor(op, 0), at.tensor(op, 2)
    if dst.dtype != src.dtype:
        at.fail(op, f"{called(op.name)}: dst has the dtype {dst.dtype}, but src has {src.dtype}")
    _, peer, _, dst_offsets, src_offsets, shape = op.args
    if shape == ():
        if dst.shape != src.shape:
            at.fail(
                op,
                f"{called(op.name)}: dst is {dst}, but src is {src}",
                "give the shape of the copied part with shape=",
            )
        shape = tuple(d if isinstance(d, Ref) else Const(d) for d in dst.shape)
    extents = at.indices(op, shape, len(dst.shape), "extents")
    if len(src.shape) != len(dst.shape):
        at.fail(op, f"{called(op.name)}: dst has {len(dst.shape)} extents, but src has {len(src.shape)}")
    starts = []
    for number, offsets in ((0, dst_offsets), (2, src_offsets)):
        tensor = at.tensor(op, number)
        at_ = at.indices(
            op, offsets if offsets != () else (Const(0),) * len(tensor.shape), len(tensor.shape), "offsets"
        )
        _fits(at, op, at.operand_name(op, number), tensor, at_, extents)
        starts.append(at_)
    if op.attrs.get("atomic") not in (None, "", "add"):
        at.fail(op, f"{called(op.name)}: atomic must be a member of pld.AtomicType, found {op.attrs['atomic']!r}")
    if op.attrs.get("atomic") and dst.dtype not in _SUMMED:
        at.fail(op, f"{called(op.name)}: the dtype {dst.dtype} cannot be added atomically")
    stages = _stages(at, op, dst, extents)
    args = (op.args[0], at.number(op, peer, INDEX), op.args[2], *starts, extents, *stages)
    return replace(op, args=args, attrs={"atomic": op.attrs.get("atomic", "")}), None


def _fits(
    at: RuleContext, op: Op, name: str, tensor: TensorType, offsets: tuple[Operand, ...], extents: tuple[Operand, ...]
) -> None:
    for axis, (offset, extent, whole) in enumerate(zip(offsets, extents, tensor.shape, strict=True)):
        if isinstance(extent, Const):
            at.inside(op, f"axis {axis} of {name}", offset, int(extent.value), whole)


def _stages(at: RuleContext, op: Op, dst: TensorType, extents: tuple[Operand, ...]) -> list[Ref]:
    """Return the tiles of vector memory for a transfer, as large as chunk_rows and chunk_cols say."""
    chunks = [int(op.attrs[name]) for name in ("chunk_rows", "chunk_cols")]
    pipelined = bool(int(op.attrs["pipeline"]))
    if pipelined and not all(chunks):
        at.fail(op, f"{called(op.name)}: pipeline= needs chunk_rows= and chunk_cols=")
    tile_extents = [Const(chunks[1]) if axis == len(extents) - 1 and chunks[1] else e for axis, e in enumerate(extents)]
    if chunks[0] and len(tile_extents) > 1:
        tile_extents = [*(Const(1) for _ in tile_extents[:-2]), Const(chunks[0]), tile_extents[-1]]
    if not all(isinstance(extent, Const) for extent in tile_extents):
        at.fail(op, f"{called(op.name)}: an extent is not known at compile time", "give chunk_rows= and chunk_cols=")
    rows, cols = rows_and_columns(static_extents(at, op, tuple(tile_extents), "shape"))
    elements = BLOCK // dst.dtype.size
    tile = TileType((rows, -(-cols // elements) * elements), dst.dtype, (rows, cols))
    return [
        at.emit(Op("create_tile", (), {"dtype": dst.dtype, "target": "vec"}, position=op.position), tile, "stage")
        for _ in range(1 + pipelined)
    ]


# --- host programs ---------------------------------------------------------------------------------------------------


def _alloc_window_buffer(at: RuleContext, op: Op) -> Typed:
    size, dtype = op.args[0], op.attrs["dtype"] or None
    if isinstance(size, tuple) != (dtype is not None):
        at.fail(op, f"{called(op.name)} takes either a number of bytes, or a shape and a dtype")
    shape = size if isinstance(size, tuple) else (size,)
    extents = tuple(at.number(op, extent, INDEX) for extent in shape)
    return replace(op, args=(extents,)), BufferType(tuple(at.dim(extent) for extent in extents), dtype)


def _window_of(at: RuleContext, op: Op) -> Typed:
    buffer = at.type_of(op.args[0])
    if not isinstance(buffer, BufferType):
        at.fail(
            op,
            f"{called(op.name)}: a window buffer is expected, found {kind_text(buffer)}",
            "create a buffer with pld.alloc_window_buffer",
        )
    if not isinstance(op.args[1], tuple) or not op.args[1]:
        at.fail(op, f"{called(op.name)}: shape must be a list of extents")
    shape = tuple(at.number(op, extent, INDEX) for extent in op.args[1])
    type_ = WindowType(tuple(at.dim(extent) for extent in shape), op.attrs["dtype"])
    sizes = [_bytes(buffer), _bytes(BufferType(type_.shape, type_.dtype))]
    if None not in sizes and sizes[1] > sizes[0]:  # type: ignore[operator]
        at.fail(op, f"{called(op.name)}: {type_} needs {sizes[1]} bytes, but the buffer has {sizes[0]}")
    return replace(op, args=(op.args[0], shape)), type_


def _bytes(buffer: BufferType) -> int | None:
    count = count_of(buffer.shape)
    return None if count is None else count * (buffer.dtype.size if buffer.dtype else 1)


def _index(at: RuleContext, op: Op) -> Typed:
    """Type `x[r, …]`: the part of a tensor at these leading indices."""
    tensor = at.tensor(op, 0)
    items = op.items(1)
    if len(items) >= len(tensor.shape):
        at.fail(
            op, f"{len(items)} indices into {tensor} select no tensor", "pass the tensor itself, or use fewer indices"
        )
    indices = tuple(at.number(op, index, INDEX) for index in items)
    for axis, (index, extent) in enumerate(zip(indices, tensor.shape, strict=False)):
        if isinstance(index, Const) and isinstance(extent, int) and not 0 <= int(index.value) < extent:
            at.fail(op, f"index {index.value} of axis {axis} is outside of {tensor}")
    return replace(op, args=(op.args[0], indices)), TensorType(tensor.shape[len(items) :], tensor.dtype)


RANK_RULES: dict[str, Rule] = {
    "get_comm_ctx": _get_comm_ctx,
    "rank": _rank,
    "notify": _notify,
    "wait": _wait,
    "remote_load": _remote_load,
    "remote_store": _remote_store,
    "tensor_remote_store": _tensor_remote_store,
    "transfer": _transfer,
    "world_size": KERNEL_RULES["launch_id"],
    "alloc_window_buffer": _alloc_window_buffer,
    "window": _window_of,
    "index": _index,
}
