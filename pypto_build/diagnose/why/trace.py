"""The trace of a kernel call: instructions with the values of their operands, flags and barriers.

A kernel that was compiled for `scons step` also records the values of its variables."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from io import BufferedReader, RawIOBase
from pathlib import Path
from typing import Annotated, Any, Literal, cast

import msgspec
import numpy as np

from pypto_build.artifact import ArtifactError
from pypto_build.artifact.files import decode_json, map_file, open_file
from pypto_build.artifact.instruction_sites import AccessSite
from pypto_build.facts.accesses import ATOMIC, PIPES, SCRATCH, SPACES, WRITE
from pypto_build.replay.values import STORAGE, decode

# Sets of bytes as disjoint intervals in order, each from its first byte to one past its last.


def _none() -> Array:
    return np.zeros(0, np.int64)


@dataclass(frozen=True)
class Intervals:
    """Addresses: `low` and `high` of each interval, in order."""

    low: Array = field(default_factory=_none)
    high: Array = field(default_factory=_none)

    @staticmethod
    def of(low: Array, high: Array) -> Intervals:
        """Merge intervals in any order, which may overlap or touch."""
        if len(low) < 2:
            return Intervals(low, high)
        order = np.argsort(low, kind="stable")
        low, reach = low[order], np.maximum.accumulate(high[order])
        first = np.concatenate(([True], low[1:] > reach[:-1]))
        last = np.concatenate((np.flatnonzero(first)[1:] - 1, [len(low) - 1]))
        return Intervals(low[first], reach[last])

    def __len__(self) -> int:
        return len(self.low)

    @property
    def hull(self) -> tuple[int, int]:
        """The first byte, and one past the last, or (0, 0) if there are no bytes."""
        return (int(self.low[0]), int(self.high[-1])) if len(self) else (0, 0)

    @property
    def bytes(self) -> int:
        """Return the number of bytes."""
        return int((self.high - self.low).sum())

    def touched(self, low: Array, high: Array) -> Array:
        """Return a mask of the other intervals that share a byte with these."""
        if not len(self):
            return np.zeros(len(low), bool)
        at = np.searchsorted(self.high, low, side="right")
        return np.asarray((at < len(self)) & (self.low[np.minimum(at, len(self) - 1)] < high))

    def with_(self, other: Intervals) -> Intervals:
        """All bytes of both."""
        if not len(other) or not len(self):
            return self if len(self) else other
        return Intervals.of(np.concatenate((self.low, other.low)), np.concatenate((self.high, other.high)))

    def without(self, other: Intervals) -> Intervals:
        """The bytes that are not the other's."""
        if not len(other) or not self.touched(other.low, other.high).any():
            return self
        cuts = np.unique(np.concatenate((self.low, self.high, other.low, other.high)))
        low, high = cuts[:-1], cuts[1:]
        kept = self.touched(low, high) & ~other.touched(low, high)
        return Intervals.of(low[kept], high[kept])

    def within(self, low: int, high: int) -> Intervals:
        """The bytes that lie from `low` to before `high`."""
        first = int(np.searchsorted(self.high, low, side="right"))
        end = int(np.searchsorted(self.low, high, side="left"))
        return Intervals(np.maximum(self.low[first:end], low), np.minimum(self.high[first:end], high))

    def holds(self, addresses: Array) -> Array:
        """Return a mask of the addresses that lie in the intervals."""
        return self.touched(addresses, addresses + 1)


Array = np.ndarray[Any, Any]

#: Bytes that an event may have in the file.
_LONGEST = 1 << 28
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
    from `at` on, the first of them `start` bytes into the tile, which lies at `address` of its memory."""

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
    address: _Count
    start: _Count
    at: _Address
    size: _Count

    @property
    def dtype(self) -> str:
        """The element type by its name in PyTorch."""
        return _TYPES.get((self.type, self.element), f"uint{8 * self.element}")

    def offsets(self) -> Array:
        """Return the offset of each element of the rectangle, in bytes from the tile's address."""
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

    def reach(self) -> tuple[int, int]:
        """The first byte of its elements and one past the last, counted from the tile's address."""
        if self.fractals:
            offsets = self.offsets()
            return int(offsets.min()), int(offsets.max()) + self.element
        across, down = (1, self.cols) if self.row_major else (self.rows, 1)
        first = self.row * down + self.col * across
        last = first + (self.height - 1) * down + (self.width - 1) * across
        return first * self.element, (last + 1) * self.element


