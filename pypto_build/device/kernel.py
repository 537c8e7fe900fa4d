"""Findings on one kernel's text."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cache

from tree_sitter import Node

from pypto_build.artifact.cpp.syntax import (
    NestedTooDeeply,
    Unparseable,
    call_arguments,
    callee,
    integer,
    line_of,
    parse,
    source_text,
)
from pypto_build.artifact.cpp.text import split_arguments
from pypto_build.facts.broken_rules import BrokenRule
from pypto_build.facts.dtypes import PTO
from pypto_build.pto.cpp import emitter
from pypto_build.pto.ops import TABLE, OpDef, Role, Variant
from pypto_build.pto.ops.constraints import Constraint, Facts, TileFacts
from pypto_build.pto.ops.device import constrained, constraints
from pypto_build.pto.types import DYNAMIC, ScalarType, TileType, Type, parse_type

# Tiles of a kernel's C++ as the rules see them: `Tile<…>` types, addresses from TASSIGN, constant numbers.

_TILE = re.compile(r"(?:pto::)?Tile<(.*)>\Z", re.DOTALL)
_CAST = re.compile(r"\(\s*(?:const\s+)?[\w:]+\s*\)\s*")
_RESIZED = re.compile(r"\b(\w+)\s*\.\s*SetValid(?:Shape|Row|Col)\s*\(")
_SUM = re.compile(r"[\w\s()+*-]+\Z")


def _inverted(table: dict[str, str]) -> dict[str, str]:
    return {written.rpartition("::")[2]: name for name, written in table.items()}


_SPACES, _BLAYOUTS, _SLAYOUTS, _PADS, _COMPACTS = map(
    _inverted, (emitter.SPACES, emitter.BLAYOUTS, emitter.SLAYOUTS, emitter.PADS, emitter.COMPACTS)
)
_ELEMENTS: dict[str, str] = {}
for _name, _row in PTO.items():
    _ELEMENTS.setdefault(_row.cpp, _name)


@dataclass
class CppTile:
    """A tile variable of the kernel; `address` is None if it is not a constant, or changes."""

    name: str
    type: TileType
    rows: int | None
    cols: int | None
    address: int | None = None
    assigned: int = 0

    def facts(self) -> TileFacts:
        return TileFacts(self.type, self.rows, self.cols, self.address, self.name)


@dataclass
class Names:
    """Facts about the variables of a function, shared by its blocks, since generated code uses each name only once."""

    numbers: dict[str, int] = field(default_factory=dict)
    tiles: dict[str, CppTile] = field(default_factory=dict)
    aliases: dict[str, str] = field(default_factory=dict)  # using X = …
    resized: frozenset[str] = frozenset()  # tiles whose valid extents are set while running

    def number(self, text: str) -> int | None:
        """Return the value of an integer expression; None if it is not constant."""
        text = _CAST.sub("", text.strip())
        if (value := integer(text)) is not None:
            return value
        if text in self.numbers:
            return self.numbers[text]
        if not _SUM.match(text) or len(text) > 200:
            return None
        return self._sum(text)

    def _sum(self, text: str) -> int | None:
        """Return the value of a sum of products of constants without brackets; None for other expressions."""
        total = 0
        for term in text.strip().removeprefix("(").removesuffix(")").split("+"):
            product = 1
            for factor in term.split("*"):
                factor = factor.strip()
                value = integer(factor) if factor else None
                value = self.numbers.get(factor) if value is None else value
                if value is None:
                    return None
                product *= value
            total += product
        return total

    def tile_type(self, text: str) -> TileType | None:
        """Return the type written as `Tile<…>`, or its alias."""
        text = self.aliases.get(text.strip(), text.strip())
        match = _TILE.match(text)
        words = split_arguments(match[1]) if match else []
        return self._read(words) if len(words) >= 4 else None

    def _read(self, words: list[str]) -> TileType | None:
        loc, element, *rest = words
        element = self.aliases.get(element, element)
        space, dtype = _SPACES.get(loc.rpartition("::")[2]), _ELEMENTS.get(element)
        rows, cols = (self.number(word) for word in rest[:2])
        if space is None or dtype is None or rows is None or cols is None:
            return None
        more = [*rest[2:], *_DEFAULTS[len(rest[2:]) :]]
        fields: dict[str, str | int] = {"blayout": _BLAYOUTS.get(more[0].rpartition("::")[2], "")}
        for name, word, extent in (("v_row", more[1], rows), ("v_col", more[2], cols)):
            value = extent if word == "" else DYNAMIC if word == "-1" else self.number(word)
            fields[name] = DYNAMIC if value is None else value
        fields["slayout"] = _SLAYOUTS.get(more[3].rpartition("::")[2], "")
        fields["fractal"] = self.number(more[4]) or 0
        fields["pad"] = _PADS.get(more[5].rpartition("::")[2], "?")
        fields["compact"] = _COMPACTS.get(more[6].rpartition("::")[2], "?")
        scalar = parse_type(dtype)
        assert isinstance(scalar, ScalarType)
        return TileType("", space, scalar, rows, cols, **fields)  # type: ignore[arg-type]

    def declare(self, name: str, type_: TileType, arguments: list[Node]) -> None:
        """Record a declared tile; its constructor's arguments are the valid extents that the type leaves open."""
        values = [self.number(source_text(argument)) for argument in arguments]
        open_ = [extent == DYNAMIC for extent in (type_.v_row, type_.v_col)]
        if len(values) == 1 and sum(open_) == 1:
            values = [values[0], values[0]]
        extents = [
            (values[axis] if axis < len(values) else None) if is_open else extent
            for axis, (is_open, extent) in enumerate(zip(open_, (type_.v_row, type_.v_col), strict=True))
        ]
        rows, cols = (None, None) if name in self.resized else extents
        self.tiles[name] = CppTile(name, type_, rows, cols)

    def assign(self, name: str, address: str) -> None:
        """Record a TASSIGN. A tile with several addresses counts as having none."""
        tile = self.tiles.get(name)
        if tile is not None:
            value = self.number(address)
            tile.address = value if not tile.assigned or tile.address == value else None
            tile.assigned += 1


