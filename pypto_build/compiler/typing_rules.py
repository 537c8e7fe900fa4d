"""The type of typing rules, and the context that they query."""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

from pypto_build.pto.ssa_names import spelled

from .dtypes import BOOL, FP32, INDEX, DType
from .errors import CompileError
from .ir import Op, Operand
from .operations import OPERATIONS, called
from .values import Const, Dim, Ref, ScalarType, TaskType, TensorType, TileType, Type, Value, ValueKind, Values

#: An operation with its operands converted, and the type of its results; None if it has no value.
Typed = tuple[Op, Type | None]


class RuleContext:
    """Types of operands, operations in front of the current one, and errors at its line."""

    def __init__(self, values: Values) -> None:
        self.values = values
        self.types = values.types
        self.out: list[Op] = []
        self.count = 0

    def fail(self, op: Op, message: str, hint: str = "") -> NoReturn:
        raise CompileError(op.position, message, hint)

    def type_of(self, operand: Operand) -> Type | None:
        """None for lists."""
        if isinstance(operand, Const):
            value = operand.value
            return ScalarType(BOOL if isinstance(value, bool) else FP32 if isinstance(value, float) else INDEX)
        return self.types[operand.name] if isinstance(operand, Ref) else None

    def tile(self, op: Op, number: int) -> TileType:
        type_ = self.type_of(op.args[number])
        if not isinstance(type_, TileType):
            hint = "load one with pl.load" if isinstance(type_, TensorType) else ""
            spec = OPERATIONS.get(op.name)
            if spec and "tensor" in spec.operands and hint:
                hint = f"its operands: {', '.join(spec.operands)}; pl.load makes a tile"
            self.fail(op, f"{called(op.name)}: {self.operand_name(op, number)} is {kind_text(type_)}, not a tile", hint)
        return type_

    def tensor(self, op: Op, number: int) -> TensorType:
        type_ = self.type_of(op.args[number])
        if not isinstance(type_, TensorType):
            self.fail(op, f"{called(op.name)}: {self.operand_name(op, number)} is {kind_text(type_)}, not a tensor")
        return type_

    def operand_name(self, op: Op, number: int) -> str:
        spec = OPERATIONS.get(op.name)
        return spec.operands[number] if spec else f"operand {number}"

    def number(self, op: Op, operand: Operand, dtype: DType) -> Operand:
        """A number as one of another element type."""
        type_ = self.type_of(operand)
        if not isinstance(type_, ScalarType):
            self.fail(op, f"{called(op.name)}: {kind_text(type_)} stands where a number is needed")
        if isinstance(operand, Const):
            if dtype.is_float:
                return Const(float(operand.value))
            if isinstance(operand.value, float) and not operand.value.is_integer():
                self.fail(op, f"{operand.value} is no {dtype}")
            return Const(bool(operand.value) if dtype == BOOL else int(operand.value))
        if type_.dtype == dtype:
            return operand
        return self.emit(Op("s.cast", (operand,), {"dtype": dtype}, position=op.position), ScalarType(dtype))

    def indices(self, op: Op, operand: Operand, count: int, what: str) -> tuple[Operand, ...]:
        """A list of so many index values."""
        if not isinstance(operand, tuple):
            self.fail(op, f"{called(op.name)}: {what} is a list")
        if len(operand) != count:
            self.fail(op, f"{called(op.name)}: {len(operand)} {what}, the tensor has {count} extents")
        return tuple(self.number(op, item, INDEX) for item in operand)

    def inside(self, op: Op, axis: str, offset: Operand, size: int, whole: Dim) -> None:
        """A part that is known when compiling lies inside of a tensor whose extent is."""
        if isinstance(offset, Const) and isinstance(whole, int):
            start = int(offset.value)
            if start < 0 or start + size > whole:
                self.fail(op, f"{called(op.name)}: {axis}: {start} to {start + size} of {whole}")

    def emit(self, op: Op, type_: Type, stem: str = "num") -> Ref:
        """An operation in front of the current one."""
        name = spelled(stem, "tmp", self.count)
        self.count += 1
        op.results = (name,)
        self.out.append(op)
        return self.values.add(Value(name, stem, ValueKind.TEMPORARY, op.position, name), type_)

    def dim(self, operand: Operand) -> Dim:
        match operand:
            case Ref():
                return operand
            case Const(value):
                return int(value)
        raise TypeError("an extent is a number or a value")

    def tasks(self, op: Op, what: str, deps: tuple[Operand, ...]) -> None:
        for dep in deps:
            if not isinstance(self.type_of(dep), TaskType):
                self.fail(op, f"{what}deps are tasks, found {kind_text(self.type_of(dep))}", "t = kernel(…) is one")


Rule = Callable[[RuleContext, Op], Typed]


def kind_text(type_: Type | None) -> str:
    return "a list" if type_ is None else f"a {type_}"
