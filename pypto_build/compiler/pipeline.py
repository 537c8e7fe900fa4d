"""The passes in their order, each followed by its verifier; on request, a dump of the program after each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from .checks import check_program
from .errors import CompileError
from .expand import expand_mixed, verify_members
from .flatten import flatten_calls
from .infer import infer_types, verify_types
from .ir import IrFunction, Op, Program
from .memory import infer_memory, verify_memory
from .plan import plan_addresses, verify_addresses
from .split import split_lanes, verify_lanes
from .ssa import convert_to_ssa, verify_ssa
from .text import program_text


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
