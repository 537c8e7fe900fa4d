"""Plans on-chip addresses: every tile gets a byte address in its memory; tiles that are not live together share bytes.

First fit in order of definition. Capacities and alignment are those of PyPTO: the top of vector memory is reserved for
the scratch of instructions.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from pypto_build.pto.ops import TABLE, OpDef
from pypto_build.pto.ops.constraints import Facts, TileFacts
from pypto_build.pto.ops.device import constraints
from pypto_build.pto.types import TileType as PtoTile
from pypto_build.pto.types import parse_type

from .errors import CompileError
from .ir import Block, IrFunction, Op, Operand, Program, Ref, TileType, Values
from .operations import OPERATIONS
from .pto_text import tile_text
from .ssa import free_names, op_refs, refs

# The operands that an instruction may take in the bytes of its result, by the rules of the devices.
# The same rows (`pto/ops/device.py`) check modules, so that they accept every plan. Rules of every platform count:
# the choice of a platform follows the compilation.


# Finds the tiles that are live at the same time, by walking the structured program backwards.


def may_share(op: Op, values: Values, result: str, operand: str) -> bool:
    """Return whether the result may have the same start address as the operand."""
    spec = OPERATIONS.get(op.name)
    if spec is None or not spec.inplace:
        return False
    is_tile = [isinstance(arg, Ref) and values.is_tile(arg.name) for arg in op.args]
    row = TABLE[spec.pto if all(is_tile) or not spec.scalar else spec.scalar]
    roles = _roles(row, is_tile)
    tiles = {}
    for role, arg, tile in zip(roles, op.args, is_tile, strict=False):
        if tile and isinstance(arg, Ref):
            tiles[role] = _facts(values.tile(arg.name), "shared" if arg.name == operand else None)
    tiles["dst"] = _facts(values.tile(result), "shared")
    facts = Facts(tiles, {}, {}, roles)
    return not any(one.kind == "overlap" and one.is_broken(facts) for one in constraints(row.name))


def _roles(row: OpDef, is_tile: list[bool]) -> tuple[str, ...]:
    """Return the roles of the operands in the variant that takes tiles and numbers in this order."""
    for variant in row.variants:
        roles = [role for role in variant.ins if role.access != "s"]
        if [role.kind == "tile" for role in roles][: len(is_tile)] == is_tile:
            return tuple(role.name for role in roles)
    return tuple(role.name for role in row.variants[0].ins)


def _facts(tile: TileType, identity: str | None) -> TileFacts:
    type_ = parse_type(tile_text(tile, ""))
    assert isinstance(type_, PtoTile)
    return TileFacts(type_, identity=identity)


@dataclass
class Liveness:
    """`edges`: tiles that must not share bytes. `inplace`: (result, operand) pairs that may share an address but not
    overlap otherwise. `after`: tiles live behind each operation, by its identity. `order`: tiles as defined."""

    edges: dict[str, set[str]] = field(default_factory=dict)
    inplace: set[tuple[str, str]] = field(default_factory=set)
    after: dict[int, frozenset[str]] = field(default_factory=dict)
    order: list[tuple[str, Op]] = field(default_factory=list)

    def interfere(self, a: str, b: str) -> None:
        if a != b:
            self.edges.setdefault(a, set()).add(b)
            self.edges.setdefault(b, set()).add(a)


def analyse(function: IrFunction) -> Liveness:
    return _Walk(function).run()


def scratch_name(op: Op) -> str:
    """Return the name of an operation's scratch tile."""
    return f"{op.result}__scratch"


