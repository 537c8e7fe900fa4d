"""Typing rules of tile operations: their operands, and the extents and element type of their results."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import prod
from typing import NoReturn

from pypto_build.facts.dtypes import BF16, BOOL, FP16, FP32, INDEX, INT8, INT32, UINT8, UINT32, DType
from pypto_build.pto.ssa_names import spelled

from .errors import CompileError
from .ir import Const, Dim, Op, Operand, Ref, ScalarType, TaskType, TensorType, TileType, Type, Value, ValueKind, Values
from .operations import OPERATIONS, called

# Typing rules of operations on tensors of an orchestration, and of single elements.


def _create_tensor(at: RuleContext, op: Op) -> Typed:
    shape = op.args[0]
    if not isinstance(shape, tuple) or not shape:
        at.fail(op, "pl.create_tensor: shape must be a list of extents")
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
            at.fail(
                op,
                (
                    f"pl.slice: offset {offset.value} of axis {axis} is outside of the tensor, whose extent "
                    f"there is {whole}"
                ),
            )
    _contiguous(at, op, extents, tensor.shape)
    return replace(op, args=(op.args[0], shape, offsets)), replace(tensor, shape=extents)


def _contiguous(at: RuleContext, op: Op, shape: tuple[Dim, ...], whole: tuple[Dim, ...]) -> None:
    """Check that a slice is contiguous: a kernel computes addresses from the extents that it declares."""
    partial = False
    for axis in reversed(range(len(shape))):
        full = shape[axis] == whole[axis]
        if partial and shape[axis] != 1:
            at.fail(
                op,
                (
                    f"pl.slice: the slice is not contiguous, because it takes only a part of axis {axis + 1} "
                    f"and more than one index of axis {axis}"
                ),
                "pass the whole tensor and the offset to the kernel",
            )
        partial |= not full


def _rules_tensor_reshape(at: RuleContext, op: Op) -> Typed:
    tensor = at.tensor(op, 0)
    if not isinstance(op.args[1], tuple):
        at.fail(op, "pl.reshape: shape must be a list of extents")
    shape = tuple(at.number(op, extent, INDEX) for extent in op.args[1])
    extents = tuple(at.dim(extent) for extent in shape)
    old, new = count_of(tensor.shape), count_of(extents)
    if old is not None and new is not None and old != new:
        at.fail(op, f"pl.reshape: {old} elements do not fit the new shape {new}")
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
        at.fail(op, f"pl.dim: the axis must be a number below {len(tensor.shape)}")
    extent = tensor.shape[int(axis.value)]
    value = Const(extent) if isinstance(extent, int) else extent
    return replace(op, name="s.add", args=(value, Const(0)), attrs={"dtype": INDEX}), ScalarType(INDEX)


def _dummy_task(at: RuleContext, op: Op) -> Typed:
    if not isinstance(op.args[0], tuple):
        at.fail(op, "pl.dummy_task: deps must be a list of tasks")
    at.tasks(op, "pl.dummy_task: ", op.args[0])
    return op, TaskType()


def _no_task(at: RuleContext, op: Op) -> Typed:
    return op, TaskType()


TENSOR_RULES: dict[str, Rule] = {
    "create_tensor": _create_tensor,
    "slice": _slice,
    "reshape": _rules_tensor_reshape,
    "read": _read,
    "write": _write,
    "dim": _dim,
    "no_task": _no_task,
    "dummy_task": _dummy_task,
}


# The type of typing rules, and the context that they query.

#: An operation with its operands converted, and the type of its results; None if it has no value.
Typed = tuple[Op, Type | None]


class RuleContext:
    """Context of a typing rule: types of operands, operations before the current one, and errors at its line."""

    def __init__(self, values: Values) -> None:
        self.values = values
        self.types = values.types
        self.out: list[Op] = []
        self.count = 0

    def fail(self, op: Op, message: str, hint: str = "") -> NoReturn:
        raise CompileError(op.position, message, hint)

    def type_of(self, operand: Operand) -> Type | None:
        """Return the type of an operand; None for lists."""
        if isinstance(operand, Const):
            value = operand.value
            return ScalarType(BOOL if isinstance(value, bool) else FP32 if isinstance(value, float) else INDEX)
        return self.types[operand.name] if isinstance(operand, Ref) else None

    def tile(self, op: Op, number: int) -> TileType:
        type_ = self.type_of(op.args[number])
        if not isinstance(type_, TileType):
            hint = "load a tile with pl.load" if isinstance(type_, TensorType) else ""
            spec = OPERATIONS.get(op.name)
            if spec and "tensor" in spec.operands and hint:
                hint = f"pass a tile, loaded with pl.load; the operands are {', '.join(spec.operands)}"
            self.fail(
                op,
                f"{called(op.name)}: {self.operand_name(op, number)} must be a tile, found {kind_text(type_)}",
                hint,
            )
        return type_

    def tensor(self, op: Op, number: int) -> TensorType:
        type_ = self.type_of(op.args[number])
        if not isinstance(type_, TensorType):
            self.fail(
                op, f"{called(op.name)}: {self.operand_name(op, number)} must be a tensor, found {kind_text(type_)}"
            )
        return type_

    def operand_name(self, op: Op, number: int) -> str:
        spec = OPERATIONS.get(op.name)
        return spec.operands[number] if spec else f"operand {number}"

    def number(self, op: Op, operand: Operand, dtype: DType) -> Operand:
        """Return a number converted to an element type."""
        type_ = self.type_of(operand)
        if not isinstance(type_, ScalarType):
            self.fail(op, f"{called(op.name)}: a number is needed here, found {kind_text(type_)}")
        if isinstance(operand, Const):
            if dtype.is_float:
                return Const(float(operand.value))
            if isinstance(operand.value, float) and not operand.value.is_integer():
                self.fail(op, f"{operand.value} cannot be represented as {dtype}")
            return Const(bool(operand.value) if dtype == BOOL else int(operand.value))
        if type_.dtype == dtype:
            return operand
        return self.emit(Op("s.cast", (operand,), {"dtype": dtype}, position=op.position), ScalarType(dtype))

    def indices(self, op: Op, operand: Operand, count: int, what: str) -> tuple[Operand, ...]:
        """Return the operand as a list of `count` index values."""
        if not isinstance(operand, tuple):
            self.fail(op, f"{called(op.name)}: {what} must be a list")
        if len(operand) != count:
            self.fail(op, f"{called(op.name)}: {len(operand)} {what} are given, but the tensor has {count} extents")
        return tuple(self.number(op, item, INDEX) for item in operand)

    def inside(self, op: Op, axis: str, offset: Operand, size: int, whole: Dim) -> None:
        """Check that a part with constant extents lies inside a tensor with constant extents."""
        if isinstance(offset, Const) and isinstance(whole, int):
            start = int(offset.value)
            if start < 0 or start + size > whole:
                self.fail(
                    op,
                    (
                        f"{called(op.name)}: {axis}: the range {start} to {start + size} is outside of the "
                        f"extent {whole}"
                    ),
                )

    def emit(self, op: Op, type_: Type, stem: str = "num") -> Ref:
        """Insert an operation before the current one; return its result."""
        name = spelled(stem, "tmp", self.count)
        self.count += 1
        op.results = (name,)
        self.out.append(op)
        return self.values.add(Value(name, stem, ValueKind.TEMPORARY, op.position, name), type_)

    def dim(self, operand: Operand) -> Dim:
        match operand:
            case Ref():
                return operand
            case Const(value):
                return int(value)
        raise TypeError("an extent is a number or a value")

    def tasks(self, op: Op, what: str, deps: tuple[Operand, ...]) -> None:
        for dep in deps:
            if not isinstance(self.type_of(dep), TaskType):
                self.fail(
                    op,
                    f"{what}deps must be tasks, found {kind_text(self.type_of(dep))}",
                    "use the value of a kernel call: t = kernel(…)",
                )


Rule = Callable[[RuleContext, Op], Typed]


def kind_text(type_: Type | None) -> str:
    return "a list" if type_ is None else f"a {type_}"


BLOCK = 32  # bytes a row or column of a tile comes in


def vector_tile(
    at: RuleContext, op: Op, shape: tuple[int, int], dtype: DType, valid: tuple[Dim, Dim] | None = None
) -> TileType:
    """Return a tile type in vector memory; its rows (or the column of a tile with one value a row) are whole 32-byte
    blocks.
    """
    tile = TileType(shape, dtype, valid or shape)
    extent, what = (shape[0], "column") if tile.is_column else (shape[1], "row")
    if extent * dtype.size % BLOCK:
        at.fail(
            op,
            (
                f"{called(op.name)}: a {what} of {extent} {dtype} has {extent * dtype.size} bytes, "
                f"which is not a multiple of {BLOCK}"
            ),
            "use a larger tile, and give the part that holds data with valid_shape",
        )
    return tile


def static_extents(at: RuleContext, op: Op, operand: Operand, what: str) -> tuple[int, ...]:
    if not isinstance(operand, tuple) or not operand:
        at.fail(op, f"{called(op.name)}: {what} must be a list of numbers")
    values = tuple(int(item.value) for item in operand if isinstance(item, Const))
    if len(values) < len(operand) or min(values) <= 0:
        at.fail(op, f"{called(op.name)}: {what} must be known at compile time", "load a whole tile and use valid_shape")
    return values


def rows_and_columns(shape: tuple[int, ...]) -> tuple[int, int]:
    """Return rows and columns of a window; all extents but the last count as rows."""
    return prod(shape[:-1]), shape[-1]


# --- moving data -----------------------------------------------------------------------------------------------------


def load(at: RuleContext, op: Op) -> Typed:
    tensor = at.tensor(op, 0)
    rank = len(tensor.shape)
    offsets = at.indices(op, op.args[1], rank, "offsets")
    shape = static_extents(at, op, op.args[2], "shape")
    at.indices(op, op.args[2], rank, "extents")
    _inside(at, op, tensor, offsets, shape)
    rows, cols = rows_and_columns(shape)
    valid: tuple[Dim, Dim] = (rows, cols)
    if op.args[3] != ():
        extents = [at.dim(v) for v in at.indices(op, op.args[3], rank, "valid extents")]
        if rank == 1:
            extents.insert(0, 1)
        if any(extent != 1 for extent in shape[:-2]):
            at.fail(op, f"{called(op.name)}: with valid_shape, all extents before the last two must be 1")
        valid = (extents[-2], extents[-1])
    tile = TileType((rows, cols), tensor.dtype, valid)
    if op.attrs["target"] in ("", "vec"):
        vector_tile(at, op, tile.shape, tensor.dtype)
    return replace(op, args=(op.args[0], offsets, tuple(map(Const, shape)))), tile


def _inside(at: RuleContext, op: Op, tensor: TensorType, offsets: tuple[Operand, ...], shape: tuple[int, ...]) -> None:
    if op.args[-1] == ():
        for axis, (offset, size, whole) in enumerate(zip(offsets, shape, tensor.shape, strict=True)):
            at.inside(op, f"axis {axis}", offset, size, whole)


def store(at: RuleContext, op: Op) -> Typed:
    tile, tensor = at.tile(op, 0), at.tensor(op, 2)
    offsets = at.indices(op, op.args[1], len(tensor.shape), "offsets")
    rank = len(tensor.shape)
    for axis, size in ((rank - 1, tile.valid[1]), (rank - 2, tile.valid[0])):
        if axis >= 0 and rank <= 2 and isinstance(size, int):
            at.inside(op, f"axis {axis}", offsets[axis], size, tensor.shape[axis])
    if op.attrs["atomic"] not in ("", "add"):
        at.fail(op, f"{called(op.name)}: atomic must be 'add' or left out, found {op.attrs['atomic']!r}")
    return replace(op, args=(op.args[0], offsets, op.args[2])), None


def _move(at: RuleContext, op: Op) -> Typed:
    return op, at.tile(op, 0)


def _extract(at: RuleContext, op: Op) -> Typed:
    tile = at.tile(op, 0)
    offsets = at.indices(op, op.args[1], 2, "offsets")
    shape = static_extents(at, op, op.args[2], "shape")
    if len(shape) != 2:
        at.fail(op, "pl.extract: shape must be [rows, columns]")
    for axis in (0, 1):
        offset = offsets[axis]
        if isinstance(offset, Const) and int(offset.value) + shape[axis] > tile.shape[axis]:
            at.fail(
                op,
                (
                    f"pl.extract: axis {axis}: the range {offset.value} to {int(offset.value) + shape[axis]} "
                    f"is outside of {tile}"
                ),
            )
    return replace(op, args=(op.args[0], offsets)), TileType((shape[0], shape[1]), tile.dtype, (shape[0], shape[1]))


def _create_tile(at: RuleContext, op: Op) -> Typed:
    shape = rows_and_columns(static_extents(at, op, op.args[0], "shape"))
    return replace(op, args=()), TileType(shape, op.attrs["dtype"], shape)


# --- elementwise -----------------------------------------------------------------------------------------------------


def _binary(at: RuleContext, op: Op) -> Typed:
    kinds = [at.type_of(a) for a in op.args]
    if isinstance(kinds[0], ScalarType):
        return _number_first(at, op)
    a = at.tile(op, 0)
    if isinstance(kinds[1], ScalarType):
        return replace(op, args=(op.args[0], at.number(op, op.args[1], a.dtype))), a
    b = at.tile(op, 1)
    _agree(at, op, a, b)
    return op, a


def _number_first(at: RuleContext, op: Op) -> Typed:
    """Type `2.0 * x`, `1.0 - x`, `1.0 / x`: swap the operands if the result stays the same."""
    b = at.tile(op, 1)
    scalar = at.number(op, op.args[0], b.dtype)
    if op.name in ("add", "mul", "maximum", "minimum", "bitwise_and", "bitwise_or"):
        return replace(op, args=(op.args[1], scalar)), b
    if op.name == "sub":
        negated = at.emit(Op("neg", (op.args[1],), position=op.position), b, "neg")
        return replace(op, name="add", args=(negated, scalar)), b
    if op.name == "div":
        return replace(op, args=(scalar, op.args[1])), b
    at.fail(op, f"{op.name}: the tile must be the first operand")


def _agree(at: RuleContext, op: Op, a: TileType, b: TileType) -> None:
    if a.shape != b.shape:
        hint = ""
        if b.shape in ((a.shape[0], 1), (1, a.shape[1])):
            hint = f"use pl.{'row' if b.shape[1] == 1 else 'col'}_expand_{op.name}"
        at.fail(op, f"{op.name}: {a} and {b} have different shapes", hint)
    if a.dtype != b.dtype:
        at.fail(
            op,
            f"{op.name}: the operands have different dtypes, {a.dtype} and {b.dtype}",
            "convert one of them with pl.cast",
        )


def _unary(at: RuleContext, op: Op) -> Typed:
    x = at.tile(op, 0)
    if not x.dtype.is_float and op.name not in ("neg", "abs", "relu"):
        at.fail(op, f"{called(op.name)}: the dtype must be a float type, found {x.dtype}", "convert it with pl.cast")
    return op, replace(x, pad="null")


_MODES = ("none", "rint", "round", "floor", "ceil", "trunc")


def _cast(at: RuleContext, op: Op) -> Typed:
    x = at.tile(op, 0)
    if op.attrs["mode"] not in _MODES:
        at.fail(op, f"pl.cast: mode must be one of {', '.join(_MODES)}")
    return op, vector_tile(at, op, x.shape, op.attrs["dtype"], x.valid)


def _full(at: RuleContext, op: Op) -> Typed:
    shape, dtype = rows_and_columns(static_extents(at, op, op.args[0], "shape")), op.attrs["dtype"]
    return replace(op, args=(at.number(op, op.args[1], dtype),)), vector_tile(at, op, shape, dtype)


def _arange(at: RuleContext, op: Op) -> Typed:
    size = op.args[0]
    if not isinstance(size, Const):
        at.fail(op, "pl.arange: size must be known at compile time")
    dtype = op.attrs["dtype"]
    if dtype not in (INT32, UINT32):
        at.fail(op, f"pl.arange: the dtype must be INT32 or UINT32, found {dtype}")
    start = at.number(op, op.args[1], INT32) if op.args[1] != () else Const(0)
    return replace(op, args=(start,)), vector_tile(at, op, (1, int(size.value)), dtype)


# --- rows and columns ------------------------------------------------------------------------------------------------


def _row_reduce(at: RuleContext, op: Op) -> Typed:
    x = at.tile(op, 0)
    return op, vector_tile(at, op, (x.shape[0], 1), x.dtype, (x.valid[0], 1)) if x.shape[0] > 1 else TileType(
        (1, BLOCK // x.dtype.size), x.dtype, (1, 1)
    )


def _col_reduce(at: RuleContext, op: Op) -> Typed:
    x = at.tile(op, 0)
    return op, vector_tile(at, op, (1, x.shape[1]), x.dtype, (1, x.valid[1]))


def _expand(axis: int, drops_tile: bool) -> Rule:
    def rule(at: RuleContext, op: Op) -> Typed:
        x, narrow = at.tile(op, 0), at.tile(op, 1)
        shape = (x.shape[0], 1) if axis == 0 else (1, x.shape[1])
        if narrow.shape != shape:
            each = "row" if axis == 0 else "column"
            at.fail(
                op,
                (
                    f"{called(op.name)}: the operand must have one value for each {each}, in the shape {list(shape)}, "
                    f"found {narrow}"
                ),
            )
        if narrow.dtype != x.dtype:
            at.fail(
                op,
                f"{called(op.name)}: the operands have different dtypes, {x.dtype} and {narrow.dtype}",
                "convert one of them with pl.cast",
            )
        return (replace(op, args=(op.args[1],)) if drops_tile else op), replace(x, pad="null")

    return rule


def _reshape(at: RuleContext, op: Op) -> Typed:
    x = at.tile(op, 0)
    shape = rows_and_columns(static_extents(at, op, op.args[1], "shape"))
    if shape[0] * shape[1] != x.shape[0] * x.shape[1]:
        at.fail(
            op,
            (
                f"pl.reshape: {x} has {x.shape[0] * x.shape[1]} elements, but the shape {list(shape)} "
                f"has {shape[0] * shape[1]}"
            ),
        )
    if x.valid != x.shape and not (1 in x.shape and 1 in shape):
        at.fail(op, f"pl.reshape: only a part of {x} holds data, so its shape cannot change")
    flat = x.valid[0] if x.shape[1] == 1 else x.valid[1]
    valid = shape if x.valid == x.shape else ((flat, 1) if shape[1] == 1 else (1, flat))
    return replace(op, args=(op.args[0],)), vector_tile(at, op, shape, x.dtype, valid)


def _transpose(at: RuleContext, op: Op) -> Typed:
    x = at.tile(op, 0)
    return op, TileType((x.shape[1], x.shape[0]), x.dtype, (x.valid[1], x.valid[0]))


def _concat(at: RuleContext, op: Op) -> Typed:
    a, b = at.tile(op, 0), at.tile(op, 1)
    if a.shape[0] != b.shape[0] or a.dtype != b.dtype or a.valid != a.shape:
        at.fail(op, f"pl.concat: {a} and {b} must have equal rows and dtypes, and all of the first must hold data")
    extra = b.valid[1]
    cols = a.shape[1] + b.shape[1]
    valid: tuple[Dim, Dim] = (b.valid[0], cols if extra == b.shape[1] else a.shape[1])
    return op, vector_tile(at, op, (a.shape[0], cols), a.dtype, valid)


def _fillpad(at: RuleContext, op: Op) -> Typed:
    x = at.tile(op, 0)
    if op.attrs["pad"] not in ("zero", "max", "min"):
        at.fail(op, "pl.fillpad: pad must be 'zero', 'max' or 'min'")
    return op, replace(x, valid=x.shape, pad=op.attrs["pad"])


# --- comparing, choosing, sorting ------------------------------------------------------------------------------------


def _cmp(at: RuleContext, op: Op) -> Typed:
    a = at.tile(op, 0)
    if op.attrs["mode"] not in ("eq", "ne", "lt", "le", "gt", "ge"):
        at.fail(op, "pl.cmp: mode must be eq, ne, lt, le, gt or ge")
    args = op.args
    if isinstance(at.type_of(args[1]), ScalarType):
        args = (args[0], at.number(op, args[1], a.dtype))
    else:
        _agree(at, op, a, at.tile(op, 1))
    packed = -(-a.shape[1] // 8)
    return replace(op, args=args), TileType((a.shape[0], -(-packed // BLOCK) * BLOCK), UINT8, (a.shape[0], packed))


def _select(at: RuleContext, op: Op) -> Typed:
    mask, a, b = at.tile(op, 0), at.tile(op, 1), at.tile(op, 2)
    if mask.dtype != UINT8:
        at.fail(op, f"pl.select: the mask must be a result of pl.cmp, found {mask}")
    _agree(at, op, a, b)
    return op, a


def _gather(at: RuleContext, op: Op) -> Typed:
    x, indices = at.tile(op, 0), at.tile(op, 1)
    if indices.dtype not in (INT32, UINT32):
        at.fail(op, f"pl.gather: the dtype of indices must be INT32, found {indices.dtype}")
    return op, vector_tile(at, op, indices.shape, x.dtype, indices.valid)


_PATTERNS = {"P0101": 2, "P1010": 2, "P0001": 4, "P0010": 4, "P0100": 4, "P1000": 4, "P1111": 1}


def _gather_mask(at: RuleContext, op: Op) -> Typed:
    x = at.tile(op, 0)
    if op.attrs["pattern"] not in _PATTERNS:
        at.fail(op, f"pl.gather_mask: pattern must be one of {', '.join(_PATTERNS)}")
    dtype = op.attrs["dtype"] or x.dtype
    if dtype.size != x.dtype.size:
        at.fail(op, f"pl.gather_mask: the sizes of {dtype} and {x.dtype} must be equal")
    return op, vector_tile(at, op, (x.shape[0], x.shape[1] // _PATTERNS[op.attrs["pattern"]]), dtype)


def _sort32(at: RuleContext, op: Op) -> Typed:
    x, indices = at.tile(op, 0), at.tile(op, 1)
    if x.shape[1] % 32 or indices.shape != x.shape or indices.dtype != UINT32:
        at.fail(
            op,
            (
                f"pl.sort32: {x} and {indices}: the columns must be a multiple of 32, and the indices must "
                "be UINT32 of the same shape"
            ),
        )
    return op, vector_tile(at, op, (x.shape[0], 2 * x.shape[1]), x.dtype)


def _mrgsort(at: RuleContext, op: Op) -> Typed:
    x, length = at.tile(op, 0), op.args[1]
    if not isinstance(length, Const) or x.shape[1] % (4 * int(length.value)):
        at.fail(op, f"pl.mrgsort: the number of columns, {x.shape[1]}, must be a multiple of 4 * block_len")
    return op, x


# --- the cube core ---------------------------------------------------------------------------------------------------


def _product(at: RuleContext, op: Op, a: TileType, b: TileType) -> TileType:
    if a.shape[1] != b.shape[0]:
        at.fail(op, f"{called(op.name)}: the columns of {a} ({a.shape[1]}) must equal the rows of {b} ({b.shape[0]})")
    if a.dtype != b.dtype or a.dtype not in (FP32, FP16, BF16, INT8):
        at.fail(
            op,
            (
                f"{called(op.name)}: the dtypes {a.dtype} and {b.dtype} are not supported; both must be "
                "FP32, FP16, BF16 or INT8"
            ),
        )
    for tile in (a, b):
        for extent, fractal in ((tile.shape[0], 16), (tile.shape[1], BLOCK // tile.dtype.size)):
            if extent % fractal:
                at.fail(op, f"{called(op.name)}: {tile} does not consist of 16 x {BLOCK // tile.dtype.size} fractals")
    return TileType((a.shape[0], b.shape[1]), INT32 if a.dtype == INT8 else FP32, (a.valid[0], b.valid[1]))


def _matmul(at: RuleContext, op: Op) -> Typed:
    return op, _product(at, op, at.tile(op, 0), at.tile(op, 1))


def _matmul_acc(at: RuleContext, op: Op) -> Typed:
    acc = at.tile(op, 0)
    product = _product(at, op, at.tile(op, 1), at.tile(op, 2))
    if (acc.shape, acc.dtype) != (product.shape, product.dtype):
        at.fail(op, f"pl.matmul_acc: the product is {product}, but acc is {acc}")
    return op, replace(product, valid=acc.valid)


def _launch_id(at: RuleContext, op: Op) -> Typed:
    return op, ScalarType(INDEX)


KERNEL_RULES: dict[str, Rule] = {
    "load": load,
    "store": store,
    "move": _move,
    "extract": _extract,
    "create_tile": _create_tile,
    "binary": _binary,
    "unary": _unary,
    "cast": _cast,
    "full": _full,
    "arange": _arange,
    "row_reduce": _row_reduce,
    "col_reduce": _col_reduce,
    "row_expand": _expand(0, False),
    "col_expand": _expand(1, False),
    "expand_row": _expand(0, True),
    "expand_col": _expand(1, True),
    "reshape": _reshape,
    "transpose": _transpose,
    "concat": _concat,
    "fillpad": _fillpad,
    "cmp": _cmp,
    "select": _select,
    "gather": _gather,
    "gather_mask": _gather_mask,
    "sort32": _sort32,
    "mrgsort": _mrgsort,
    "matmul": _matmul,
    "matmul_acc": _matmul_acc,
    "launch_id": _launch_id,
}
