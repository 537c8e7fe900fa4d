"""The tensors that an operation reads and writes, and the directions of a function's parameters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from .ir import Block, Direction, IrFunction, IrParam, Op
from .values import Ref, WindowType

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
