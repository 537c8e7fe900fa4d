"""Rules of the device on instructions as a run executed them: with the addresses and valid extents that it had."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from pypto_build.pto.ops.constraints import Constraint, Facts, TileFacts
from pypto_build.pto.types import element_bytes

from .kernel import OpenCall

READ, WRITE, SCRATCH = 1, 2, 16
#: The memories of tiles, as the runtime numbers them.
SPACES = ("vec", "mat", "left", "right", "acc", "bias", "scaling")


class ExecutedTile(NamedTuple):
    """An operand as the runtime recorded it; `address` is in bytes from the start of its memory."""

    space: int
    access: int
    element: int
    rows: int
    cols: int
    valid_rows: int
    valid_cols: int
    address: int


def broken_by(call: OpenCall, operands: Sequence[ExecutedTile]) -> Iterator[tuple[Constraint, str]]:
    """Yield the undecided rules of a call that it broke with these operands, and the message of each."""
    facts = _with_operands(call.facts, operands)
    for constraint in call.constraints:
        if constraint.is_broken(facts):
            yield constraint, f"{call.text} {constraint.explain(facts)}"


def _with_operands(facts: Facts, operands: Sequence[ExecutedTile]) -> Facts:
    """Return the facts with what a run adds. Tiles of one kind are recorded in the order of the roles."""
    left, tiles = list(operands), dict(facts.tiles)
    for role, tile in facts.tiles.items():
        match = next((one for one in left if _is(one, tile, role, role not in facts.roles_in_order)), None)
        if match is not None:
            left.remove(match)
            tiles[role] = replace(tile, rows=match.valid_rows, cols=match.valid_cols, address=match.address)
    return Facts(tiles, facts.scalars, facts.attrs, facts.roles_in_order, facts.roles, facts.parts)


def _is(operand: ExecutedTile, tile: TileFacts, role: str, is_result: bool) -> bool:
    """Return whether a recorded operand can be the tile of a role."""
    type_ = tile.type
    if operand.space >= len(SPACES) or SPACES[operand.space] != type_.loc:
        return False
    if (operand.rows, operand.cols, operand.element) != (type_.rows, type_.cols, element_bytes(type_.dtype)):
        return False
    if role.startswith("tmp"):
        return bool(operand.access & SCRATCH)
    return bool(operand.access & (WRITE if is_result else READ)) and not operand.access & SCRATCH
