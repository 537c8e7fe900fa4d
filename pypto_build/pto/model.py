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
from .lexer import token_offsets
from .types import Type


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
