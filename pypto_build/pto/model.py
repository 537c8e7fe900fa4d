"""The model of a .pto module: modules hold functions, functions hold regions, regions hold operations.

SSA values are named by their text (`%x`); operands are grouped by the role their operation's definition gives them. Two
models are equal when they mean the same text: source positions, comments and spacing do not count.
"""

from __future__ import annotations

import math
import re
import struct
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

from pypto_build.facts.positions import SourcePosition

from .errors import PtoError
from .types import Type

# Attributes of the .pto language: constants attached to operations, functions and modules.
# Each keeps the spelling it was read with where several spellings mean one value, so that printing does not change a
# file.


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
    """Return `{name = value, flag}`."""
    parts = [_key(k) if isinstance(v, UnitAttr) else f"{_key(k)} = {v}" for k, v in items.items()]
    return "{" + ", ".join(parts) + "}"


def _key(name: str) -> str:
    plain = name.replace(".", "").replace("_", "").replace("$", "")
    return name if plain.isascii() and plain.isalnum() and not name[0].isdigit() else f'"{name}"'


def int_value(attribute: Attribute | None, default: int = 0) -> int:
    """Return the integer that an attribute holds; `default` if it is absent or not an integer."""
    if isinstance(attribute, BoolAttr):
        return int(attribute.value)
    return attribute.value if isinstance(attribute, IntAttr) else default


def case_of(attribute: Attribute | None, default: str = "") -> str:
    """Return the case of an enum attribute, or the text of a string; `default` if absent."""
    if isinstance(attribute, EnumAttr):
        return attribute.case
    return attribute.text if isinstance(attribute, StrAttr) else default


_REAL_FORMATS = {"f32": "<f", "f16": "<e"}


def round_real(value: float, name: str) -> float:
    """Return ``value`` rounded to the scalar type ``name``; too large values become infinite, as in C++."""
    code = _REAL_FORMATS.get(name)
    if code is None:
        return value
    try:
        rounded: float = struct.unpack(code, struct.pack(code, value))[0]
    except OverflowError:
        return math.copysign(math.inf, value)
    return rounded


# Text to tokens: one regular expression, run by `findall`.
# A token is a plain string; its first character tells its kind. Offsets are not kept: an error or a source line
# finds them by a second run, which keeps the common path at C speed. A whole `!pto.…<…>` type or `#pto.…<…>`
# attribute without nested brackets is one token, since modules consist mostly of repeated types.

TOKEN = re.compile(
    r"[ \t\r\n]*(?://[^\n]*[ \t\r\n]*)*"  # blanks and comments
    r"("
    r"%[\w$.\-]+(?:[:#]\d+)?"  # %value, %pack:2, %pack#1
    r"|[!#][A-Za-z_][\w.$]*(?:<[^<>]*>)?"  # !type<…>, #attribute<…>
    r"|[A-Za-z_][\w$.]*"  # word, operation.name
    r"|->"
    r"|-?(?:0x[0-9A-Fa-f]+|\d+(?:\.\d*)?(?:[eE][+-]?\d+)?)"  # number
    r'|"(?:[^"\\\n]|\\.)*"'  # string
    r'|@(?:[\w$.\-]+|"(?:[^"\\\n]|\\.)*")'  # @symbol
    r"|\^[\w$.\-]+"  # ^block
    r"|[^ \t\r\n]"  # punctuation, or a character that fits nothing
    r"|\Z"  # lets a comment at the end of the text be skipped like any other
    r")",
    re.ASCII,
)

END = ""  # the token after the last one


def tokenize(text: str) -> list[str]:
    """Return the tokens of `text`, then END."""
    tokens: list[str] = TOKEN.findall(text)
    tokens.append(END)
    return tokens


def token_offsets(text: str) -> list[int]:
    """Return the offset of every token of `tokenize(text)`, and the offset of the text's end."""
    offsets = [token.start(1) for token in TOKEN.finditer(text)]
    offsets.append(len(text.rstrip()))
    return offsets


