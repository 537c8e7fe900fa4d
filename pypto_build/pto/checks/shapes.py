"""Checks shapes and element types of operands against each other, with one rule for each family of operations."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import prod

from ..errors import DeviceRule
from ..model import Operation, int_value
from ..ops import TABLE
from ..resolve import Resolved, Value
from ..types import DYNAMIC, PtrType, ScalarType, TileType, Type, ViewType, element_bytes
from .rules import AXES, Messages, RuleFunction


def _tiles(resolved: Resolved, op: Operation) -> list[tuple[str, Value, TileType]]:
    """Return the tile operands that hold data (without scratch), with their roles."""
    definition = TABLE[op.name]
    tiles = []
    for name in op.operands:
        role = definition.role(name, op.variant)
        value = resolved.value(op, name)
        if role is not None and role.access != "s" and value is not None and isinstance(value.type, TileType):
            tiles.append((name, value, value.type))
    return tiles


def _one_dtype(resolved: Resolved, op: Operation) -> Messages:
    tiles = _tiles(resolved, op)
    for name, _, type_ in tiles[1:]:
        first, _, first_type = tiles[0]
        if type_.dtype != first_type.dtype:
            yield f"{name} has elements {type_.dtype}, {first} has {first_type.dtype}"
            return
    scalar = resolved.value(op, "scalar")
    if scalar is not None and isinstance(scalar.type, ScalarType) and tiles:
        tile = tiles[0][2].dtype
        if isinstance(tile, ScalarType) and tile.is_float != scalar.type.is_float:
            yield f"scalar is a {scalar.type}, {tiles[0][0]} has elements {tile}"


def _same_extents(resolved: Resolved, op: Operation) -> Messages:
    tiles = _tiles(resolved, op)
    if tiles and not any(str(type_.dtype).endswith("x2") for _, _, type_ in tiles):  # two elements in one
        reference = tiles[-1]
        for tile in tiles[:-1]:
            yield from _equal(resolved, tile, reference, (0, 0), (1, 1))


def _equal(
    resolved: Resolved, a: tuple[str, Value, TileType], b: tuple[str, Value, TileType], *pairs: tuple[int, int]
) -> Messages:
    """Check that the extents in `pairs` = (axis of a, axis of b) agree if both are known."""
    ours, theirs = resolved.extents(a[1]), resolved.extents(b[1])
    for mine, other in pairs:
        x, y = ours[mine], theirs[other]
        if x is not None and y is not None and x != y:
            yield f"{a[0]} has {x} valid {AXES[mine]}, {b[0]} has {y} valid {AXES[other]}"


def _same(resolved: Resolved, op: Operation) -> Messages:
    yield from _one_dtype(resolved, op)
    yield from _same_extents(resolved, op)


def _reduce(axis: int, dtype: bool) -> Callable[[Resolved, Operation], Messages]:
    def rule(resolved: Resolved, op: Operation) -> Messages:
        tiles = _tiles(resolved, op)
        if len(tiles) < 2:
            return
        src, dst = tiles[0], tiles[-1]
        if dtype:
            yield from _one_dtype(resolved, op)
        yield from _equal(resolved, src, dst, (axis, axis))
        extent = resolved.extents(dst[1])[1 - axis]
        if extent is not None and extent > 1:
            yield f"{dst[0]} has {extent} valid {AXES[1 - axis]}, expected 1"

    return rule


def _expand(axis: int) -> Callable[[Resolved, Operation], Messages]:
    """Return a check that one operand is full size, and the other has one value per row (axis 0) or column (axis 1)."""

    def rule(resolved: Resolved, op: Operation) -> Messages:
        yield from _one_dtype(resolved, op)
        tiles = {name: (name, value, type_) for name, value, type_ in _tiles(resolved, op)}
        if {"src0", "src1", "dst"} <= tiles.keys():
            for name in ("src0", "src1"):
                yield from _equal(resolved, tiles[name], tiles["dst"], (axis, axis))

    return rule


_PRODUCTS = {
    ("f16", "f16"): "f32",
    ("bf16", "bf16"): "f32",
    ("f32", "f32"): "f32",
    ("i8", "i8"): "i32",
    ("si8", "si8"): "si32",
}


def _matmul(resolved: Resolved, op: Operation, *, rows: bool = True) -> Messages:
    """Check that the inner extents agree, and the outer extents with the result's; for a vector's product only the
    columns.
    """
    tiles = {name: (name, value, type_) for name, value, type_ in _tiles(resolved, op)}
    if not {"a", "b", "dst"} <= tiles.keys():
        return
    a, b, dst = tiles["a"], tiles["b"], tiles["dst"]
    yield from _equal(resolved, a, b, (1, 0))
    if rows:
        yield from _equal(resolved, a, dst, (0, 0))
    yield from _equal(resolved, b, dst, (1, 1))
    pair = (str(a[2].dtype), str(b[2].dtype))
    accumulator = _PRODUCTS.get(pair)
    if accumulator and str(dst[2].dtype) != accumulator:
        yield f"{pair[0]} x {pair[1]} accumulates in {accumulator}, dst has elements {dst[2].dtype}"
    elif not accumulator and {"f16", "bf16", "f32"} & set(pair):
        yield f"a has elements {pair[0]}, b has {pair[1]}"


def _transfer(resolved: Resolved, op: Operation) -> Messages:
    src, dst = resolved.value(op, "src"), resolved.value(op, "dst")
    if src is None or dst is None:
        return
    tile, part = (dst, src) if TABLE[op.name].fn == "load" else (src, dst)
    if not isinstance(tile.type, TileType) or not isinstance(part.type, ViewType):
        return
    if tile.type.loc != "acc" and element_bytes(tile.type.dtype) != element_bytes(part.type.element):
        yield f"the tile has elements {tile.type.dtype}, global memory {part.type.element}"
    shape = part.type.shape
    if part.type.kind != "partition_tensor_view" or DYNAMIC in shape or not shape:
        return
    rows, cols = resolved.extents(tile)
    if rows is not None and cols is not None and rows * cols > prod(shape):
        yield f"the tile has {rows} x {cols} valid elements, the partition only {'x'.join(map(str, shape))}"


_MOVES = {
    "vec": ("vec", "mat", "left", "right"),
    "mat": ("left", "right", "bias", "scaling", "vec", "mat"),
    "acc": ("vec", "mat"),
}


def _move(resolved: Resolved, op: Operation) -> Messages:
    src, dst = resolved.value(op, "src"), resolved.value(op, "dst")
    if src is None or dst is None or not isinstance(src.type, TileType) or not isinstance(dst.type, TileType):
        return
    allowed = _MOVES.get(src.type.loc, ())
    if dst.type.loc not in allowed:
        route = f"from {src.type.loc} to {' or '.join(allowed)}" if allowed else f"not from {src.type.loc}"
        yield f"moves data {route}, found {src.type.loc} to {dst.type.loc}"


def _move_same(resolved: Resolved, op: Operation) -> Messages:
    yield from _move(resolved, op)
    tiles = _tiles(resolved, op)
    if len(tiles) == 2 and tiles[0][2].loc != "acc" and tiles[0][2].dtype != tiles[1][2].dtype:
        yield f"dst has elements {tiles[1][2].dtype}, src has {tiles[0][2].dtype}"


def _window(outer: str, inner: str) -> Callable[[Resolved, Operation], Messages]:
    """Return a check that the window of `inner`'s valid extents at (row, col) lies inside `outer`."""

    def rule(resolved: Resolved, op: Operation) -> Messages:
        yield from _move(resolved, op)
        big, small = resolved.value(op, outer), resolved.value(op, inner)
        if big is None or small is None or not isinstance(big.type, TileType):
            return
        extents = resolved.extents(small)
        for axis, (role, size) in enumerate((("row", big.type.rows), ("col", big.type.cols))):
            at, extent = resolved.constant(op, role), extents[axis]
            if at is not None and extent is not None and (at < 0 or at + extent > size):
                yield f"{AXES[axis]} {at} to {at + extent} lie outside {outer}, which has {size}"

    return rule