class _Walk:
    def __init__(self, function: IrFunction) -> None:
        self.values = function.values
        self.body = function.body
        self.found = Liveness()

    def run(self) -> Liveness:
        self.block(self.body, frozenset())
        self.found.order = list(self.defined(self.body))
        return self.found

    def defined(self, block: Block) -> Iterator[tuple[str, Op]]:
        for op in block.ops:
            if op.name == "for":
                yield from ((p, op) for p in op.blocks[0].params if self.values.is_tile(p))
            for inner in op.blocks:
                yield from self.defined(inner)
            for name in op.results:
                if self.values.is_tile(name):
                    if self.values.is_tile(scratch_name(op)):
                        yield scratch_name(op), op
                    yield name, op

    def tiles(self, operands: Iterator[str] | set[str]) -> frozenset[str]:
        return frozenset(n for n in operands if self.values.is_tile(n))

    def operands(self, values: tuple[Operand, ...]) -> frozenset[str]:
        return self.tiles({n for v in values for n in refs(v)})

    def block(self, block: Block, live: frozenset[str]) -> frozenset[str]:
        """Return the tiles live before the block, from those live after it (including its yields)."""
        for op in reversed(block.ops):
            live = self.op(op, live)
        return live

    def op(self, op: Op, live: frozenset[str]) -> frozenset[str]:
        results = self.tiles(set(op.results))
        self.found.after[id(op)] = live | results
        self.clash(results, live - results)
        behind = live - results
        if op.name == "for":
            body = op.blocks[0]
            around = behind | self.tiles(free_names(body))
            inside = self.block(body, self.operands(body.yields) | around)
            params = self.tiles(set(body.params))
            self.clash(params, (inside - params) | around)
            return around | self.operands(op.args)
        if op.name == "if":
            before = behind
            for block in op.blocks:
                before |= self.block(block, self.operands(block.yields) | behind)
            return before
        operands = self.tiles(set(op_refs(op)))
        self.instruction(op, results, operands, behind)
        return behind | operands

    def instruction(self, op: Op, results: frozenset[str], operands: frozenset[str], behind: frozenset[str]) -> None:
        aliases = op.name == "reshape" or (op.name == "transpose" and self.values.space(op.result) == "mat")
        for result in results:
            for operand in operands - behind:
                if (op.name == "matmul_acc" and operand in set(refs(op.args[0]))) or aliases:
                    continue
                if may_share(op, self.values, result, operand):
                    self.found.inplace.add((result, operand))
                else:
                    self.found.interfere(result, operand)
            if self.values.is_tile(scratch_name(op)):
                self.clash(frozenset({scratch_name(op)}), behind | operands | results)

    def clash(self, tiles: frozenset[str], live: frozenset[str]) -> None:
        for a in tiles:
            for b in live | tiles:
                self.found.interfere(a, b)


# Tiles that have to be the same bytes: views of one tile, an accumulator, and what loops and conditions carry.
# Where carrying would overwrite a tile that is still needed, a copy is put in.


class Webs:
    """Sets of tiles that share their bytes."""

    def __init__(self, live: Liveness) -> None:
        self.live = live
        self.parent: dict[str, str] = {}
        self.members: dict[str, set[str]] = {}

    def find(self, name: str) -> str:
        while self.parent.get(name, name) != name:
            name = self.parent[name]
        return name

    def of(self, name: str) -> set[str]:
        return self.members.get(self.find(name), {name})

    def union(self, a: str, b: str) -> None:
        x, y = self.find(a), self.find(b)
        if x != y:
            both = self.of(x) | self.of(y)
            self.parent[y] = x
            self.members[x] = both

    def clash(self, a: str, b: str) -> bool:
        """Return whether the two sets cannot be joined."""
        if self.find(a) == self.find(b):
            return False
        others = self.of(b)
        return any(self.live.edges.get(m, set()) & others for m in self.of(a))


def coalesce(function: IrFunction) -> tuple[IrFunction, Liveness, Webs]:
    """Return the function with the necessary copies, and its sets of tiles that share bytes. Raises CompileError if
    no copy is possible.
    """
    while True:
        live = analyse(function)
        webs = Webs(live)
        for op in function.body.walk():
            if op.name == "reshape" or (op.name == "transpose" and function.values.space(op.result) == "mat"):
                webs.union(op.ref(0).name, op.result)
        for op in function.body.walk():
            if op.name == "matmul_acc":
                acc = op.ref(0).name
                if webs.clash(acc, op.result):
                    raise CompileError(
                        op.position,
                        f"pl.matmul_acc overwrites {function.values[acc].variable}, which is used again later",
                        "use the result of pl.matmul_acc from there on",
                    )
                webs.union(acc, op.result)
        if not _carry(function, webs):
            return function, live, webs


def _name(operand: Operand) -> str:
    """Return the name of a yielded tile."""
    if not isinstance(operand, Ref):
        raise TypeError("a tile is a value")
    return operand.name


def _carry(function: IrFunction, webs: Webs) -> bool:
    """Join carried values with their loop; return True if copies were inserted, so that all joins must be checked
    again.
    """
    for block in _blocks(function.body):
        for op in list(block.ops):
            if op.name == "for" and _carry_loop(function, webs, op, block):
                return True
            if op.name == "if":
                copied = [_join(function, webs, op, inner, op.results) for inner in op.blocks]
                if True in copied:
                    return True
    return False


