"""Tiles that have to be the same bytes: views of one tile, an accumulator, and what loops and conditions carry.

Where carrying would overwrite a tile that is still needed, a copy is put in.
"""

from __future__ import annotations

from collections.abc import Iterator

from .errors import CompileError
from .ir import Block, IrFunction, Op, Operand
from .liveness import Liveness, analyse
from .values import Ref


class Webs:
    """Sets of tiles that share their bytes."""

    def __init__(self, live: Liveness) -> None:
        self.live = live
        self.parent: dict[str, str] = {}
        self.members: dict[str, set[str]] = {}

    def find(self, name: str) -> str:
        while self.parent.get(name, name) != name:
            name = self.parent[name]
        return name

    def of(self, name: str) -> set[str]:
        return self.members.get(self.find(name), {name})

    def union(self, a: str, b: str) -> None:
        x, y = self.find(a), self.find(b)
        if x != y:
            both = self.of(x) | self.of(y)
            self.parent[y] = x
            self.members[x] = both

    def clash(self, a: str, b: str) -> bool:
        """Return whether the two sets cannot be joined."""
        if self.find(a) == self.find(b):
            return False
        others = self.of(b)
        return any(self.live.edges.get(m, set()) & others for m in self.of(a))


def coalesce(function: IrFunction) -> tuple[IrFunction, Liveness, Webs]:
    """The function, with copies where needed, and its sets of tiles. Raises CompileError where no copy is possible."""
    while True:
        live = analyse(function)
        webs = Webs(live)
        for op in function.body.walk():
            if op.name == "reshape" or (op.name == "transpose" and function.values.space(op.result) == "mat"):
                webs.union(op.ref(0).name, op.result)
        for op in function.body.walk():
            if op.name == "matmul_acc":
                acc = op.ref(0).name
                if webs.clash(acc, op.result):
                    raise CompileError(
                        op.position,
                        f"pl.matmul_acc overwrites {function.values[acc].variable}, which is used again later",
                        "use the result from there on",
                    )
                webs.union(acc, op.result)
        if not _carry(function, webs):
            return function, live, webs


def _name(operand: Operand) -> str:
    """The name of a tile that is passed on."""
    if not isinstance(operand, Ref):
        raise TypeError("a tile is a value")
    return operand.name


def _carry(function: IrFunction, webs: Webs) -> bool:
    """Join carried values; True if copies were inserted, so that all has to be checked again."""
    for block in _blocks(function.body):
        for op in list(block.ops):
            if op.name == "for" and _carry_loop(function, webs, op, block):
                return True
            if op.name == "if":
                copied = [_join(function, webs, op, inner, op.results) for inner in op.blocks]
                if True in copied:
                    return True
    return False


def _carry_loop(function: IrFunction, webs: Webs, op: Op, block: Block) -> bool:
    body = op.blocks[0]
    for number, (result, param) in enumerate(zip(op.results, body.params[1:], strict=True)):
        if not function.values.is_tile(result):
            continue
        webs.union(result, param)
        init = op.args[3 + number]
        if webs.clash(_name(init), result):
            op.args = _with(op.args, 3 + number, _copy(function, op, init, block, op))
            return True
        webs.union(_name(init), result)
    return _join(function, webs, op, body, op.results)


def _join(function: IrFunction, webs: Webs, op: Op, block: Block, results: tuple[str, ...]) -> bool:
    """Join the yields of a block with the results that receive them; return whether copies were inserted.

    All clashing yields are copied at once, so even a swap ends: the copy of a copy finds its space free.
    """
    clashing = []
    for number, result in enumerate(results):
        if not function.values.is_tile(result):
            continue
        if webs.clash(_name(block.yields[number]), result):
            clashing.append(number)
        else:
            webs.union(_name(block.yields[number]), result)
    for number in clashing:
        block.yields = _with(block.yields, number, _copy(function, op, block.yields[number], block, None))
    return bool(clashing)


def _with(items: tuple[Operand, ...], number: int, new: Operand) -> tuple[Operand, ...]:
    return (*items[:number], new, *items[number + 1 :])


def _blocks(block: Block) -> Iterator[Block]:
    yield block
    for op in block.ops:
        for inner in op.blocks:
            yield from _blocks(inner)


def _copy(function: IrFunction, at: Op, operand: Operand, block: Block, before: Op | None) -> Ref:
    """A copy of a tile at the end of a block, or before one of its operations."""
    name = _name(operand)
    type_ = function.values.tile(name)
    if type_.space != "vec":
        variable = function.values[name].variable
        raise CompileError(
            at.position, f"{variable} is needed again after it was carried on, and {type_.space} cannot be copied",
            "use a second variable, computed from the start",
        )  # fmt: skip
    copy = f"{name}_copy"
    while copy in function.values:
        copy += "_"
    op = Op("copy_tile", (operand,), results=(copy,), position=at.position)
    block.ops.insert(block.ops.index(before) if before is not None else len(block.ops), op)
    return function.values.derive(copy, name, type_)
