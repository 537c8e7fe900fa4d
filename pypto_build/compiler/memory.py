"""Infers memory spaces and core types: the memory of each tile, and the core that runs a kernel.

Global memory -> Mat -> Left/Right -> matmul -> Acc on the cube core; global memory -> Vec -> … on the vector core. A
tile that one core makes and the other needs gets a `cross` operation, which makes the kernel mixed.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NoReturn

from .errors import CompileError
from .ir import Block, IrFunction, Op, Operand, Program, Ref, ScalarType, TileType
from .operations import OPERATIONS

SIDES = {"aic": "cube", "aiv": "vector"}
CUBE_SPACES = ("mat", "left", "right", "acc")
# where the operands of products have to be
_PRODUCTS = {"matmul": {0: "left", 1: "right"}, "matmul_acc": {1: "left", 2: "right"}}


def infer_memory(program: Program) -> Program:
    functions = {
        name: _Spaces(f).run() if f.kind == "kernel" else replace(f, core="") for name, f in program.functions.items()
    }
    return replace(program, functions=functions)


def infer_function_core_type(function: IrFunction) -> str:
    """Return `aic`, `aiv`, or `mixed` for a kernel with operations of both cores; `aiv` for a kernel without tiles."""
    sides = {side for op in function.body.walk() if (side := side_of(op, function))}
    return "mixed" if len(sides) == 2 else "aic" if sides == {"cube"} else "aiv"


def side_of(op: Op, function: IrFunction) -> str:
    """Return cube or vector; empty for operations of both cores. A data move belongs to the core whose memory it
    accesses.
    """
    spec = OPERATIONS.get(op.name)
    if op.name == "cross":
        return ""
    if op.name in ("load", "create_tile", "extract", "move", "transpose", "reshape", "copy_tile"):
        return _side_of_space(function, op.result)
    if op.name == "store":
        return _side_of_space(function, op.ref(0).name)
    return spec.side if spec else ""


def _side_of_space(function: IrFunction, name: str) -> str:
    return "cube" if function.values.tile(name).space in CUBE_SPACES else "vector"


class _Spaces:
    def __init__(self, function: IrFunction) -> None:
        self.function = function
        self.values = function.values.copy()
        self.natural: dict[str, str] = {}  # where the defining operation puts it
        self.needed: dict[str, set[str]] = {}  # by the uses: mat, vec, left, right
        self.webs: dict[str, set[str]] = {}  # values carried into each other
        self.split: dict[str, str] = {}  # a load used on both cores -> its second copy
        self.crossed: dict[tuple[str, str], str] = {}
        self.count = 0

    def run(self) -> IrFunction:
        body = self.function.body
        self.collect_webs(body)
        for _ in range(2):  # demands travel through extract, and natural spaces through carried values
            self.demand(body)
        settled = self.block(body)
        function = replace(self.function, body=settled, values=self.values)
        return replace(function, core=infer_function_core_type(function))

    # --- what is known -----------------------------------------------------------------------------------------------

    def collect_webs(self, block: Block) -> None:
        for op in block.ops:
            for inner in op.blocks:
                self.collect_webs(inner)
            groups: list[list[Operand]] = []
            if op.name == "for":
                body = op.blocks[0]
                rows = zip(op.results, body.params[1:], body.yields, op.args[3:], strict=True)
                groups = [[Ref(r), Ref(p), y, i] for r, p, y, i in rows]
            elif op.name == "if":
                groups = [[Ref(r), *(b.yields[n] for b in op.blocks)] for n, r in enumerate(op.results)]
            for group in groups:
                names = {o.name for o in group if isinstance(o, Ref) and self.values.is_tile(o.name)}
                merged = set().union(names, *(self.webs.get(n, set()) for n in names))
                for name in merged:
                    self.webs[name] = merged
            if op.name in _PRODUCTS:
                self.natural[op.result] = "acc"
            elif op.name in ("create_tile", "load", "move", "extract", "transpose", "reshape"):
                if op.attrs.get("target"):
                    self.natural[op.result] = op.attrs["target"]
            elif op.results and self.values.is_tile(op.result) and op.name not in ("for", "if"):
                self.natural[op.result] = "vec"

    def demand(self, block: Block) -> None:
        for op in reversed(block.ops):
            for inner in op.blocks:
                self.demand(inner)
            if op.name in _PRODUCTS:
                for number, space in _PRODUCTS[op.name].items():
                    self.want(op.args[number], space)
            elif op.name == "move":
                self.want(op.args[0], "mat" if op.attrs["target"] in ("left", "right") else "vec")
            elif op.name in ("extract", "transpose", "reshape"):
                spaces = self.needed_spaces(op.result)
                self.want(op.args[0], "mat" if spaces and spaces <= {"mat", "left", "right"} else "vec")
            elif OPERATIONS.get(op.name) and OPERATIONS[op.name].side == "vector":
                for arg in op.args:
                    self.want(arg, "vec")

    def want(self, operand: Operand, space: str) -> None:
        if isinstance(operand, Ref) and self.values.is_tile(operand.name):
            self.needed.setdefault(operand.name, set()).add(space)

    def needed_spaces(self, name: str) -> set[str]:
        return set().union(*(self.needed.get(n, set()) for n in self.webs.get(name, {name})))

    def space_of(self, name: str) -> str:
        """Return the space of a value: that of its operation, of a carried value, else the space that its uses need."""
        web = self.webs.get(name, {name})
        spaces = {self.natural[n] for n in web if n in self.natural}
        if "acc" in spaces:
            return "acc"
        if spaces:
            return sorted(spaces)[0]
        spaces_needed = self.needed_spaces(name)
        return "mat" if spaces_needed and spaces_needed <= {"mat", "left", "right"} else "vec"

    # --- rewriting ---------------------------------------------------------------------------------------------------

    def block(self, block: Block) -> Block:
        out: list[Op] = []
        for name in block.params:
            self.settle(name)
        for op in block.ops:
            self.op(op, out)
        return Block(out, block.params, block.yields)

    def settle(self, name: str, space: str = "") -> None:
        if self.values.is_tile(name):
            self.values.types[name] = self.in_space(name, space or self.space_of(name))

    def op(self, op: Op, out: list[Op]) -> None:
        op = replace(op, args=tuple(op.args), attrs=dict(op.attrs))
        if op.name in ("extract", "transpose", "reshape"):
            self.derived(op, self.space(op.ref(0).name))
        for name in op.results:
            self.settle(name, op.attrs.pop("space", ""))
        op.blocks = tuple(self.block(b) for b in op.blocks)
        if op.name in _PRODUCTS:
            spaces = _PRODUCTS[op.name]
            op.args = tuple(self.operand(op, n, spaces[n], out) if n in spaces else a for n, a in enumerate(op.args))
        elif op.name == "store":
            self.check_store(op)
        elif op.name == "move":
            op.args = (self.operand(op, 0, "mat" if op.attrs["target"] in ("left", "right") else "", out),)
        elif OPERATIONS.get(op.name) and OPERATIONS[op.name].side == "vector" and op.name not in (
            "reshape", "transpose", "write"
        ):  # fmt: skip
            op.args = tuple(
                self.operand(op, n, "vec", out) if isinstance(a, Ref) and self.values.is_tile(a.name) else a
                for n, a in enumerate(op.args)
            )
        out.append(op)
        if op.name == "load" and self.space(op.result) == "vec":
            self.second_load(op, out)
        for name in op.results:
            self.cross_where_needed(op, name, out)

    def in_space(self, name: str, space: str) -> TileType:
        return replace(self.values.tile(name), space=space)

    def space(self, name: str) -> str:
        return self.values.tile(name).space or self.space_of(name)

    def derived(self, op: Op, source: str) -> None:
        """Choose the space of a part or another view of a tile."""
        spaces_needed = self.needed_spaces(op.result)
        if source == "vec" or source == "acc":
            op.attrs["space"] = "vec"
        elif op.name != "extract":
            op.attrs["space"] = "mat"
        else:
            op.attrs["space"] = next(iter(spaces_needed)) if spaces_needed in ({"left"}, {"right"}) else "mat"

    def second_load(self, op: Op, out: list[Op]) -> None:
        """Duplicate a load whose result both cores use."""
        if self.needed_spaces(op.result) & {"left", "right", "mat"} and op.result not in self.webs:
            name = f"{op.result}_mat"
            self.values.derive(name, op.result, self.in_space(op.result, "mat"))
            self.split[op.result] = name
            out.append(replace(op, results=(name,)))

    def cross_where_needed(self, op: Op, name: str, out: list[Op]) -> None:
        """Insert a `cross` operation right after a tile's definition, if the other core needs the tile."""
        if not self.values.is_tile(name) or op.name == "load":
            return
        spaces_needed, space = self.needed.get(name, set()), self.values.tile(name).space
        if space == "acc" and "vec" in spaces_needed:
            self.cross(op, name, "vec", out)
        if space == "vec" and spaces_needed & {"left", "right", "mat"}:
            self.cross(op, name, "mat", out)

    def cross(self, op: Op, name: str, space: str, out: list[Op]) -> None:
        crossed = f"{name}__{'Vec' if space == 'vec' else 'Mat'}"
        self.values.derive(crossed, name, self.in_space(name, space))
        self.crossed[name, space] = crossed
        out.append(Op("cross", (Ref(name),), {"target": space}, (crossed,), position=op.position))

    def operand(self, op: Op, number: int, space: str, out: list[Op]) -> Operand:
        """Return the operand in the memory space that the instruction reads, moving it there if necessary."""
        ref = op.ref(number)
        name = ref.name
        here = self.space(name)
        if not space or here == space:
            return ref
        if space in ("left", "right"):
            if here == "vec":
                name = self.split.get(name) or self.crossed.get((name, "mat"), "")
                if not name:
                    self.fail(op, ref, space)
            elif here not in ("mat", "acc"):
                self.fail(op, ref, space)
            if here == "acc":
                name = self.moved(op, name, "mat", out)
            return Ref(self.moved(op, name, space, out))
        if (name, space) in self.crossed:
            return Ref(self.crossed[name, space])
        self.fail(op, ref, space)

    def moved(self, op: Op, name: str, space: str, out: list[Op]) -> str:
        moved = f"{name}_{space.capitalize()}{self.count or ''}"
        while moved in self.values:
            self.count += 1
            moved = f"{name}_{space.capitalize()}{self.count}"
        self.values.derive(moved, name, self.in_space(name, space))
        out.append(Op("move", (Ref(name),), {"target": space}, (moved,), position=op.position))
        return moved

    def fail(self, op: Op, ref: Ref, space: str) -> NoReturn:
        variable = self.values[ref.name].variable
        raise CompileError(
            op.position,
            f"pl.{op.name} needs {variable} in {space}, but it is in {self.space(ref.name)}",
            "load it again, or store it and load it in another kernel",
        )

    def check_store(self, op: Op) -> None:
        tile, tensor = self.values.tile(op.ref(0).name), self.values.tensor(op.ref(2).name)
        if tile.space != "acc" and tile.dtype != tensor.dtype:
            raise CompileError(
                op.position,
                f"pl.store: the dtype of the tile is {tile.dtype}, but that of the tensor is {tensor.dtype}",
                "convert it with pl.cast",
            )
        if tile.space in ("left", "right"):
            raise CompileError(op.position, f"pl.store: a tile in {tile.space} cannot be stored")


def verify_memory(function: IrFunction) -> None:
    """Verify that every tile of a kernel has a space, and that numbers and tensors have none."""
    if function.kind != "kernel":
        return
    for op in function.body.walk():
        for name in op.results:
            type_ = function.types[name]
            if isinstance(type_, TileType) and not type_.space:
                raise CompileError(op.position, f"{op.name}: no memory space for {name}")
            if isinstance(type_, ScalarType) and op.name == "load":
                raise CompileError(op.position, f"{op.name}: {name} is a number")
