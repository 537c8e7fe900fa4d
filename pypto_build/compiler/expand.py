"""Expands mixed kernels: one member for each core, with pushes and pops where a tile crosses between them.

Both members do numbers and control flow, so both run through the same pushes and pops. A popped tile is used in its
slot and freed behind its last use. A tile that lives on in a loop, or as another view, is copied first.
"""

from __future__ import annotations

from dataclasses import replace

from pypto_build.facts.dtypes import FP32, INDEX

from .emit_pto import GM_PIPE_BUFFER
from .errors import CompileError
from .ir import (
    Block,
    Const,
    Direction,
    IrFunction,
    Op,
    Operand,
    PipePlan,
    Program,
    Ref,
    ScalarType,
    TensorParam,
    TensorType,
    TileType,
    Values,
)
from .memory import SIDES, side_of
from .operations import TO_RANKS, called
from .ssa import mentions, op_refs, prune, refs

_PRODUCER = {"vec": "aic", "mat": "aiv"}
MAX_SLOTS = 8


def expand_mixed(program: Program) -> Program:
    functions: dict[str, IrFunction] = {}
    pipes: dict[str, PipePlan] = {}
    for name, function in program.functions.items():
        if function.core != "mixed":
            functions[name] = function
            continue
        _check_ranks(function)
        pipe = pipes[name] = _pipe(function)
        for core in ("aic", "aiv"):
            member = _member(function, core, pipe, program.arch)
            functions[member.name] = member
    if pipes and program.arch != "a5":
        for entry in [f for f in functions.values() if f.kind == "orchestration"]:
            functions[entry.name] = _with_buffers(entry, pipes)
    _mark_launched(functions)
    return replace(program, functions=functions)


def _mark_launched(functions: dict[str, IrFunction]) -> None:
    """Mark kernels that a task launches on blocks; all members of a group are marked together."""
    calls = [op for f in functions.values() if f.kind == "orchestration" for op in f.body.walk() if op.name == "call"]
    launched = {op.callee for op in calls if op.launch.blocks is not None}
    for function in functions.values():
        function.spmd = bool({function.name, function.group} & launched)


def _check_ranks(function: IrFunction) -> None:
    """Raise CompileError for a signal to other ranks in a mixed kernel: one core cannot know the progress of the
    other.
    """
    for op in function.body.walk():
        if op.name in TO_RANKS:
            raise CompileError(
                op.position,
                (
                    f"{called(op.name)} is used in {function.name}, which runs on both cores, so the "
                    "other core may not have reached this point"
                ),
                "put this operation into a separate kernel",
            )


def _pipe(function: IrFunction) -> PipePlan:
    crossings = [op for op in function.body.walk() if op.name == "cross"]
    mask, size = 0, 0
    counts = {"vec": 0, "mat": 0}
    for op in crossings:
        target = op.attrs["target"]
        counts[target] += 1
        mask |= 1 if target == "vec" else 2
        size = max(size, function.values.tile(op.result).bytes)
    if max(counts.values()) > MAX_SLOTS:
        raise CompileError(
            function.position,
            (
                f"{function.name}: {max(counts.values())} tiles cross between the cores in one "
                f"direction, but a pipe has only {MAX_SLOTS} slots"
            ),
            "split the kernel",
        )  # fmt: skip
    # both directions of a two-way pipe take turns in one ring
    slots = max(4, sum(counts.values())) if mask == 3 else max(2, *counts.values())
    return PipePlan(mask, size, slots)


