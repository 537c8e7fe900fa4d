"""Checks of what a program says about its tensors: directions declared against what is read and written."""

from __future__ import annotations

from .errors import CompileError
from .ir import Direction, IrFunction, Op, Program, Ref


def check_program(program: Program) -> None:
    """Raises CompileError: a kernel that writes what it declares In, an output that nothing writes, …"""
    for kernel in program.kernels:
        _check_kernel(kernel)
    for entry in program.entries:
        _check_entry(entry, program)


def _check_kernel(kernel: IrFunction) -> None:
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


def _check_entry(entry: IrFunction, program: Program) -> None:
    written = _written_tensors(entry, program.functions)
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


def _written_tensors(function: IrFunction, kernels: dict[str, IrFunction]) -> dict[str, Op]:
    """Parameters of an orchestration that one of its tasks writes, views included, with the task."""
    source: dict[str, str] = {p.name: p.name for p in function.tensors()}
    found: dict[str, Op] = {}
    for op in function.body.walk():
        if op.name in ("slice", "reshape") and isinstance(op.args[0], Ref) and op.args[0].name in source:
            source[op.result] = source[op.args[0].name]
        if op.name == "write" and isinstance(op.args[0], Ref) and op.args[0].name in source:
            found.setdefault(source[op.args[0].name], op)
        if op.name != "call":
            continue
        callee = kernels[op.callee]
        for param, arg in zip(callee.params, op.args, strict=True):
            if param.direction is not Direction.IN and isinstance(arg, Ref) and arg.name in source:
                found.setdefault(source[arg.name], op)
    return found
