"""The operands that an instruction may take in the bytes of its result, by the rules of the devices.

The same rows (`pto/ops/device.py`) check modules, so that they accept every plan. Rules of every platform count: the
choice of a platform follows the compilation.
"""

from __future__ import annotations

from pypto_build.pto.ops import TABLE, OpDef
from pypto_build.pto.ops.constraints import Facts, TileFacts
from pypto_build.pto.ops.device import constraints
from pypto_build.pto.types import TileType as PtoTile
from pypto_build.pto.types import parse_type

from .ir import Op
from .operations import OPERATIONS
from .pto_text import tile_text
from .values import Ref, TileType, Values


def may_share(op: Op, values: Values, result: str, operand: str) -> bool:
    """Return whether the result may begin where the operand does."""
    spec = OPERATIONS.get(op.name)
    if spec is None or not spec.inplace:
        return False
    is_tile = [isinstance(arg, Ref) and values.is_tile(arg.name) for arg in op.args]
    row = TABLE[spec.pto if all(is_tile) or not spec.scalar else spec.scalar]
    roles = _roles(row, is_tile)
    tiles = {}
    for role, arg, tile in zip(roles, op.args, is_tile, strict=False):
        if tile and isinstance(arg, Ref):
            tiles[role] = _facts(values.tile(arg.name), "shared" if arg.name == operand else None)
    tiles["dst"] = _facts(values.tile(result), "shared")
    facts = Facts(tiles, {}, {}, roles)
    return not any(one.kind == "overlap" and one.is_broken(facts) for one in constraints(row.name))


def _roles(row: OpDef, is_tile: list[bool]) -> tuple[str, ...]:
    """The roles of the operands in the variant that takes tiles and numbers in this order."""
    for variant in row.variants:
        roles = [role for role in variant.ins if role.access != "s"]
        if [role.kind == "tile" for role in roles][: len(is_tile)] == is_tile:
            return tuple(role.name for role in roles)
    return tuple(role.name for role in row.variants[0].ins)


def _facts(tile: TileType, identity: str | None) -> TileFacts:
    type_ = parse_type(tile_text(tile, ""))
    assert isinstance(type_, PtoTile)
    return TileFacts(type_, identity=identity)
