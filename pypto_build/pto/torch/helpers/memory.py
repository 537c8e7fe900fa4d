"""On-chip memories, tiles in them, and windows of global memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

# Elements that torch stores but does not compute with are read as the next wider ones.
_WIDER = {torch.uint16: torch.int32, torch.uint32: torch.int64, torch.uint64: torch.int64}


def _widened(value: torch.Tensor) -> torch.Tensor:
    wider = _WIDER.get(value.dtype)
    return value if wider is None else value.to(wider)


class Memory:
    """One on-chip memory of a core: bytes, of which tiles are views. It has room for tiles that end beyond it.
    `space` is empty for the memory of one tile whose address is left to the assembler."""

    def __init__(self, space: str, size: int) -> None:
        self.space = space
        self.bytes = torch.zeros(2 * size + 4096, dtype=torch.uint8)
        self.views: dict[torch.dtype, torch.Tensor] = {}

    def typed(self, dtype: torch.dtype) -> torch.Tensor:
        """Return the whole memory as elements of one type."""
        if dtype not in self.views:
            self.views[dtype] = self.bytes.view(dtype)
        return self.views[dtype]

    def tile(self, address: int, dtype: torch.dtype, rows: int, cols: int, **how: Any) -> Tile:
        """Return a tile at a byte address."""
        return Tile(self, address, dtype, rows, cols, **how)


class Tile:
    """`rows` x `cols` elements at an address, of which `valid` hold data; several tiles may share bytes.

    `layout` is row (row by row), col (column by column), or a fractal layout: nz (fractals by column, elements by row),
    zn, zz, nn. `fractal` is the extent of a fractal. `tile[:]` is the valid part, `tile[rows, cols]` so many rows and
    columns; `tile[:] = x` writes x to the upper left.
    """

    def __init__(
        self,
        memory: Memory,
        address: int,
        dtype: torch.dtype,
        rows: int,
        cols: int,
        *,
        valid: tuple[int, int] | None = None,
        layout: str = "row",
        fractal: tuple[int, int] = (1, 1),
        pad: str = "",
    ) -> None:
        self.memory, self.address, self.dtype = memory, address, dtype
        self.rows, self.cols = rows, cols
        self.valid = (rows, cols) if valid is None else valid
        self.layout, self.pad = layout, pad
        # a single row or column of fractals is stored without their padding
        self.fractal = (1 if rows == 1 else fractal[0], 1 if cols == 1 else fractal[1])
        self.elements = memory.typed(dtype)
        self.start = address // dtype.itemsize

    @property
    def flat(self) -> torch.Tensor:
        """Return the elements in memory order, from the tile's first to the end of the memory."""
        return self.elements[self.start :]

    def strides(self) -> tuple[int, int, int, int]:
        """Return four distances in elements: to the fractal below and to the right, and to the element below and to
        the right within a fractal.
        """
        (high, wide), layout = self.fractal, self.layout
        if layout == "row":
            return self.cols, 1, 0, 0
        if layout == "col":
            return 1, self.rows, 0, 0
        inner = (wide, 1) if layout[1] == "z" else (1, high)
        if layout[0] == "z":
            return high * self.cols, high * wide, *inner
        return high * wide, wide * self.rows, *inner

    def offset(self, row: int, col: int) -> int:
        """Return the offset of an element from the tile's first one, in elements."""
        down, right, inner_down, inner_right = self.strides()
        if inner_down + inner_right == 0:
            return row * down + col * right
        high, wide = self.fractal
        return row // high * down + col // wide * right + row % high * inner_down + col % wide * inner_right

    def fractals(self, rows: int, cols: int) -> torch.Tensor:
        """Return the elements of the first rows and columns as whole fractals, with axes: fractals down, rows in a
        fractal, fractals right, columns.
        """
        down, right, inner_down, inner_right = self.strides()
        if inner_down + inner_right == 0:
            return torch.as_strided(self.elements, (rows, 1, cols, 1), (down, 0, right, 0), self.start)
        high, wide = self.fractal
        shape = (-(-rows // high), high, -(-cols // wide), wide)
        return torch.as_strided(self.elements, shape, (down, inner_down, right, inner_right), self.start)

    def read(self, rows: int, cols: int) -> torch.Tensor:
        """Return the first rows and columns, in the tile's own element type."""
        if self.layout in ("row", "col"):
            strides = (self.cols, 1) if self.layout == "row" else (1, self.rows)
            return torch.as_strided(self.elements, (rows, cols), strides, self.start)
        whole = self.fractals(rows, cols)
        return whole.reshape(whole.shape[0] * whole.shape[1], -1)[:rows, :cols]

    def __getitem__(self, part: Any) -> torch.Tensor:
        rows, cols = self.valid if isinstance(part, slice) else part
        return _widened(self.read(rows, cols))

    def __setitem__(self, part: Any, value: Any) -> None:
        if not isinstance(value, torch.Tensor):
            value = torch.full(self.valid, value)
        rows, cols = value.shape
        if value.numel() == 0:
            return
        if value.untyped_storage().data_ptr() == self.memory.bytes.untyped_storage().data_ptr():
            value = value.clone()  # source and destination may overlap
        if self.layout in ("row", "col"):
            self.read(rows, cols).copy_(value)
            return
        fractals = self.fractals(rows, cols)
        whole = fractals.reshape(fractals.shape[0] * fractals.shape[1], -1)
        if whole.shape != value.shape:
            whole = whole.clone()
            whole[:rows, :cols] = value.to(self.dtype)
            value = whole
        fractals.copy_(value.reshape(fractals.shape))

    def window(self, row: int, col: int, rows: int, cols: int, valid: tuple[int, int] | None = None) -> Tile:
        """Return the part of the tile that starts at an element, sharing its bytes and row stride."""
        return Tile(
            self.memory, self.address + self.offset(row, col) * self.dtype.itemsize, self.dtype, self.rows, self.cols,
            valid=valid or (rows, cols), layout=self.layout, fractal=self.fractal, pad=self.pad,
        )  # fmt: skip

    def seen_as(self, dtype: torch.dtype, rows: int, cols: int, **how: Any) -> Tile:
        """Return a tile of another type on the same bytes."""
        return Tile(self.memory, self.address, dtype, rows, cols, **how)


class Pointer:
    """A pointer to an element of global memory; `elements` is the whole tensor that it points into. `windows` caches
    windows at this address.
    """

    __slots__ = ("elements", "offset", "windows")

    def __init__(self, elements: torch.Tensor, offset: int = 0) -> None:
        self.elements, self.offset = elements, offset
        self.windows: dict[Any, torch.Tensor] = {}

    def __add__(self, count: int) -> Pointer:
        return Pointer(self.elements, self.offset + count)

    def seen_as(self, dtype: torch.dtype) -> Pointer:
        """Return the same address as a pointer to another element type."""
        byte = self.offset * self.elements.dtype.itemsize
        return Pointer(self.elements.view(torch.uint8).view(dtype), byte // dtype.itemsize)

    def __getitem__(self, index: int) -> Any:
        if self.offset + index < 0:
            raise IndexError(f"element {index} lies before the tensor's first one")
        return self.elements[self.offset + index].item()

    def __setitem__(self, index: int, value: Any) -> None:
        if self.offset + index < 0:
            raise IndexError(f"element {index} lies before the tensor's first one")
        if isinstance(value, float):
            self.elements[self.offset + index : self.offset + index + 1] = torch.tensor([value], dtype=torch.float64)
        else:  # 64 unsigned bits go as signed ones
            whole = (int(value) + 2**63) % 2**64 - 2**63
            self.elements[self.offset + index : self.offset + index + 1] = torch.tensor([whole])


def pointer(argument: torch.Tensor | Pointer, dtype: torch.dtype) -> Pointer:
    """Return a kernel's argument (a tensor or a pointer) as a pointer to elements of this type."""
    if isinstance(argument, torch.Tensor):
        storage = argument.untyped_storage().nbytes() // argument.element_size()
        argument = Pointer(torch.as_strided(argument, (storage,), (1,), 0), int(argument.storage_offset()))
    return argument if argument.elements.dtype == dtype else argument.seen_as(dtype)


def window(start: Pointer, shape: tuple[int, int], strides: tuple[int, int], offset: int = 0) -> torch.Tensor:
    """Return rows and columns of a tensor in global memory, sharing its memory. IndexError outside of it."""
    key = shape, strides, offset
    view = start.windows.get(key)
    if view is not None:
        return view
    first = start.offset + offset
    if len(start.windows) > 1000:
        start.windows.clear()
    try:
        view = start.windows[key] = torch.as_strided(start.elements, shape, strides, first)
        return view
    except RuntimeError:
        last = first + sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True))
        raise outside(shape, strides, first, last, start.elements) from None


def outside(shape: Sequence[int], strides: Sequence[int], first: int, last: int, memory: torch.Tensor) -> IndexError:
    """Return the error for a window outside of its tensor."""
    return IndexError(
        f"window {list(shape)} with strides {list(strides)} covers elements {first} to {last} of a tensor that has "
        f"{memory.numel()}"
    )


def accumulate(target: torch.Tensor, value: torch.Tensor) -> None:
    """Add `value` to elements in global memory."""
    target.copy_(_widened(target) + value)


@dataclass(frozen=True)
class View:
    """A tensor in global memory: its first element, extents, and distances in elements.

    `layout` is the order of a tile of it:

    - nd: the rows of all leading dimensions below each other
    - dn: the matrices beside each other
    - nz: a grid of blocks, the columns of blocks first
    """

    start: Pointer
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    layout: str = "nd"

    def __getitem__(self, parts: Any) -> View:
        ranges = parts if isinstance(parts, tuple) else (parts,)
        offset = sum(part.start * stride for part, stride in zip(ranges, self.strides, strict=True))
        shape = tuple(part.stop - part.start for part in ranges)
        return View(self.start + offset, shape, self.strides, self.layout)

    def elements(self) -> torch.Tensor:
        """Return the elements, sharing memory with the tensor. Raises IndexError if the view extends beyond it."""
        last = sum((size - 1) * stride for size, stride in zip(self.shape, self.strides, strict=True))
        memory, offset = self.start.elements, self.start.offset
        if 0 not in self.shape and not 0 <= offset <= offset + last < memory.numel():
            raise outside(self.shape, self.strides, offset, offset + last, memory)
        return torch.as_strided(memory, self.shape, self.strides, offset)

    def matrix(self) -> torch.Tensor:
        """Return the elements as rows and columns of a tile; they share memory with the tensor if two dimensions
        suffice.
        """
        elements = self.elements()
        if elements.dim() == 2 and self.layout != "nz":
            return elements
        elements = elements[(None,) * (5 - elements.dim())]
        a, b, c, d, e = elements.shape
        if self.layout == "nz":
            return elements.permute(2, 3, 0, 1, 4).reshape(c * d, a * b * e)
        if self.layout == "dn":
            return elements.permute(3, 0, 1, 2, 4).reshape(d, a * b * c * e)
        return elements.reshape(a * b * c * d, e)

    def put(self, value: torch.Tensor, add: bool = False) -> None:
        """Write a matrix to the upper left part of `matrix`."""
        rows, cols = value.shape
        elements = self.elements()
        if elements.dim() == 2 and self.layout != "nz":
            target = elements[:rows, :cols]
            target.copy_(_widened(target) + value if add else value)
            return
        whole = self.matrix().clone()
        part = whole[:rows, :cols]
        part.copy_(_widened(part) + value if add else value)
        elements = elements[(None,) * (5 - elements.dim())]
        a, b, c, d, e = elements.shape
        if self.layout == "nz":
            elements.copy_(whole.reshape(c, d, a, b, e).permute(2, 3, 0, 1, 4))
        elif self.layout == "dn":
            elements.copy_(whole.reshape(d, a, b, c, e).permute(1, 2, 3, 0, 4))
        else:
            elements.copy_(whole.reshape(a, b, c, d, e))


def load(tile: Tile, view: View) -> None:
    """Load the valid part of a tile from global memory; a tile with a pad value has it everywhere else."""
    rows, cols = tile.valid
    value = view.matrix()[:rows, :cols]
    tile[:] = value if value.dtype == tile.dtype else value.contiguous().view(tile.dtype)
    if tile.pad:
        fill_around(tile, rows, cols)


def store(view: View, tile: Tile, *, add: bool = False) -> None:
    """Store the valid part of a tile to global memory; the accumulator is converted."""
    value = tile[:]
    target = view.start.elements.dtype
    if value.dtype != target and not (target.is_floating_point and value.dtype.is_floating_point):
        value = value.to(_WIDER.get(target, target))
    height, width = view.matrix().shape if 0 not in view.shape else (0, 0)
    view.put(value[:height, :width], add)


def pad_value(dtype: torch.dtype, pad: str) -> float | int:
    """Return the number used for padding; always zero for floating-point types of eight bits."""
    if pad not in ("max", "min") or (dtype.is_floating_point and dtype.itemsize == 1):
        return 0
    if dtype.is_floating_point:
        return float("inf") if pad == "max" else float("-inf")
    limits = torch.iinfo(dtype)
    return limits.max if pad == "max" else limits.min


def padded(value: torch.Tensor, rows: int, cols: int, pad: str) -> torch.Tensor:
    """Return a matrix enlarged by the pad value."""
    if value.shape == (rows, cols):
        return value
    result = torch.full((rows, cols), pad_value(value.dtype, pad), dtype=value.dtype)
    result[: value.shape[0], : value.shape[1]] = value
    return result


def fill_around(tile: Tile, rows: int, cols: int) -> None:
    """Write the pad value everywhere except in the first rows and columns."""
    whole = tile.read(tile.rows, tile.cols).clone()
    padded = torch.full_like(whole, pad_value(tile.dtype, tile.pad))
    padded[:rows, :cols] = whole[:rows, :cols]
    tile[:] = padded


def fillpad(tile: Tile, source: Tile) -> None:
    """Write the valid part of `source`, and the pad value everywhere else."""
    rows, cols = source.valid
    tile[:] = source.read(rows, cols).clone()
    fill_around(tile, rows, cols)


def extract(source: Tile, row: int, col: int, valid: tuple[int, int]) -> torch.Tensor:
    """Return a part of the tile with `valid` rows and columns that starts at an element."""
    return source[row + valid[0], col + valid[1]][row:, col:]


def block_of(value: torch.Tensor, row: int, col: int, rows: int, cols: int) -> torch.Tensor:
    """Return `rows` x `cols` elements of a matrix that start at an element. Raises IndexError outside of the matrix."""
    if not (0 <= row <= row + rows <= value.shape[0] and 0 <= col <= col + cols <= value.shape[1]):
        raise IndexError(f"{rows} x {cols} elements from ({row}, {col}) on of a tile that has {list(value.shape)}")
    return value[row : row + rows, col : col + cols]


def insert(target: Tile, row: int, col: int, value: torch.Tensor) -> None:
    """Write a matrix into a tile, beginning at a row and column."""
    rows, cols = value.shape
    whole = target.read(row + rows, col + cols).clone()
    whole[row:, col:] = value.to(target.dtype)
    target[:] = whole


def multiply(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Return the product, summed in float64 and rounded once to float32; exact for integers."""
    product = a.double() @ b.double()
    return product.float() if a.dtype.is_floating_point else product.to(torch.int64)


def matmul(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Return the product; rows of the second operand beyond the columns of the first are ignored."""
    depth = min(a.shape[1], b.shape[0])
    return multiply(a[:, :depth], b[:depth])
