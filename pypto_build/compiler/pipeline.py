"""Runs the passes in order, each followed by its verifier; on request, dumps the program after each."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from pypto_build.facts.dtypes import BOOL, INDEX, DType
from pypto_build.facts.positions import SourcePosition

from .errors import CompileError
from .expand import expand_mixed, verify_members
from .infer import check_program, infer_types, verify_types
from .ir import (
    Block,
    Const,
    IrFunction,
    Launch,
    Op,
    Operand,
    Program,
    Ref,
    ScalarType,
    TileType,
    Value,
    ValueKind,
    Values,
)
from .memory import infer_memory, verify_memory
from .operations import OPERATIONS, TO_RANKS
from .plan import plan_addresses, verify_addresses
from .ssa import convert_to_ssa, map_op, map_operand, verify_ssa

# Flatten nested calls: one operation a statement, and inline functions replaced by their bodies.


def flatten_calls(program: Program) -> Program:
    """Return the program with every nested operation replaced by a value, and with inline functions expanded."""
    flat: dict[str, IrFunction] = {}
    for function in program.functions.values():
        values = function.values.copy()
        body = _Flattener(values).block(function.body)
        flat[function.name] = replace(function, body=_Inliner(values, flat).block(body), values=values)
    kept = {name: f for name, f in flat.items() if f.kind != "inline"}
    return replace(program, functions=kept)


class _Fresh:
    """Generates names for values that the program does not name."""

    def __init__(self, values: Values) -> None:
        self.values = values
        self.count = 0

    def name(self, stem: str) -> str:
        while True:
            name = f"{stem}{self.count}"
            self.count += 1
            if name not in self.values:
                return name

    def temporary(self, position: SourcePosition) -> Ref:
        name = self.name("tmp")
        return self.values.add(Value(name, name, ValueKind.TEMPORARY, position, name))

    def renamed(self, value: Value) -> Ref:
        """Return a new reference for a variable of an inline function, in the function where it is expanded."""
        name = self.name(f"{value.name}_")
        return self.values.add(replace(value, name=name, stem=name))


class _Flattener:
    def __init__(self, values: Values) -> None:
        self.fresh = _Fresh(values)

    def block(self, block: Block) -> Block:
        flat = Block(params=block.params)
        for op in block.ops:
            self.statement(op, flat.ops)
        flat.yields = tuple(self.operand(y, flat.ops) for y in block.yields)
        return flat

    def statement(self, op: Op, out: list[Op]) -> None:
        if op.name == "copy" and isinstance(op.args[0], Op):  # the value gets the variable's name at once
            inner = op.args[0]
            out.append(replace(self.plain(inner, out), results=op.results))
            return
        out.append(self.plain(op, out))

    def plain(self, op: Op, out: list[Op]) -> Op:
        args = tuple(self.operand(a, out) for a in op.args)
        attrs = dict(op.attrs)
        if "launch" in attrs:
            attrs["launch"] = op.launch.map(lambda operand: self.operand(operand, out))
        return replace(op, args=args, attrs=attrs, blocks=tuple(self.block(b) for b in op.blocks))

    def operand(self, operand: Operand, out: list[Op]) -> Operand:
        if isinstance(operand, tuple):
            return tuple(self.operand(item, out) for item in operand)
        if not isinstance(operand, Op):
            return operand
        held = self.fresh.temporary(operand.position)
        out.append(replace(self.plain(operand, out), results=(held.name,)))
        return held


class _Inliner:
    def __init__(self, values: Values, expanded: dict[str, IrFunction]) -> None:
        self.expanded = expanded
        self.fresh = _Fresh(values)

    def block(self, block: Block) -> Block:
        expanded = Block(params=block.params, yields=block.yields)
        for op in block.ops:
            callee = self.expanded.get(op.callee) if op.name == "call" else None
            if callee is None or callee.kind != "inline":
                expanded.ops.append(replace(op, blocks=tuple(self.block(b) for b in op.blocks)))
                continue
            expanded.ops += self.expand(op, callee)
        return expanded

    def expand(self, op: Op, callee: IrFunction) -> list[Op]:
        """Return the callee's body with renamed variables, then its result under the name of the call's result."""
        assigned = {name for inner in callee.body.walk() for name in inner.defines}
        names = {name: self.fresh.renamed(callee.values[name]) for name in sorted(assigned)}
        values: dict[str, Operand] = {p.name: arg for p, arg in zip(callee.params, op.args, strict=True)}
        parameters = sorted(values.keys() & names.keys())
        ops = [Op("copy", (values[name],), results=(names[name].name,), position=op.position) for name in parameters]
        values = {**values, **names}
        body = _renamed(callee.body, values)
        if callee.is_library:
            for inner in body.walk():
                inner.position = op.position
            for ref in names.values():
                self.fresh.values.add(replace(self.fresh.values[ref.name], position=op.position))
        ops += body.ops
        if len(op.results) != len(body.yields) and (op.results or not body.yields):
            raise CompileError(
                op.position, f"{callee.name} returns {len(body.yields)} values, but {len(op.results)} are used"
            )
        for name, value in zip(op.results, body.yields, strict=False):
            ops.append(Op("copy", (value,), results=(name,), position=op.position))
        return ops


def _renamed(block: Block, values: dict[str, Operand]) -> Block:
    def change(ref: Ref) -> Operand:
        return values.get(ref.name, ref)

    def name_of(name: str) -> str:
        value = values.get(name)
        return value.name if isinstance(value, Ref) else name

    renamed = Block(
        params=tuple(map(name_of, block.params)), yields=tuple(map_operand(y, change) for y in block.yields)
    )
    for op in block.ops:
        new = map_op(op, change)
        new.results = tuple(map(name_of, op.results))
        new.blocks = tuple(_renamed(b, values) for b in op.blocks)
        renamed.ops.append(new)
    return renamed


# Splits the tiles of a kernel between the two vector cores of a group: each lane has half the rows or columns.
# The kernel is written for whole tiles. A tile with more than one row (or column) is halved; a tile that is
# broadcast along that axis stays whole. Loads and stores go to the lane's half; the first lane alone stores common
# values. An operation that would need the other lane's half is an error.

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
                function.position, f"{function.name} has split=, but runs only on the cube core", "remove split="
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
                raise self.error(
                    op,
                    f"{tile} cannot be divided between the two vector cores",
                    "use a tile with more than one row and column",
                )
            return
        extent = tile.shape[self.axis]
        shape, valid = list(tile.shape), list(tile.valid)
        if valid[self.axis] != extent:
            raise self.error(
                op,
                f"only a part of the {_AXES[self.axis]} of {tile} holds data, so it cannot be split there",
                "split along the other axis",
            )
        shape[self.axis] = valid[self.axis] = extent // 2
        half = replace(tile, shape=(shape[0], shape[1]), valid=(valid[0], valid[1]))
        run = half.shape[0] if half.is_column else half.shape[1]
        if extent % 2 or run * tile.dtype.size % 32:
            raise self.error(
                op, f"half of {tile} is {half}, which does not consist of whole 32-byte blocks", "use a larger tile"
            )
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
        raise self.error(op, f"needs {_AXES[self.axis]} that are in the other vector core", f"use {where}")

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
        """Return the axis of the tensor that corresponds to the split axis of its tile."""
        rank = len(self.values.tensor(tensor.name).shape)
        if self.axis == 0 and (rank < 2 or any(e != Const(1) for e in shape[:-2])):
            raise self.error(op, "the rows belong to several matrices", "load each matrix separately")
        return rank - 2 + self.axis

    def moved(self, op: Op, axis: int, half: int) -> Operand:
        """Return the offsets of a load or store, shifted to the lane's half."""
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
        """Return an operation that only the first lane executes, because both would do the same."""
        if self.first is None:
            lane, name = self.lane(), "is_first_lane"
            self.head.append(Op("s.eq", (lane, Const(0)), {"dtype": INDEX}, (name,), position=self.function.position))
            self.first = self.values.make(name, self.function.position, ScalarType(BOOL))
        return Op("if", (self.first,), blocks=(Block([op]), Block()), position=op.position)


