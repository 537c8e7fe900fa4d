"""Converts to SSA: every value is defined once; loops and conditions carry the variables that they change.

Names are spelled as PyPTO spells them (pto/ssa_names.py), numbered by variable.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from pypto_build.facts.positions import SourcePosition
from pypto_build.pto.ssa_names import spelled

from .errors import CompileError
from .ir import NOWHERE, Block, IrFunction, Op, Operand, Program, Ref, Value, ValueKind, Values

# Values that operations and blocks use, and their replacement.


def refs(operand: Operand) -> Iterator[str]:
    """Yield the names an operand mentions, also in nested operations."""
    if isinstance(operand, Ref):
        yield operand.name
    elif isinstance(operand, tuple):
        for item in operand:
            yield from refs(item)
    elif isinstance(operand, Op):
        yield from op_refs(operand)


def op_refs(op: Op) -> Iterator[str]:
    """Yield the names that an operation mentions, without those in its blocks."""
    for arg in op.args:
        yield from refs(arg)
    if "launch" in op.attrs:
        yield from refs(op.launch.operands)


def map_operand(operand: Operand, change: Callable[[Ref], Operand]) -> Operand:
    """Return the operand with `change` applied to every name."""
    if isinstance(operand, Ref):
        return change(operand)
    if isinstance(operand, tuple):
        return tuple(map_operand(item, change) for item in operand)
    if isinstance(operand, Op):
        return replace(operand, args=tuple(map_operand(a, change) for a in operand.args))
    return operand


def map_op(op: Op, change: Callable[[Ref], Operand]) -> Op:
    """Return a copy of the operation with `change` applied to its operands; its blocks are unchanged."""
    attrs = dict(op.attrs)
    if "launch" in attrs:
        attrs["launch"] = op.launch.map(lambda operand: map_operand(operand, change))
    return replace(op, args=tuple(map_operand(a, change) for a in op.args), attrs=attrs)


def mentions(op: Op) -> set[str]:
    """Return the names that an operation and its blocks use or yield."""
    return set(op_refs(op)).union(*map(uses, op.blocks))


def uses(block: Block) -> set[str]:
    return set(refs(block.yields)).union(*map(mentions, block.ops))


def free_names(block: Block) -> set[str]:
    """Return the names that a block uses but does not define."""
    used: set[str] = set()
    defined = set(block.params)
    for op in block.ops:
        used |= set(op_refs(op)) - defined
        for inner in op.blocks:
            used |= free_names(inner) - defined
        defined |= set(op.results)
    return used | set(refs(block.yields)) - defined


# Removes dead code: unused values, and unused carried values of loops and conditions.

EFFECTS = frozenset(
    {
        "store",
        "write",
        "call",
        "push",
        "pop",
        "free",
        "pipe",
        "notify",
        "wait",
        "put",
        "get",
        "remote_store",
        "tensor_remote_store",
    }
)


def has_effect(op: Op) -> bool:
    return op.name in EFFECTS or any(has_effect(inner) for block in op.blocks for inner in block.ops)


def prune(body: Block, keep: frozenset[str] = frozenset()) -> None:
    """Remove unused operations in place, until nothing changes. `keep` are names used elsewhere."""
    while True:
        used = uses(body) | keep
        if not _prune(body, used):
            return


def _prune(block: Block, used: set[str]) -> bool:
    changed = False
    kept: list[Op] = []
    for op in block.ops:
        for inner in op.blocks:
            changed |= _prune(inner, used)
        if op.name == "for" and op.results:
            changed |= _drop_carried(op, used)
        elif op.name == "if" and op.results:
            changed |= _drop_phis(op, used)
        if has_effect(op) or any(name in used for name in op.results):
            kept.append(op)
        else:
            changed = True
    block.ops[:] = kept
    return changed


def _drop_carried(op: Op, used: set[str]) -> bool:
    """Drop carried values that the loop only passes through; return True if one was dropped. A use in the body or
    after the loop keeps a value.
    """
    body = op.blocks[0]
    elsewhere = uses(Block(body.ops))
    for other in range(len(op.results)):
        elsewhere |= {n for n in refs(body.yields[other]) if n != body.params[other + 1]}
    keep = [
        i for i, (name, param) in enumerate(zip(op.results, body.params[1:], strict=True))
        if name in used or param in elsewhere
    ]  # fmt: skip
    if len(keep) == len(op.results):
        return False
    op.args = (*op.args[:3], *(op.args[3 + i] for i in keep))
    body.yields = tuple(body.yields[i] for i in keep)
    body.params = (body.params[0], *(body.params[1 + i] for i in keep))
    op.results = tuple(op.results[i] for i in keep)
    return True


def _drop_phis(op: Op, used: set[str]) -> bool:
    keep = [i for i, name in enumerate(op.results) if name in used]
    if len(keep) == len(op.results):
        return False
    for block in op.blocks:
        block.yields = tuple(block.yields[i] for i in keep)
    op.results = tuple(op.results[i] for i in keep)
    return True


Scope = dict[str, Operand]
_WORDS = {ValueKind.INDEX: "idx", ValueKind.CARRIED: "iter", ValueKind.LEFT: "rv", ValueKind.MERGED: "phi"}


def convert_to_ssa(program: Program) -> Program:
    functions = {name: _Converter(f).convert() for name, f in program.functions.items()}
    return replace(program, functions=functions)


def _assigned(block: Block) -> list[str]:
    """Return the variables that a block assigns, in order, without its loop indices."""
    inside = ((*op.results, *(name for inner in op.blocks for name in _assigned(inner))) for op in block.ops)
    return list(dict.fromkeys(name for names in inside for name in names))


class _Converter:
    def __init__(self, function: IrFunction) -> None:
        self.function = function
        self.versions: Counter[str] = Counter()
        self.values = Values()

    def fresh(self, name: str, kind: ValueKind, position: SourcePosition) -> Ref:
        """Return a new value of a variable."""
        number = self.versions[name]
        self.versions[name] += 1
        previous = self.function.values[name]
        if kind is ValueKind.VARIABLE and previous.kind in (ValueKind.TEMPORARY, ValueKind.ADDED):
            kind = previous.kind
        word = _WORDS.get(kind, "ssa")
        return self.values.add(Value(spelled(name, word, number), previous.variable, kind, position, previous.stem))

    def define(self, variables: Sequence[str], kind: ValueKind, op: Op, scope: Scope) -> tuple[str, ...]:
        """Define new values of variables for the code that follows; return the names of the values."""
        values = [self.fresh(name, kind, op.position) for name in variables]
        scope.update(zip(variables, values, strict=True))
        return tuple(value.name for value in values)

    def convert(self) -> IrFunction:
        scope: Scope = {name: self.values.add(self.function.values[name]) for name in self.function.symbols}
        params = []
        for param in self.function.params:
            ref = scope[param.name] = self.fresh(param.name, ValueKind.PARAMETER, param.value.position)
            params.append(replace(param, value=self.values[ref.name]))
        body = Block()
        self.block(self.function.body, scope, body)
        prune(body)
        return replace(self.function, params=tuple(params), body=body, values=self.values)

    def block(self, source: Block, scope: Scope, into: Block) -> None:
        for op in source.ops:
            handler = _HANDLERS.get(op.name, _Converter.plain)
            handler(self, op, scope, into)

    def resolve(self, op: Op, scope: Scope) -> Op:
        def change(ref: Ref) -> Operand:
            if ref.name not in scope:
                name = ref.name
                raise CompileError(
                    op.position,
                    f"{name} has no value on some path to this line",
                    "assign the variable before the loop, or in both branches",
                )
            return scope[ref.name]

        return map_op(op, change)

    def plain(self, op: Op, scope: Scope, into: Block) -> None:
        resolved = self.resolve(op, scope)
        resolved.results = self.define(op.results, ValueKind.VARIABLE, op, scope)
        into.ops.append(resolved)

    def copy(self, op: Op, scope: Scope, into: Block) -> None:
        scope[op.result] = self.resolve(op, scope).args[0]

    def scope(self, op: Op, scope: Scope, into: Block) -> None:
        inner = Block()
        self.block(op.blocks[0], scope, inner)
        into.ops.append(replace(op, blocks=(inner,)))

    def repeat(self, op: Op, scope: Scope, into: Block) -> None:
        """Convert `while`: carried values are parameters of the condition's block, and visible in the body."""
        test, source = op.blocks
        carried = [name for name in _assigned(source) if name in scope]
        inner = dict(scope)
        iters = self.define(carried, ValueKind.CARRIED, op, inner)
        condition, body = Block(params=iters), Block()
        self.block(test, inner, condition)
        condition.yields = self.resolve(replace(op, args=test.yields), inner).args
        self.block(source, inner, body)
        body.yields = tuple(inner[name] for name in carried)
        inits = tuple(scope[name] for name in carried)
        results = self.define(carried, ValueKind.LEFT, op, scope)
        into.ops.append(replace(op, args=inits, results=results, blocks=(condition, body)))

    def loop(self, op: Op, scope: Scope, into: Block) -> None:
        source = op.blocks[0]
        carried = [name for name in _assigned(source) if name in scope and name != source.params[0]]
        header = self.resolve(op, scope)
        inits = tuple(scope[name] for name in carried)
        inner = dict(scope)
        index = self.define(source.params[:1], ValueKind.INDEX, op, inner)
        iters = self.define(carried, ValueKind.CARRIED, op, inner)
        body = Block(params=(*index, *iters))
        self.block(source, inner, body)
        body.yields = tuple(inner[name] for name in carried)
        results = self.define(carried, ValueKind.LEFT, op, scope)
        into.ops.append(replace(header, args=(*header.args, *inits), results=results, blocks=(body,)))

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
        results = self.define(merged, ValueKind.MERGED, op, scope)
        into.ops.append(replace(header, results=results, blocks=tuple(blocks)))