class _Run(msgspec.Struct, frozen=True, array_like=True):
    """`rows` pieces of `length` bytes of global memory, `stride` bytes apart."""

    base: _Address
    rows: _Count
    stride: _Step
    length: _Count


_Number64 = Annotated[str, msgspec.Meta(pattern=r"^[0-9]{1,20}$")]


class _Record(msgspec.Struct, frozen=True):
    kind: Literal["tiles", "global", "order", "variable"]
    name: str
    file: str = ""
    offset: _Number64 = "0"
    pipe: _Count = 0
    operands: list[TileOperand] = []
    base: _Address = 0
    access: _Count = 0
    layout: _Count = 0
    element: _Element = 1
    shape: tuple[_Address, _Address, _Address, _Address, _Address] = (0, 0, 0, 0, 0)
    stride: tuple[_Step, _Step, _Step, _Step, _Step] = (0, 0, 0, 0, 0)
    rows: _Address = 0
    cols: _Address = 0
    runs: list[_Run] = []
    at: _Address = 0
    holds: Literal["", "signed", "unsigned", "real", "pointer", "tile", "view"] = ""
    bits: _Number64 = "0"
    from_: _Count = msgspec.field(name="from", default=0)
    to: _Count = 0
    id: _Count = 0


@dataclass(frozen=True, eq=False)
class Tile:
    """An operand on the core: the addresses of its elements, and their bytes. A large call has many tiles, so only the
    arrays of recently used ones are kept.
    """

    operand: TileOperand
    data: memoryview = field(repr=False)

    @property
    def space(self) -> int:
        """The memory's number."""
        return self.operand.space

    @property
    def writes(self) -> bool:
        """Return whether the instruction writes it. An operand that is read and written is listed twice."""
        return bool(self.operand.access & WRITE)

    @property
    def span(self) -> tuple[int, int]:
        """The bytes it touches of its memory: the first, and one past the last."""
        first = self.operand.address + self.operand.start
        return first, first + self.operand.size

    @property
    def addresses(self) -> Array:
        """The address of each element in its memory."""
        return _addresses_of(self)

    @property
    def values(self) -> Array:
        """Return the values of the elements: before the instruction if it reads them, after it if it writes them."""
        return _values_of(self)


#: How many tiles have their arrays kept.
_KEPT = 64


@lru_cache(_KEPT)
def _addresses_of(tile: Tile) -> Array:
    return tile.operand.offsets() + tile.operand.address


@lru_cache(_KEPT)
def _values_of(tile: Tile) -> Array:
    operand = tile.operand
    raw = np.frombuffer(tile.data[operand.at : operand.at + operand.size], dtype=np.uint8)
    return elements_of(raw, operand.offsets() - operand.start, operand.element, operand.dtype)


@dataclass(frozen=True, eq=False)
class AccessedView:
    """The part of global memory that an instruction touched, as rows and columns of `shape` elements."""

    record: _Record = field(repr=False)
    shape: tuple[int, int]
    data: memoryview = field(repr=False)

    @property
    def writes(self) -> bool:
        """Return whether the access is a store."""
        return bool(self.record.access & WRITE)

    @property
    def adds(self) -> bool:
        """Return whether the access is an atomic addition."""
        return bool(self.record.access & ATOMIC)

    @property
    def element(self) -> int:
        """The size of an element in bytes."""
        return self.record.element

    @property
    def span(self) -> tuple[int, int]:
        """Bytes that hold all of its elements, and perhaps more: the first, and one past the last."""
        steps = [(n - 1) * s * self.element for n, s in zip(self.record.shape, self.record.stride, strict=True)]
        low, high = (sum(bound(step, 0) for step in steps) for bound in (min, max))
        return self.record.base + low, self.record.base + high + self.element

    @property
    def addresses(self) -> Array:
        """The address of each element."""
        return _addresses(self.record, *self.shape)

    @property
    def runs(self) -> Iterator[tuple[int, memoryview]]:
        """The bytes that a store left, as runs: the first address, and the bytes."""
        at = self.record.at
        for run in self.record.runs:
            for row in range(run.rows):
                yield run.base + row * run.stride, self.data[at : at + run.length]
                at += run.length


