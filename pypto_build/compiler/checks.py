"""Checks that the declared directions of a program's tensors match its reads and writes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from .errors import CompileError
from .ir import Block, Direction, IrFunction, IrParam, Op, Program
from .values import Ref, WindowType

# The tensors that an operation reads and writes, and the directions of a function's parameters.

#: By operation of a kernel: the operand that is a written tensor, here or on another rank; and the read one.
WRITTEN = {"store": 2, "write": 0, "notify": 0, "put": 0, "get": 0}
READ = {"load": 0, "read": 0, "wait": 0, "put": 2, "get": 2}
_VIEWS = ("slice", "reshape", "index")


def written_tensors(function: IrFunction, callees: Mapping[str, IrFunction]) -> dict[str, Op]:
    """Parameters of an orchestration or host program that a call writes, views included, with the operation."""
    return _written((p.name for p in function.tensors()), function.body, callees)


def _written(params: Iterable[str], body: Block, callees: Mapping[str, IrFunction]) -> dict[str, Op]:
    source: dict[str, str] = {name: name for name in params}
    writers: dict[str, Op] = {}
    for op in body.walk():
        operands = [op.args[WRITTEN[op.name]]] if op.name in WRITTEN else []
        if op.name in _VIEWS and isinstance(op.args[0], Ref) and op.args[0].name in source:
            source[op.result] = source[op.args[0].name]
        if op.name == "call" and op.callee in callees:
            pairs = zip(callees[op.callee].params, op.args, strict=True)
            operands = [arg for param, arg in pairs if param.direction is not Direction.IN]
        for operand in operands:
            if isinstance(operand, Ref) and operand.name in source:
                writers.setdefault(source[operand.name], op)
    return writers


def with_directions(function: IrFunction, body: Block, callees: Mapping[str, IrFunction]) -> tuple[IrParam, ...]:
    """The function's parameters; tensors in windows that do not say so are written if something writes them."""
    names = (p.name for p in function.windows() if p.direction is Direction.IN)
    written = _written(names, body, callees)
    return tuple(
        replace(p, direction=Direction.INOUT) if isinstance(p.type, WindowType) and p.name in written else p
        for p in function.params
    )


def check_program(program: Program) -> None:
    """Raises CompileError: a kernel that writes what it declares In, an output that nothing writes, …"""
    for kernel in program.kernels:
        _check_kernel(kernel)
    for entry in program.entries:
        check_entry(entry, program.functions)


def _check_kernel(kernel: IrFunction) -> None:
    read: dict[str, bool] = {}
    written: dict[str, bool] = {}
    for op in kernel.body.walk():
        for table, accesses in ((WRITTEN, written), (READ, read)):
            operand = op.args[table[op.name]] if op.name in table else None
            if isinstance(operand, Ref):
                accesses[operand.name] = True
                param = next((p for p in kernel.params if p.name == operand.name), None)
                if accesses is written and param is not None and param.direction is Direction.IN:
                    name = param.variable
                    raise CompileError(
                        op.position, f"{kernel.name} writes {name}, which is an input", "declare it pl.Out or pl.InOut"
                    )
    for param in kernel.tensors():
        name = param.variable
        if param.direction is not Direction.IN and param.name not in written:
            raise CompileError(
                kernel.position, f"{kernel.name} never writes its output {name}", "store to it, or declare it an input"
            )
        if param.direction is Direction.OUT and param.name in read:
            raise CompileError(
                kernel.position, f"{kernel.name} reads {name}, which it only declares Out", "declare it pl.InOut"
            )


def check_entry(entry: IrFunction, callees: Mapping[str, IrFunction]) -> None:
    """Raises CompileError for an input that a task or dispatch writes, and for an output that none does."""
    written = written_tensors(entry, callees)
    for param in entry.tensors():
        name = param.variable
        if param.direction is Direction.IN and param.name in written:
            raise CompileError(
                written[param.name].position,
                f"{entry.name}: {name} is an input, but is written here",
                "declare it pl.InOut",
            )
        if param.direction is not Direction.IN and param.name not in written:
            raise CompileError(entry.position, f"{entry.name}: no kernel writes its output {name}")