def verify_lanes(function: IrFunction) -> None:
    """Verify that pushes, pops and frees use the function's split: a lane pops half of a pushed tile."""
    for op in function.body.walk():
        if op.name in ("push", "pop", "free") and op.attrs["split"] != function.split + 1:
            raise CompileError(op.position, f"{op.name} is not split as {function.name} is")


# A program as text: what `--dump-passes` writes. It is Python in the form of PyPTO's dumps, so that one reader serves
# both: loops and branches pass values on by `yield_`, names of one statement have their types declared before it.


def program_text(program: Program) -> str:
    return "\n".join(function_text(f) for f in program.functions.values())


def function_text(function: IrFunction) -> str:
    params = ", ".join(f"{p.name}: {p.direction.value}[{p.type}]" for p in function.params)
    words = [w for w in (function.kind, function.core, function.group and f"group={function.group}") if w]
    lines = [f"# {' '.join(words)}, {function.position.at_line}", f"def {_identifier(function.name)}({params}):"]
    if function.pipe is not None:
        p = function.pipe
        lines.append(f"    # pipe: directions {p.mask}, {p.slots} slots of {p.slot_size} bytes")
    lines += _indented(_block(function.body, function, ()))
    if function.body.yields:
        lines.append(f"    return {_listed(function.body.yields)}")
    return "\n".join(lines) + "\n"


