"""Checks the element types and layouts that an instruction accepts, by its operation's row for each platform.

Signed, unsigned and signless integers of one width count alike.
"""

from __future__ import annotations

from ..model import Operation
from ..ops import TABLE
from ..resolve import Resolved
from ..types import ScalarType, TileType, element_bytes
from .rules import Messages, RuleFunction, messages, tile_of, width_of

#: Element types of tiles, unless the row allows fewer.
_ANY = frozenset(("i8", "i16", "i32", "i64", "f16", "bf16", "f32", "f8E4M3FN", "f8E5M2", "f8E8M0"))
_FRACTALS = (32, 512, 1024)


def element_types(name: str) -> frozenset[str]:
    """Return the element types that an operation accepts on any platform, with signed and unsigned types
    distinguished: `i32`, `ui32`, …
    """
    widths = frozenset().union(*(TABLE[name].elements.get(arch, _ANY) for arch in ("a2a3", "a5")))
    return widths | {f"u{width}" for width in widths if width.startswith("i")}


def check_elements(resolved: Resolved, op: Operation, arch: str) -> Messages:
    yield from messages(resolved, op, arch, RULES)
    yield from _types(resolved, op, arch)
    yield from _layout(resolved, op, arch)


def _types(resolved: Resolved, op: Operation, arch: str) -> Messages:
    definition = TABLE[op.name]
    if definition.only and arch and arch != definition.only:
        yield f"is an instruction of {definition.only}, which {arch} does not have"
    allowed = definition.elements.get(arch)
    if allowed is None:
        return
    role = next((role for role in ("src", "src0", "dst") if tile_of(resolved, op, role)), "")
    tile = tile_of(resolved, op, role)
    if tile is not None and tile.loc == "vec" and not {width_of(tile.dtype), str(tile.dtype)} & allowed:
        yield f"{role} has elements {tile.dtype}, {arch} takes {', '.join(sorted(allowed))}"


def _layout(resolved: Resolved, op: Operation, arch: str) -> Messages:
    definition = TABLE[op.name]
    for name in op.operands if definition.laid_out else ():
        role = definition.role(name, op.variant)
        if role is None or not role.layout or (role.layout_on and arch not in ("", role.layout_on)):
            continue
        value = resolved.value(op, name)
        if value is None or not isinstance(value.type, TileType) or value.type.loc != "vec":
            continue
        if value.type.blayout != "row_major":
            yield f"{name} is a row_major tile, but {value.name} is {value.type.blayout}"
        elif role.layout == "plain" and value.type.slayout != "none_box":
            yield f"{name} is a tile without fractals, but {value.name} has slayout={value.type.slayout}"


def _fractal(resolved: Resolved, op: Operation) -> Messages:
    type_ = op.result_types[0] if op.result_types else None
    if isinstance(type_, TileType) and type_.fractal not in _FRACTALS:
        yield f"fractal is one of {', '.join(map(str, _FRACTALS))}, found {type_.fractal}"


def _equal(resolved: Resolved, op: Operation, *roles: str) -> Messages:
    """Check that the tiles of these roles have one element type."""
    tiles = [(role, tile) for role in roles if (tile := tile_of(resolved, op, role))]
    for role, tile in tiles[1:]:
        if tile.dtype != tiles[0][1].dtype:
            yield f"{role} has elements {tile.dtype}, {tiles[0][0]} has {tiles[0][1].dtype}"
            return


def _number(resolved: Resolved, op: Operation) -> Messages:
    """Check that a scalar that fills a tile has the type of the tile's elements."""
    tile = tile_of(resolved, op, "dst")
    role = "scalar" if "scalar" in op.operands else "start"
    value = resolved.value(op, role) if role in op.operands else None
    if tile is None or value is None or not isinstance(value.type, ScalarType) or value.type.name == "index":
        return
    if width_of(value.type) != width_of(tile.dtype):
        yield f"{role} is a {value.type}, dst has elements {tile.dtype}"


def _element(resolved: Resolved, op: Operation) -> Messages:
    """Check that a value read from a tile has the tile's element type."""
    tile = tile_of(resolved, op, "tile")
    if tile and op.result_types and width_of(op.result_types[0]) != width_of(tile.dtype):
        yield f"the result is a {op.result_types[0]}, the tile has elements {tile.dtype}"


def _index(resolved: Resolved, op: Operation) -> Messages:
    """Check that positions are integers and that data keeps its width. The comparing form returns positions."""
    if "k" in op.operands:
        yield from _positions(resolved, op)
        return
    index = tile_of(resolved, op, "idx")
    if index and isinstance(index.dtype, ScalarType) and index.dtype.is_float:
        yield f"idx holds positions, found elements {index.dtype}"
    src, dst = tile_of(resolved, op, "src"), tile_of(resolved, op, "dst")
    if src and dst and element_bytes(src.dtype) != element_bytes(dst.dtype):
        yield f"dst has elements {dst.dtype}, src has {src.dtype}, of another width"


def _positions(resolved: Resolved, op: Operation) -> Messages:
    """Check that argmax and argmin return 32-bit positions."""
    tile = tile_of(resolved, op, "dstidx") or tile_of(resolved, op, "dst")
    if tile and width_of(tile.dtype) != "i32":
        yield f"dst holds positions (i32 or ui32), found elements {tile.dtype}"


def _extract(resolved: Resolved, op: Operation) -> Messages:
    """Check an extract: outside the accumulator a window keeps the element type; a part of `right` has the layout of
    `right`.
    """
    src, dst = tile_of(resolved, op, "src"), tile_of(resolved, op, "dst")
    if src is None or dst is None:
        return
    if src.loc != "acc" and src.dtype != dst.dtype:
        yield f"dst has elements {dst.dtype}, src has {src.dtype}"
    if dst.loc == "right" and (dst.blayout, dst.slayout) != ("row_major", "col_major"):
        yield f"dst in right is row_major with col_major fractals, found {dst.blayout} with {dst.slayout}"


RULES: dict[str, RuleFunction] = {
    "fractal": _fractal,
    "equal": _equal,
    "number": _number,
    "element": _element,
    "index": _index,
    "positions": _positions,
    "extracted": _extract,
}
