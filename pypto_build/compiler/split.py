"""Splits the tiles of a kernel between the two vector cores of a group: each lane has half the rows or columns.

The kernel is written for whole tiles. A tile with more than one row (or column) is halved; a tile that is broadcast
along that axis stays whole. Loads and stores go to the lane's half; the first lane alone stores common values. An
operation that would need the other lane's half is an error.
"""

from __future__ import annotations

from dataclasses import replace

from pypto_build.facts.dtypes import BOOL, INDEX

from .errors import CompileError
from .ir import Block, IrFunction, Op, Operand, Program
from .operations import OPERATIONS, TO_RANKS
from .values import Const, Ref, ScalarType

LANE = "subblock_idx"
_AXES = ("rows", "columns")
_MODES = ("pl.Split.UpDown", "pl.Split.LeftRight")
# rules of operations whose result for half a tile is half the result: with half the rows, with half the columns
_SEPARATE = {
    "binary": (True, True), "unary": (True, True), "cast": (True, True), "full": (True, True),
    "create_tile": (True, True), "fillpad": (True, True), "row_expand": (True, True), "col_expand": (True, True),
    "expand_row": (True, True), "expand_col": (True, True), "row_reduce": (True, False), "col_reduce": (False, True),
    "concat": (True, False), "cmp": (True, False), "select": (True, False), "gather_mask": (True, False),
    "sort32": (True, False), "mrgsort": (True, False),
}  # fmt: skip


def split_lanes(program: Program) -> Program:
    functions = {
        name: _Lanes(f).run() if f.kind == "kernel" and f.split >= 0 and f.core == "aiv" else f
        for name, f in program.functions.items()
    }
    for function in functions.values():
        if function.split >= 0 and function.core == "aic" and not function.group:
            raise CompileError(
                function.position, f"{function.name} is split, but runs on the cube core alone", "leave out split="
            )
    return replace(program, functions=functions)


