"""Translates a module, or one function of it, to the text of an executable Python file."""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, partial, singledispatch
from pathlib import Path

from pypto_build.facts.positions import SourcePosition

from ..assemble import require_names
from ..model import Function, Module, Operation, SymbolAttr, case_of, int_value
from ..ops import TABLE
from .lowering import find_lowering
from .writer import PythonLines, PythonNames, Scope, Writer, function_names

# The head of a generated file: those helpers its functions use, and what these use themselves.

_FILES = ("memory", "arithmetic", "special", "pipes", "ranks", "launch", "program")
_DIRECTORY = Path(__file__).parent / "helpers"


@dataclass(frozen=True)
class _Piece:
    """One definition of a helper file: the names it defines and uses, and its text."""

    names: tuple[str, ...]
    uses: frozenset[str]
    text: str
    is_import: bool


@cache
def _pieces() -> tuple[_Piece, ...]:
    pieces: list[_Piece] = []
    for name in _FILES:
        source = (_DIRECTORY / f"{name}.py").read_text(encoding="utf-8")
        lines = source.splitlines()
        for node in ast.parse(source).body:
            defines = _names_defined(node)
            if not defines:
                continue
            decorators = getattr(node, "decorator_list", [])
            first = min([node.lineno, *(d.lineno for d in decorators)]) - 1
            while first and lines[first - 1].startswith("# "):
                first -= 1
            assert node.end_lineno is not None
            text = "\n".join(lines[first : node.end_lineno])
            is_import = isinstance(node, (ast.Import, ast.ImportFrom))
            uses = frozenset(_identifiers(node)) - set(defines)
            pieces.append(_Piece(defines, uses, text, is_import))
    return tuple(pieces)


def _names_defined(node: ast.stmt) -> tuple[str, ...]:
    if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
        return (node.name,)
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        return (node.target.id,)
    if isinstance(node, ast.Assign):
        return tuple(t.id for t in node.targets if isinstance(t, ast.Name))
    if isinstance(node, ast.ImportFrom) and (node.level or node.module == "__future__"):
        return ()
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        return tuple((a.asname or a.name).partition(".")[0] for a in node.names)
    return ()


def _identifiers(node: ast.AST) -> Iterable[str]:
    return (n.id for n in ast.walk(node) if isinstance(n, ast.Name))


@cache
def helper_names() -> frozenset[str]:
    """Return the names that generated functions must not use."""
    return frozenset(name for piece in _pieces() for name in piece.names) | {"torch", "run", "annotations"}


def taken_names() -> frozenset[str]:
    """Return the names with another meaning in a file: helpers, Python's own, and names that callers define."""
    return helper_names() | frozenset(dir(builtins)) | {"_probe"}


def used_names(text: str) -> frozenset[str]:
    """Return the names among `taken_names` that a file uses."""
    return taken_names() & {*_identifiers(ast.parse(text)), "torch"}


def preamble(body: str, functions: Collection[str] = ()) -> str:
    """Return the head of a file whose text is `body`, which defines `functions` itself."""
    needed = {*_identifiers(ast.parse(body))} - {*functions} | {"torch"}
    chosen: dict[int, _Piece] = {}
    grew = True
    while grew:
        grew = False
        for number, piece in enumerate(_pieces()):
            if number not in chosen and needed & set(piece.names):
                chosen[number] = piece
                needed |= piece.uses
                grew = True
    ordered = [chosen[number] for number in sorted(chosen)]
    imports = _merged([piece.text for piece in ordered if piece.is_import], needed)
    text = "from __future__ import annotations\n\n" + "\n".join(imports) + "\n"
    for piece in ordered:
        if not piece.is_import:
            gap = (
                "\n\n\n"
                if piece.text.lstrip("# ").startswith(("def ", "class ", "@")) or "\ndef " in piece.text
                else "\n\n"
            )
            text += gap.removeprefix("\n") + piece.text + "\n"
    return text


def _merged(imports: list[str], needed: set[str]) -> list[str]:
    """Return the imports, the standard library before torch; of `from x import a, b` only the used names."""
    plain: set[str] = set()
    members: dict[str, set[str]] = {}
    for text in imports:
        node = ast.parse(text).body[0]
        if isinstance(node, ast.ImportFrom):
            members.setdefault(str(node.module), set()).update(a.name for a in node.names if a.name in needed)
        elif isinstance(node, ast.Import):
            plain |= {a.name for a in node.names if a.name in needed}
    lines = [f"import {name}" for name in sorted(plain - {"torch"})]
    lines += [f"from {module} import {', '.join(sorted(names))}" for module, names in sorted(members.items()) if names]
    return [*lines, "", "import torch"] if lines else ["import torch"]


