"""Effects of an operation on its tiles as values: the parts that it reads, and those that it writes as a whole.

A tile that is used only by such operations can be a plain tensor in the generated text; see promote.py. Operations
without a rule here need tiles as objects in a memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from ..model import Operation, case_of
from ..ops import TABLE, TILE_ALLOCATIONS
from ..resolve import Resolved, Value
from ..types import DYNAMIC, MultiTileType, TileType
from . import dtypes

Extent = int | Value  # known, or a value of the running kernel
Extents = tuple[Extent, Extent]  # rows and columns


@dataclass
class Effects:
    """`reads`: role -> the rows and columns that are read. `writes`: roles whose valid part is written, all of it.
    `objects`: roles that have to be tiles in a memory."""

    reads: dict[str, Extents] = field(default_factory=dict)
    writes: set[str] = field(default_factory=set)
    objects: set[str] = field(default_factory=set)


def valid_extents(resolved: Resolved, value: Value) -> Extents | None:
    """Return the valid rows and columns of a tile; None when they may change or are unknown here."""
    type_, op = value.type, value.op
    if not isinstance(type_, TileType) or id(value) in resolved.resized:
        return None
    extents: list[Extent] = []
    for extent, role, size in ((type_.v_row, "valid_row", type_.rows), (type_.v_col, "valid_col", type_.cols)):
        if extent != DYNAMIC:
            extents.append(extent)
            continue
        if op is None or op.name not in (*TILE_ALLOCATIONS, "pto.declare_tile"):
            return None
        operand = resolved.value(op, role)
        extents.append(size if operand is None else operand.constant if operand.constant is not None else operand)
    return extents[0], extents[1]


def part_extents(resolved: Resolved, value: Value) -> Extents | None:
    """Return rows and columns of a window of global memory, as a tile sees them; None for blocks and unknown
    windows.
    """
    sizes = plain_sizes(resolved, value)
    return None if sizes is None else (sizes[0], sizes[1])


def plain_sizes(resolved: Resolved, value: Value) -> list[Extent] | None:
    """Return the last two sizes of a window of global memory, if its other sizes are 1 and its layout has no blocks."""
    op = value.op
    if op is None or op.name != "pto.partition_view":
        return None
    view = resolved.value(op, "view")
    if view is None or view.op is None or view.op.name != "pto.make_tensor_view":
        return None
    if case_of(view.op.attrs.get("layout"), "nd") == "nz":
        return None
    sizes: list[Extent] = [s if s.constant is None else s.constant for s in resolved.values(op, "sizes")]
    if len(sizes) == 1:
        return [1, *sizes]
    return sizes[-2:] if all(size == 1 for size in sizes[:-2]) else None


class EffectsOf:
    """Effects of the operations of one function."""

    def __init__(self, resolved: Resolved) -> None:
        self.resolved = resolved

    def __call__(self, op: Operation) -> Effects:
        """Return the effects of an operation; every tile operand except scratch is in one of their three parts."""
        self.op, self.found = op, Effects()
        definition = TABLE[op.name]
        if definition.family in ("none", "fence", "async"):
            return self.found
        for key in definition.keys:
            if key in _RULES:
                if not _RULES[key](self, definition.fn):
                    self.found = Effects()
                break
        covered = self.found.reads.keys() | self.found.writes | self.found.objects
        self.found.objects |= {role for role in self._tiles() if role not in covered}
        for role in self.found.objects:
            self.found.reads.pop(role, None)
            self.found.writes.discard(role)
        return self.found

    def _tiles(self) -> Iterator[str]:
        """Yield the roles of tiles that are not scratch."""
        definition = TABLE[self.op.name]
        for role in self.op.operands:
            about = definition.role(role, self.op.variant)
            if about is not None and about.access == "s":
                continue
            if any(isinstance(v.type, (TileType, MultiTileType)) for v in self.resolved.values(self.op, role)):
                yield role

    # --- what rules are made of ----------------------------------------------------------------------------------

    def extents(self, role: str) -> Extents | None:
        value = self.resolved.value(self.op, role)
        return None if value is None else valid_extents(self.resolved, value)

    def type(self, role: str) -> TileType | None:
        value = self.resolved.value(self.op, role)
        return value.type if value is not None and isinstance(value.type, TileType) else None

    def read(self, role: str, part: Extents | None) -> None:
        """Record a read of `part` of a tile: its valid part, or less if the whole tile is valid."""
        own, type_ = self.extents(role), self.type(role)
        if own is None or part is None or type_ is None:
            self.found.objects.add(role)
            return
        whole = own == (type_.rows, type_.cols)
        fits = all(not isinstance(p, int) or (isinstance(o, int) and p <= o) for p, o in zip(part, own, strict=True))
        if own == part or (whole and fits):
            self.found.reads[role] = part
        else:
            self.found.objects.add(role)

    def write(self, role: str, part: Extents | None) -> None:
        """Record a write of `part` of a tile."""
        if part is None or part != self.extents(role) or 0 in part:
            self.found.objects.add(role)
        else:
            self.found.writes.add(role)


def _elementwise(e: EffectsOf, fn: str) -> bool:
    whole = e.extents("dst")
    if e.type("scalar") is not None:
        return False
    for role in ("src", "src0", "src1", "src2"):
        if role in e.op.operands:
            e.read(role, whole)
    if fn == "axpy":
        e.read("dst", whole)
    e.write("dst", whole)
    return True


def _fill(e: EffectsOf, fn: str) -> bool:
    e.write("dst", e.extents("dst"))
    return e.type("scalar") is None


def _convert(e: EffectsOf, fn: str) -> bool:
    e.read("src", e.extents("src"))
    e.write("dst", e.extents("src"))
    return True


def _reduce(e: EffectsOf, fn: str) -> bool:
    part = e.extents("src")
    if fn.startswith("arg") or part is None or 0 in part:
        return False
    e.read("src", part)
    by_row = TABLE[e.op.name].family == "rowreduce"
    if fn in ("max", "min") and not all(isinstance(extent, int) for extent in part):
        e.found.objects.add("dst")  # keeps what it has where there is nothing to compare
    else:
        e.write("dst", (part[0], 1) if by_row else (1, part[1]))
    return True


def is_column(type_: TileType) -> bool:
    """Return whether a tile has one element a row, with rows adjacent in memory."""
    return type_.blayout == "col_major" and type_.slayout == "none_box"


def is_block(type_: TileType) -> bool:
    """Return whether a tile has 32 bytes a row."""
    return type_.blayout == "row_major" and type_.cols * dtypes.bits(type_.dtype) == 256


def narrow_role(first: TileType, second: TileType) -> str:
    """Return the operand of a broadcast along rows that has one value a row."""
    if is_column(second) or not (is_column(first) or (is_block(first) and not is_block(second))):
        return "src1"
    return "src0"


def _row_expand(e: EffectsOf, fn: str) -> bool:
    whole = e.extents("dst")
    if whole is None:
        return False
    if fn == "copy":
        e.read("src", (whole[0], 1))
        e.write("dst", whole)
        return True
    first, second = e.type("src0"), e.type("src1")
    if first is None or second is None:
        return False
    narrow = narrow_role(first, second)
    type_ = e.type(narrow)
    assert type_ is not None
    if is_column(type_) and type_.cols == 1 and e.extents(narrow) == (whole[0], 1):
        e.read(narrow, (whole[0], 1))
    e.read("src0" if narrow == "src1" else "src1", whole)
    e.write("dst", whole)
    return True


def _col_expand(e: EffectsOf, fn: str) -> bool:
    whole = e.extents("dst")
    if whole is None:
        return False
    e.read("src" if fn == "copy" else "src1", (1, whole[1]))
    if fn != "copy":
        e.read("src0", whole)
    e.write("dst", whole)
    return True


def _compare(e: EffectsOf, fn: str) -> bool:
    first = "src" if "src" in e.op.operands else "src0"
    e.read(first, e.extents(first))
    if "src1" in e.op.operands:
        e.read("src1", e.extents(first))
    return e.type("scalar") is None


def _select(e: EffectsOf, fn: str) -> bool:
    for role in ("src", "src0", "src1"):
        if role in e.op.operands:
            e.read(role, e.extents("dst"))
    e.write("dst", e.extents("dst"))
    return e.type("scalar") is None


def _transpose(e: EffectsOf, fn: str) -> bool:
    part = e.extents("src")
    e.read("src", part)
    e.write("dst", part and (part[1], part[0]))
    return True


def _concat(e: EffectsOf, fn: str) -> bool:
    parts = e.extents("src0"), e.extents("src1")
    if parts[0] is None or parts[1] is None or "idx0" in e.op.operands or parts[0][0] != parts[1][0]:
        return False
    if not (isinstance(parts[0][1], int) and isinstance(parts[1][1], int)):
        return False
    e.read("src0", parts[0])
    e.read("src1", parts[1])
    e.write("dst", (parts[0][0], parts[0][1] + parts[1][1]))
    return True


def _fillpad(e: EffectsOf, fn: str) -> bool:
    type_, source = e.type("dst"), e.type("src")
    if type_ is None or source is None or type_.dtype != source.dtype:
        return False
    e.read("src", e.extents("src"))
    e.write("dst", (type_.rows, type_.cols))
    return True


def _element_get(e: EffectsOf, fn: str) -> bool:
    """Record a read of an element by its offset, from a tile with contiguous rows."""
    type_, offset = e.type("tile"), e.resolved.value(e.op, "offset")
    if type_ is None or is_column(type_) or type_.slayout != "none_box" or offset is None:
        return False
    if offset.constant is not None and 0 <= offset.constant < type_.rows * type_.cols:
        e.read("tile", (type_.rows, type_.cols))
    return True


def _load(e: EffectsOf, fn: str) -> bool:
    source, type_, part = e.resolved.value(e.op, "src"), e.type("dst"), e.extents("dst")
    if source is None or type_ is None or part is None or getattr(source.type, "element", None) != type_.dtype:
        return False
    if type_.pad != "0" and part != (type_.rows, type_.cols):
        return False
    source_extents = part_extents(e.resolved, source)
    e.write("dst", part if source_extents is not None and clips(source_extents, part) else None)
    return True


def clips(extents: Extents, part: Extents) -> bool:
    """Return whether the extents certainly include the other rows and columns."""
    return all(
        g == w or (isinstance(g, int) and isinstance(w, int) and g >= w) for g, w in zip(extents, part, strict=True)
    )


def _store(e: EffectsOf, fn: str) -> bool:
    target, part = e.resolved.value(e.op, "dst"), e.extents("src")
    if target is None or part is None or {"fp", "pre_quant"} & e.op.operands.keys():
        return False
    room = part_extents(e.resolved, target)
    if room is not None and (clips(room, part) or clips(part, room)) and case_of(e.op.attrs.get("reluPreMode")) == "":
        e.read("src", part)
    return True


def _move(e: EffectsOf, fn: str) -> bool:
    if case_of(e.op.attrs.get("accToVecMode")).startswith("dual_mode_split"):
        return False
    source, part = e.type("src"), e.extents("dst")
    if source is None or part is None:
        return False
    row, col = (e.resolved.constant(e.op, role) if role in e.op.operands else 0 for role in ("row", "col"))
    if (row, col) == (0, 0):
        e.read("src", part)
    elif e.extents("src") == (source.rows, source.cols):
        e.read("src", (source.rows, source.cols))
    e.write("dst", part)
    return True


def _matmul(e: EffectsOf, fn: str) -> bool:
    a, b = e.extents("a"), e.extents("b")
    if a is None or b is None:
        return False
    e.read("a", a)
    e.read("b", b)
    if fn == "accumulate":
        e.read("acc", (a[0], b[1]))
    if fn == "bias":
        e.read("bias", (1, b[1]))
    e.write("dst", (a[0], b[1]))
    return True


#: By family and function, or family; False where the operation, as it is written, needs tiles as objects.
_RULES: dict[str, Callable[[EffectsOf, str], bool]] = {
    "elementwise": _elementwise,
    "ternary": _elementwise,
    "fill:scalar": _fill,
    "convert": _convert,
    "rowreduce": _reduce,
    "colreduce": _reduce,
    "rowexpand": _row_expand,
    "colexpand": _col_expand,
    "compare": _compare,
    "select": _select,
    "transpose": _transpose,
    "concat": _concat,
    "fillpad": _fillpad,
    "element:get": _element_get,
    "transfer:load": _load,
    "transfer:store": _store,
    "move:copy": _move,
    "move:extract": _move,
    "matmul": _matmul,
}
