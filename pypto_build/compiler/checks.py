"""Checks that the declared directions of a program's tensors match its reads and writes."""

from __future__ import annotations

from collections.abc import Mapping

from .accesses import READ, WRITTEN, written_tensors
from .errors import CompileError
from .ir import Direction, IrFunction, Program
from .values import Ref


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