# Groups: the functions of a module that run together, and whether they have to take turns.


@dataclass(frozen=True)
class Group:
    """Kernels (`members`) that run together. `function` calls them; it is None if the module has only the members."""

    name: str
    members: tuple[Function, ...]
    scheduled: bool
    function: Function | None = None


def _transfers(function: Function) -> Iterator[Operation]:
    """Yield pushes and pops."""
    return (op for op in function.walk() if TABLE[op.name].keys[0] in ("pipe:push", "pipe:pop"))


def _traffic(function: Function) -> set[str]:
    """Return the kinds of transfers in a function: `push_to_aiv`, `pop_from_aic`, …"""
    return {op.name.removeprefix("pto.t") for op in _transfers(function)}


def uses_split(function: Function) -> bool:
    return any(int_value(op.attrs.get("split")) > 0 for op in _transfers(function))


def has_barrier(function: Function) -> bool:
    return any(op.name == "pto.syncall" for op in function.walk())


def needs_schedule(members: tuple[Function, ...]) -> bool:
    """Return whether members must run alternately.

    They must when tiles go both ways, when one member pushes to and pops from the same pipe, or when a tile is split
    between vector cores. They must, too, when two vector cores do the same work, or when all members wait at a barrier.
    """
    if any("dual_aiv_dispatch" in member.attrs or has_barrier(member) for member in members):
        return True
    each = [_traffic(member) for member in members]
    union = set().union(*each)
    if {"push_to_aiv", "push_to_aic"} <= union:
        return True
    feedback = ({"push_to_aiv", "pop_from_aic"}, {"push_to_aic", "pop_from_aiv"})
    return any(pair <= traffic for traffic in each for pair in feedback) or any(map(uses_split, members))


def called(function: Function) -> list[str]:
    """Return the names of the functions that a function calls, in order."""
    names = []
    for op in function.walk():
        callee = op.attrs.get("callee") if TABLE[op.name].fn == "call" else None
        if isinstance(callee, SymbolAttr):
            names.append(callee.name)
    return names


def find_groups(module: Module) -> list[Group]:
    """Return the groups of a module. Explicit groups are functions without a core that call kernels; implicit groups
    are kernels joined by pipes.
    """
    functions = {f.name: f for f in module.functions() if f.body is not None}
    groups = []
    for function in functions.values():
        members = tuple(functions[n] for n in dict.fromkeys(called(function)) if n in functions)
        members = tuple(m for m in members if m.kernel_kind)
        if members and not function.kernel_kind and len(members) > 1:
            groups.append(Group(function.name, members, needs_schedule(members), function))
    taken = {m.name for group in groups for m in group.members}
    return groups + [g for g in _implied(functions) if not taken & {m.name for m in g.members}]


def _implied(functions: Mapping[str, Function]) -> Iterator[Group]:
    for cube in functions.values():
        if cube.kernel_kind != "cube" or not _traffic(cube):
            continue
        vector = _partner(cube, functions)
        if vector is None:
            continue
        name = _common(cube.name, vector.name)
        if name in functions:
            name = f"{name}_group"
        members = (cube, vector) if "push_to_aiv" in _traffic(cube) else (vector, cube)
        yield Group(name, members, needs_schedule(members))


def _partner(cube: Function, functions: Mapping[str, Function]) -> Function | None:
    for op in cube.walk():
        peer = op.attrs.get("peer_func")
        if isinstance(peer, SymbolAttr) and peer.name in functions:
            return functions[peer.name]
    for function in functions.values():
        for op in function.walk():
            peer = op.attrs.get("peer_func")
            if isinstance(peer, SymbolAttr) and peer.name == cube.name:
                return function
    other = functions.get(cube.name.removesuffix("_aic") + "_aiv")
    return other if cube.name.endswith("_aic") else None


def _common(first: str, second: str) -> str:
    """Return the common part of two names: `gemm` of `gemm_aic` and `gemm_aiv`."""
    size = next(
        (i for i, (a, b) in enumerate(zip(first, second, strict=False)) if a != b), min(len(first), len(second))
    )
    return first[:size].rstrip("_").removesuffix("_ai").removesuffix("_a") or f"{first}_{second}"