def resized(text: str) -> frozenset[str]:
    """Return the tiles whose valid extents a function sets."""
    return frozenset(_RESIZED.findall(text))


_DEFAULTS = ["RowMajor", "", "", "NoneBox", "512", "Null", "Null"]


def declared_tile(names: Names, node: Node) -> None:
    """Record the tiles, numbers and type aliases that a declaration introduces."""
    type_node = node.child_by_field_name("type")
    if type_node is None:
        return
    written = source_text(type_node)
    type_ = names.tile_type(written) if "Tile<" in written or written in names.aliases else None
    for declarator in node.children_by_field_name("declarator"):
        name, value = declarator, declarator.child_by_field_name("value")
        while name.child_by_field_name("declarator") is not None:
            name = name.child_by_field_name("declarator")  # type: ignore[assignment]
        text = source_text(name)
        if type_ is not None:
            names.declare(text, type_, _arguments(value))
        elif value is not None and value.type != "argument_list":
            number = names.number(source_text(value))
            if number is not None and "const" in source_text(node).partition(text)[0]:
                names.numbers[text] = number


def _arguments(value: Node | None) -> list[Node]:
    """Return the constructor arguments of a declaration: `v(a, b)`, `v = Tile<…>(a, b)` or `v{a, b}`."""
    if value is None:
        return []
    if value.type == "call_expression":
        return call_arguments(value)
    return [child for child in value.named_children if child.type != "comment"]


# Flags between pipes and slots of pipes between cores: each set needs its wait, and each taken slot is given back.
# A function is followed as it is written. A block continues its predecessor, a loop leaves as many flags open as it
# finds, and both branches of a condition leave the same. Where branches differ, the check ignores the flag.

Key = tuple[str, ...]
_LOOPS = ("for_statement", "while_statement", "do_statement", "for_range_loop")
#: By call: whether it opens (1) or closes (-1), and how many of its arguments name the flag or slot.
_STEPS = {"set_flag": (1, 3), "wait_flag": (-1, 3), "TPOP": (1, 1), "TFREE": (-1, 1)}
_OTHER = {"set_flag": "wait_flag", "wait_flag": "set_flag", "TPOP": "TFREE", "TFREE": "TPOP"}


