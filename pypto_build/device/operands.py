"""The operation that a C++ instruction stands for, and the roles of its arguments.

An instruction takes its outputs, inputs and scratch in the order of the operation's roles, then modes; `_ORDERS` has
the exceptions.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

from pypto_build.pto.ops import TABLE, OpDef, Role, Variant
from pypto_build.pto.ops.constraints import Facts
from pypto_build.pto.ops.device import constrained
from pypto_build.pto.types import Type

from .tiles import Names

_ORDERS = {
    "TPARTARGMAX": ("dst", "src0", "src1", "dstidx", "idx0", "idx1"),
    "TPARTARGMIN": ("dst", "src0", "src1", "dstidx", "idx0", "idx1"),
    "TMRGSORT": ("dst", "executed", "tmp", "src0", "src1", "src2", "src3"),
    "TQUANT": ("dst", "src", "scale", "tmp"),
}
_MODES = {
    "cmpMode": re.compile(r"CmpMode::(\w+)"), "rmode": re.compile(r"RoundMode::CAST_(\w+)"),
    "atomicType": re.compile(r"AtomicType::Atomic(\w+)"), "maskPattern": re.compile(r"MaskPattern::(\w+)"),
    "accToVecMode": re.compile(r"AccToVecMode::(\w+)"),
}  # fmt: skip
_PREFIXES = {"cmpMode": "", "atomicType": "atomic_"}  # of those that .pto spells in small letters


@cache
def _operations() -> dict[str, tuple[OpDef, ...]]:
    """The constrained operations by the C++ instruction that they become."""
    operations: dict[str, tuple[OpDef, ...]] = {}
    for name in constrained():
        row = TABLE[name]
        operations[row.cpp] = (*operations.get(row.cpp, ()), row)
    return operations


def bound(names: Names, callee: str, arguments: list[str], call: str) -> tuple[OpDef, Facts] | None:
    """Return the operation and its operands; None for an operation without rules, or an unsupported call."""
    for row in _operations().get(callee, ()):
        for variant in row.variants:
            for roles in _orders(callee, variant, len(arguments)):
                if all(_fits(names, role, text) for role, text in zip(roles, arguments, strict=False)):
                    return row, _facts(names, row, variant, roles, arguments, call)
    return None


def _orders(callee: str, variant: Variant, count: int) -> Iterator[tuple[Role, ...]]:
    """Yield the roles of the first arguments: with the optional ones, and without."""
    roles = {role.name: role for role in (*variant.outs, *variant.ins)}
    order = [role for name in _ORDERS.get(callee, ()) if (role := roles.get(name))]
    if len(order) < len(_ORDERS.get(callee, ())) - 2 or not order:
        order = list(roles.values())
    needed = tuple(role for role in order if not role.optional)
    for chosen in (tuple(order), needed):
        if len(chosen) <= count:
            yield chosen


def _fits(names: Names, role: Role, text: str) -> bool:
    if role.kind in ("tile", "shaped", "entry"):
        return text in names.tiles
    return text not in names.tiles


def _facts(
    names: Names, row: OpDef, variant: Variant, roles: tuple[Role, ...], arguments: list[str], call: str
) -> Facts:
    written = dict(zip((role.name for role in roles), arguments, strict=False))
    if "tmp" in written and written["tmp"] == written.get("src"):
        del written["tmp"]  # an operation without scratch is given its source
    tiles = {name: names.tiles[text].facts() for name, text in written.items() if text in names.tiles}
    scalars: dict[str, tuple[Type | None, int | None]] = {
        name: (None, names.number(text)) for name, text in written.items() if text not in names.tiles
    }
    attrs = {name: _word(name, match[1]) for name, mode in _MODES.items() if (match := mode.search(call))}
    return Facts(tiles, scalars, attrs, tuple(role.name for role in variant.ins), frozenset(written))


def _word(name: str, word: str) -> str:
    return f"{_PREFIXES[name]}{word.lower()}" if name in _PREFIXES else word