def _member(function: IrFunction, core: str, pipe: PipePlan, arch: str) -> IrFunction:
    maker = _Member(function, core)
    body = maker.block(function.body)
    dims = {
        d.name for t in maker.values.types.values() if isinstance(t, TileType) for d in t.valid if isinstance(d, Ref)
    }
    prune(body, frozenset(dims))
    maker.free(body)
    params = function.params
    if arch != "a5":
        buffer = TensorType((pipe.buffer_bytes // 4,), FP32)
        maker.values.make(GM_PIPE_BUFFER, function.position, buffer)
        params = (*params, TensorParam(maker.values[GM_PIPE_BUFFER], buffer, Direction.OUT))
    return replace(
        function, name=f"{function.name}_{core}", params=params, body=body, values=maker.values, core=core,
        group=function.name, pipe=pipe,
    )  # fmt: skip


class _Member:
    def __init__(self, function: IrFunction, core: str) -> None:
        self.function = function
        self.core = core
        self.values = function.values.copy()

    def mine(self, name: str) -> bool:
        """Return whether a value exists on this core; numbers exist on both."""
        return not self.values.is_tile(name) or (self.values.space(name) == "vec") == (self.core == "aiv")

    def block(self, block: Block) -> Block:
        out: list[Op] = []
        for op in block.ops:
            if op.name == "cross":
                self.cross(op, out)
            elif op.name in ("for", "if"):
                out.append(self.control(op))
            elif side_of(op, self.function) in ("", SIDES[self.core]):
                out.append(replace(op))
        return Block(out, block.params, block.yields)

    def cross(self, op: Op, out: list[Op]) -> None:
        if _PRODUCER[op.attrs["target"]] == self.core:
            out.append(Op("push", op.args, {"split": self.function.split + 1}, position=op.position))
        else:
            out.append(Op("pop", (), {"split": self.function.split + 1}, op.results, position=op.position))

    def control(self, op: Op) -> Op:
        keep = [n for n, name in enumerate(op.results) if self.mine(name)]
        blocks = []
        for source in op.blocks:
            block = self.block(source)
            block.yields = tuple(source.yields[n] for n in keep)
            if op.name == "for":
                block.params = (source.params[0], *(source.params[1 + n] for n in keep))
            blocks.append(block)
        args = (*op.args[:3], *(op.args[3 + n] for n in keep)) if op.name == "for" else op.args
        return replace(op, args=args, results=tuple(op.results[n] for n in keep), blocks=tuple(blocks))

    # --- freeing slots -----------------------------------------------------------------------------------------------

    def free(self, block: Block) -> None:
        """Free popped slots in the order of their pops; a free may have to wait for an earlier one."""
        for op in block.ops:
            for inner in op.blocks:
                self.free(inner)
        ops = block.ops
        for op in [o for o in ops if o.name == "pop"]:
            if not self.in_place(op, block):
                self.copy(op, block)
        freed = -1
        for op in [o for o in ops if o.name == "pop"]:
            last = max((n for n, user in enumerate(ops) if op.result in mentions(user)), default=ops.index(op))
            freed = max(last, freed, ops.index(op))
            ops.insert(freed + 1, Op("free", (), {"split": self.function.split + 1}, position=op.position))
            freed += 1

    def in_place(self, op: Op, block: Block) -> bool:
        name = op.result
        start = block.ops.index(op)
        if self.values.tile(name).is_column or name in {n for y in block.yields for n in refs(y)}:
            return False
        users = [user for user in block.ops[start:] if name in mentions(user)]
        for user in users:
            inner = [user, *(o for b in user.blocks for o in b.walk())]
            for one in inner:
                carried = one.name in ("for", "if") and (
                    name in set(op_refs(one)) or any(name in {n for y in b.yields for n in refs(y)} for b in one.blocks)
                )
                if carried or (one.name in ("reshape", "transpose") and name in set(op_refs(one))):
                    return False
        if not users:
            return True
        last = block.ops.index(users[-1])
        between = block.ops[start + 1 : last + 1]
        return not any(o.name == "pop" for user in between for b in user.blocks for o in b.walk())

    def copy(self, op: Op, block: Block) -> None:
        name = op.result
        slot = self.values.derive(f"{name}_slot", name, self.values.tile(name))
        op.results = (slot.name,)
        block.ops.insert(block.ops.index(op) + 1, Op("copy_tile", (slot,), results=(name,), position=op.position))


def _times(blocks: Operand | None, elements: int, name: str, op: Op, values: Values, out: list[Op]) -> Const | Ref:
    """Return the number of elements of a buffer for all blocks of a launch: elements of one block times blocks."""
    if blocks is None or isinstance(blocks, Const):
        return Const(elements * (int(blocks.value) if blocks else 1))
    out.append(Op("s.mul", (blocks, Const(elements)), {"dtype": INDEX}, (name,), position=op.position))
    return values.make(name, op.position, ScalarType(INDEX))


def _with_buffers(entry: IrFunction, pipes: dict[str, PipePlan]) -> IrFunction:
    """Allocate global memory for the pipe slots at each submission of a group, and pass it as the group's last
    tensor.
    """
    values = entry.values.copy()
    count = 0

    def change(block: Block) -> Block:
        nonlocal count
        out: list[Op] = []
        for op in block.ops:
            new = replace(op, blocks=tuple(change(b) for b in op.blocks))
            pipe = pipes.get(op.callee) if op.name == "call" else None
            if pipe is not None:
                name = f"gm_pipe_buffer_{count}"
                count += 1
                extent = _times(op.launch.blocks, pipe.buffer_bytes // 4, f"{name}_extent", op, values, out)
                dim = int(extent.value) if isinstance(extent, Const) else extent
                values.make(name, op.position, TensorType((dim,), FP32))
                out.append(
                    Op(
                        "create_tensor",
                        ((extent,),),
                        {"dtype": FP32, "manual_dep": True},
                        (name,),
                        position=op.position,
                    )
                )
                new.args = (*new.args, Ref(name))
            out.append(new)
        return Block(out, block.params, block.yields)

    return replace(entry, body=change(entry.body), values=values)


def verify_members(function: IrFunction) -> None:
    """Verify that no tile of a member crosses cores without a push or pop, and that no mixed kernel is left."""
    if function.core == "mixed":
        raise CompileError(function.position, f"{function.name} is still a mixed kernel")
    for op in function.body.walk():
        side = side_of(op, function) if function.core in SIDES else ""
        if side and side != SIDES[function.core]:
            raise CompileError(
                op.position, f"{op.name} is an operation of the {side} core, but is used in {function.name}"
            )
