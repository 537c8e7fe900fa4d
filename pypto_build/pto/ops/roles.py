"""Assigns written values to roles: the operation's forms matched against the count and the types of its values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..types import (
    LocalArrayType,
    MultiTileType,
    OpaqueType,
    PtrType,
    ScalarType,
    TileType,
    Type,
    ViewType,
)
from .spec import OpDef, Role, Variant

if TYPE_CHECKING:
    from ..model import Operation


def fits(kind: str, type_: Type) -> bool:
    """Return whether a value of this type may stand in a role of this kind."""
    if kind == "any":
        return True
    if isinstance(type_, ScalarType):
        if kind in ("index", "int"):
            return not type_.is_float
        return kind == "scalar" or (kind == "float" and type_.is_float) or (kind == "bool" and type_.name == "i1")
    if isinstance(type_, ViewType):
        if type_.kind == "memref":
            return (
                kind in ("shaped", "entry", "ptr") or (kind == "tile") != (type_.space == "gm") or type_.space.isdigit()
            )
        return kind in ("part", "view", "shaped", "entry")
    if isinstance(type_, TileType):
        return kind in ("tile", "shaped", "entry")
    if isinstance(type_, PtrType):
        return kind in ("ptr", "part")
    if isinstance(type_, MultiTileType):
        return kind == "tiles"
    if isinstance(type_, LocalArrayType):
        return kind == "array"
    return kind == "array" and isinstance(type_, OpaqueType) and "array" in type_.name


def counts(roles: Sequence[Role]) -> tuple[int, int]:
    """Return the min and max number of values that these roles take (-1: no limit)."""
    low = sum(not (role.optional or role.many) for role in roles)
    return low, -1 if any(role.many for role in roles) else len(roles)


def _count_fits(roles: Sequence[Role], count: int) -> bool:
    low, high = counts(roles)
    return low <= count and (high < 0 or count <= high)


def choose_variant(definition: OpDef, ins: int, outs: int, types: Sequence[Type]) -> int | None:
    """Return the first form that takes so many values and, if several do, these types; None if no form fits."""
    possible = [
        number
        for number, form in enumerate(definition.variants)
        if _count_fits(form.ins, ins) and _count_fits(form.outs, outs)
    ]
    if len(possible) < 2:
        return possible[0] if possible else None
    for number in possible:
        kinds = spread(definition.variants[number].ins, ins)
        if all(fits(role.kind, type_) for role, type_ in zip(kinds, types, strict=False)):
            return number
    return possible[0]


def generic_roles(definition: OpDef, types: Sequence[Type]) -> tuple[Role, ...] | None:
    """Return the roles of the values of the quoted form, which lists them in one row; None if no form fits."""
    for form in definition.variants:
        roles = form.roles()
        if _count_fits(roles, len(types)) and all(
            fits(role.kind, type_) for role, type_ in zip(spread(roles, len(types)), types, strict=True)
        ):
            return roles
    return None


def spread(roles: Sequence[Role], count: int) -> list[Role]:
    """Return the role of each of `count` positional values; optional roles are dropped from the right until the
    count fits.
    """
    low, _ = counts(roles)
    spare = count - low
    taken: list[Role] = []
    for role in roles:
        if role.many:
            taken += [role] * max(spare, 0)
            spare = 0
        elif not role.optional:
            taken.append(role)
        elif spare > 0:
            taken.append(role)
            spare -= 1
    return taken


def assign(op: Operation, roles: Sequence[Role], values: Sequence[str], types: Sequence[Type]) -> None:
    """Assign positional values, and their types in the text, to their roles."""
    for position, role in enumerate(spread(roles, len(values))):
        name = role.name
        op.operands[name] = (*op.operands.get(name, ()), values[position])
        if position < len(types):
            op.types[name] = (*op.types.get(name, ()), types[position])


def describe_variants(definition: OpDef) -> str:
    """Return `ins(src, scalar[, tmp]) outs(dst)`, alternatives joined by `or`."""
    seen = dict.fromkeys(_describe(form) for form in definition.variants)
    return " or ".join(seen)


def _describe(form: Variant) -> str:
    groups = []
    for word, roles in (("ins", form.ins), ("outs", form.outs)):
        if roles:
            groups.append(f"{word}({', '.join(f'[{r.name}]' if r.optional else r.name for r in roles)})")
    return " ".join(groups)