class _Lanes:
    def __init__(self, function: IrFunction) -> None:
        self.function = function
        self.axis = function.split
        self.values = function.values.copy()
        self.halved: set[str] = set()
        self.offsets: dict[int, Ref] = {}
        self.first: Ref | None = None
        self.head: list[Op] = []  # numbers computed once, at the start
        self.before: list[Op] = []  # numbers that the operation at hand needs

    def run(self) -> IrFunction:
        for op in self.function.body.walk():
            for name in op.defines:
                self.halve(name, op)
        body = self.block(self.function.body)
        body.ops[:0] = self.head
        return replace(self.function, body=body, values=self.values)

    # --- types -------------------------------------------------------------------------------------------------------

    def halve(self, name: str, op: Op) -> None:
        if name in self.halved or not self.values.is_tile(name):
            return
        tile = self.values.tile(name)
        if tile.space != "vec" or tile.valid[self.axis] == 1:
            if op.name == "pop":
                raise self.error(op, f"{tile} has nothing to share", "cross a tile of more than one row and column")
            return
        extent = tile.shape[self.axis]
        shape, valid = list(tile.shape), list(tile.valid)
        if valid[self.axis] != extent:
            raise self.error(op, f"only part of the {_AXES[self.axis]} of {tile} holds data", "split the other axis")
        shape[self.axis] = valid[self.axis] = extent // 2
        half = replace(tile, shape=(shape[0], shape[1]), valid=(valid[0], valid[1]))
        run = half.shape[0] if half.is_column else half.shape[1]
        if extent % 2 or run * tile.dtype.size % 32:
            raise self.error(op, f"half of {tile} is {half}, which is not whole 32-byte blocks", "take a larger tile")
        self.values.types[name] = half
        self.halved.add(name)

    def error(self, op: Op, message: str, hint: str) -> CompileError:
        return CompileError(op.position, f"{_MODES[self.axis]}: {op.name}: {message}", hint)

    # --- operations --------------------------------------------------------------------------------------------------

    def block(self, block: Block) -> Block:
        out: list[Op] = []
        for op in block.ops:
            if op.blocks:
                out.append(replace(op, blocks=tuple(self.block(b) for b in op.blocks)))
            elif op.name in ("load", "store"):
                transfer = self.load(op) if op.name == "load" else self.store(op)
                out += [*self.before, transfer]
                self.before = []
            elif op.name == "write":
                out.append(self.once(op))
            elif op.name in TO_RANKS:
                raise self.error(op, "the other vector core may not have reached this point", "use a separate kernel")
            else:
                self.check(op)
                out.append(op)
        return Block(out, block.params, block.yields)

    def check(self, op: Op) -> None:
        spec = OPERATIONS.get(op.name)
        names = {a.name for a in op.args if isinstance(a, Ref)} | set(op.results)
        if spec is None or not names & self.halved or _SEPARATE.get(spec.rule, (False, False))[self.axis]:
            return
        where = "a kernel of its own" if spec.rule not in ("row_reduce", "col_reduce") else _MODES[1 - self.axis]
        raise self.error(op, f"needs {_AXES[self.axis]} that the other vector core has", f"use {where}")

    def load(self, op: Op) -> Op:
        if op.result not in self.halved:
            return op
        axis, extents = self.tensor_axis(op, op.ref(0), op.items(2)), list(op.items(2))
        half = self.values.tile(op.result).shape[self.axis]
        extents[axis] = Const(half)
        return replace(op, args=(op.args[0], self.moved(op, axis, half), tuple(extents), *op.args[3:]))

    def store(self, op: Op) -> Op:
        tile = op.ref(0)
        if tile.name not in self.halved:
            return self.once(op)
        half = self.values.tile(tile.name).shape[self.axis]
        axis = self.tensor_axis(op, op.ref(2), ())
        return replace(op, args=(tile, self.moved(op, axis, half), *op.args[2:]))

    def tensor_axis(self, op: Op, tensor: Ref, shape: tuple[Operand, ...]) -> int:
        """The axis of the tensor that the split axis of its tile lies along."""
        rank = len(self.values.tensor(tensor.name).shape)
        if self.axis == 0 and (rank < 2 or any(e != Const(1) for e in shape[:-2])):
            raise self.error(op, "the rows are those of several matrices", "load them one by one")
        return rank - 2 + self.axis

    def moved(self, op: Op, axis: int, half: int) -> Operand:
        """The offsets of a load or store, on from the start of the lane's half."""
        here, at = self.offset(half), list(op.items(1))
        if at[axis] == Const(0):
            at[axis] = here
        else:
            name = self.fresh("lane_at")
            self.before.append(Op("s.add", (at[axis], here), {"dtype": INDEX}, (name,), position=op.position))
            at[axis] = self.values.make(name, op.position, ScalarType(INDEX))
        return tuple(at)

    def fresh(self, stem: str) -> str:
        number = 0
        while f"{stem}_{number}" in self.values:
            number += 1
        return f"{stem}_{number}"

    def lane(self) -> Ref:
        if LANE not in self.values:
            self.values.make(LANE, self.function.position, ScalarType(INDEX))
            self.head.append(Op("get_subblock_idx", (), {}, (LANE,), position=self.function.position))
        return Ref(LANE)

    def offset(self, half: int) -> Ref:
        """Return the offset of the lane's half."""
        if half not in self.offsets:
            lane, name = self.lane(), f"lane_times_{half}"
            self.head.append(
                Op("s.mul", (lane, Const(half)), {"dtype": INDEX}, (name,), position=self.function.position)
            )
            self.offsets[half] = self.values.make(name, self.function.position, ScalarType(INDEX))
        return self.offsets[half]

    def once(self, op: Op) -> Op:
        """Return an operation that only the first lane does, since both would do the same."""
        if self.first is None:
            lane, name = self.lane(), "is_first_lane"
            self.head.append(Op("s.eq", (lane, Const(0)), {"dtype": INDEX}, (name,), position=self.function.position))
            self.first = self.values.make(name, self.function.position, ScalarType(BOOL))
        return Op("if", (self.first,), blocks=(Block([op]), Block()), position=op.position)


def verify_lanes(function: IrFunction) -> None:
    """Verify that pushes, pops and frees are split as the function is: a lane pops half of a pushed tile."""
    for op in function.body.walk():
        if op.name in ("push", "pop", "free") and op.attrs["split"] != function.split + 1:
            raise CompileError(op.position, f"{op.name} is not split as {function.name} is")