def _identifier(name: str) -> str:
    """Return the name of a function as an identifier; names of library functions contain dots."""
    return name.replace(".", "_")


def _indented(lines: list[str]) -> list[str]:
    return [f"    {line}" for line in lines or ["pass"]]


def _block(block: Block, function: IrFunction, results: tuple[str, ...]) -> list[str]:
    """Return the lines of a block, with its yields assigned to `results`."""
    lines = [line for op in block.ops for line in _op(op, function)]
    if results and block.yields:
        lines += _defined(results, function, f"pl.yield_({_listed(block.yields)})")
    return lines


def _defined(results: tuple[str, ...], function: IrFunction, right: str) -> list[str]:
    if len(results) < 2:
        return [f"{_typed(results[0], function)} = {right}" if results else right]
    declared = [_typed(name, function) for name in results if name in function.types]
    return [*declared, f"{', '.join(results)} = {right}"]


def _op(op: Op, function: IrFunction) -> list[str]:
    blocks = [_indented(_block(block, function, op.results)) for block in op.blocks]
    match op.name:
        case "for":
            index, *carried = op.blocks[0].params
            start, stop, step, *initial = op.args
            heads = [_loop(index, carried, "pl.range", (start, stop, step), initial)]
        case "while":
            condition = _block(op.blocks[0], function, ())
            blocks = [_indented([*condition, f"pl.cond({_listed(op.blocks[0].yields)})"]) + blocks[1]]
            heads = [_loop("_", list(op.blocks[0].params), "pl.while_", (), list(op.args))]
        case "if":
            heads = [f"if {operand_text(op.args[0])}:", "else:"]
            if not op.blocks[1].ops and not op.blocks[1].yields:
                blocks.pop()
        case _ if op.blocks:
            heads = [f"with {_call_text(op)}:"]
        case _:
            return _defined(op.results, function, _call_text(op))
    return [line for head, lines in zip(heads, blocks, strict=False) for line in (head, *lines)]


def _loop(index: str, carried: list[str], name: str, bounds: tuple[Operand, ...], initial: list[Operand]) -> str:
    arguments = [operand_text(bound) for bound in bounds]
    if not carried or not initial:
        return f"for {index} in {name}({', '.join(arguments)}):"
    arguments.append(f"init_values=({_listed(initial)},)")
    return f"for {index}, ({', '.join(carried)},) in {name}({', '.join(arguments)}):"


def _call_text(op: Op) -> str:
    name = _identifier(op.callee) if "callee" in op.attrs else f"pl.{op.name}"
    marks = []
    if "launch" in op.attrs:
        launch, marks = op.launch, _marks(op.launch)
        if launch.blocks is not None:
            name += f"[{operand_text(launch.blocks)}{', sync_start' if launch.sync_start else ''}]"
    attrs = [f"{k}={_attr(v)}" for k, v in op.attrs.items() if k not in ("callee", "launch") and v not in ("", None)]
    return f"{name}({', '.join([*map(operand_text, op.args), *attrs, *marks])})"