def lanes(function: Function) -> int:
    """Return how many vector cores run a member."""
    if function.kernel_kind != "vector":
        return 1
    return 2 if uses_split(function) or "dual_aiv_dispatch" in function.attrs else 1


def unsplit_modes(module: Module) -> dict[int, str]:
    """Return, by pipe id, the second vector core's part in traffic that is not split."""
    modes: dict[int, str] = {}
    dual = any("dual_aiv_dispatch" in function.attrs for function in module.functions())
    for function in module.functions():
        for op in function.walk():
            if TABLE[op.name].family != "pipe":
                continue
            number = int_value(op.attrs.get("id"))
            split = int_value(op.attrs.get("split")) > 0
            modes[number] = "copy" if dual else "empty" if split or modes.get(number) == "empty" else "none"
    return modes


#: Number of operations in a message, and of characters about each.
_SHOWN, _LONGEST = 100, 400


class UnsupportedOperations(ValueError):
    """Operations without a translation, all of them: `operations` are (place, name, why)."""

    def __init__(self, operations: list[tuple[SourcePosition, str, str]]) -> None:
        self.operations = operations
        shown = [
            f"{position}: {name}{f' {why}' if why else ''}"[:_LONGEST] for position, name, why in operations[:_SHOWN]
        ]
        left = len(operations) - len(shown)
        listed = "; ".join(shown) + (f"; and {left} more" if left else "")
        names = ", ".join(f"'{name}'" for name in dict.fromkeys(name for _, name, _ in operations))
        super().__init__(f"Unsupported op {names} in torch_codegen. {listed}")


@dataclass
class Generated:
    """A Python file.

    `lines` maps its lines (from 1) to positions in the .pto module. `names` are the Python names of the module's
    functions. `scheduled` are the functions that are generators, `groups` the functions that run together.
    """

    text: str
    names: Mapping[str, str] = field(default_factory=dict)
    lines: dict[int, SourcePosition] = field(default_factory=dict)
    scheduled: frozenset[str] = frozenset()
    groups: tuple[Group, ...] = ()


@singledispatch
def torch_codegen(node: object, *, check_shapes: bool = False) -> str:
    """Return executable PyTorch of a program, a unit (`Module`), or one `Function`.

    The file has a small preamble, the functions, kernels before their callers, and `run(...)` as the entry, if there is
    one. A user's function named `run` keeps its name: then the entry is called by its own. A function with the name of
    a helper that the file needs gets a number behind it.

    `check_shapes` adds assertions on arguments. Raises UnsupportedOperations, a ValueError that names every operation
    without a translation; TypeError for anything else than these nodes.
    """
    raise TypeError(f"torch_codegen expects Program or Function, got {type(node).__name__}")


@torch_codegen.register
def _(node: Module, *, check_shapes: bool = False) -> str:
    return generate(node, check_shapes=check_shapes).text


@torch_codegen.register
def _(node: Function, *, check_shapes: bool = False) -> str:
    return generate(Module([node]), check_shapes=check_shapes, lone=True).text


def generate(
    module: Module,
    *,
    check_shapes: bool = False,
    lone: bool = False,
    probes: bool = False,
    in_memory: bool = False,
    numerics: str = "",
) -> Generated:
    """Return the file of a module with the source positions of its lines.

    `lone` leaves out groups and the entry. `probes` adds calls of `_probe(line, operation, result)`, which the caller
    defines. With `in_memory` or `probes` all tiles are views of on-chip memories; else tiles are plain tensors where
    that makes no difference. With `numerics`, `device` or `simulator`, instructions whose results differ there are
    called as `_numerics.…`, which the caller defines too.
    """
    require_names(module)

    def file(taken: frozenset[str]) -> Generated:
        return _File(module, check_shapes, lone, probes, in_memory, numerics, taken).write()

    generated = file(taken_names())
    if all(name == translated for name, translated in generated.names.items()):
        return generated
    return file(used_names(generated.text))  # few helpers are in a file: the names of the others are free


#: Instructions that upstream's simulator computes differently from PyTorch.
_OTHERWISE = re.compile(r"(?<![\w.])torch\.(?=(?:maximum|minimum|exp|log|rsqrt)\b)")