def _alloc(resolved: Resolved, op: Operation) -> Messages:
    type_ = op.result_types[0] if op.result_types else None
    if not isinstance(type_, TileType):
        yield f"the result is a tile_buf, found {type_}"
        return
    for role, extent, size, axis in (
        ("valid_row", type_.v_row, type_.rows, 0),
        ("valid_col", type_.v_col, type_.cols, 1),
    ):
        operand = resolved.constant(op, role)
        if role in op.operands and extent != DYNAMIC:
            yield f"{role} is given, but the type has {extent} valid {AXES[axis]}; write ? there"
        valid = extent if extent != DYNAMIC else operand
        if valid is not None and not 0 <= valid <= size:
            yield f"{valid} valid {AXES[axis]} of {size}"


def _tensor_view(resolved: Resolved, op: Operation) -> Messages:
    type_ = op.result_types[0]
    if not isinstance(type_, ViewType):
        yield f"the result is a tensor_view, found {type_}"
        return
    shape, strides = op.operands.get("shape", ()), op.operands.get("strides", ())
    if len(shape) != len(strides):
        yield f"{len(shape)} extents, but {len(strides)} strides"
    ptr = resolved.value(op, "ptr")
    if ptr is not None and isinstance(ptr.type, PtrType) and ptr.type.element != type_.element:
        yield f"the pointer has elements {ptr.type.element}, the view {type_.element}"
    if len(type_.shape) > 1 and len(type_.shape) != len(shape):
        yield f"the view has {len(type_.shape)} extents, found {len(shape)}"


