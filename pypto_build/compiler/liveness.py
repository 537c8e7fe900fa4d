"""Finds the tiles that are live at the same time, by walking the structured program backwards."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from pypto_build.pto.ops import TABLE, OpDef
from pypto_build.pto.ops.constraints import Facts, TileFacts
from pypto_build.pto.ops.device import constraints
from pypto_build.pto.types import TileType as PtoTile
from pypto_build.pto.types import parse_type

from .ir import Block, IrFunction, Op, Operand
from .operations import OPERATIONS
from .pto_text import tile_text
from .ssa import free_names, op_refs, refs
from .values import Ref, TileType, Values

# The operands that an instruction may take in the bytes of its result, by the rules of the devices.
# The same rows (`pto/ops/device.py`) check modules, so that they accept every plan. Rules of every platform count:
# the choice of a platform follows the compilation.


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


@dataclass
class Liveness:
    """`edges`: tiles that must not share bytes. `inplace`: (result, operand) pairs that may share an address but not
    overlap otherwise. `after`: tiles live behind each operation, by its identity. `order`: tiles as defined."""

    edges: dict[str, set[str]] = field(default_factory=dict)
    inplace: set[tuple[str, str]] = field(default_factory=set)
    after: dict[int, frozenset[str]] = field(default_factory=dict)
    order: list[tuple[str, Op]] = field(default_factory=list)

    def interfere(self, a: str, b: str) -> None:
        if a != b:
            self.edges.setdefault(a, set()).add(b)
            self.edges.setdefault(b, set()).add(a)


def analyse(function: IrFunction) -> Liveness:
    return _Walk(function).run()


def scratch_name(op: Op) -> str:
    """The name of an operation's scratch tile."""
    return f"{op.result}__scratch"


class _Walk:
    def __init__(self, function: IrFunction) -> None:
        self.values = function.values
        self.body = function.body
        self.found = Liveness()

    def run(self) -> Liveness:
        self.block(self.body, frozenset())
        self.found.order = list(self.defined(self.body))
        return self.found

    def defined(self, block: Block) -> Iterator[tuple[str, Op]]:
        for op in block.ops:
            if op.name == "for":
                yield from ((p, op) for p in op.blocks[0].params if self.values.is_tile(p))
            for inner in op.blocks:
                yield from self.defined(inner)
            for name in op.results:
                if self.values.is_tile(name):
                    if self.values.is_tile(scratch_name(op)):
                        yield scratch_name(op), op
                    yield name, op

    def tiles(self, operands: Iterator[str] | set[str]) -> frozenset[str]:
        return frozenset(n for n in operands if self.values.is_tile(n))

    def operands(self, values: tuple[Operand, ...]) -> frozenset[str]:
        return self.tiles({n for v in values for n in refs(v)})

    def block(self, block: Block, live: frozenset[str]) -> frozenset[str]:
        """Return the tiles live before the block, given those live behind it (its yields included)."""
        for op in reversed(block.ops):
            live = self.op(op, live)
        return live

    def op(self, op: Op, live: frozenset[str]) -> frozenset[str]:
        results = self.tiles(set(op.results))
        self.found.after[id(op)] = live | results
        self.clash(results, live - results)
        behind = live - results
        if op.name == "for":
            body = op.blocks[0]
            around = behind | self.tiles(free_names(body))
            inside = self.block(body, self.operands(body.yields) | around)
            params = self.tiles(set(body.params))
            self.clash(params, (inside - params) | around)
            return around | self.operands(op.args)
        if op.name == "if":
            before = behind
            for block in op.blocks:
                before |= self.block(block, self.operands(block.yields) | behind)
            return before
        operands = self.tiles(set(op_refs(op)))
        self.instruction(op, results, operands, behind)
        return behind | operands

    def instruction(self, op: Op, results: frozenset[str], operands: frozenset[str], behind: frozenset[str]) -> None:
        aliases = op.name == "reshape" or (op.name == "transpose" and self.values.space(op.result) == "mat")
        for result in results:
            for operand in operands - behind:
                if (op.name == "matmul_acc" and operand in set(refs(op.args[0]))) or aliases:
                    continue
                if may_share(op, self.values, result, operand):
                    self.found.inplace.add((result, operand))
                else:
                    self.found.interfere(result, operand)
            if self.values.is_tile(scratch_name(op)):
                self.clash(frozenset({scratch_name(op)}), behind | operands | results)

    def clash(self, tiles: frozenset[str], live: frozenset[str]) -> None:
        for a in tiles:
            for b in live | tiles:
                self.found.interfere(a, b)
