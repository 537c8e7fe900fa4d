"""Checks of what a program says about its tensors: directions declared against what is read and written."""

from __future__ import annotations

from .emit_tasks import written_tensors
from .errors import CompileError
from .ir import Direction, Function, Program, Ref


def check_program(program: Program) -> None:
    """Raises CompileError: a kernel that writes what it declares In, an output that nothing writes, …"""
    for kernel in program.kernels:
        _check_kernel(kernel)
    for entry in program.entries:
        _check_entry(entry, program)


def _check_kernel(kernel: Function) -> None:
    read: dict[str, bool] = {}
    written: dict[str, bool] = {}
    for op in kernel.body.walk():
        target = {"store": 2, "write": 0}.get(op.name)
        source = {"load": 0, "read": 0}.get(op.name)
        for position, found in ((target, written), (source, read)):
            operand = op.args[position] if position is not None else None
            if isinstance(operand, Ref):
                found[operand.name] = True
                param = next((p for p in kernel.params if p.name == operand.name), None)
                if found is written and param is not None and param.direction is Direction.IN:
                    name = param.name.partition("__")[0]
                    raise CompileError(
                        op.place, f"{kernel.name} writes {name}, which is an input", "declare it pl.Out or pl.InOut"
                    )
    for param in kernel.tensors():
        name = param.name.partition("__")[0]
        if param.direction is not Direction.IN and param.name not in written:
            raise CompileError(
                kernel.place, f"{kernel.name} never writes its output {name}", "store to it, or declare it an input"
            )
        if param.direction is Direction.OUT and param.name in read:
            raise CompileError(
                kernel.place, f"{kernel.name} reads {name}, which it only declares Out", "declare it pl.InOut"
            )


def _check_entry(entry: Function, program: Program) -> None:
    written = written_tensors(entry, program.functions)
    for param in entry.tensors():
        name = param.name.partition("__")[0]
        if param.direction is Direction.IN and param.name in written:
            place = written[param.name].place
            raise CompileError(place, f"{entry.name}: {name} is an input, but is written here", "declare it pl.InOut")
        if param.direction is not Direction.IN and param.name not in written:
            raise CompileError(entry.place, f"{entry.name}: no kernel writes its output {name}")