@dataclass
class Balance:
    """Flags and pipe slots that a section of code leaves open; keys in `unclear` are ignored."""

    open: Counter[Key] = field(default_factory=Counter)
    unclear: set[Key] = field(default_factory=set)
    last: dict[Key, tuple[str, int, str]] = field(default_factory=dict)  # call, line and words of the last step
    in_loops: list[Balance] = field(default_factory=list)  # of bodies that leave more than they find


def step_of(name: str, arguments: list[str], node: Node) -> tuple[Key, int, tuple[str, int, str]] | None:
    """Return the flag or pipe slot that a call opens or closes; None for other calls."""
    change, count = _STEPS.get(name, (0, 0))
    words = tuple(word.strip() for word in arguments[:count])
    if not change or len(words) < count or (count == 3 and not words[2].startswith("EVENT_ID")):
        return None
    group = "flag" if count == 3 else "pipe"
    return (group, *words), change, (name, line_of(node), ", ".join(words))


def joined(parts: list[Balance], node: Node) -> Balance:
    """Return the balance of a statement, combined from its parts: a sequence or alternatives."""
    whole = Balance()
    for part in parts:
        whole.unclear |= part.unclear
        whole.last |= part.last
        whole.in_loops += part.in_loops
    if node.type in _LOOPS:
        whole.in_loops += [Balance(part.open, part.unclear, part.last) for part in parts if any(part.open.values())]
    elif node.type in ("if_statement", "switch_statement"):
        branches = [part.open for part in parts] + ([Counter()] if len(parts) < 2 else [])
        for key in {key for branch in branches for key in branch}:
            counts = {branch[key] for branch in branches}
            whole.open[key] = min(counts)
            if len(counts) > 1:
                whole.unclear.add(key)
    else:
        for part in parts:
            whole.open.update(part.open)
    return whole


def unbalanced(balance: Balance) -> list[tuple[int, str, str]]:
    """Return line, rule and message for each flag and slot that a function leaves open or closes too often."""
    messages = [one for inner in balance.in_loops for one in unbalanced(inner)]
    for key, count in balance.open.items():
        if not count or key in balance.unclear:
            continue
        call, line, words = balance.last[key]
        present = call if (count > 0) == (_STEPS[call][0] > 0) else _OTHER[call]
        effect = {
            "set_flag": "nothing waits for the flag: what follows runs ahead",
            "wait_flag": "the pipe waits for ever",
            "TPOP": "its slot is never given back: the producer waits for ever",
            "TFREE": "a slot is given back that was not taken",
        }[present]
        messages.append((line, key[0], f"{present}({words}) without its {_OTHER[present]}: {effect}"))
    return messages


# The operation that a C++ instruction stands for, and the roles of its arguments.
# An instruction takes its outputs, inputs and scratch in the order of the operation's roles, then modes; `_ORDERS`
# has the exceptions.

_ORDERS = {
    "TPARTARGMAX": ("dst", "src0", "src1", "dstidx", "idx0", "idx1"),
    "TPARTARGMIN": ("dst", "src0", "src1", "dstidx", "idx0", "idx1"),
    "TMRGSORT": ("dst", "executed", "tmp", "src0", "src1", "src2", "src3"),
    "TQUANT": ("dst", "src", "scale", "tmp"),
}
_MODES = {
    "cmpMode": re.compile(r"CmpMode::(\w+)"), "rmode": re.compile(r"RoundMode::CAST_(\w+)"),
    "atomicType": re.compile(r"AtomicType::Atomic(\w+)"), "maskPattern": re.compile(r"MaskPattern::(\w+)"),
    "accToVecMode": re.compile(r"AccToVecMode::(\w+)"),
}  # fmt: skip
_PREFIXES = {"cmpMode": "", "atomicType": "atomic_"}  # of those that .pto spells in small letters


@cache
def _operations() -> dict[str, tuple[OpDef, ...]]:
    """Return the operations that have constraints, by their C++ instruction."""
    operations: dict[str, tuple[OpDef, ...]] = {}
    for name in constrained():
        row = TABLE[name]
        operations[row.cpp] = (*operations.get(row.cpp, ()), row)
    return operations


def bound(names: Names, callee: str, arguments: list[str], call: str) -> tuple[OpDef, Facts] | None:
    """Return the operation and its operands; None for an operation without rules, or an unsupported call."""
    for row in _operations().get(callee, ()):
        for variant in row.variants:
            for roles in _orders(callee, variant, len(arguments)):
                if all(_fits(names, role, text) for role, text in zip(roles, arguments, strict=False)):
                    return row, _facts(names, row, variant, roles, arguments, call)
    return None