_HANDLERS = {
    "copy": _Converter.copy,
    "for": _Converter.loop,
    "while": _Converter.repeat,
    "if": _Converter.branch,
    "scope": _Converter.scope,
}


def verify_ssa(function: IrFunction) -> None:
    """Verify that every name is defined once, before its use. Raises CompileError at the faulty operation."""
    defined = {p.name for p in function.params} | set(function.symbols)
    _verify_block(function.body, set(defined), defined)


def _verify_block(block: Block, visible: set[str], defined: set[str]) -> None:
    for name in block.params:
        _define(block.ops[0] if block.ops else Op("empty"), name, visible, defined)
    for op in block.ops:
        for name in op_refs(op):
            if name not in visible:
                raise CompileError(op.position, f"{op.name} uses {name}, which is not defined before it")
        inside = set(visible)
        for inner in op.blocks:  # the body of a `while` sees what its condition's block carries
            _verify_block(inner, inside if op.name == "while" else set(visible), defined)
        for name in op.results:
            _define(op, name, visible, defined)
    for operand in block.yields:
        for name in refs(operand):
            if name not in visible:
                position = block.ops[-1].position if block.ops else NOWHERE
                raise CompileError(position, f"the block passes on {name}, which is not defined in it")


def _define(op: Op, name: str, visible: set[str], defined: set[str]) -> None:
    if name in defined:
        raise CompileError(op.position, f"{op.name} defines {name} a second time")
    defined.add(name)
    visible.add(name)
