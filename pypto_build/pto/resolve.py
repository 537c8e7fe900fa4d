"""Resolves names: the definition of every use, and the types and constants of values.

Scopes follow regions: a name defined in one branch may be defined again in another. Problems found on the way
(undefined or redefined values, types that disagree with the definition) are collected, not raised.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from .model import Function, IntAttr, Module, Operation, Region, int_value
from .ops import TABLE, TILE_ALLOCATIONS
from .ops.roles import fits
from .types import DYNAMIC, ScalarType, TileType, Type, parse_type


@dataclass(eq=False, slots=True)
class Value:
    """One SSA value. `op` defined it (None for arguments); `number` is its index among the results or arguments."""

    name: str
    type: Type | None
    op: Operation | None = None
    number: int = 0
    constant: int | None = None
    is_argument: bool = False  # of the function


@dataclass
class Problem:
    """A fault of an operation, or of the function if the operation is None."""

    op: Operation | None
    message: str
    function: Function

    @property
    def subject(self) -> str:
        """Return the name of the faulty operation or function, for a message."""
        return self.op.name if self.op is not None else f"func.func @{self.function.name}"


@dataclass
class Resolved:
    """A function with every name resolved; look-ups are by the identity of the operation."""

    function: Function
    operands_of: dict[int, dict[str, tuple[Value, ...]]] = field(default_factory=dict)
    results_of: dict[int, tuple[Value, ...]] = field(default_factory=dict)
    region_args: dict[int, tuple[Value, ...]] = field(default_factory=dict)
    arguments: tuple[Value, ...] = ()
    problems: list[Problem] = field(default_factory=list)
    resized: set[int] = field(default_factory=set)  # id of values whose valid shape is set while running

    def values(self, op: Operation, role: str) -> tuple[Value, ...]:
        return self.operands_of[id(op)].get(role, ())

    def value(self, op: Operation, role: str) -> Value | None:
        """Return the value of a role that takes one; None if it is absent."""
        values = self.operands_of[id(op)].get(role, ())
        return values[0] if values else None

    def results(self, op: Operation) -> tuple[Value, ...]:
        return self.results_of[id(op)]

    def constant(self, op: Operation, role: str) -> int | None:
        value = self.value(op, role)
        return None if value is None else value.constant

    def extents(self, value: Value) -> tuple[int | None, int | None]:
        """Return valid rows and columns of a tile; None for those unknown before the run."""
        type_ = value.type
        if not isinstance(type_, TileType) or id(value) in self.resized:
            return None, None
        alloc = value.op if value.op is not None and value.op.name in TILE_ALLOCATIONS else None
        rows, cols = (
            extent if extent != DYNAMIC else self.constant(alloc, role) if alloc is not None else None
            for extent, role in ((type_.v_row, "valid_row"), (type_.v_col, "valid_col"))
        )
        return rows, cols

    def address(self, value: Value) -> int | None:
        """Return the byte address of an allocated tile, if it is a constant."""
        if value.op is None or value.op.name not in TILE_ALLOCATIONS:
            return None
        return self.constant(value.op, "addr")


def resolve(function: Function, module: Module) -> Resolved:
    """Resolve one function; `module` has the types of called functions."""
    return Resolver(function, module).run()


class Resolver:
    """Resolves a function step by step; `scope` has the values defined at the current operation."""

    def __init__(self, function: Function, module: Module) -> None:
        self.out = Resolved(function)
        self.callees = {f.name: f for f in module.functions()}

    def run(self) -> Resolved:
        scope: dict[str, Value] = {}
        function = self.out.function
        self.out.arguments = tuple(
            Value(a.name, a.type, None, i, is_argument=True) for i, a in enumerate(function.args)
        )
        for value in self.out.arguments:
            self.define(value, scope, None)
        if function.body is not None:
            self.region(function.body, scope)
        return self.out

    def problem(self, op: Operation | None, message: str) -> None:
        self.out.problems.append(Problem(op, message, self.out.function))

    def define(self, value: Value, scope: dict[str, Value], op: Operation | None) -> None:
        if value.name in scope and value.name:
            self.problem(op, f"{value.name} is defined a second time")
        scope[value.name] = value

    def region(self, region: Region, scope: dict[str, Value]) -> None:
        for op in region.ops:
            self.operation(op, scope)

    def operation(self, op: Operation, scope: dict[str, Value]) -> None:
        self.operands(op, scope)
        for region in op.regions:
            inner = dict(scope)
            self.region_arguments(op, region, inner)
            self.region(region, inner)
        self.results(op, scope)

    def operands(self, op: Operation, scope: dict[str, Value]) -> None:
        """Look up the operation's operands."""
        values_of: dict[str, tuple[Value, ...]] = {}
        for role, names in op.operands.items():
            written = op.types.get(role, ())
            values_of[role] = tuple(
                self.use(op, role, name, written[i] if i < len(written) else None, scope)
                for i, name in enumerate(names)
            )
        self.out.operands_of[id(op)] = values_of
        if op.name == "pto.set_validshape":
            self.out.resized.update(id(v) for v in values_of.get("tile", ()))

    def region_arguments(self, op: Operation, region: Region, scope: dict[str, Value]) -> None:
        """Define the arguments of a region of the operation in the region's `scope`."""
        args = tuple(Value(name, type_, None, i) for i, (name, type_) in enumerate(region.args))
        for value in args:
            self.define(value, scope, op)
        self.out.region_args[id(region)] = args

    def results(self, op: Operation, scope: dict[str, Value]) -> None:
        """Define the operation's results; its operands are already resolved."""
        operands = self.out.operands_of[id(op)]
        types = self.result_types(op, operands)
        results = tuple(Value(name, types[i] if i < len(types) else None, op, i) for i, name in enumerate(op.results))
        if len(results) == 1:
            results[0].constant = self.constant(op, operands)
        self.out.results_of[id(op)] = results
        for value in results:
            self.define(value, scope, op)

    def use(self, op: Operation, role: str, name: str, written: Type | None, scope: dict[str, Value]) -> Value:
        value = scope.get(name)
        if value is None:
            self.problem(op, f"{name} is used but not defined before")
            return Value(name, written)
        if written is not None and value.type is not None and written != value.type:
            self.problem(op, f"{name} has type {value.type}, but is used as {written}")
        definition = TABLE[op.name].role(role, op.variant)
        type_ = value.type or written
        if definition is not None and type_ is not None and not fits(definition.kind, type_):
            self.problem(op, f"{role} is a {definition.kind}, but {name} has type {type_}")
        return value

    def result_types(self, op: Operation, operands: dict[str, tuple[Value, ...]]) -> tuple[Type, ...]:
        if op.result_types:
            return op.result_types
        rule = TABLE[op.name].result
        if rule.startswith("$"):
            values = operands.get(rule[1:], ())
            return tuple(v.type for v in values[:1] if v.type is not None)
        if rule:
            return (parse_type(rule),) * len(op.results)
        if TABLE[op.name].fn == "call":
            callee = self.callees.get(getattr(op.attrs.get("callee"), "name", ""))
            return callee.results if callee else ()
        return ()

    def constant(self, op: Operation, operands: dict[str, tuple[Value, ...]]) -> int | None:
        """Return the integer that an operation computes from constant operands; None for others."""
        if op.name == "arith.constant":
            value = op.attrs.get("value")
            return int_value(value) if isinstance(value, IntAttr) else None
        family = TABLE[op.name].family
        inputs = [v.constant for values in operands.values() for v in values]
        if family not in ("arith", "cast") or None in inputs:
            return None
        numbers = [n for n in inputs if n is not None]
        if family == "cast":
            return numbers[0] if isinstance(numbers[0], int) and _same_kind(op) else None
        fold = _FOLD.get(TABLE[op.name].fn)
        return fold(*numbers) if fold is not None and len(numbers) == 2 else None


def _same_kind(op: Operation) -> bool:
    return all(isinstance(t, ScalarType) and not t.is_float for t in op.result_types)


_FOLD = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "max": lambda a, b: max(a, b),
    "min": lambda a, b: min(a, b),
}