@dataclass
class Instruction:
    """One instruction that was executed; `pipe` executes it on the device."""

    number: int
    name: str
    site: AccessSite
    pipe: str = ""
    tiles: list[Tile] = field(default_factory=list)
    views: list[AccessedView] = field(default_factory=list)

    @cached_property
    def written(self) -> list[Tile]:
        """The tiles it wrote, results before scratch."""
        return [tile for tile in self.tiles if tile.writes]

    @cached_property
    def results(self) -> list[Tile]:
        """The tiles it wrote that hold something afterwards."""
        return [tile for tile in self.written if not tile.operand.access & SCRATCH]

    @cached_property
    def read(self) -> list[Tile]:
        """The tiles it read."""
        return [tile for tile in self.tiles if not tile.writes]


@dataclass(frozen=True)
class SyncEvent:
    """A flag that is set or waited for, a barrier or a signal, after the first `before` instructions."""

    before: int
    name: str
    site: AccessSite
    source: str
    target: str
    id: int


@dataclass(frozen=True)
class Variable:
    """The value of a variable after the first `before` instructions.

    It is a number, an address, a tile, or the address of the first element of a view of `shape`, `stride`.
    """

    before: int
    name: str
    holds: str
    value: float | int = 0
    tile: TileOperand | None = None
    shape: tuple[int, ...] = ()
    stride: tuple[int, ...] = ()
    element: int = 0


@dataclass
class Trace:
    """Everything that was recorded of one call, in order. `events` has instructions, orders and variables."""

    instructions: list[Instruction] = field(default_factory=list)
    events: list[Instruction | SyncEvent | Variable] = field(default_factory=list)


def read_trace(stem: Path) -> Trace:
    """Read the trace of one call. Raises ArtifactError for files that no run has written."""
    path, trace = stem.with_name(stem.name + ".json"), Trace()
    try:
        data = memoryview(map_file(stem.with_name(stem.name + ".bin")))
        for record in _records(path):
            if not _complete(record, len(data)):
                raise ArtifactError(
                    path,
                    f"is not a valid trace: an operand of {record.name} lies outside of the recorded bytes",
                    "run it again",
                )
            _take(trace, record, data)
    except OSError as error:
        raise ArtifactError(path, f"cannot be read: {error.strerror}", "run it again") from None
    except msgspec.MsgspecError as error:
        raise ArtifactError(path, f"is not a valid trace: {error}", "run it again") from None
    return trace


def _records(path: Path) -> Iterator[_Record]:
    """The events of a trace, a list with a line for each: one of a large call is never in memory as a whole."""
    with open_file(path) as raw, BufferedReader(cast(RawIOBase, raw)) as file:
        line = file.readline(_LONGEST)
        if line != b"[\n":
            raise msgspec.DecodeError("its first line does not start a list")
        while not line.endswith(b"]\n"):
            line = file.readline(_LONGEST)
            event = line.removeprefix(b",").removesuffix(b"]\n")
            if event or not line:
                yield decode_json(event, _Record)


def _take(trace: Trace, record: _Record, data: memoryview) -> None:
    done = trace.instructions
    if record.kind == "variable":
        trace.events.append(_variable(record, len(done)))
        return
    site = AccessSite(0, record.name, record.file, record.offset)
    if record.kind == "order":
        trace.events.append(SyncEvent(len(done), record.name, site, _pipe(record.from_), _pipe(record.to), record.id))
        return
    view = record.kind == "global"
    if not (view and done and done[-1].name == record.name and done[-1].tiles and not done[-1].views):
        done.append(Instruction(len(done), record.name, site, _pipe(record.pipe)))
        trace.events.append(done[-1])
    if view:
        done[-1].views += _view(record, done[-1], data)
    done[-1].tiles += [Tile(operand, data) for operand in record.operands]


