"""Tiles of a kernel's C++ as the rules see them: `Tile<…>` types, addresses from TASSIGN, constant numbers."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from tree_sitter import Node

from pypto_build.artifact.cpp.syntax import call_arguments, integer, source_text
from pypto_build.facts.dtypes import PTO
from pypto_build.pto.cpp import spell
from pypto_build.pto.ops.constraints import TileFacts
from pypto_build.pto.types import DYNAMIC, ScalarType, TileType, parse_type

_TILE = re.compile(r"(?:pto::)?Tile<(.*)>\Z", re.DOTALL)
_CAST = re.compile(r"\(\s*(?:const\s+)?[\w:]+\s*\)\s*")
_RESIZED = re.compile(r"\b(\w+)\s*\.\s*SetValid(?:Shape|Row|Col)\s*\(")
_SUM = re.compile(r"[\w\s()+*-]+\Z")


def _inverted(table: dict[str, str]) -> dict[str, str]:
    return {written.rpartition("::")[2]: name for name, written in table.items()}


_SPACES, _BLAYOUTS, _SLAYOUTS, _PADS, _COMPACTS = map(
    _inverted, (spell.SPACES, spell.BLAYOUTS, spell.SLAYOUTS, spell.PADS, spell.COMPACTS)
)
_ELEMENTS: dict[str, str] = {}
for _name, _row in PTO.items():
    _ELEMENTS.setdefault(_row.cpp, _name)


@dataclass
class CppTile:
    """A variable of the kernel that is a tile; `address` is None where it is not a constant, or changes."""

    name: str
    type: TileType
    rows: int | None
    cols: int | None
    address: int | None = None
    assigned: int = 0

    def facts(self) -> TileFacts:
        return TileFacts(self.type, self.rows, self.cols, self.address, self.name)


@dataclass
class Names:
    """Facts about a function's variables; blocks within it share it, as generated code names each only once."""

    numbers: dict[str, int] = field(default_factory=dict)
    tiles: dict[str, CppTile] = field(default_factory=dict)
    aliases: dict[str, str] = field(default_factory=dict)  # using X = …
    resized: frozenset[str] = frozenset()  # tiles whose valid extents are set while running

    def number(self, text: str) -> int | None:
        """The value of an integer expression; None where it is not constant."""
        text = _CAST.sub("", text.strip())
        if (value := integer(text)) is not None:
            return value
        if text in self.numbers:
            return self.numbers[text]
        if not _SUM.match(text) or len(text) > 200:
            return None
        return self._sum(text)

    def _sum(self, text: str) -> int | None:
        """The sum of products of constants, without brackets inside."""
        total = 0
        for term in text.strip().removeprefix("(").removesuffix(")").split("+"):
            product = 1
            for factor in term.split("*"):
                factor = factor.strip()
                value = integer(factor) if factor else None
                value = self.numbers.get(factor) if value is None else value
                if value is None:
                    return None
                product *= value
            total += product
        return total

    def tile_type(self, text: str) -> TileType | None:
        """The type written as `Tile<…>`, or by a name for it."""
        text = self.aliases.get(text.strip(), text.strip())
        match = _TILE.match(text)
        words = _split(match[1]) if match else []
        return self._read(words) if len(words) >= 4 else None

    def _read(self, words: list[str]) -> TileType | None:
        loc, element, *rest = words
        element = self.aliases.get(element, element)
        space, dtype = _SPACES.get(loc.rpartition("::")[2]), _ELEMENTS.get(element)
        rows, cols = (self.number(word) for word in rest[:2])
        if space is None or dtype is None or rows is None or cols is None:
            return None
        more = [*rest[2:], *_DEFAULTS[len(rest[2:]) :]]
        fields: dict[str, str | int] = {"blayout": _BLAYOUTS.get(more[0].rpartition("::")[2], "")}
        for name, word, extent in (("v_row", more[1], rows), ("v_col", more[2], cols)):
            value = extent if word == "" else DYNAMIC if word == "-1" else self.number(word)
            fields[name] = DYNAMIC if value is None else value
        fields["slayout"] = _SLAYOUTS.get(more[3].rpartition("::")[2], "")
        fields["fractal"] = self.number(more[4]) or 0
        fields["pad"] = _PADS.get(more[5].rpartition("::")[2], "?")
        fields["compact"] = _COMPACTS.get(more[6].rpartition("::")[2], "?")
        scalar = parse_type(dtype)
        assert isinstance(scalar, ScalarType)
        return TileType("", space, scalar, rows, cols, **fields)  # type: ignore[arg-type]

    def declare(self, name: str, type_: TileType, arguments: list[Node]) -> None:
        """Declare a tile; its constructor's arguments are the valid extents that the type leaves open."""
        values = [self.number(source_text(argument)) for argument in arguments]
        open_ = [extent == DYNAMIC for extent in (type_.v_row, type_.v_col)]
        if len(values) == 1 and sum(open_) == 1:
            values = [values[0], values[0]]
        extents = [
            (values[axis] if axis < len(values) else None) if is_open else extent
            for axis, (is_open, extent) in enumerate(zip(open_, (type_.v_row, type_.v_col), strict=True))
        ]
        rows, cols = (None, None) if name in self.resized else extents
        self.tiles[name] = CppTile(name, type_, rows, cols)

    def assign(self, name: str, address: str) -> None:
        """TASSIGN: one address for good, or several, of which none is known."""
        tile = self.tiles.get(name)
        if tile is not None:
            value = self.number(address)
            tile.address = value if not tile.assigned or tile.address == value else None
            tile.assigned += 1


def resized(text: str) -> frozenset[str]:
    """The tiles whose valid extents a function sets."""
    return frozenset(_RESIZED.findall(text))


_DEFAULTS = ["RowMajor", "", "", "NoneBox", "512", "Null", "Null"]


def _split(text: str) -> list[str]:
    """Template arguments at the commas outside of brackets."""
    parts, depth, start = [], 0, 0
    for at, char in enumerate(text):
        depth += (char in "<(") - (char in ">)")
        if char == "," and depth == 0:
            parts.append(text[start:at].strip())
            start = at + 1
    return [*parts, text[start:].strip()]


def declared_tile(names: Names, node: Node) -> None:
    """Note the tiles, numbers and type names that a declaration makes."""
    type_node = node.child_by_field_name("type")
    if type_node is None:
        return
    written = source_text(type_node)
    type_ = names.tile_type(written) if "Tile<" in written or written in names.aliases else None
    for declarator in node.children_by_field_name("declarator"):
        name, value = declarator, declarator.child_by_field_name("value")
        while name.child_by_field_name("declarator") is not None:
            name = name.child_by_field_name("declarator")  # type: ignore[assignment]
        text = source_text(name)
        if type_ is not None:
            names.declare(text, type_, _arguments(value))
        elif value is not None and value.type != "argument_list":
            number = names.number(source_text(value))
            if number is not None and "const" in source_text(node).partition(text)[0]:
                names.numbers[text] = number


def _arguments(value: Node | None) -> list[Node]:
    """Return what a constructor is given: `v(a, b)`, `v = Tile<…>(a, b)` or `v{a, b}`."""
    if value is None:
        return []
    if value.type == "call_expression":
        return call_arguments(value)
    return [child for child in value.named_children if child.type != "comment"]