class _File:
    def __init__(
        self,
        module: Module,
        check_shapes: bool,
        lone: bool,
        probes: bool,
        in_memory: bool,
        numerics: str,
        taken: frozenset[str],
    ) -> None:
        self.module = module
        self.lone = lone
        self.functions = [f for f in module.functions() if f.body is not None]
        self.groups = [] if lone else find_groups(module)
        scheduled = {m.name for g in self.groups if g.scheduled for m in g.members}
        scheduled |= {f.name for f in self.functions if has_barrier(f)}
        names = function_names((f.name for f in module.functions()), taken)
        reserved = helper_names() | {"_probe", "_numerics"} | {names[f.name] for f in self.functions}
        self.scope = Scope(
            module, names, frozenset(scheduled), reserved, check_shapes, probes, in_memory, unsplit_modes(module),
            numerics,
        )  # fmt: skip
        self.out = PythonLines()
        self.problems: list[tuple[SourcePosition, str, str]] = []
        self.arch = case_of(module.attrs.get("pto.target_arch")) or "a2a3"

    def write(self) -> Generated:
        for function in self._ordered():
            self._function(function)
        for group in self.groups:
            if group.function is None:
                self._group(group)
        if not self.lone:
            self._entry()
        if self.problems:
            raise UnsupportedOperations(self.problems)
        if self.scope.numerics == "simulator":
            self.out.text = [_OTHERWISE.sub("_numerics.", line) for line in self.out.text]
        body = "\n".join(self.out.text).rstrip() + "\n"
        head = preamble(body, self.scope.names.values()) + "\n\n"
        first = head.count("\n") + 1
        places = {
            first + number: self.module.source.position(token)
            for number, token in enumerate(self.out.tokens)
            if token >= 0
        }
        return Generated(head + body, dict(self.scope.names), places, self.scope.scheduled, tuple(self.groups))

    def _ordered(self) -> list[Function]:
        """Return kernels in their order, then functions for no core, then groups."""
        written = {g.function.name for g in self.groups if g.function is not None}
        rank: Callable[[Function], int] = lambda f: 0 if f.kernel_kind else 2 if f.name in written else 1  # noqa: E731
        return sorted(self.functions, key=rank)

    def _function(self, function: Function) -> None:
        group = next((g for g in self.groups if g.function is function), None)
        writer = Writer(function, self.scope, find_lowering)
        writer.arch = self.arch
        if group is not None:
            _GroupBody(group, self.scope).install(writer)
        lines = writer.write()
        if group is not None:
            members = ", ".join(m.name for m in group.members)
            lines.text.insert(1, f"    # Group{' (scheduled)' if group.scheduled else ''}: {members}")
            lines.tokens.insert(1, -1)
            if group.scheduled:
                lines.text.insert(2, "    _reset_pipes()")
                lines.tokens.insert(2, -1)
        for op, why in writer.problems:
            self.problems.append((self.module.source.position(op.token), op.name.removeprefix("pto."), why))
        self._append(lines)

    def _append(self, lines: PythonLines) -> None:
        self.out.text += [*lines.text, "", ""]
        self.out.tokens += [*lines.tokens, -1, -1]

    def _group(self, group: Group) -> None:
        """Write the function of an implicit group: all members with the same arguments."""
        lines = PythonLines(indent=0)
        names = PythonNames(self.scope.reserved)
        widest = max(group.members, key=lambda m: len(_own_arguments(m)))
        parameters = [names.unique(a) for a in _own_arguments(widest)]
        name = PythonNames(self.scope.reserved).unique(group.name)
        lines.add(f"def {name}({', '.join(parameters)}):")
        lines.indent = 1
        lines.add(f"# Group{' (scheduled)' if group.scheduled else ''}: {', '.join(m.name for m in group.members)}")
        lines.add("_reset_pipes()")
        if group.scheduled:
            lines.add("return _run_scheduler([")
            for member in group.members:
                arguments = partial(_arguments, member, parameters)
                for call in _member_calls(member, self.scope.names[member.name], arguments):
                    lines.add(f"    {call},")
            lines.add("])")
        else:
            for member in group.members:
                lines.add(f"{self.scope.names[member.name]}({', '.join(_arguments(member, parameters, 0))})")
        self._append(lines)

    def _entry(self) -> None:
        """Write `run`, which calls the first function without a core, else the first group, else the only kernel."""
        written = [g.function for g in self.groups if g.function is not None]
        opaque = [f for f in self.functions if not f.kernel_kind and f not in written]
        if opaque or written:
            entry = (opaque or written)[0]
            shown, hints = entry.name, [a.name for a in entry.args]
        elif self.groups:
            group = self.groups[0]
            shown = PythonNames(self.scope.reserved).unique(group.name)
            hints = _own_arguments(max(group.members, key=lambda m: len(_own_arguments(m))))
        elif len(self.functions) == 1:
            shown, hints = self.functions[0].name, [a.name for a in self.functions[0].args]
        else:
            return
        if any(function.name == "run" for function in self.functions):  # it is the entry, or keeps its name
            return
        names = PythonNames(self.scope.reserved)
        parameters = ", ".join(names.unique(hint) for hint in hints)
        lines = PythonLines(indent=0)
        lines.add("# Entry point")
        lines.add(f"def run({parameters}):")
        call = f"{self.scope.names.get(shown, shown)}({parameters})"
        lines.add(
            f'    return _run_scheduler([("{shown}", {call}, 0)])'
            if shown in self.scope.scheduled
            else f"    return {call}"
        )
        self._append(lines)


