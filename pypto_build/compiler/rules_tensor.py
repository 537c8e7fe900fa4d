"""Typing rules of operations on tensors of an orchestration, and of single elements."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from .dtypes import INDEX
from .ir import Op
from .typing_rules import Rule, RuleContext, Typed
from .values import Const, Dim, ScalarType, TaskType, TensorType


def _create_tensor(at: RuleContext, op: Op) -> Typed:
    shape = op.args[0]
    if not isinstance(shape, tuple) or not shape:
        at.fail(op, "pl.create_tensor: shape is a list of extents")
    extents = tuple(at.number(op, extent, INDEX) for extent in shape)
    return replace(op, args=(extents,)), TensorType(tuple(at.dim(e) for e in extents), op.attrs["dtype"])


def _slice(at: RuleContext, op: Op) -> Typed:
    tensor = at.tensor(op, 0)
    rank = len(tensor.shape)
    shape, offsets = (at.indices(op, op.args[n], rank, what) for n, what in ((1, "extents"), (2, "offsets")))
    extents = tuple(at.dim(extent) for extent in shape)
    for axis, (extent, whole, offset) in enumerate(zip(extents, tensor.shape, offsets, strict=True)):
        if not (isinstance(extent, int) and isinstance(whole, int) and isinstance(offset, Const)):
            continue
        if not 0 <= int(offset.value) < whole:
            at.fail(op, f"pl.slice: offset {offset.value} of axis {axis} lies outside the tensor, which has {whole}")
    _contiguous(at, op, extents, tensor.shape)
    return replace(op, args=(op.args[0], shape, offsets)), replace(tensor, shape=extents)


def _contiguous(at: RuleContext, op: Op, shape: tuple[Dim, ...], whole: tuple[Dim, ...]) -> None:
    """A kernel computes addresses from the extents it declares, so a slice has to be one piece of memory."""
    partial = False
    for axis in reversed(range(len(shape))):
        full = shape[axis] == whole[axis]
        if partial and shape[axis] != 1:
            at.fail(
                op,
                f"pl.slice: axis {axis + 1} is cut although axis {axis} is not a single one, so the slice has gaps",
                "pass the whole tensor and the offset to the kernel",
            )
        partial |= not full


def _reshape(at: RuleContext, op: Op) -> Typed:
    tensor = at.tensor(op, 0)
    if not isinstance(op.args[1], tuple):
        at.fail(op, "pl.reshape: shape is a list of extents")
    shape = tuple(at.number(op, extent, INDEX) for extent in op.args[1])
    extents = tuple(at.dim(extent) for extent in shape)
    old, new = count_of(tensor.shape), count_of(extents)
    if old is not None and new is not None and old != new:
        at.fail(op, f"pl.reshape: {old} elements as {new}")
    return replace(op, args=(op.args[0], shape)), replace(tensor, shape=extents)


def count_of(shape: tuple[Dim, ...]) -> int | None:
    """Return the number of elements; None if it is dynamic."""
    constants = [extent for extent in shape if isinstance(extent, int)]
    return prod(constants) if len(constants) == len(shape) else None


def _read(at: RuleContext, op: Op) -> Typed:
    tensor = at.tensor(op, 0)
    indices = at.indices(op, op.args[1], len(tensor.shape), "indices")
    return replace(op, args=(op.args[0], indices)), ScalarType(tensor.dtype)


def _write(at: RuleContext, op: Op) -> Typed:
    tensor = at.tensor(op, 0)
    indices = at.indices(op, op.args[1], len(tensor.shape), "indices")
    return replace(op, args=(op.args[0], indices, at.number(op, op.args[2], tensor.dtype))), None


def _dim(at: RuleContext, op: Op) -> Typed:
    tensor, axis = at.tensor(op, 0), op.args[1]
    if not isinstance(axis, Const) or not 0 <= int(axis.value) < len(tensor.shape):
        at.fail(op, f"pl.dim: the axis is a number below {len(tensor.shape)}")
    extent = tensor.shape[int(axis.value)]
    value = Const(extent) if isinstance(extent, int) else extent
    return replace(op, name="s.add", args=(value, Const(0)), attrs={"dtype": INDEX}), ScalarType(INDEX)


def _dummy_task(at: RuleContext, op: Op) -> Typed:
    if not isinstance(op.args[0], tuple):
        at.fail(op, "pl.dummy_task: deps is a list of tasks")
    at.tasks(op, "pl.dummy_task: ", op.args[0])
    return op, TaskType()


def _no_task(at: RuleContext, op: Op) -> Typed:
    return op, TaskType()


TENSOR_RULES: dict[str, Rule] = {
    "create_tensor": _create_tensor,
    "slice": _slice,
    "reshape": _reshape,
    "read": _read,
    "write": _write,
    "dim": _dim,
    "no_task": _no_task,
    "dummy_task": _dummy_task,
}