class Source:
    """A text and the offsets of its tokens; line numbers are computed on demand."""

    def __init__(self, path: str, text: str) -> None:
        self.path = path
        self.text = text

    @cached_property
    def offsets(self) -> list[int]:
        """Return the offset of every token, with one more entry for the end of the text."""
        return token_offsets(self.text)

    @cached_property
    def _lines(self) -> list[int]:
        return [0] + [match.end() for match in re.finditer("\n", self.text)]

    def position(self, token: int) -> SourcePosition:
        """Return the position of token number `token`; unknown for operations that were not parsed (-1)."""
        if token < 0:
            return SourcePosition(self.path)
        return self.position_at(self.offsets[min(token, len(self.offsets) - 1)])

    def position_at(self, offset: int) -> SourcePosition:
        line = bisect_right(self._lines, offset)
        return SourcePosition(self.path, line, offset - self._lines[line - 1] + 1)


@dataclass(frozen=True)
class Location:
    """A trailing `loc(…)`: `file`, `line` and `column` of the source program, or only its `text`."""

    text: str
    file: str = ""
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        return f"loc({self.text})"


@dataclass(slots=True)
class Operation:
    """One operation. `types` has the operand types in its text; see `ops.spec` for roles and formats."""

    name: str
    operands: dict[str, tuple[str, ...]] = field(default_factory=dict)
    types: dict[str, tuple[Type, ...]] = field(default_factory=dict)
    attrs: dict[str, Attribute] = field(default_factory=dict)
    results: tuple[str, ...] = ()
    result_types: tuple[Type, ...] = ()
    regions: tuple[Region, ...] = ()
    loc: Location | None = None
    variant: int = 0  # which of the definition's formats it is written in; negative for the quoted form
    token: int = field(default=-1, compare=False)

    def operand(self, role: str) -> str:
        """Return the one value of `role`. Raises KeyError if it is absent."""
        return self.operands[role][0]

    def all_operands(self) -> Iterator[tuple[str, str]]:
        """Yield (role, value) of every operand in writing order."""
        for role, values in self.operands.items():
            for value in values:
                yield role, value


GENERIC = -1  # the quoted form, attributes as `<{…}>`
GENERIC_PLAIN = -2  # the quoted form, attributes as `{…}`


@dataclass(slots=True)
class Region:
    """A list of operations; `args` are values that the owner defines inside (loop index, iteration arguments)."""

    ops: list[Operation] = field(default_factory=list)
    args: tuple[tuple[str, Type | None], ...] = ()

    def walk(self) -> Iterator[Operation]:
        """Yield every operation, outer before inner, in text order."""
        for op in self.ops:
            yield op
            for region in op.regions:
                yield from region.walk()


@dataclass(slots=True)
class Argument:
    name: str
    type: Type
    attrs: dict[str, Attribute] = field(default_factory=dict)


@dataclass(slots=True)
class Function:
    """`func.func`; `body` is None for a declaration."""

    name: str
    args: tuple[Argument, ...] = ()
    results: tuple[Type, ...] = ()
    attrs: dict[str, Attribute] = field(default_factory=dict)
    body: Region | None = None
    visibility: str = ""
    loc: Location | None = None
    token: int = field(default=-1, compare=False)

    def walk(self) -> Iterator[Operation]:
        """Yield every operation of the body, outer before inner."""
        return self.body.walk() if self.body is not None else iter(())

    @property
    def kernel_kind(self) -> str:
        """Return `cube`, `vector`, or empty."""
        return case_of(self.attrs.get("pto.kernel_kind"))


@dataclass(slots=True)
class Module:
    """A unit: `module attributes {…} { … }`, or a file of bare functions (`explicit` False)."""

    items: list[Function | Module | Operation] = field(default_factory=list)
    attrs: dict[str, Attribute] = field(default_factory=dict)
    aliases: dict[str, str] = field(default_factory=dict)
    name: str = ""
    explicit: bool = True
    loc: Location | None = None
    token: int = field(default=-1, compare=False)
    source: Source = field(default_factory=lambda: Source("<pto>", ""), compare=False, repr=False)

    def error(self, at: Operation | Function, message: str) -> PtoError:
        """Return an error of an operation or a function."""
        name = at.name if isinstance(at, Operation) else f"func.func @{at.name}"
        return PtoError(self.source.position(at.token), message, name)

    def functions(self) -> Iterator[Function]:
        """Yield all functions, also in nested modules."""
        for item in self.items:
            if isinstance(item, Function):
                yield item
            elif isinstance(item, Module):
                yield from item.functions()