def _carry_loop(function: IrFunction, webs: Webs, op: Op, block: Block) -> bool:
    body = op.blocks[0]
    for number, (result, param) in enumerate(zip(op.results, body.params[1:], strict=True)):
        if not function.values.is_tile(result):
            continue
        webs.union(result, param)
        init = op.args[3 + number]
        if webs.clash(_name(init), result):
            op.args = _with(op.args, 3 + number, _copy(function, op, init, block, op))
            return True
        webs.union(_name(init), result)
    return _join(function, webs, op, body, op.results)


def _join(function: IrFunction, webs: Webs, op: Op, block: Block, results: tuple[str, ...]) -> bool:
    """Join the yields of a block with the results that receive them; return whether copies were inserted.

    All clashing yields are copied at once, so even a swap terminates: a copied tile clashes with nothing else.
    """
    clashing = []
    for number, result in enumerate(results):
        if not function.values.is_tile(result):
            continue
        if webs.clash(_name(block.yields[number]), result):
            clashing.append(number)
        else:
            webs.union(_name(block.yields[number]), result)
    for number in clashing:
        block.yields = _with(block.yields, number, _copy(function, op, block.yields[number], block, None))
    return bool(clashing)


def _with(items: tuple[Operand, ...], number: int, new: Operand) -> tuple[Operand, ...]:
    return (*items[:number], new, *items[number + 1 :])


def _blocks(block: Block) -> Iterator[Block]:
    yield block
    for op in block.ops:
        for inner in op.blocks:
            yield from _blocks(inner)


def _copy(function: IrFunction, at: Op, operand: Operand, block: Block, before: Op | None) -> Ref:
    """Insert a copy of a tile at the end of a block, or before one of its operations; return its reference."""
    name = _name(operand)
    type_ = function.values.tile(name)
    if type_.space != "vec":
        variable = function.values[name].variable
        raise CompileError(
            at.position, (
                f"the old value of {variable} is used after the loop or branch changes it, and a tile "
                f"in {type_.space} cannot be copied"
            ),
            "use a second variable that is computed from the start",
        )  # fmt: skip
    copy = f"{name}_copy"
    while copy in function.values:
        copy += "_"
    op = Op("copy_tile", (operand,), results=(copy,), position=at.position)
    block.ops.insert(block.ops.index(before) if before is not None else len(block.ops), op)
    return function.values.derive(copy, name, type_)


KIB = 1024
CAPACITY = {
    "a2a3": {"vec": 184 * KIB, "mat": 512 * KIB, "left": 64 * KIB, "right": 64 * KIB, "acc": 128 * KIB},
    "a5": {"vec": 240 * KIB, "mat": 512 * KIB, "left": 64 * KIB, "right": 64 * KIB, "acc": 256 * KIB},
}
ALIGNMENT = {"vec": 64, "mat": 128, "left": 64, "right": 64, "acc": 128}


def plan_addresses(program: Program) -> Program:
    functions = {name: _plan(f, program.arch) if f.kind == "kernel" else f for name, f in program.functions.items()}
    return replace(program, functions=functions)


def _plan(function: IrFunction, arch: str) -> IrFunction:
    function = replace(function, body=_copied(function.body), values=function.values.copy())
    _add_scratch(function)
    function, live, webs = coalesce(function)
    planner = _Planner(function, live, webs, CAPACITY[arch])
    planner.run()
    return replace(function, addresses=planner.addresses)


def _copied(block: Block) -> Block:
    ops = [replace(op, blocks=tuple(_copied(b) for b in op.blocks)) for op in block.ops]
    return Block(ops, block.params, block.yields)


def _add_scratch(function: IrFunction) -> None:
    """Add scratch tiles for the instructions that need one."""
    for op in function.body.walk():
        spec, values = OPERATIONS.get(op.name), function.values
        if spec is None or not spec.tmp or values.space(op.result) != "vec":
            continue
        model = values.tile(_model(op, spec.tmp).name)
        valid = model.valid if spec.tmp == "index" else model.shape
        values.derive(scratch_name(op), op.result, replace(model, valid=valid, pad="null"))


def _model(op: Op, kind: str) -> Ref:
    """Return the operand whose type determines an instruction's scratch tile."""
    return op.ref(1 if op.name == "select" else {"same": 0, "index": 1}[kind])


