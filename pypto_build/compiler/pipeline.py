"""The passes in their order, each followed by its verifier; on request, a dump of the program after each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from pypto_build.facts.dtypes import DType

from .checks import check_program
from .errors import CompileError
from .expand import expand_mixed, verify_members
from .flatten import flatten_calls
from .infer import infer_types, verify_types
from .ir import Block, IrFunction, Launch, Op, Operand, Program
from .memory import infer_memory, verify_memory
from .plan import plan_addresses, verify_addresses
from .split import split_lanes, verify_lanes
from .ssa import convert_to_ssa, verify_ssa
from .values import Const, Ref, TileType

# A program as text: what `--dump-passes` writes.


def program_text(program: Program) -> str:
    return "\n".join(function_text(f) for f in program.functions.values())


def function_text(function: IrFunction) -> str:
    params = ", ".join(f"{p.name}: {p.direction.value} {p.type}" for p in function.params)
    words = [w for w in (function.kind, function.core, function.group and f"group={function.group}") if w]
    lines = [f"# {' '.join(words)}, {function.position.at_line}", f"def {function.name}({params}):"]
    if function.pipe is not None:
        p = function.pipe
        lines.append(f"    # pipe: directions {p.mask}, {p.slots} slots of {p.slot_size} bytes")
    _block(function.body, function, "    ", lines)
    return "\n".join(lines) + "\n"


def _block(block: Block, function: IrFunction, indent: str, lines: list[str]) -> None:
    if not block.ops and not block.yields:
        lines.append(f"{indent}pass")
    for op in block.ops:
        _op(op, function, indent, lines)
    if block.yields:
        lines.append(f"{indent}yield {', '.join(map(operand_text, block.yields))}")


def _op(op: Op, function: IrFunction, indent: str, lines: list[str]) -> None:
    results = ", ".join(_typed(name, function) for name in op.results)
    left = f"{results} = " if results else ""
    if op.name == "for":
        start, stop, step, *inits = map(operand_text, op.args)
        carried = ", ".join(f"{p} = {i}" for p, i in zip(op.blocks[0].params[1:], inits, strict=True))
        note = f" carrying {carried}" if carried else ""
        lines.append(f"{indent}{left}for {op.blocks[0].params[0]} in range({start}, {stop}, {step}){note}:")
        _block(op.blocks[0], function, indent + "    ", lines)
        return
    if op.name == "while":
        carried = ", ".join(
            f"{p} = {operand_text(i)}" for p, i in zip(op.blocks[0].params, op.args, strict=bool(op.args))
        )
        lines.append(f"{indent}{left}while{f' carrying {carried}' if carried else ''}:")
        _block(op.blocks[0], function, indent + "    ", lines)
        lines.append(f"{indent}do:")
        _block(op.blocks[1], function, indent + "    ", lines)
        return
    if op.name == "if":
        lines.append(f"{indent}{left}if {operand_text(op.args[0])}:")
        _block(op.blocks[0], function, indent + "    ", lines)
        if op.blocks[1].ops or op.blocks[1].yields:
            lines.append(f"{indent}else:")
            _block(op.blocks[1], function, indent + "    ", lines)
        return
    lines.append(f"{indent}{left}{_call_text(op)}{':' if op.blocks else ''}")
    for block in op.blocks:
        _block(block, function, indent + "    ", lines)


def _call_text(op: Op) -> str:
    name = op.attrs.get("callee", op.name)
    marks = []
    if "launch" in op.attrs:
        launch, marks = op.launch, _marks(op.launch)
        if launch.blocks is not None:
            name += f"[{operand_text(launch.blocks)}{', sync_start' if launch.sync_start else ''}]"
    attrs = [f"{k}={_attr(v)}" for k, v in op.attrs.items() if k not in ("callee", "launch") and v not in ("", None)]
    return f"{name}({', '.join([*map(operand_text, op.args), *attrs, *marks])})"


def _marks(launch: Launch) -> list[str]:
    """Return the marks of a task beside its arguments."""
    marks = [f"deps={operand_text(launch.deps)}"] if launch.deps else []
    marks += [f"dumps={operand_text(launch.dumps)}"] if launch.dumps else []
    marks += ["allow_early_resolve"] if launch.early_resolve else []
    if launch.predicate is not None:
        p = launch.predicate
        marks.append(f"predicate={operand_text(p.tensor)}{operand_text(p.indices)} {p.op} {p.target}")
    return marks


def _attr(value: object) -> str:
    return str(value) if isinstance(value, DType) else repr(value)


def _typed(name: str, function: IrFunction) -> str:
    type_ = function.types.get(name)
    if type_ is None:
        return name
    address = f" @{function.addresses[name]}" if name in function.addresses and isinstance(type_, TileType) else ""
    return f"{name}: {type_}{address}"


def operand_text(operand: Operand) -> str:
    match operand:
        case Ref(name):
            return name
        case Const(value):
            return repr(value)
        case tuple():
            return f"[{', '.join(map(operand_text, operand))}]"
        case Op():
            return _call_text(operand)


@dataclass(frozen=True)
class Pass:
    """`run` makes the new program, `verify` looks at each of its functions."""

    name: str
    run: Callable[[Program], Program]
    verify: Callable[[IrFunction], None]


def verify_flat(function: IrFunction) -> None:
    """No operation has another one as its argument, and no inline function is left."""
    for op in function.body.walk():
        if any(isinstance(a, Op) for a in op.args) or function.kind == "inline":
            raise CompileError(op.position, f"{op.name} is still nested")


def verify_checked(function: IrFunction) -> None:
    verify_types(function)
    verify_ssa(function)


def verify_values(function: IrFunction) -> None:
    """It is known of every value where it comes from."""
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
    """The program ready for emission. `dumps` receives `passes_dump/NN_….txt` with the text after each pass.

    Raises CompileError at the user's line; what a verifier finds is a fault of the pass before it and says so.
    """
    if dumps is not None:
        dumps["passes_dump/00_frontend.txt"] = program_text(program)
    for number, one in enumerate(PASSES, 1):
        with _naming(one, program):
            program = one.run(program)
        if dumps is not None:
            dumps[f"passes_dump/{number:02}_after_{one.name}.txt"] = program_text(program)
        verify(one, program)
        if one.name == "infer_types":
            with _naming(one, program):
                check_program(program)
    return program


@contextmanager
def _naming(one: Pass, program: Program) -> Iterator[None]:
    """An error in here says which pass it came from."""
    with own_faults(one.name, program):
        try:
            yield
        except CompileError as error:
            error.stage = one.name
            raise


@contextmanager
def own_faults(stage: str, program: Program) -> Iterator[None]:
    """Whatever else is raised in here is a fault of the compiler, and says so in a line."""
    try:
        yield
    except (AssertionError, AttributeError, LookupError, TypeError, ValueError) as error:
        message = f"{stage} failed: {type(error).__name__}: {error}"
        raise CompileError(program.position, message, "a fault of the compiler, not of the program") from error
