"""Flatten nested calls: one operation a statement, and inline functions replaced by their bodies."""

from __future__ import annotations

from dataclasses import replace

from pypto_build.facts.positions import SourcePosition

from .errors import CompileError
from .ir import Block, IrFunction, Op, Operand, Program
from .ssa import map_op, map_operand
from .values import Ref, Value, ValueKind, Values


def flatten_calls(program: Program) -> Program:
    """Arguments of every operation become values, and no call of an inline function is left."""
    flat: dict[str, IrFunction] = {}
    for function in program.functions.values():
        values = function.values.copy()
        body = _Flattener(values).block(function.body)
        flat[function.name] = replace(function, body=_Inliner(values, flat).block(body), values=values)
    kept = {name: f for name, f in flat.items() if f.kind != "inline"}
    return replace(program, functions=kept)


class _Fresh:
    """Names for values that the program does not name."""

    def __init__(self, values: Values) -> None:
        self.values = values
        self.count = 0

    def name(self, stem: str) -> str:
        while True:
            name = f"{stem}{self.count}"
            self.count += 1
            if name not in self.values:
                return name

    def temporary(self, position: SourcePosition) -> Ref:
        name = self.name("tmp")
        return self.values.add(Value(name, name, ValueKind.TEMPORARY, position, name))

    def renamed(self, value: Value) -> Ref:
        """A variable of an inline function, in the function that it is expanded in."""
        name = self.name(f"{value.name}_")
        return self.values.add(replace(value, name=name, stem=name))


class _Flattener:
    def __init__(self, values: Values) -> None:
        self.fresh = _Fresh(values)

    def block(self, block: Block) -> Block:
        flat = Block(params=block.params)
        for op in block.ops:
            self.statement(op, flat.ops)
        flat.yields = tuple(self.operand(y, flat.ops) for y in block.yields)
        return flat

    def statement(self, op: Op, out: list[Op]) -> None:
        if op.name == "copy" and isinstance(op.args[0], Op):  # the value gets the variable's name at once
            inner = op.args[0]
            out.append(replace(self.plain(inner, out), results=op.results))
            return
        out.append(self.plain(op, out))

    def plain(self, op: Op, out: list[Op]) -> Op:
        args = tuple(self.operand(a, out) for a in op.args)
        attrs = dict(op.attrs)
        if "launch" in attrs:
            attrs["launch"] = op.launch.map(lambda operand: self.operand(operand, out))
        return replace(op, args=args, attrs=attrs, blocks=tuple(self.block(b) for b in op.blocks))

    def operand(self, operand: Operand, out: list[Op]) -> Operand:
        if isinstance(operand, tuple):
            return tuple(self.operand(item, out) for item in operand)
        if not isinstance(operand, Op):
            return operand
        held = self.fresh.temporary(operand.position)
        out.append(replace(self.plain(operand, out), results=(held.name,)))
        return held


class _Inliner:
    def __init__(self, values: Values, expanded: dict[str, IrFunction]) -> None:
        self.expanded = expanded
        self.fresh = _Fresh(values)

    def block(self, block: Block) -> Block:
        expanded = Block(params=block.params, yields=block.yields)
        for op in block.ops:
            callee = self.expanded.get(op.callee) if op.name == "call" else None
            if callee is None or callee.kind != "inline":
                expanded.ops.append(replace(op, blocks=tuple(self.block(b) for b in op.blocks)))
                continue
            expanded.ops += self.expand(op, callee)
        return expanded

    def expand(self, op: Op, callee: IrFunction) -> list[Op]:
        """The callee's body with its variables renamed, then its result under the call's name."""
        assigned = {name for inner in callee.body.walk() for name in inner.defines}
        names = {name: self.fresh.renamed(callee.values[name]) for name in sorted(assigned)}
        values: dict[str, Operand] = {p.name: arg for p, arg in zip(callee.params, op.args, strict=True)}
        parameters = sorted(values.keys() & names.keys())
        ops = [Op("copy", (values[name],), results=(names[name].name,), position=op.position) for name in parameters]
        values = {**values, **names}
        body = _renamed(callee.body, values)
        if callee.is_library:
            for inner in body.walk():
                inner.position = op.position
            for ref in names.values():
                self.fresh.values.add(replace(self.fresh.values[ref.name], position=op.position))
        ops += body.ops
        if len(op.results) != len(body.yields) and (op.results or not body.yields):
            raise CompileError(
                op.position, f"{callee.name} returns {len(body.yields)} values, used as {len(op.results)}"
            )
        for name, value in zip(op.results, body.yields, strict=False):
            ops.append(Op("copy", (value,), results=(name,), position=op.position))
        return ops


def _renamed(block: Block, values: dict[str, Operand]) -> Block:
    def change(ref: Ref) -> Operand:
        return values.get(ref.name, ref)

    def name_of(name: str) -> str:
        value = values.get(name)
        return value.name if isinstance(value, Ref) else name

    renamed = Block(
        params=tuple(map(name_of, block.params)), yields=tuple(map_operand(y, change) for y in block.yields)
    )
    for op in block.ops:
        new = map_op(op, change)
        new.results = tuple(map(name_of, op.results))
        new.blocks = tuple(_renamed(b, values) for b in op.blocks)
        renamed.ops.append(new)
    return renamed
