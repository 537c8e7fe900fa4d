"""Split the tiles of a kernel between the two vector cores of a group: each lane has half the rows or columns.

The kernel is written for whole tiles. A tile with more than one row (or column) is halved, one that is broadcast along
that axis stays whole; loads and stores go to the lane's half, and what both lanes have is stored by the first alone. An
operation that would need the other lane's half is an error.
"""

from __future__ import annotations

from dataclasses import replace

from .dtypes import BOOL, INDEX
from .errors import CompileError
from .ir import Block, Const, Function, Op, Operand, Program, Ref, ScalarType, TensorType, TileType, Type
from .operations import OPERATIONS

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
                function.place, f"{function.name} is split, but runs on the cube core alone", "leave out split="
            )
    return replace(program, functions=functions)


class _Lanes:
    def __init__(self, function: Function) -> None:
        self.function = function
        self.axis = function.split
        self.types: dict[str, Type] = dict(function.types)
        self.halved: set[str] = set()
        self.offsets: dict[int, Ref] = {}
        self.first: Ref | None = None
        self.head: list[Op] = []  # numbers computed once, at the start
        self.before: list[Op] = []  # numbers that the operation at hand needs

    def run(self) -> Function:
        for op in self.function.body.walk():
            for name in (*op.results, *(p for b in op.blocks for p in b.params)):
                self.halve(name, op)
        body = self.block(self.function.body)
        body.ops[:0] = self.head
        return replace(self.function, body=body, types=self.types)

    # --- types -------------------------------------------------------------------------------------------------------

    def halve(self, name: str, op: Op) -> None:
        tile = self.types.get(name)
        if name in self.halved or not isinstance(tile, TileType) or tile.space != "vec" or tile.valid[self.axis] == 1:
            if op.name == "pop" and name not in self.halved:
                raise self.error(op, f"{tile} has nothing to share", "cross a tile of more than one row and column")
            return
        extent = tile.shape[self.axis]
        shape, valid = list(tile.shape), list(tile.valid)
        if valid[self.axis] != extent:
            raise self.error(op, f"only part of the {_AXES[self.axis]} of {tile} holds data", "split the other axis")
        shape[self.axis] = valid[self.axis] = extent // 2
        made = replace(tile, shape=(shape[0], shape[1]), valid=(valid[0], valid[1]))
        run = made.shape[0] if made.is_column else made.shape[1]
        if extent % 2 or run * tile.dtype.size % 32:
            raise self.error(op, f"half of {tile} is {made}, which is not whole 32-byte blocks", "take a larger tile")
        self.types[name] = made
        self.halved.add(name)

    def error(self, op: Op, message: str, hint: str) -> CompileError:
        return CompileError(op.place, f"{_MODES[self.axis]}: {op.name}: {message}", hint)

    # --- operations --------------------------------------------------------------------------------------------------

    def block(self, block: Block) -> Block:
        out: list[Op] = []
        for op in block.ops:
            if op.blocks:
                out.append(replace(op, blocks=tuple(self.block(b) for b in op.blocks)))
            elif op.name in ("load", "store"):
                made = self.load(op) if op.name == "load" else self.store(op)
                out += [*self.before, made]
                self.before = []
            elif op.name == "write":
                out.append(self.once(op))
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
        tensor, offsets, shape = op.args[:3]
        assert isinstance(shape, tuple)
        axis = self.tensor_axis(op, tensor, shape)
        extents = list(shape)
        extent = extents[axis]
        assert isinstance(extent, Const)
        extents[axis] = Const(int(extent.value) // 2)
        return replace(op, args=(tensor, self.moved(op, offsets, axis, int(extent.value) // 2), tuple(extents)))

    def store(self, op: Op) -> Op:
        tile, offsets, tensor = op.args
        assert isinstance(tile, Ref)
        if tile.name not in self.halved:
            return self.once(op)
        made = self.types[tile.name]
        assert isinstance(made, TileType)
        axis = self.tensor_axis(op, tensor, ())
        return replace(op, args=(tile, self.moved(op, offsets, axis, made.shape[self.axis]), tensor))

    def tensor_axis(self, op: Op, tensor: Operand, shape: tuple[Operand, ...]) -> int:
        """The axis of the tensor that the split axis of its tile lies along."""
        assert isinstance(tensor, Ref)
        type_ = self.types[tensor.name]
        assert isinstance(type_, TensorType)
        rank = len(type_.shape)
        if self.axis == 0 and (rank < 2 or any(e != Const(1) for e in shape[:-2])):
            raise self.error(op, "the rows are those of several matrices", "load them one by one")
        return rank - 2 + self.axis

    def moved(self, op: Op, offsets: Operand, axis: int, half: int) -> Operand:
        assert isinstance(offsets, tuple)
        here, at = self.offset(half), list(offsets)
        if at[axis] == Const(0):
            at[axis] = here
        else:
            name = self.fresh("lane_at")
            self.types[name] = ScalarType(INDEX)
            self.before.append(Op("s.add", (at[axis], here), {"dtype": INDEX}, (name,), place=op.place))
            at[axis] = Ref(name)
        return tuple(at)

    def fresh(self, stem: str) -> str:
        number = 0
        while f"{stem}_{number}" in self.types:
            number += 1
        return f"{stem}_{number}"

    def lane(self) -> Ref:
        if LANE not in self.types:
            self.types[LANE] = ScalarType(INDEX)
            self.head.append(Op("get_subblock_idx", (), {}, (LANE,), place=self.function.place))
        return Ref(LANE)

    def offset(self, half: int) -> Ref:
        """Where the lane's half begins."""
        if half not in self.offsets:
            lane, name = self.lane(), f"lane_times_{half}"
            self.types[name] = ScalarType(INDEX)
            self.head.append(Op("s.mul", (lane, Const(half)), {"dtype": INDEX}, (name,), place=self.function.place))
            self.offsets[half] = Ref(name)
        return self.offsets[half]

    def once(self, op: Op) -> Op:
        """What both lanes would do alike is done by the first."""
        if self.first is None:
            lane, name = self.lane(), "is_first_lane"
            self.types[name] = ScalarType(BOOL)
            self.head.append(Op("s.eq", (lane, Const(0)), {"dtype": INDEX}, (name,), place=self.function.place))
            self.first = Ref(name)
        return Op("if", (self.first,), blocks=(Block([op]), Block()), place=op.place)


def verify_lanes(function: Function) -> None:
    """What a lane pops is half of what the cube core pushes, and the slots say so."""
    for op in function.body.walk():
        if op.name in ("push", "pop", "free") and op.attrs["split"] != function.split + 1:
            raise CompileError(op.place, f"{op.name} is not split as {function.name} is")
