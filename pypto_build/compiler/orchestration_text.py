"""The text of an orchestration while it is written: lines, and the C++ names and expressions of values."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from .cpp_scalars import RESERVED, literal
from .ir import IrFunction, Operand, Program
from .values import Const, Dim, Ref, ScalarType, TaskType
from .vintages import ApiVintage

# The lines of a function while they are written, and the names that its values have in them.


class Statements:
    """Common parts of the texts of host drivers and orchestrations. ``names`` are expressions by value."""

    def __init__(self, function: IrFunction, taken: Iterable[str]) -> None:
        self.function = function
        self.values = function.values
        self.lines: list[str] = []
        self.depth = 1
        self.names: dict[str, str] = {}
        self.taken = set(taken)

    def add(self, line: str = "") -> None:
        """A line, as deep as the block it stands in."""
        self.lines.append("    " * self.depth + line if line else "")

    def give(self, value: str, name: str) -> str:
        """Let a value have a name, which nothing else gets."""
        self.taken.add(name)
        self.names[value] = name
        return name


@dataclass
class OrchestrationResult:
    """`func_name_to_signature` has IN, OUT or INOUT for each tensor of a kernel's task, in payload order."""

    code: str
    func_name_to_id: dict[str, int] = field(default_factory=dict)
    func_name_to_core_type: dict[str, str] = field(default_factory=dict)
    func_name_to_signature: dict[str, tuple[str, ...]] = field(default_factory=dict)


class OrchestrationText(Statements):
    def __init__(self, program: Program, function: IrFunction, vintage: ApiVintage) -> None:
        self.program = program
        super().__init__(function, RESERVED)
        self.vintage = vintage
        self.contexts: dict[str, str] = {}  # tensor in a window -> the variable that has its context
        self.result = OrchestrationResult("")

    def name(self, value: str, prefix: str = "") -> str:
        """The C++ name of a value: the variable's own where it is free, else with its version."""
        plain = prefix + self.values[value].stem
        return self.give(value, plain if plain not in self.taken else prefix + value)

    def expression(self, operand: Operand) -> str:
        match operand:
            case Const(value):
                return literal(value)
            case Ref(name):
                return self.names[name]
        raise TypeError("a list is no expression")

    def dim(self, dim: Dim | Operand) -> str:
        """An extent or index as the API takes it."""
        match dim:
            case int():
                return str(dim)
            case Const(value):
                return str(int(value))
        return f"static_cast<uint32_t>({self.expression(dim)})"

    def scalar_type(self, name: str) -> str:
        match self.values.types[name]:
            case TaskType():
                return "PTO2TaskId"
            case ScalarType(dtype):
                return dtype.cpp
        return self.vintage.tensor