_SPMD = {"%__pypto_spmd_block_idx": "_block[0]", "%__pypto_spmd_block_num": "_block[1]"}
_LANE = "%__pypto_spmd_subblock_idx"


def _own_arguments(function: Function) -> list[str]:
    """Return the arguments that do not concern the launch."""
    return [a.name for a in function.args if a.name not in _SPMD and a.name != _LANE]


def _arguments(function: Function, parameters: list[str], lane: int) -> list[str]:
    """Return the arguments of a call of a group's member."""
    own = iter(parameters)
    return [str(lane) if a.name == _LANE else _SPMD[a.name] if a.name in _SPMD else next(own) for a in function.args]


def _member_calls(member: Function, name: str, arguments: Callable[[int], list[str]]) -> list[str]:
    """`("name", name(args), 0)`; a member that two vector cores run comes twice, as name#0 and name#1."""
    count = lanes(member)
    labels = [member.name] if count == 1 else [f"{member.name}#{lane}" for lane in range(count)]
    return [f'("{label}", {name}({", ".join(arguments(lane))}), {lane})' for lane, label in enumerate(labels)]


class _GroupBody:
    """Calls of a scheduled group's members: collected, and run together at the position of the last call."""

    def __init__(self, group: Group, scope: Scope) -> None:
        self.group = group
        self.members = {m.name: m for m in group.members}

    def install(self, writer: Writer) -> None:
        if not self.group.scheduled:
            return
        plain = writer.find
        writer.find = lambda op: self._call if _callee(op) in self.members else plain(op)
        self.pending: list[tuple[Operation, list[str]]] = []

    def _call(self, w: Writer, op: Operation) -> None:
        region = _region_of(w, op)
        self.pending.append((op, w.operands(op, "args")))
        last = [other for other in region if _callee(other) in self.members][-1]
        if op is not last:
            return
        w.out.add("")
        result = [value for each, _ in self.pending for value in w.resolved.results(each)]
        names = [w.bind(value, w.names.unique(value.name)) for value in result]
        start = f"{', '.join(names)} = " if names else ""
        w.add(op, f"{start}_run_scheduler([")
        for each, arguments in self.pending:
            member = self.members[_callee(each)]
            name = w.scope.names[member.name]
            for call in _member_calls(member, name, partial(_passed, member, arguments)):
                w.out.add(f"    {call},")
        w.out.add("])")
        self.pending = []


def _passed(member: Function, arguments: list[str], lane: int) -> list[str]:
    """Return the arguments that a call in the module passes to a member on one of the vector cores."""
    return [
        str(lane) if parameter.name == _LANE else text for parameter, text in zip(member.args, arguments, strict=True)
    ]


def _callee(op: Operation) -> str:
    return str(getattr(op.attrs.get("callee"), "name", ""))


def _region_of(w: Writer, op: Operation) -> list[Operation]:
    """Return the operations of the block that contains an operation."""
    assert w.function.body is not None
    regions = [w.function.body, *(r for o in w.function.body.walk() for r in o.regions)]
    return next(r.ops for r in regions if any(o is op for o in r.ops))
