"""Finds tiles that can be plain tensors in the generated text, because their shared memory is unobservable.

On-chip memory is reused all the time, so most tiles overlap with some other one. The writer of a read tile's content
decides; it is followed through the function. If every read of a tile finds, whole, the content of a tile of the same
bytes, both are variables. A tile that reinterprets another one (a column as a row, a matrix of fractals as its
transpose) is an expression of the other's variable. Where a read may find anything else, all tiles concerned stay views
of the memory.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import chain

from ..model import Operation, Region, int_value
from ..ops import TABLE, TILE_ALLOCATIONS
from ..resolve import Resolved, Value
from ..types import MultiTileType, TileType
from . import dtypes
from .effects import Effects, EffectsOf, Extents, valid_extents

# Layouts of tiles, and the layouts that are others seen in another order.


@dataclass(frozen=True)
class TileLayout:
    """The layout of a tile's elements."""

    dtype: str
    rows: int
    cols: int
    outer: str
    inner: str
    fractal: int

    @property
    def transposed(self) -> TileLayout:
        turn = {"row_major": "col_major", "col_major": "row_major", "none_box": "none_box"}
        return TileLayout(self.dtype, self.cols, self.rows, turn[self.outer], turn[self.inner], self.fractal)

    @property
    def is_linear(self) -> bool:
        return self.inner == "none_box"


def seen_as(text: str, form: TileLayout, target: TileLayout) -> str | None:
    """Return the expression of a tensor's elements in another layout; None where the bytes mean something else."""
    if form == target:
        return text
    if form.transposed == target:
        return f"{text}.T"
    same = form.dtype == target.dtype and form.rows * form.cols == target.rows * target.cols
    if not (same and form.is_linear and target.is_linear):
        return None
    text = text if form.outer == "row_major" else f"{text}.T"
    if target.outer == "row_major":
        return f"{text}.reshape({target.rows}, {target.cols})"
    return f"{text}.reshape({target.cols}, {target.rows}).T"


def layout_of(type_: TileType) -> TileLayout:
    return TileLayout(
        dtypes.name_of(type_.dtype), type_.rows, type_.cols, type_.blayout, type_.slayout,
        type_.fractal if type_.slayout != "none_box" else 0,
    )  # fmt: skip


_BEGIN, _OLD = -1, -2  # writers: none yet, and an earlier round of a loop with other extents
_DTYPES = frozenset(("f32", "f16", "bf16", "i8", "i16", "i32", "i64", "ui8", "si8", "si16", "si32", "si64"))
_ENDLESS = 1 << 40


@dataclass(frozen=True)
class Span:
    """Bytes of a memory. `own` is the memory of one tile whose address is left to the assembler."""

    space: str
    first: int
    last: int
    own: bool = False


@dataclass
class FunctionTile:
    """A tile of the function. `extents` are None if unknown."""

    value: Value
    span: Span
    layout: TileLayout
    extents: Extents | None

    @property
    def is_whole(self) -> bool:
        return self.extents == (self.layout.rows, self.layout.cols)

    @property
    def key(self) -> object:
        return self.layout, self.extents


@dataclass(frozen=True)
class Content:
    """The possible writers of some bytes: any of `base`, or any of `top` for bytes of tiles with `key`."""

    base: frozenset[int] = frozenset((_BEGIN,))
    key: object = None
    top: frozenset[int] = frozenset()

    @property
    def writers(self) -> frozenset[int]:
        return self.base | self.top

    def join(self, other: Content) -> Content:
        if self == other:
            return self
        if self.key == other.key:
            return Content(self.base | other.base, self.key, self.top | other.top)
        return Content(self.writers | other.writers)