def _pipe(number: int) -> str:
    return PIPES[number] if number < len(PIPES) else ""


def _variable(record: _Record, before: int) -> Variable:
    bits = int(record.bits) % (1 << 64)
    value: float | int = bits
    if record.holds == "signed":
        value = bits - (1 << 64) if bits >> 63 else bits
    elif record.holds == "real":
        value = float(np.array([bits], dtype=np.uint64).view(np.float64)[0])
    elif record.holds == "view":
        return Variable(before, record.name, "view", record.base, None, record.shape, record.stride, record.element)
    tile = record.operands[0] if record.operands else None
    return Variable(before, record.name, record.holds, value, tile)


def _complete(record: _Record, length: int) -> bool:
    """Return whether all bytes that a record refers to are in the file."""
    if record.kind == "variable":
        return all(operand.height * operand.width <= _MOST_ELEMENTS for operand in record.operands)
    stored = sum(run.rows * run.length for run in record.runs)
    return record.at + stored <= length and all(_fits(operand, length) for operand in record.operands)


def _fits(operand: TileOperand, length: int) -> bool:
    """Return whether all elements of the rectangle lie in the bytes of the operand."""
    if operand.height * operand.width * operand.element > operand.size or operand.at + operand.size > length:
        return False
    low, high = operand.reach()
    return low >= operand.start and high <= operand.start + operand.size


def elements_of(raw: Array, offsets: Array, element: int, dtype: str) -> Array:
    """The elements that begin at these offsets of bytes, as numbers."""
    index = offsets[..., None] + np.arange(element)
    return decoded(np.ascontiguousarray(raw[index]).view(np.dtype(f"u{element}"))[..., 0], dtype)


def decoded(stored: Array, dtype: str) -> Array:
    """Elements as stored, as numbers."""
    return np.asarray(decode(stored.view(STORAGE[dtype]), dtype) if dtype in STORAGE else stored)


def _view(record: _Record, instruction: Instruction, data: memoryview) -> list[AccessedView]:
    """Return the elements of a view in the order of its tile. Returns none if the view has no elements or too many."""
    n = record.shape
    rows, cols = record.rows, record.cols
    for tile in instruction.tiles[:1]:
        rows, cols = min(rows, tile.operand.height), min(cols, tile.operand.width)
    outer = n[0] * n[1] * n[2]
    if outer * n[3] * n[4] == 0 or min(rows, outer * n[3]) * min(cols, outer * n[4]) > _MOST_ELEMENTS:
        return []
    if record.layout == _NZ:
        rows, cols = min(rows, n[2] * n[3]), min(cols, n[0] * n[1] * n[4])
    elif record.layout == _DN:
        rows, cols = min(rows, n[3]), min(cols, outer * n[4])
    else:
        rows, cols = min(rows, outer * n[3]), min(cols, n[4])
    return [AccessedView(record, (rows, cols), data)]


def _addresses(record: _Record, rows: int, cols: int) -> Array:
    """The addresses of a view's elements, which lie in rows and columns by its layout."""
    n, s = record.shape, record.stride
    r, c = np.arange(rows)[:, None], np.arange(cols)[None, :]
    if record.layout == _NZ:
        block, k = c // n[4], r // n[3]
        i, j, h, w = block // n[1], block % n[1], r % n[3], c % n[4]
    elif record.layout == _DN:
        h = r
        block, w = c // n[4], c % n[4]
        i, j, k = block // (n[1] * n[2]), block // n[2] % n[1], block % n[2]
    else:
        w = c
        block, h = r // n[3], r % n[3]
        i, j, k = block // (n[1] * n[2]), block // n[2] % n[1], block % n[2]
    element = i * s[0] + j * s[1] + k * s[2] + h * s[3] + w * s[4]
    return np.asarray((np.broadcast_to(element, (rows, cols)) * record.element).astype(np.int64) + record.base)
