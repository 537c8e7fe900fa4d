"""A kernel call as its trace tells it: every instruction, the elements of its operands, and what they held."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import numpy as np

from pypto_build.artifact import ArtifactError
from pypto_build.artifact.files import decode_json, read_bytes
from pypto_build.diagnose.hazards.record import AccessSite
from pypto_build.replay.values import STORAGE, decode

Array = np.ndarray[Any, Any]

READ, WRITE = 1, 2
SPACES = ("UB", "L1", "L0A", "L0B", "L0C", "BIAS", "FBUF", "SCALE_A", "SCALE_B")
_LARGEST = 1 << 32
_DN, _NZ = 1, 2
#: Element types as the runtime numbers them, by size; others are shown as bytes.
_TYPES = {
    (1, 4): "float32", (2, 2): "float16", (3, 2): "bfloat16",
    **{(4, size): f"int{8 * size}" for size in (1, 2, 4, 8)}, **{(5, size): f"uint{8 * size}" for size in (1, 2, 4, 8)},
}  # fmt: skip


_Count = Annotated[int, msgspec.Meta(ge=0, le=1 << 26)]
_Extent = Annotated[int, msgspec.Meta(ge=1, le=1 << 20)]
_Step = Annotated[int, msgspec.Meta(ge=-(1 << 40), le=1 << 40)]
_Address = Annotated[int, msgspec.Meta(ge=0, le=1 << 62)]
_Element = Literal[1, 2, 4, 8]
#: A view of more elements is not looked at one by one.
_MOST_ELEMENTS = 1 << 24


class TileOperand(msgspec.Struct, frozen=True, array_like=True):
    """A rectangle of a tile, `height` x `width` from (`row`, `col`) on, and where its bytes are in the trace: `size`
    from `at` on, the first of them `start` bytes into the tile, which lies at `place` of its memory."""

    space: Annotated[int, msgspec.Meta(ge=0, lt=len(SPACES))]
    access: _Count
    fractals: _Count
    type: _Count
    inner_rows: _Count
    row_major: _Count
    element: _Element
    rows: _Extent
    cols: _Extent
    row: _Count
    col: _Count
    height: _Extent
    width: _Extent
    fractal_rows: _Extent
    fractal_cols: _Extent
    place: _Count
    start: _Count
    at: _Address
    size: _Count

    @property
    def dtype(self) -> str:
        """The element type by its name in PyTorch."""
        return _TYPES.get((self.type, self.element), f"uint{8 * self.element}")

    def offsets(self) -> Array:
        """Of each element of the rectangle, its first byte counted from the tile's address."""
        r = np.arange(self.row, self.row + self.height)[:, None]
        c = np.arange(self.col, self.col + self.width)[None, :]
        if not self.fractals:
            element = r * self.cols + c if self.row_major else c * self.rows + r
            return np.asarray(element * self.element)
        high, wide = self.fractal_rows, self.fractal_cols
        across = high * self.cols if self.row_major else high * wide
        along = high * wide if self.row_major else wide * self.rows
        inner = (r % high) * wide + c % wide if self.inner_rows else (c % wide) * high + r % high
        return np.asarray((r // high * across + c // wide * along + inner) * self.element)


class _Record(msgspec.Struct, frozen=True):
    kind: str
    name: str
    file: str
    offset: Annotated[str, msgspec.Meta(pattern=r"^[0-9]{1,20}$")]
    operands: list[TileOperand] = []
    base: _Address = 0
    access: _Count = 0
    layout: _Count = 0
    element: _Element = 1
    shape: tuple[_Address, _Address, _Address, _Address, _Address] = (0, 0, 0, 0, 0)
    stride: tuple[_Step, _Step, _Step, _Step, _Step] = (0, 0, 0, 0, 0)
    rows: _Address = 0
    cols: _Address = 0


@dataclass(frozen=True)
class Tile:
    """An operand on the core: which bytes its elements are, as addresses of their memory, and what they held."""

    operand: TileOperand
    addresses: Array
    values: Array

    @property
    def space(self) -> int:
        """The memory's number."""
        return self.operand.space

    @property
    def writes(self) -> bool:
        """Whether the instruction writes it; what it reads and writes is two operands."""
        return bool(self.operand.access & WRITE)


@dataclass(frozen=True)
class View:
    """What of global memory an instruction touched: the address of each element, as rows and columns."""

    writes: bool
    addresses: Array
    element: int


@dataclass
class Instruction:
    """One instruction that was executed."""

    number: int
    name: str
    site: AccessSite
    tiles: list[Tile] = field(default_factory=list)
    views: list[View] = field(default_factory=list)

    @cached_property
    def written(self) -> list[Tile]:
        """The tiles it wrote, results before scratch."""
        return [tile for tile in self.tiles if tile.writes]

    @cached_property
    def read(self) -> list[Tile]:
        """The tiles it read."""
        return [tile for tile in self.tiles if not tile.writes]


def read_trace(stem: Path) -> list[Instruction]:
    """The instructions of one call, in order. Raises ArtifactError for files that no run left."""
    path = stem.with_name(stem.name + ".json")
    try:
        records = decode_json(read_bytes(path, _LARGEST), list[_Record])
        data = read_bytes(stem.with_name(stem.name + ".bin"), _LARGEST)
    except OSError as error:
        raise ArtifactError(path, f"cannot be read: {error.strerror}", "run it again") from None
    except msgspec.MsgspecError as error:
        raise ArtifactError(path, f"is no trace: {error}", "run it again") from None
    found: list[Instruction] = []
    for record in records:
        view = record.kind == "global"
        if not (view and found and found[-1].name == record.name and found[-1].tiles and not found[-1].views):
            found.append(Instruction(len(found), record.name, AccessSite(0, record.name, record.file, record.offset)))
        if view:
            found[-1].views += _view(record, found[-1])
            continue
        for operand in record.operands:
            if not _fits(operand, len(data)):
                raise ArtifactError(
                    path, f"is no trace: an operand of {record.name} is not in its bytes", "run it again"
                )
            found[-1].tiles.append(_tile(operand, data))
    return found


def _fits(operand: TileOperand, length: int) -> bool:
    """Whether all elements of the rectangle are among the bytes."""
    if operand.height * operand.width * operand.element > operand.size or operand.at + operand.size > length:
        return False
    offsets = operand.offsets()
    return bool(offsets.min() >= operand.start and offsets.max() + operand.element <= operand.start + operand.size)


def _tile(operand: TileOperand, data: bytes) -> Tile:
    offsets = operand.offsets()
    raw = np.frombuffer(data[operand.at : operand.at + operand.size], dtype=np.uint8)
    index = (offsets - operand.start)[..., None] + np.arange(operand.element)
    stored = np.ascontiguousarray(raw[index]).view(np.dtype(f"u{operand.element}"))[..., 0]
    return Tile(operand, offsets + operand.place, _decoded(stored, operand.dtype))


def _decoded(stored: Array, dtype: str) -> Array:
    return np.asarray(decode(stored.view(STORAGE[dtype]), dtype) if dtype in STORAGE else stored)


def _view(record: _Record, instruction: Instruction) -> list[View]:
    """Elements in the order of the tile that goes with them; none of a view without elements, or of too many."""
    n, s = record.shape, record.stride
    rows, cols = record.rows, record.cols
    for tile in instruction.tiles[:1]:
        rows, cols = min(rows, tile.operand.height), min(cols, tile.operand.width)
    outer = n[0] * n[1] * n[2]
    if outer * n[3] * n[4] == 0 or min(rows, outer * n[3]) * min(cols, outer * n[4]) > _MOST_ELEMENTS:
        return []
    if record.layout == _NZ:
        rows, cols = min(rows, n[2] * n[3]), min(cols, n[0] * n[1] * n[4])
        r, c = np.arange(rows)[:, None], np.arange(cols)[None, :]
        block, k = c // n[4], r // n[3]
        i, j, h, w = block // n[1], block % n[1], r % n[3], c % n[4]
    elif record.layout == _DN:
        rows, cols = min(rows, n[3]), min(cols, outer * n[4])
        h, c = np.arange(rows)[:, None], np.arange(cols)[None, :]
        block, w = c // n[4], c % n[4]
        i, j, k = block // (n[1] * n[2]), block // n[2] % n[1], block % n[2]
    else:
        rows, cols = min(rows, outer * n[3]), min(cols, n[4])
        r, w = np.arange(rows)[:, None], np.arange(cols)[None, :]
        block, h = r // n[3], r % n[3]
        i, j, k = block // (n[1] * n[2]), block // n[2] % n[1], block % n[2]
    element = i * s[0] + j * s[1] + k * s[2] + h * s[3] + w * s[4]
    addresses = (np.broadcast_to(element, (rows, cols)) * record.element).astype(np.int64) + record.base
    return [View(bool(record.access & WRITE), addresses, record.element)]
