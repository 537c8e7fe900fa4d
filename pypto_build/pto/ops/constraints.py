"""The language of the rules that a device imposes on an instruction's operands (rows of device.py).

A constraint is an expression over roles of an operation: `apart(dst, src)`, `cols(tmp) * size(tmp) >= 256`,
`size(dst) > size(src) => apart(dst, src)`. It consists of
    functions of a role    elem width size rows cols valid_rows valid_cols bytes loc blayout slayout fractal pad compact
                           address present full_rows scalar scalar_type width_of
    of global memory       elem width size order outer, extent(a, n) and stride(a, n) of the n-th axis from the last
    of pairs of extents    valid(a) == valid(b), shape(a) == shape(b)
    of two roles           apart same_or_apart same_start precedes
    of anything            attr(name) attr(name, default) ceil(a, b) floor(a, b) max min
    operators              == != < <= > >= in + - * %  and or not, and `=>` for a condition; a bare word is a name

A dynamic value (an address, a valid extent, an omitted operand) makes a constraint unknown, not broken. `Facts` is the
interface of the readers of operands: of a module, of C++, of a program.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from math import prod
from types import CodeType, MappingProxyType
from typing import Any

from ..types import DYNAMIC, ScalarType, TileType, Type, element_bytes

#: Kinds of rules, as the documentation groups them.
KINDS = (
    *("element_type", "same_type", "location", "layout", "shape", "valid_shape", "alignment", "scratch_size"),
    *("scratch_type", "overlap", "index_range", "scalar_range", "repeat_stride", "rounding_mode", "attribute"),
    *("capacity", "dma", "atomic", "erratum"),
)
#: Upstream's sources of a rule; they decide how certain it is.
SOURCES = {
    "header": "a static_assert of the device headers",
    "assert": "a run-time assertion of the device headers, off in release builds",
    "verifier": "the verifier of the assembler",
    "docs": "the manual of the instructions",
    "reuse": "the code generator's table of operands that must not share memory",
    "codegen": "the code generator, which keeps to it",
    "reading": "our reading of the device headers",
    "issue": "a public report",
}


class Unknown(Exception):
    """A constraint needs a fact that is not known before a run."""


@dataclass(frozen=True, slots=True)
class TileFacts:
    """Facts about the tile in a role; `identity` is equal for two names of the same bytes."""

    type: TileType
    rows: int | None = None  # valid ones
    cols: int | None = None
    address: int | None = None
    identity: object = None
    is_written: bool = True  # the order of its elements is that of the type: the assembler chooses it for `left`


@dataclass(frozen=True, slots=True)
class PartFacts:
    """Facts about the part of global memory in a role: extents and strides, the last axis last."""

    element: Type
    shape: tuple[int | None, ...]
    strides: tuple[int | None, ...] = ()
    order: str = ""  # nd, dn or nz


class Facts:
    """Facts about one operation's operands; a reader fills the tables."""

    def __init__(
        self,
        tiles: dict[str, TileFacts],
        scalars: Mapping[str, tuple[Type | None, int | None]],
        attrs: dict[str, str],
        order: tuple[str, ...] = (),
        present: frozenset[str] = frozenset(),
        parts: Mapping[str, PartFacts] = MappingProxyType({}),
    ) -> None:
        self.tiles, self.scalars, self.attrs, self.roles_in_order, self.parts = tiles, scalars, attrs, order, parts
        self.roles = present or frozenset((*tiles, *scalars, *parts))

    @property
    def is_idle(self) -> bool:
        """Return whether the result has no rows or no columns, so that the instruction does nothing."""
        dst = self.tiles.get("dst")
        return dst is not None and dst.rows == 0 and dst.cols == 0

    def tile(self, role: str) -> TileFacts:
        tile = self.tiles.get(role)
        if tile is None:
            raise Unknown
        return tile

    def _known(self, value: int | None) -> int:
        if value is None:
            raise Unknown
        return value

    def part(self, role: str) -> PartFacts:
        part = self.parts.get(role)
        if part is None:
            raise Unknown
        return part

    def _element(self, role: str) -> Type:
        return self.parts[role].element if role in self.parts else self.tile(role).type.dtype

    def elem(self, role: str) -> str:
        return str(self._element(role)).removeprefix("!pto.")

    def width(self, role: str) -> str:
        """Return the element type without its sign."""
        return unsigned(self.elem(role))

    def size(self, role: str) -> int:
        return element_bytes(self._element(role))

    def order(self, role: str) -> str:
        """Return the order of elements in global memory."""
        if not self.part(role).order:
            raise Unknown
        return self.part(role).order

    def extent(self, role: str, axis: int) -> int:
        shape = self.part(role).shape
        return self._known(shape[-axis]) if axis <= len(shape) else 1

    def outer(self, role: str) -> int:
        """Return the product of all extents but the last."""
        return prod(self.extent(role, axis) for axis in range(2, 6))

    def stride(self, role: str, axis: int) -> int:
        strides = self.part(role).strides
        if axis > len(strides):
            raise Unknown
        return self._known(strides[-axis])

    def rows(self, role: str) -> int:
        return self.tile(role).type.rows

    def cols(self, role: str) -> int:
        return self.tile(role).type.cols

    def valid_rows(self, role: str) -> int:
        return self._known(self.tile(role).rows)

    def valid_cols(self, role: str) -> int:
        return self._known(self.tile(role).cols)

    def bytes(self, role: str) -> int:
        return self.tile(role).type.bytes

    def loc(self, role: str) -> str:
        return self.tile(role).type.loc

    def blayout(self, role: str) -> str:
        tile = self.tile(role)
        if not tile.is_written:
            raise Unknown
        return tile.type.blayout

    def slayout(self, role: str) -> str:
        return self.tile(role).type.slayout

    def fractal(self, role: str) -> int:
        return self.tile(role).type.fractal

    def pad(self, role: str) -> str:
        return self.tile(role).type.pad

    def compact(self, role: str) -> str:
        return self.tile(role).type.compact

    def address(self, role: str) -> int:
        return self._known(self.tile(role).address)

    def present(self, role: str) -> bool:
        return role in self.roles

    def scalar(self, role: str) -> int:
        return self._known(self.scalars.get(role, (None, None))[1])

    def scalar_type(self, role: str) -> str:
        type_ = self.scalars.get(role, (None, None))[0]
        if not isinstance(type_, ScalarType) or type_.name == "index":
            raise Unknown
        return type_.name

    def width_of(self, role: str) -> str:
        """Return the type of a number without its sign."""
        return unsigned(self.scalar_type(role))

    def full_rows(self, role: str) -> bool:
        """Return whether all rows are valid, or all but some of the last 16, as far as the type fixes them. Return
        False if that is known at run time only.
        """
        tile = self.tile(role)
        if tile.type.rows <= 16 or tile.type.v_row != DYNAMIC:
            return True  # a window with a number of rows in its type has the stride of the tile that it is of
        return tile.rows is not None and _ceil(tile.rows, 16) * 16 >= tile.type.rows

    def attr(self, name: str, default: object = "") -> object:
        value = self.attrs.get(name)
        if value is None:
            return default
        return int(value) if value.lstrip("-").isdigit() else value

    def precedes(self, first: str, second: str) -> bool:
        """Return whether `first` is written before `second` in the operand list."""
        if first not in self.roles_in_order or second not in self.roles_in_order:
            raise Unknown
        return self.roles_in_order.index(first) < self.roles_in_order.index(second)

    def apart(self, a: str, b: str) -> bool:
        """Return whether the two tiles share no byte."""
        one, other = self.tile(a), self.tile(b)
        if one.type.loc != other.type.loc:
            return True
        if one.identity is not None and one.identity == other.identity:
            return False
        start, begin = self._known(one.address), self._known(other.address)
        return start >= begin + other.type.bytes or begin >= start + one.type.bytes

    def same_start(self, a: str, b: str) -> bool:
        one, other = self.tile(a), self.tile(b)
        if one.identity is not None and one.identity == other.identity:
            return True
        return one.type.loc == other.type.loc and self._known(one.address) == self._known(other.address)

    def same_or_apart(self, a: str, b: str) -> bool:
        return self.same_start(a, b) or self.apart(a, b)


