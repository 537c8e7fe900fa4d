"""Convert to SSA: every value is defined once; loops and conditions carry the variables that change in them.

Names tell where a value comes from: `x__ssa_v0` an assignment, `i__idx_v0` a loop index, `x__iter_v1` what an iteration
starts with, `x__rv_v2` what a loop leaves, `x__phi_v3` what a condition leaves.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from .errors import CompileError
from .ir import Block, Function, Op, Operand, Program, Ref, map_op, map_operand, op_refs, refs
from .prune import prune

Scope = dict[str, Operand]


def convert_to_ssa(program: Program) -> Program:
    functions = {name: _Converter(f).convert() for name, f in program.functions.items()}
    return replace(program, functions=functions)


def _assigned(block: Block) -> list[str]:
    """Variables a block assigns, in order; loop indices are its own."""
    found: dict[str, None] = {}
    for op in block.ops:
        for name in op.results:
            found.setdefault(name)
        for inner in op.blocks:
            for name in _assigned(inner):
                found.setdefault(name)
    return list(found)


class _Converter:
    def __init__(self, function: Function) -> None:
        self.function = function
        self.versions: Counter[str] = Counter()

    def fresh(self, variable: str, kind: str = "ssa") -> str:
        number = self.versions[variable]
        self.versions[variable] += 1
        return f"{variable}__{kind}_v{number}"

    def convert(self) -> Function:
        scope: Scope = {name: Ref(name) for name in self.function.symbols}
        params = []
        for param in self.function.params:
            name = self.fresh(param.name)
            scope[param.name] = Ref(name)
            params.append(replace(param, name=name))
        body = Block()
        self.block(self.function.body, scope, body)
        prune(body)
        return replace(self.function, params=tuple(params), body=body)

    def block(self, source: Block, scope: Scope, into: Block) -> None:
        for op in source.ops:
            handler = _HANDLERS.get(op.name, _Converter.plain)
            handler(self, op, scope, into)

    def resolve(self, op: Op, scope: Scope) -> Op:
        def change(ref: Ref) -> Operand:
            if ref.name not in scope:
                name = ref.name
                raise CompileError(
                    op.place, f"{name} has no value here", "assign it before the loop or in both branches"
                )
            return scope[ref.name]

        return map_op(op, change)

    def plain(self, op: Op, scope: Scope, into: Block) -> None:
        made = self.resolve(op, scope)
        made.results = tuple(self.fresh(name) for name in op.results)
        into.ops.append(made)
        scope.update(zip(op.results, map(Ref, made.results), strict=True))

    def copy(self, op: Op, scope: Scope, into: Block) -> None:
        scope[op.result] = self.resolve(op, scope).args[0]

    def scope(self, op: Op, scope: Scope, into: Block) -> None:
        inner = Block()
        self.block(op.blocks[0], scope, inner)
        into.ops.append(replace(op, blocks=(inner,)))

    def repeat(self, op: Op, scope: Scope, into: Block) -> None:
        """`while`: what is carried belongs to the block of the condition, and the body sees it too."""
        test, source = op.blocks
        carried = [name for name in _assigned(source) if name in scope]
        iters = tuple(self.fresh(name, "iter") for name in carried)
        inner: Scope = {**scope, **dict(zip(carried, map(Ref, iters), strict=True))}
        asked, body = Block(params=iters), Block()
        self.block(test, inner, asked)
        asked.yields = self.resolve(replace(op, args=test.yields), inner).args
        self.block(source, inner, body)
        body.yields = tuple(inner[name] for name in carried)
        results = tuple(self.fresh(name, "rv") for name in carried)
        inits = tuple(scope[name] for name in carried)
        into.ops.append(replace(op, args=inits, results=results, blocks=(asked, body)))
        scope.update(zip(carried, map(Ref, results), strict=True))

    def loop(self, op: Op, scope: Scope, into: Block) -> None:
        source = op.blocks[0]
        carried = [name for name in _assigned(source) if name in scope and name != source.params[0]]
        header = self.resolve(op, scope)
        inits = tuple(scope[name] for name in carried)
        index = self.fresh(source.params[0], "idx")
        iters = [self.fresh(name, "iter") for name in carried]
        inner: Scope = {**scope, source.params[0]: Ref(index), **dict(zip(carried, map(Ref, iters), strict=True))}
        body = Block(params=(index, *iters))
        self.block(source, inner, body)
        body.yields = tuple(inner[name] for name in carried)
        results = tuple(self.fresh(name, "rv") for name in carried)
        into.ops.append(replace(header, args=(*header.args, *inits), results=results, blocks=(body,)))
        scope.update(zip(carried, map(Ref, results), strict=True))

    def branch(self, op: Op, scope: Scope, into: Block) -> None:
        header = self.resolve(op, scope)
        scopes: list[Scope] = []
        blocks: list[Block] = []
        for source in op.blocks:
            inner = dict(scope)
            block = Block()
            self.block(source, inner, block)
            scopes.append(inner)
            blocks.append(block)
        changed = dict.fromkeys(name for source in op.blocks for name in _assigned(source))
        merged = [name for name in changed if all(name in inner for inner in scopes)]
        for block, inner in zip(blocks, scopes, strict=True):
            block.yields = tuple(inner[name] for name in merged)
        results = tuple(self.fresh(name, "phi") for name in merged)
        into.ops.append(replace(header, results=results, blocks=tuple(blocks)))
        scope.update(zip(merged, map(Ref, results), strict=True))


_HANDLERS = {
    "copy": _Converter.copy,
    "for": _Converter.loop,
    "while": _Converter.repeat,
    "if": _Converter.branch,
    "scope": _Converter.scope,
}


def verify_ssa(function: Function) -> None:
    """Every name is defined once, before it is used. Raises CompileError at the operation that breaks this."""
    defined = {p.name for p in function.params} | set(function.symbols)
    _verify_block(function.body, set(defined), defined)


def _verify_block(block: Block, visible: set[str], defined: set[str]) -> None:
    for name in block.params:
        _define(block.ops[0] if block.ops else Op("empty"), name, visible, defined)
    for op in block.ops:
        for name in op_refs(op):
            if name not in visible:
                raise CompileError(op.place, f"{op.name} uses {name}, which is not defined before it")
        inside = set(visible)
        for inner in op.blocks:  # the body of a `while` sees what its condition's block carries
            _verify_block(inner, inside if op.name == "while" else set(visible), defined)
        for name in op.results:
            _define(op, name, visible, defined)
    for operand in block.yields:
        for name in refs(operand):
            if name not in visible:
                place = block.ops[-1].place if block.ops else Op("").place
                raise CompileError(place, f"the block passes on {name}, which is not defined in it")


def _define(op: Op, name: str, visible: set[str], defined: set[str]) -> None:
    if name in defined:
        raise CompileError(op.place, f"{op.name} defines {name} a second time")
    defined.add(name)
    visible.add(name)


def rewrite_operands(block: Block, change: dict[str, Operand]) -> None:
    """Replace names throughout a block, in place."""

    def one(ref: Ref) -> Operand:
        return change.get(ref.name, ref)

    for number, op in enumerate(block.ops):
        block.ops[number] = map_op(op, one)
        for inner in op.blocks:
            rewrite_operands(inner, change)
    block.yields = tuple(map_operand(y, one) for y in block.yields)