def _orders(callee: str, variant: Variant, count: int) -> Iterator[tuple[Role, ...]]:
    """Yield the roles of the first arguments: with the optional ones, and without."""
    roles = {role.name: role for role in (*variant.outs, *variant.ins)}
    order = [role for name in _ORDERS.get(callee, ()) if (role := roles.get(name))]
    if len(order) < len(_ORDERS.get(callee, ())) - 2 or not order:
        order = list(roles.values())
    needed = tuple(role for role in order if not role.optional)
    for chosen in (tuple(order), needed):
        if len(chosen) <= count:
            yield chosen


def _fits(names: Names, role: Role, text: str) -> bool:
    if role.kind in ("tile", "shaped", "entry"):
        return text in names.tiles
    return text not in names.tiles


def _facts(
    names: Names, row: OpDef, variant: Variant, roles: tuple[Role, ...], arguments: list[str], call: str
) -> Facts:
    written = dict(zip((role.name for role in roles), arguments, strict=False))
    if "tmp" in written and written["tmp"] == written.get("src"):
        del written["tmp"]  # an operation without scratch is given its source
    tiles = {name: names.tiles[text].facts() for name, text in written.items() if text in names.tiles}
    scalars: dict[str, tuple[Type | None, int | None]] = {
        name: (None, names.number(text)) for name, text in written.items() if text not in names.tiles
    }
    attrs = {name: _word(name, match[1]) for name, mode in _MODES.items() if (match := mode.search(call))}
    return Facts(tiles, scalars, attrs, tuple(role.name for role in variant.ins), frozenset(written))


def _as_in_a_run(facts: Facts) -> Facts:
    """Return the facts with assumed addresses and valid extents for each tile, as a run would record them."""
    tiles = {
        role: replace(tile, rows=tile.rows or 1, cols=tile.cols or 1, address=tile.address or 0)
        for role, tile in facts.tiles.items()
    }
    return Facts(tiles, facts.scalars, facts.attrs, facts.roles_in_order, facts.roles, facts.parts)


def _word(name: str, word: str) -> str:
    return f"{_PREFIXES[name]}{word.lower()}" if name in _PREFIXES else word


_DEEPEST = 200  # statements in each other


def check_kernel(text: bytes, path: str, arch: str) -> tuple[list[BrokenRule], list[OpenCall]]:
    """Return the platform's rules that a kernel's text breaks, and the calls with rules that only a run decides.

    Both are in line order, and empty for a text that cannot be parsed.
    """
    try:
        root = parse(text)
    except (Unparseable, NestedTooDeeply):
        return [], []
    broken: dict[BrokenRule, None] = {}
    calls: list[OpenCall] = []
    for function in _functions(root):
        walk = _Walk(path, arch)
        broken |= dict.fromkeys(walk.function(function))
        calls += walk.open
    return sorted(broken, key=lambda one: (one.line, one.message)), calls


@dataclass(frozen=True)
class OpenCall:
    """A call of a kernel with rules that only a run decides, because extents or addresses are not constant."""

    line: int
    name: str
    text: str
    facts: Facts
    constraints: tuple[Constraint, ...]


def preload_rules() -> None:
    """Compile all rules before this process is forked."""
    for name in constrained():
        for constraint in constraints(name):
            assert constraint.compiles, constraint.text


def _functions(root: Node) -> Iterator[Node]:
    stack = [root]
    while stack:
        node = stack.pop()
        if node.type == "function_definition":
            yield node
        elif node.type in ("translation_unit", "linkage_specification", "declaration_list", "namespace_definition") or (
            node.type.startswith("preproc") or node.type == "ERROR"
        ):
            stack += reversed(node.named_children)