def _partition(resolved: Resolved, op: Operation) -> Messages:
    offsets, sizes = resolved.values(op, "offsets"), resolved.values(op, "sizes")
    if len(offsets) != len(sizes):
        yield f"{len(offsets)} offsets, but {len(sizes)} sizes"
        return
    type_ = op.result_types[0] if op.result_types else None
    if isinstance(type_, ViewType) and len(type_.shape) == len(sizes):
        for axis, (size, written) in enumerate(zip(sizes, type_.shape, strict=True)):
            if size.constant is not None and written not in (DYNAMIC, size.constant):
                yield f"size {axis} is {size.constant}, the type has {written}"
    view = resolved.value(op, "view")
    if view is None or view.op is None or view.op.name != "pto.make_tensor_view":
        return
    shape = resolved.values(view.op, "shape")
    if len(shape) != len(offsets):
        yield f"{len(offsets)} offsets for a view of {len(shape)} extents"
        return
    for axis, (at, size, extent) in enumerate(zip(offsets, sizes, shape, strict=True)):
        if at.constant is None or size.constant is None or extent.constant is None:
            continue
        if at.constant < 0 or at.constant + size.constant > extent.constant:
            end = at.constant + size.constant
            yield f"axis {axis}: {at.constant} to {end} lies outside the view, which has {extent.constant}"


def _bytes(resolved: Resolved, op: Operation) -> Messages:
    src = resolved.value(op, "src")
    dst = op.result_types[0]
    if src is None or not isinstance(src.type, TileType) or not isinstance(dst, TileType):
        return
    if src.type.bytes != dst.bytes:
        yield f"reinterprets {src.type.bytes} bytes as {dst.bytes}"
    if src.type.loc != dst.loc:
        yield f"reinterprets a tile in {src.type.loc} as one in {dst.loc}"


def _transpose(resolved: Resolved, op: Operation) -> Messages:
    yield from _one_dtype(resolved, op)
    tiles = _tiles(resolved, op)
    if len(tiles) == 2:
        yield from _equal(resolved, tiles[0], tiles[1], (0, 1), (1, 0))


def _data(resolved: Resolved, op: Operation, roles: tuple[str, ...]) -> dict[str, TileType]:
    """Return the tile types of the roles that are present."""
    return {name: type_ for name, _, type_ in _tiles(resolved, op) if name in roles}


def _integer(name: str, type_: TileType) -> Messages:
    if isinstance(type_.dtype, ScalarType) and type_.dtype.is_float:
        yield f"{name} holds a bit mask, found elements {type_.dtype}"


def _mask(resolved: Resolved, op: Operation) -> Messages:
    """Check a comparison: operands of one type, and a packed mask as result."""
    sources = _data(resolved, op, ("src", "src0", "src1"))
    if len({type_.dtype for type_ in sources.values()}) > 1:
        yield f"src1 has elements {sources['src1'].dtype}, src0 has {sources['src0'].dtype}"
    for name, type_ in _data(resolved, op, ("dst",)).items():
        yield from _integer(name, type_)


