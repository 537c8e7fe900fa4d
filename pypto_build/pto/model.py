"""The model of a .pto module: modules hold functions, functions hold regions, regions hold operations.

SSA values are named by their text (`%x`); operands are grouped by the role their operation's definition gives them. Two
models are equal when they mean the same text: source positions, comments and spacing do not count.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

from pypto_build.facts.positions import SourcePosition

from .attributes import Attribute, case_of
from .errors import PtoError
from .types import Type

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
    """The tokens of `text`, then END."""
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
        """Offset of every token; one more entry for the end of the text."""
        return token_offsets(self.text)

    @cached_property
    def _lines(self) -> list[int]:
        return [0] + [match.end() for match in re.finditer("\n", self.text)]

    def position(self, token: int) -> SourcePosition:
        """The place of token number `token`; unknown for operations that were not parsed (-1)."""
        if token < 0:
            return SourcePosition(self.path)
        return self.position_at(self.offsets[min(token, len(self.offsets) - 1)])

    def position_at(self, offset: int) -> SourcePosition:
        line = bisect_right(self._lines, offset)
        return SourcePosition(self.path, line, offset - self._lines[line - 1] + 1)


@dataclass(frozen=True)
class Location:
    """A trailing `loc(…)`: `file`, `line` and `column` of the program it was made from, or just its `text`."""

    text: str
    file: str = ""
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        return f"loc({self.text})"


@dataclass(slots=True)
class Operation:
    """One operation. `types` has the operand types that are written; see `ops.spec` for roles and formats."""

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
        """The one value of `role`; KeyError when it is absent."""
        return self.operands[role][0]

    def all_operands(self) -> Iterator[tuple[str, str]]:
        """(role, value) of every operand in writing order."""
        for role, values in self.operands.items():
            for value in values:
                yield role, value


GENERIC = -1  # the quoted form, attributes as `<{…}>`
GENERIC_PLAIN = -2  # the quoted form, attributes as `{…}`


@dataclass(slots=True)
class Region:
    """A list of operations; `args` are the values the owner defines inside (loop index, iteration arguments)."""

    ops: list[Operation] = field(default_factory=list)
    args: tuple[tuple[str, Type | None], ...] = ()

    def walk(self) -> Iterator[Operation]:
        """Every operation, outer before inner, in text order."""
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
        """Every operation of its body, outer before inner."""
        return self.body.walk() if self.body is not None else iter(())

    @property
    def kernel_kind(self) -> str:
        """`cube`, `vector`, or empty."""
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