class _Walk:
    """Walks one function: declarations of variables and calls of instructions, in text order."""

    def __init__(self, path: str, arch: str) -> None:
        self.path, self.arch = path, arch
        self.names = Names()
        self.found: list[BrokenRule] = []
        self.freed: dict[str, int] = {}  # popped tile -> line of the free
        self.popped: dict[str, list[str]] = {}  # pipe -> tiles in slots, the oldest first
        self.open: list[OpenCall] = []

    def function(self, node: Node) -> list[BrokenRule]:
        body = node.child_by_field_name("body")
        if body is not None:
            self.names.resized = resized(source_text(body))
            balance = self.statement(body, 0)
            for line, rule, message in unbalanced(balance):
                self.found.append(BrokenRule(self.path, line, rule, message))
        return self.found

    def statement(self, node: Node, depth: int) -> Balance:
        """Return the balance of a statement, after checking it and its parts in text order."""
        if depth > _DEEPEST:
            return Balance()
        if node.type == "declaration":
            declared_tile(self.names, node)
            return Balance()
        if node.type == "alias_declaration":
            self._alias(node)
            return Balance()
        if node.type == "call_expression":
            return self._call(node)
        parts = []
        for child in node.named_children:
            if child.type in ("compound_statement", "else_clause"):  # a free counts for its own block
                popped, freed = dict(self.popped), dict(self.freed)
                parts.append(self.statement(child, depth + 1))
                self.popped, self.freed = popped, freed
            elif child.type != "comment":
                parts.append(self.statement(child, depth + 1))
        return joined(_branches(node, parts), node)

    def _alias(self, node: Node) -> None:
        name, type_ = node.child_by_field_name("name"), node.child_by_field_name("type")
        if name is not None and type_ is not None:
            self.names.aliases[source_text(name)] = source_text(type_)

    def _call(self, node: Node) -> Balance:
        name, _ = callee(node)
        arguments = [source_text(argument) for argument in call_arguments(node)]
        balance = Balance()
        if step := step_of(name, arguments, node):
            key, change, where = step
            balance.open, balance.last = Counter({key: change}), {key: where}
        if name == "TASSIGN" and len(arguments) == 2:
            self.names.assign(arguments[0], arguments[1])
        elif name == "TRESHAPE" and len(arguments) == 2:
            self._reshape(*arguments)
        else:
            self._pipe(name, arguments)
            self._uses(name, arguments, node)
            self._rules(name, arguments, node)
        return balance

    def _reshape(self, dst: str, src: str) -> None:
        if dst in self.names.tiles and src in self.names.tiles:
            self.names.tiles[dst].address = self.names.tiles[src].address

    def _pipe(self, name: str, arguments: list[str]) -> None:
        if name == "TPOP" and len(arguments) == 2:
            self.popped[arguments[0]] = [*self.popped.get(arguments[0], []), arguments[1]]
            self.freed.pop(arguments[1], None)
        elif name == "TFREE" and arguments and self.popped.get(arguments[0]):
            oldest, *others = self.popped[arguments[0]]
            self.popped[arguments[0]] = others
            self.freed[oldest] = 1

    def _uses(self, name: str, arguments: list[str], node: Node) -> None:
        for argument in arguments if name not in ("TFREE", "TPOP") else ():
            if self.freed.pop(argument, None):
                message = f"{name} uses {argument} after the TFREE that released its slot"
                self.found.append(BrokenRule(self.path, line_of(node), "order", message))

    def _rules(self, name: str, arguments: list[str], node: Node) -> None:
        operation = bound(self.names, name, arguments, source_text(node))
        if operation is None:
            return
        row, facts = operation
        text, undecided = f"{name}({', '.join(arguments)})", []
        run = _as_in_a_run(facts)
        for constraint in constraints(row.name):
            if constraint.is_for_modules or constraint.arch not in ("both", self.arch):
                continue
            broken = constraint.judge(facts)
            if broken:
                message = f"{text} {constraint.explain(facts)}"
                self.found.append(BrokenRule(self.path, line_of(node), constraint.kind, message))
            elif broken is None and constraint.judge(run) is not None:
                undecided.append(constraint)
        if undecided:
            self.open.append(OpenCall(line_of(node), name, text, facts, tuple(undecided)))


def _branches(node: Node, parts: list[Balance]) -> list[Balance]:
    """Return the balance of each branch of a condition, without the condition itself."""
    if node.type != "if_statement":
        return parts
    inside = ("consequence", "alternative")
    fields = [child for name in inside if (child := node.child_by_field_name(name)) is not None]
    numbers = [number for number, child in enumerate(c for c in node.named_children if c.type != "comment")
               if child in fields]  # fmt: skip
    return [parts[number] for number in numbers]