def _select(resolved: Resolved, op: Operation) -> Messages:
    """Check a selection: a packed mask, and operands of the destination's type."""
    for name, type_ in _data(resolved, op, ("mask",)).items():
        yield from _integer(name, type_)
    tiles = _data(resolved, op, ("src", "src0", "src1", "dst"))
    for name, type_ in tiles.items():
        if "dst" in tiles and type_.dtype != tiles["dst"].dtype:
            yield f"{name} has elements {type_.dtype}, dst has {tiles['dst'].dtype}"


def _scalar(resolved: Resolved, op: Operation) -> Messages:
    """Check that operands have the type of the result, and that a condition is an i1."""
    result_type = op.result_types[0] if op.result_types else None
    for role in op.operands:
        for value in resolved.values(op, role):
            if role != "cond" and value.type is not None and value.type != result_type:
                yield f"{role} has type {value.type}, the result {result_type}"


def _compare(resolved: Resolved, op: Operation) -> Messages:
    lhs, rhs = resolved.value(op, "lhs"), resolved.value(op, "rhs")
    if lhs is not None and rhs is not None and lhs.type != rhs.type:
        yield f"lhs has type {lhs.type}, rhs {rhs.type}"


def _subview(resolved: Resolved, op: Operation) -> Messages:
    """Check that a subview has two sizes, and that its window lies inside the tile if the offsets are known."""
    src = resolved.value(op, "src")
    if src is None or not isinstance(src.type, TileType):
        return
    sizes = [int_value(item) for item in getattr(op.attrs.get("sizes"), "items", ())]
    offsets = resolved.values(op, "offsets")
    if len(sizes) != 2 or len(offsets) != 2:
        yield f"a window of a tile has 2 offsets and 2 sizes, found {len(offsets)} and {len(sizes)}"
        return
    for axis, (at, size, extent) in enumerate(zip(offsets, sizes, (src.type.rows, src.type.cols), strict=True)):
        if at.constant is not None and (at.constant < 0 or at.constant + size > extent):
            yield f"{AXES[axis]} {at.constant} to {at.constant + size} lie outside src, which has {extent}"
    yield from _subview_type(src.type, op.result_types[0] if op.result_types else None)
    yield from _subview_start(src.type, [at.constant for at in offsets], sizes)


def _subview_type(src: TileType, result: Type | None) -> Messages:
    if isinstance(result, TileType) and (result.loc, result.dtype) != (src.loc, src.dtype):
        yield f"the window has elements {result.dtype} in {result.loc}, src {src.dtype} in {src.loc}"


def _subview_start(src: TileType, offsets: list[int | None], sizes: list[int]) -> Messages:
    """Check that the window begins with a block of 32 bytes, or consists of whole fractals."""
    row, col = offsets
    if src.slayout != "none_box":
        for axis, at, size, extent in zip(AXES, offsets, sizes, src.fractal_extents, strict=True):
            if (at or 0) % extent or size % extent:
                yield f"the window's {axis} are not a multiple of the fractal's {extent}"
    elif row is not None and col is not None:
        first = row * src.cols + col if src.blayout == "row_major" else col * src.rows + row
        if first * element_bytes(src.dtype) % 32:
            yield DeviceRule(f"the window begins at byte {first * element_bytes(src.dtype)}, not a multiple of 32")


RULES: dict[str, RuleFunction] = {
    "same": _same,
    "shape": _same_extents,
    "dtype": _one_dtype,
    "rowreduce": _reduce(0, True),
    "colreduce": _reduce(1, True),
    "rowarg": _reduce(0, False),
    "colarg": _reduce(1, False),
    "rowexpand": _expand(0),
    "colexpand": _expand(1),
    "matmul": _matmul,
    "vector_product": partial(_matmul, rows=False),
    "transfer": _transfer,
    "move": _move_same,
    "extract": _window("src", "dst"),
    "insert": _window("dst", "src"),
    "alloc": _alloc,
    "tensor_view": _tensor_view,
    "partition": _partition,
    "bytes": _bytes,
    "transpose": _transpose,
    "mask": _mask,
    "select": _select,
    "scalar": _scalar,
    "compare": _compare,
    "subview": _subview,
}