class _Planner:
    def __init__(self, function: IrFunction, live: Liveness, webs: Webs, capacity: dict[str, int]) -> None:
        self.function = function
        self.live = live
        self.webs = webs
        self.capacity = capacity
        self.addresses: dict[str, int] = {}
        self.placed: dict[str, tuple[str, int, int]] = {}  # web -> space, start, end
        self.popped = {op.result for op in function.body.walk() if op.name == "pop"}
        self.where = dict(live.order)

    def run(self) -> None:
        for name, op in self.live.order:
            web = self.webs.find(name)
            if web not in self.placed and name not in self.popped:
                self.place(web, op)
            if web in self.placed:
                self.addresses[name] = self.placed[web][1]

    def reserved(self, space: str) -> int:
        """Return the bytes at the start of a memory that pipes use."""
        pipe = self.function.pipe
        consumer = {"aiv": ("vec", 1), "aic": ("mat", 2)}.get(self.function.core)
        if pipe is None or consumer is None or space != consumer[0] or not pipe.mask & consumer[1]:
            return 0
        return pipe.slot_size * pipe.slots

    def place(self, web: str, op: Op) -> None:
        members = self.webs.of(web)
        types = [t for m in members if isinstance(t := self.function.types[m], TileType)]
        space, size = types[0].space, max(t.bytes for t in types)
        start = self.first_fit(members, space, size)
        if start + size > self.capacity[space]:
            raise self.too_big(members, space, size, op)
        self.placed[web] = (space, start, start + size)

    def first_fit(self, members: set[str], space: str, size: int) -> int:
        align = ALIGNMENT[space]
        taken, exact = [], []
        for other, (where, start, end) in self.placed.items():
            if where != space:
                continue
            others = self.webs.of(other)
            if any(self.live.edges.get(m, set()) & others for m in members):
                taken.append((start, end))
            elif any((m, o) in self.live.inplace or (o, m) in self.live.inplace for m in members for o in others):
                exact.append((start, end))
        candidates = sorted(
            {self.reserved(space), *(-(-end // align) * align for _, end in taken + exact), *(s for s, _ in exact)}
        )
        for start in candidates:
            end = start + size
            free = start >= self.reserved(space) and not any(start < e and s < end for s, e in taken)
            if free and not any(start < e and s < end and start != s for s, e in exact):
                return start
        raise AssertionError("the end of everything placed is free")

    def too_big(self, members: set[str], space: str, size: int, op: Op) -> CompileError:
        """Return the error for a tile without room, which lists the other tiles that are live at the same time."""
        name = sorted(members, key=lambda m: m not in self.where)[0]
        values, rows = self.function.values, []
        for other, (where, start, end) in sorted(self.placed.items(), key=lambda item: item[1][1]):
            others = self.webs.of(other)
            if where == space and any(self.live.edges.get(m, set()) & others for m in members):
                row = f"{values[other].variable}: bytes {start} to {end}, {values.types[other]}"
                rows.append(f"{row}, {self._line(other)}")
        variable = values[name].variable
        rows.append(f"{variable}: {size} bytes, {values.types[name]}, no room, {self._line(name)}")
        return CompileError(
            op.position,
            f"plan_addresses: {variable} needs {size} bytes of {space}, which has {self.capacity[space]} "
            f"and holds other live tiles",
            "use smaller tiles, or store and load again what waits longest",
            tuple(rows),
        )

    def _line(self, name: str) -> str:
        op = self.where.get(name)
        return f"line {op.position.line}" if op is not None else "carried"


def verify_addresses(function: IrFunction) -> None:
    """Verify that no two tiles that are live together overlap, and that every tile lies inside its memory."""
    if function.kind != "kernel":
        return
    live = analyse(function)
    for name, op in live.order:
        type_ = function.values.tile(name)
        if name not in function.addresses:
            continue
        start = function.addresses[name]
        for other in live.edges.get(name, set()):
            theirs = function.types[other]
            if other not in function.addresses or not isinstance(theirs, TileType) or theirs.space != type_.space:
                continue
            begin = function.addresses[other]
            if start < begin + theirs.bytes and begin < start + type_.bytes and not _one(function, name, other):
                raise CompileError(op.position, f"{op.name}: {name} and {other} are live together and overlap")


def _one(function: IrFunction, a: str, b: str) -> bool:
    """Return whether two tiles are views of one tile, which may be live together."""
    roots: dict[str, str] = {}
    for op in function.body.walk():
        if op.name in ("reshape", "transpose"):
            source = getattr(op.args[0], "name", "")
            roots[op.result] = roots.get(source, source)
    return roots.get(a, a) == roots.get(b, b)
