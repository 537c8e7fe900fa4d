"""The text of a host driver while it is written: lines, and the Python expressions of numbers and tensors."""

from __future__ import annotations

import keyword
from collections.abc import Sequence

from .errors import CompileError
from .ir import Block, IrFunction, Op, Operand
from .operations import INFIX
from .statements import Statements
from .values import Const, Dim, Ref

_INFIX = INFIX | {"floordiv": "//", "and": "and", "or": "or"}
_OTHERS = {
    "min": "min({0}, {1})", "max": "max({0}, {1})", "neg": "(-{0})", "not": "(not {0})",
    "select": "({1} if {0} else {2})", "cast": "{0}",
}  # fmt: skip
_TAKEN = {
    *keyword.kwlist, "orch", "_args", "config", "tensors", "callables", "sub_ids", "_keep", "world_size",
    "_domain_provider", "torch", "range", "min", "max", "CallConfig", "CommBufferSpec", "DataType", "TaskArgs",
    "TensorArgType", "make_tensor_arg",
}  # fmt: skip


class HostText(Statements):
    def __init__(self, function: IrFunction) -> None:
        super().__init__(function, _TAKEN)
        self.tensors: dict[str, str] = {}  # host tensor -> expression
        self.made = {op.result: op for op in function.body.walk() if op.results and not op.blocks}

    def name(self, value: str) -> str:
        """The Python name of a number: the variable's own where it is free, else with its version."""
        stem = self.values[value].stem
        return self.give(value, stem if stem not in self.taken and not stem.startswith("_") else value)

    def expression(self, operand: Operand) -> str:
        match operand:
            case Const(value):
                return repr(value)
            case Ref(name) if name in self.names:
                return self.names[name]
            case Ref(name) if name in self.made:
                return self.names.setdefault(name, self.pure(self.made[name]))
        raise CompileError(self.function.position, f"{operand} has no value here")

    def dim(self, dim: Dim) -> str:
        return str(dim) if isinstance(dim, int) else self.expression(dim)

    def pure(self, op: Op) -> str:
        """A number as one expression, its parts in parentheses."""
        if op.name == "world_size":
            return "world_size"
        name, args = op.name[2:], [self.expression(arg) for arg in op.args]
        if not op.name.startswith("s."):
            raise CompileError(op.position, f"{op.name} is no number that is known before anything is dispatched")
        if name in _INFIX:
            return args[0] if (name, args[1]) == ("add", "0") else f"({args[0]} {_INFIX[name]} {args[1]})"
        if name in _OTHERS:
            return _OTHERS[name].format(*args)
        raise CompileError(op.position, f"{name} cannot stand in a host program")

    def inlined(self, factors: Sequence[Dim] | Operand) -> str:
        """Return a product of extents as an expression that is valid when the driver begins."""
        if not isinstance(factors, list):
            return self.expression(factors)  # type: ignore[arg-type]
        texts = [self.dim(factor) for factor in factors]
        return " * ".join(text for text in texts if text != "1" or len(texts) == 1)

    # --- control flow ------------------------------------------------------------------------------------------------

    def number(self, op: Op) -> None:
        """Numbers are written where they are used."""
        self.names.setdefault(op.result, self.pure(op))

    def loop(self, op: Op) -> None:
        body = op.blocks[0]
        targets = self.carried(op.results, body.params[1:], op.args[3:])
        start, stop, step = map(self.expression, op.args[:3])
        self.add(f"for {self.name(body.params[0])} in range({start}, {stop}, {step}):")
        self.nested(body, targets)
        self.taken.discard(self.names[body.params[0]])

    def tuple(self, extents: Sequence[Dim]) -> str:
        """Extents as a tuple."""
        return f"({', '.join(map(self.dim, extents))}{',' if len(extents) == 1 else ''})"

    def carried(self, results: Sequence[str], params: Sequence[str], inits: Sequence[Operand]) -> list[str]:
        targets = []
        for result, param, init in zip(results, params, inits, strict=True):
            value = self.expression(init)
            targets.append(self.name(result))
            self.names[param] = targets[-1]
            self.add(f"{targets[-1]} = {value}")
        return targets

    def branch(self, op: Op) -> None:
        condition = self.expression(op.args[0])
        targets = [self.name(result) for result in op.results]
        self.add(f"if {condition}:")
        self.nested(op.blocks[0], targets)
        if op.blocks[1].ops or targets:
            self.add("else:")
            self.nested(op.blocks[1], targets)

    def nested(self, block: Block, targets: Sequence[str]) -> None:
        """Write a block one level deeper, and assign the values that it passes on, all at once."""
        self.depth += 1
        self.block(block)
        pairs = [(t, self.expression(y)) for t, y in zip(targets, block.yields, strict=True)]
        pairs = [(target, value) for target, value in pairs if target != value]
        if pairs:
            self.add(f"{', '.join(t for t, _ in pairs)} = {', '.join(v for _, v in pairs)}")
        self.depth -= 1

    def block(self, block: Block) -> None:
        raise NotImplementedError