def _marks(launch: Launch) -> list[str]:
    """Return the text of a task's launch options."""
    marks = [f"deps={operand_text(launch.deps)}"] if launch.deps else []
    marks += [f"dumps={operand_text(launch.dumps)}"] if launch.dumps else []
    marks += ["allow_early_resolve=True"] if launch.early_resolve else []
    if launch.predicate is not None:
        p = launch.predicate
        marks.append(f"predicate=pl.{p.op}({operand_text(p.tensor)}{operand_text(p.indices)}, {p.target})")
    return marks


def _attr(value: object) -> str:
    return str(value) if isinstance(value, DType) else repr(value)


def _typed(name: str, function: IrFunction) -> str:
    type_ = function.types.get(name)
    if type_ is None:
        return name
    address = f" @ {function.addresses[name]}" if name in function.addresses and isinstance(type_, TileType) else ""
    return f"{name}: {type_}{address}"


def _listed(operands: Iterable[Operand]) -> str:
    return ", ".join(map(operand_text, operands))


def operand_text(operand: Operand) -> str:
    match operand:
        case Ref(name):
            return name
        case Const(float() as value) if not math.isfinite(value):
            return f'float("{value}")'
        case Const(value):
            return repr(value)
        case tuple():
            return f"[{_listed(operand)}]"
        case Op():
            return _call_text(operand)


@dataclass(frozen=True)
class Pass:
    """A compiler pass: `run` returns the new program, `verify` checks each of its functions."""

    name: str
    run: Callable[[Program], Program]
    verify: Callable[[IrFunction], None]


def verify_flat(function: IrFunction) -> None:
    """Verify that no operation is an argument of another one, and that no inline function is left."""
    for op in function.body.walk():
        if any(isinstance(a, Op) for a in op.args) or function.kind == "inline":
            raise CompileError(op.position, f"{op.name} is still nested")


def verify_checked(function: IrFunction) -> None:
    verify_types(function)
    verify_ssa(function)


def verify_values(function: IrFunction) -> None:
    """Verify that every value has a recorded origin."""
    for op in function.body.walk():
        for name in op.defines:
            if name not in function.values:
                raise CompileError(op.position, f"{op.name} defines {name}, of which nothing is known")


def verify(one: Pass, program: Program) -> None:
    """Check the result of a pass. Raises CompileError naming the pass: the fault is ours, not the program's."""
    try:
        for function in program.functions.values():
            one.verify(function)
            verify_values(function)
    except CompileError as error:
        raise CompileError(error.position, f"{one.name} left a wrong program: {error.message}") from None


PASSES = (
    Pass("flatten_calls", flatten_calls, verify_flat),
    Pass("convert_to_ssa", convert_to_ssa, verify_ssa),
    Pass("infer_types", infer_types, verify_checked),
    Pass("infer_memory", infer_memory, verify_memory),
    Pass("expand_mixed", expand_mixed, verify_members),
    Pass("split_lanes", split_lanes, verify_lanes),
    Pass("plan_addresses", plan_addresses, verify_addresses),
)


def run_passes(program: Program, dumps: dict[str, str] | None = None) -> Program:
    """Return the program after all passes.

    `dumps` receives `passes_dump/NN_….py` with the text after each pass. Raises CompileError at the user's line; an
    error of a verifier is a fault of the pass before it and says so.
    """
    if dumps is not None:
        dumps["passes_dump/00_frontend.py"] = program_text(program)
    for number, one in enumerate(PASSES, 1):
        with _naming(one, program):
            program = one.run(program)
        if dumps is not None:
            dumps[f"passes_dump/{number:02}_after_{one.name}.py"] = program_text(program)
        verify(one, program)
        if one.name == "infer_types":
            with _naming(one, program):
                check_program(program)
    return program


@contextmanager
def _naming(one: Pass, program: Program) -> Iterator[None]:
    """Add the name of a pass to errors raised in the block."""
    with own_faults(one.name, program):
        try:
            yield
        except CompileError as error:
            error.stage = one.name
            raise


@contextmanager
def own_faults(stage: str, program: Program) -> Iterator[None]:
    """Convert any other exception in the block to an error of one line that says it is a fault of the compiler."""
    try:
        yield
    except (AssertionError, AttributeError, LookupError, TypeError, ValueError) as error:
        message = f"the compiler pass {stage} failed: {type(error).__name__}: {error}"
        raise CompileError(
            program.position, message, "report this as a bug of the compiler; the program is not at fault"
        ) from error