@dataclass
class Promotion:
    """`variables`: for tiles that are variables, the tile whose variable it is. `sources`: for an operand, by operation
    and role, the tile it finds there. `zeroed` are variables that may be read before they are written."""

    tiles: dict[int, FunctionTile] = field(default_factory=dict)
    variables: dict[int, Value] = field(default_factory=dict)
    sources: dict[tuple[int, str], Value] = field(default_factory=dict)
    zeroed: list[Value] = field(default_factory=list)

    def __contains__(self, value: Value) -> bool:
        return id(value) in self.variables

    def layout(self, value: Value) -> TileLayout:
        return self.tiles[id(value)].layout


def promote(resolved: Resolved) -> Promotion:
    """Return the tiles of a function that need no memory."""
    analysis = _Analysis(resolved)
    analysis.run()
    return analysis.decide()


State = dict[str, list[Content]]


class _Analysis:
    def __init__(self, resolved: Resolved) -> None:
        self.resolved = resolved
        self.effects_of = EffectsOf(resolved)
        self.effects: dict[int, Effects] = {}
        self.tiles: list[FunctionTile] = []
        self.numbers: dict[int, int] = {}
        self.roles: dict[tuple[int, str], int] = {}  # operand -> its tile
        self.found: dict[tuple[int, str], set[int]] = defaultdict(set)  # operand -> who wrote what it reads
        self.in_memory: set[int] = set()
        self.bounds: dict[str, list[int]] = {}

    def run(self) -> None:
        body = self.resolved.function.body
        assert body is not None
        for op in body.walk():
            defined = (self.resolved.results(op), *(self.resolved.region_args[id(region)] for region in op.regions))
            for value in chain.from_iterable(defined):
                if isinstance(value.type, (TileType, MultiTileType)):
                    self._tile(value)
        points: dict[str, set[int]] = defaultdict(set)
        for tile in self.tiles:
            points[tile.span.space] |= {tile.span.first, tile.span.last}
        self.bounds = {space: sorted(bounds | {0, _ENDLESS}) for space, bounds in points.items()}
        state = {space: [Content()] * (len(bounds) - 1) for space, bounds in self.bounds.items()}
        self._region(body, state)

    # --- tiles ---------------------------------------------------------------------------------------------------

    def _tile(self, value: Value) -> None:
        type_ = value.type.tile if isinstance(value.type, MultiTileType) else value.type
        assert isinstance(type_, TileType)
        extents = valid_extents(self.resolved, value)
        span = self._span(value, type_)
        tile = FunctionTile(value, span, layout_of(type_), extents)
        self.numbers[id(value)] = len(self.tiles)
        has_extents = extents is not None and 0 not in extents and dtypes.name_of(type_.dtype) in _DTYPES
        declared = value.op is not None and value.op.name in TILE_ALLOCATIONS
        if not (has_extents and declared) or span.last == _ENDLESS:
            self.in_memory.add(len(self.tiles))
        self.tiles.append(tile)

    def _span(self, value: Value, type_: TileType) -> Span:
        """Return the span of a tile; all of its memory if the span is unknown."""
        op = value.op
        everywhere = Span(type_.loc, 0, _ENDLESS)
        if op is None or value.type is None:
            return everywhere
        definition = TABLE[op.name]
        count = value.type.count if isinstance(value.type, MultiTileType) else 1
        if definition.family == "tile" and definition.fn in ("alloc", "alloc_multi"):
            if "addr" not in op.operands:
                return Span(f"own {id(op)}", 0, max(type_.bytes * count, 1), own=True)
            address = self.resolved.constant(op, "addr")
            if address is None:
                return everywhere
            return Span(type_.loc, address, address + max(type_.bytes * count, 1))
        if definition.family == "tile" and definition.fn in ("subview", "slot", "reinterpret"):
            source = self.resolved.value(op, "tiles" if definition.fn == "slot" else "src")
            number = self.numbers.get(id(source))
            if number is None:
                return everywhere
            span = self.tiles[number].span
            return Span(span.space, span.first, max(span.last, span.first + type_.bytes), span.own)
        if definition.family == "pipe" and definition.fn == "pop":
            return self._slots(op, type_) or everywhere
        return everywhere

    def _slots(self, pop: Operation, type_: TileType) -> Span | None:
        """Return the consumer's buffer, if the pipe is opened in the same function."""
        role = "c2v_consumer_buf" if TABLE[pop.name].direction == "to_aiv" else "v2c_consumer_buf"
        for op in self.resolved.function.walk():
            if TABLE[op.name].fn != "open" or int_value(op.attrs.get("id")) != int_value(pop.attrs.get("id")):
                continue
            value = self.resolved.value(op, role)
            base = 0 if value is None else self._reserved(value)
            if base is None:
                return None
            slots = int_value(op.attrs.get("slot_num"), 4 if int_value(op.attrs.get("dir_mask")) == 3 else 8)
            local, size = int_value(op.attrs.get("local_slot_num"), slots), int_value(op.attrs.get("slot_size"))
            return Span(type_.loc, base, base + max(local, 1) * size + type_.bytes)
        return None

    @staticmethod
    def _reserved(value: Value) -> int | None:
        if value.op is not None and value.op.name == "pto.reserve_buffer":
            return int_value(value.op.attrs.get("base"))
        return value.constant

    # --- who wrote what ------------------------------------------------------------------------------------------

    def _region(self, region: Region, state: State) -> None:
        for op in region.ops:
            self._operation(op, state)

    def _operation(self, op: Operation, state: State) -> None:
        if id(op) not in self.effects:
            self.effects[id(op)] = self.effects_of(op)
        effects, definition = self.effects[id(op)], TABLE[op.name]
        for role in (*effects.reads, *effects.objects):
            about = definition.role(role, op.variant)
            for value in self.resolved.values(op, role):
                if id(value) in self.numbers:
                    if role in effects.objects:
                        self.in_memory.add(self.numbers[id(value)])
                    if role in effects.reads or about is None or "r" in about.access:
                        self._read(op, role, self.numbers[id(value)], state)
        for role in (*effects.writes, *effects.objects):
            about = definition.role(role, op.variant)
            for value in self.resolved.values(op, role):
                if id(value) in self.numbers and (about is None or "w" in about.access):
                    self._write(op, role, self.numbers[id(value)], state, role in effects.writes)
        if definition.family == "pipe":
            for value in self.resolved.results(op):
                if id(value) in self.numbers:
                    self._write(op, "", self.numbers[id(value)], state, False)
        if op.regions:
            self._control(op, state)

    def _segments(self, span: Span) -> range:
        bounds = self.bounds[span.space]
        return range(bisect_left(bounds, span.first), bisect_left(bounds, span.last))

    def _read(self, op: Operation, role: str, number: int, state: State) -> None:
        tile = self.tiles[number]
        self.roles[(id(op), role)] = number
        contents = state[tile.span.space]
        for k in self._segments(tile.span):
            content = contents[k]
            partial = not tile.is_whole and content.key == tile.key
            self.found[(id(op), role)] |= content.top if partial else content.writers

    def _write(self, op: Operation, role: str, number: int, state: State, covers: bool) -> None:
        tile, contents = self.tiles[number], state[self.tiles[number].span.space]
        self.roles.setdefault((id(op), role), number)
        mine = frozenset((number,))
        for k in self._segments(tile.span):
            old = contents[k]
            if not covers:
                contents[k] = Content(old.writers | mine)
            elif tile.is_whole:
                contents[k] = Content(mine)
            else:
                contents[k] = Content(old.base if old.key == tile.key else old.writers, tile.key, mine)

    def _control(self, op: Operation, state: State) -> None:
        kind = TABLE[op.name].fn
        if kind == "for":
            while True:
                body = _copy(state)
                self._region(op.regions[0], body)
                _age(body)
                if not _join_into(state, body):
                    return
        if kind == "while":
            self._while(op, state)
        elif kind == "if":
            branches = [_copy(state) for _ in range(max(len(op.regions), 2))]
            for region, branch in zip(op.regions, branches, strict=False):
                self._region(region, branch)
            state.update(branches[0])
            for branch in branches[1:]:
                _join_into(state, branch)
        elif self.resolved.function.kernel_kind in ("", op.name.rpartition(".")[2]):  # a section for one of the cores
            self._region(op.regions[0], state)

    def _while(self, op: Operation, state: State) -> None:
        before, after = op.regions
        while True:
            left = _copy(state)
            self._region(before, left)
            body = _copy(left)
            self._region(after, body)
            _age(body)
            if not _join_into(state, body):
                state.update(left)
                return

    # --- the decision ----------------------------------------------------------------------------------------------

    def decide(self) -> Promotion:
        """Choose the variables. Tiles whose data exchange variables cannot express stay in memory, and so do tiles
        that exchange data with these.
        """
        edges = [(self.roles[operand], writers) for operand, writers in self.found.items()]
        changed = True
        while changed:
            changed = False
            for reader, writers in edges:
                if self._is_plain(reader, writers):
                    continue
                for number in {reader, *writers} - {_BEGIN, _OLD} - self.in_memory:
                    self.in_memory.add(number)
                    changed = True
        return self._promotion()

    def _is_plain(self, reader: int, writers: Iterable[int]) -> bool:
        tile = self.tiles[reader]
        if reader in self.in_memory or _OLD in writers:
            return False
        if _BEGIN in writers and (tile.span.own or not tile.is_whole):
            return False
        for writer in writers:
            if writer == _BEGIN:
                continue
            other = self.tiles[writer]
            if writer in self.in_memory or other.span != tile.span:
                return False
            if tile.is_whole and other.is_whole:
                if seen_as("", other.layout, tile.layout) is None:
                    return False
            elif other.key != tile.key:
                return False
        return True

    def _promotion(self) -> Promotion:
        promotion = Promotion({id(tile.value): tile for tile in self.tiles})
        joined = _Sets(len(self.tiles))
        plain = {
            operand: writers for operand, writers in self.found.items() if self.roles[operand] not in self.in_memory
        }
        for writers in plain.values():
            tiles = sorted(writers - {_BEGIN})
            for other in tiles[1:]:
                joined.join(tiles[0], other)
        for number, tile in enumerate(self.tiles):
            if number not in self.in_memory:
                promotion.variables[id(tile.value)] = self.tiles[joined.first(number)].value
        for operand, writers in plain.items():
            source = min(writers - {_BEGIN}, default=self.roles[operand])
            variable = promotion.variables[id(self.tiles[source].value)]
            promotion.sources[operand] = variable
            if _BEGIN in writers and variable not in promotion.zeroed:
                promotion.zeroed.append(variable)
        return promotion


class _Sets:
    """Disjoint sets of numbers; `first` is the smallest of a number's set."""

    def __init__(self, count: int) -> None:
        self.parent = list(range(count))

    def first(self, number: int) -> int:
        while self.parent[number] != number:
            number = self.parent[number]
        return number

    def join(self, a: int, b: int) -> None:
        a, b = sorted((self.first(a), self.first(b)))
        self.parent[b] = a


def _copy(state: State) -> State:
    return {space: list(contents) for space, contents in state.items()}


def _join_into(state: State, other: State) -> bool:
    """Join the other state into this one; return whether it grew."""
    grew = False
    for space, contents in state.items():
        for k, (mine, its) in enumerate(zip(contents, other[space], strict=True)):
            joined = mine.join(its)
            if joined != mine:
                contents[k], grew = joined, True
    return grew


def _age(state: State) -> None:
    """Invalidate computed extents at the end of a loop iteration: they may differ in the next one."""
    for contents in state.values():
        for k, content in enumerate(contents):
            key = content.key
            if isinstance(key, tuple) and not all(isinstance(extent, int) for extent in key[1]):
                contents[k] = Content(content.writers | {_OLD})
