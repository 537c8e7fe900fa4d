"""Attributes of the .pto language: constants attached to operations, functions and modules.

Each keeps the spelling it was read with where several spellings mean one value, so that printing does not change a
file.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass, field

from .types import Type


@dataclass(frozen=True)
class Attribute:
    """Base of all attributes; `str()` is the .pto spelling."""


@dataclass(frozen=True)
class UnitAttr(Attribute):
    """A name without a value: `{pto.entry}`."""

    def __str__(self) -> str:
        return "unit"


@dataclass(frozen=True)
class BoolAttr(Attribute):
    value: bool

    def __str__(self) -> str:
        return "true" if self.value else "false"


@dataclass(frozen=True)
class IntAttr(Attribute):
    """An integer, with its type when one is written (`0 : i32`)."""

    value: int
    type: Type | None = None
    text: str = field(default="", compare=False, repr=False)

    def __str__(self) -> str:
        return (self.text or str(self.value)) + (f" : {self.type}" if self.type else "")


@dataclass(frozen=True)
class FloatAttr(Attribute):
    """A float; `bits` holds a hexadecimal spelling, which stands for the bit pattern."""

    value: float
    type: Type | None = None
    text: str = field(default="", compare=False, repr=False)

    def __str__(self) -> str:
        return (self.text or f"{self.value:.17e}") + (f" : {self.type}" if self.type else "")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, FloatAttr):
            return NotImplemented
        return struct.pack("<d", self.value) == struct.pack("<d", other.value) and self.type == other.type

    def __hash__(self) -> int:
        return hash((struct.pack("<d", self.value), self.type))


@dataclass(frozen=True)
class StrAttr(Attribute):
    """`text` is the content between the quotes, escapes as written."""

    text: str

    def __str__(self) -> str:
        return f'"{self.text}"'


@dataclass(frozen=True)
class SymbolAttr(Attribute):
    """`@name`."""

    name: str

    def __str__(self) -> str:
        return f"@{self.name}"


@dataclass(frozen=True)
class EnumAttr(Attribute):
    """A dialect attribute: `#pto.layout<nd>`, `#pto<round_mode ROUND>`, elided `<vec>`; `case` is its last word."""

    case: str
    kind: str = field(default="", compare=False, repr=False)
    text: str = field(default="", compare=False, repr=False)

    def __str__(self) -> str:
        return self.text or f"#pto.{self.kind}<{self.case}>"


@dataclass(frozen=True)
class TypeAttr(Attribute):
    type: Type

    def __str__(self) -> str:
        return str(self.type)


@dataclass(frozen=True)
class ArrayAttr(Attribute):
    """`[a, b]`, or `array<i32: 1, 2>` when `element` is set."""

    items: tuple[Attribute, ...]
    element: Type | None = None

    def __str__(self) -> str:
        inner = ", ".join(map(str, self.items))
        if self.element is None:
            return f"[{inner}]"
        return f"array<{self.element}: {inner}>" if self.items else f"array<{self.element}>"


@dataclass(frozen=True)
class DictAttr(Attribute):
    items: tuple[tuple[str, Attribute], ...]

    def __str__(self) -> str:
        return print_dict(dict(self.items))


@dataclass(frozen=True)
class RawAttr(Attribute):
    """Anything else, whitespace collapsed: `dense<0.0>`, `loc(fused[…])`."""

    text: str

    def __str__(self) -> str:
        return self.text


def print_dict(items: dict[str, Attribute]) -> str:
    """`{name = value, flag}`."""
    parts = [_key(k) if isinstance(v, UnitAttr) else f"{_key(k)} = {v}" for k, v in items.items()]
    return "{" + ", ".join(parts) + "}"


def _key(name: str) -> str:
    plain = name.replace(".", "").replace("_", "").replace("$", "")
    return name if plain.isascii() and plain.isalnum() and not name[0].isdigit() else f'"{name}"'


def int_value(attribute: Attribute | None, default: int = 0) -> int:
    """The integer an attribute holds; `default` when it is absent or no integer."""
    if isinstance(attribute, BoolAttr):
        return int(attribute.value)
    return attribute.value if isinstance(attribute, IntAttr) else default


def case_of(attribute: Attribute | None, default: str = "") -> str:
    """The case of an enum attribute, or the text of a string; `default` when absent."""
    if isinstance(attribute, EnumAttr):
        return attribute.case
    return attribute.text if isinstance(attribute, StrAttr) else default


_REAL_FORMATS = {"f32": "<f", "f16": "<e"}


def round_real(value: float, name: str) -> float:
    """Return ``value`` as a scalar of the type ``name`` holds it; too large values become infinite, as in C++."""
    code = _REAL_FORMATS.get(name)
    if code is None:
        return value
    try:
        rounded: float = struct.unpack(code, struct.pack(code, value))[0]
    except OverflowError:
        return math.copysign(math.inf, value)
    return rounded