def unsigned(name: str) -> str:
    """Return an integer type without its sign: `ui32` -> `i32`."""
    return name[1:] if name[:2] in ("ui", "si") else name


def _ceil(a: int, b: int) -> int:
    return -(-a // b)


_FREE: dict[str, Callable[..., Any]] = {"ceil": _ceil, "floor": lambda a, b: a // b, "max": max, "min": min}
_PAIRS = {"valid": ("valid_rows", "valid_cols"), "shape": ("rows", "cols")}


@dataclass(frozen=True)
class Constraint:
    """One row. `text` is the expression, one term of a conjunction; `why` is the effect of a violation."""

    kind: str
    arch: str
    text: str
    source: str
    why: str

    @cached_property
    def _parts(self) -> tuple[tuple[CodeType, ...], CodeType]:
        conditions, claim = _split(self.text)
        return tuple(_compiled(one) for one in conditions), _compiled(claim)

    @property
    def compiles(self) -> bool:
        """Return whether all functions that the constraint names exist."""
        try:
            return bool(self._parts)
        except (ValueError, TypeError):
            return False

    @cached_property
    def roles(self) -> frozenset[str]:
        """Return the roles that the constraint mentions."""
        conditions, claim = _split(self.text)
        return frozenset(name for one in (*conditions, claim) for _, names in _calls(one) for name in names)

    @property
    def is_for_modules(self) -> bool:
        """Return whether modules that break it are refused: all constraints but extents in assertions alone.

        Release builds leave assertions out, and kernels on devices read invalid elements where the result ignores them.
        """
        return self.kind == "valid_shape" and not {"header", "reading", "issue"} & set(self.source.split())

    def is_broken(self, facts: Facts) -> bool:
        """Return whether the operands certainly break the constraint. Empty tiles, as on the idle one of two vector
        cores, break none.
        """
        return self.judge(facts) is True

    def judge(self, facts: Facts) -> bool | None:
        """Return whether the operands break the constraint; None if that depends on unknown facts."""
        conditions, claim = self._parts
        if self.kind == "valid_shape" and facts.is_idle:
            return False
        scope = {"f": facts}
        try:
            return all(eval(one, _FREE, scope) for one in conditions) and not eval(claim, _FREE, scope)
        except (Unknown, ZeroDivisionError):
            return None

    def explain(self, facts: Facts) -> str:
        """Return the message for operands that break it: the rule, the operands, and its reason."""
        conditions, claim = _split(self.text)
        values = {}
        for one in (*conditions, claim):
            for call, _ in _calls(one):
                if not isinstance(call.func, ast.Name) or call.func.id in ("apart", "same_or_apart", "same_start"):
                    continue
                with suppress(Unknown):
                    values[ast.unparse(call)] = eval(_compiled(call), _FREE, {"f": facts})
        spans = [_span(role, facts) for role in sorted(self.roles)] if self.kind == "overlap" else []
        operands = "; ".join([*(f"{name} is {value}" for name, value in values.items()), *filter(None, spans)])
        return f"breaks the rule '{self.text}'{f' ({operands})' if operands else ''}: {self.why}"


def _span(role: str, facts: Facts) -> str:
    tile = facts.tiles.get(role)
    if tile is None or tile.address is None:
        return ""
    return f"{role} is {tile.type.loc} {tile.address} to {tile.address + tile.type.bytes}"


def _split(text: str) -> tuple[list[ast.expr], ast.expr]:
    """Return the conditions of an expression, and its claim."""
    *conditions, claim = (ast.parse(part.strip(), mode="eval").body for part in text.split("=>"))
    return conditions, claim


def _calls(tree: ast.expr) -> Iterator[tuple[ast.Call, tuple[str, ...]]]:
    """Yield the functions of operands in an expression, with the roles that they name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id not in _FREE:
            names = tuple(arg.id for arg in node.args if isinstance(arg, ast.Name))
            yield node, () if node.func.id == "attr" else names


class _Bound(ast.NodeTransformer):
    """`elem(src)` becomes `f.elem('src')`, a bare word a string."""

    def visit_Call(self, node: ast.Call) -> ast.AST:
        assert isinstance(node.func, ast.Name)
        function: ast.expr = node.func
        if node.func.id not in _FREE:
            if not hasattr(Facts, node.func.id):
                raise ValueError(f"the language of constraints has no function '{node.func.id}'")
            function = ast.Attribute(ast.Name("f", ast.Load()), node.func.id, ast.Load())
        return ast.Call(function, [self.visit(arg) for arg in node.args], [])

    def visit_Name(self, node: ast.Name) -> ast.AST:
        return ast.Constant(node.id)


def _compiled(tree: ast.expr) -> CodeType:
    bound = _Bound().visit(ast.parse(ast.unparse(tree), mode="eval"))
    return compile(ast.fix_missing_locations(bound), "<constraint>", "eval")


def parse_constraints(text: str) -> Iterator[Constraint]:
    """Rows `kind | platform | expression | source | why`; a conjunction and an equality of pairs are several."""
    for line in filter(None, map(str.strip, text.splitlines())):
        kind, arch, expression, source, why = (field.strip() for field in line.split("|"))
        if kind not in KINDS or arch not in ("both", "a2a3", "a5") or not set(source.split()) <= SOURCES.keys():
            raise ValueError(f"constraint '{line}' is not kind | platform | expression | source | why")
        *conditions, claim = (part.strip() for part in expression.split("=>"))
        for one in _conjuncts(ast.parse(claim, mode="eval").body):
            yield Constraint(kind, arch, " => ".join((*conditions, ast.unparse(one))), source, why)


def _conjuncts(tree: ast.expr) -> Iterator[ast.expr]:
    if isinstance(tree, ast.BoolOp) and isinstance(tree.op, ast.And):
        for value in tree.values:
            yield from _conjuncts(value)
    elif isinstance(tree, ast.Compare) and len(tree.ops) > 1:  # a == b == c
        left = tree.left
        for operator, right in zip(tree.ops, tree.comparators, strict=True):
            yield from _conjuncts(ast.Compare(left, [operator], [right]))
            left = right
    elif isinstance(tree, ast.Compare) and isinstance(tree.left, ast.Call) and ast.unparse(tree.left.func) in _PAIRS:
        for name in _PAIRS[ast.unparse(tree.left.func)]:
            yield ast.Compare(_renamed(tree.left, name), tree.ops, [_renamed(tree.comparators[0], name)])
    else:
        yield tree


def _renamed(tree: ast.expr, name: str) -> ast.expr:
    """`valid(src)` -> `valid_rows(src)`."""
    if not isinstance(tree, ast.Call):
        raise ValueError(f"'{ast.unparse(tree)}' stands beside a pair of extents")
    return ast.Call(ast.Name(name, ast.Load()), tree.args, [])
