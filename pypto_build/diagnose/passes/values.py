"""Definitions and uses in a function of a dump, in order: values of tiles, their addresses and lifetimes."""

from __future__ import annotations

import ast
import math
import re
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from pypto_build.artifact import ArtifactError
from pypto_build.artifact.files import read_source

# The programs that a compilation dumps after its passes, function by function: `passes_dump/NN_after_<Pass>.py`, Python
# with the decorators of its language. It is only parsed, never executed.

_DUMP = re.compile(r"(?P<number>\d{1,9})_(?:after_)?(?P<name>.+)\.py\Z")
DIRECTORY = "passes_dump"
#: Levels of a syntax tree.
_MAX_NESTING = 120


@dataclass(frozen=True)
class DumpedFunction:
    """One function of a dump: its text from the first decorator or heading on, starting at `line`."""

    name: str
    line: int
    lines: tuple[str, ...]
    node: ast.FunctionDef

    @property
    def parameters(self) -> list[str]:
        """Names of the parameters, without `self`."""
        return [arg.arg for arg in self.node.args.args if arg.arg != "self"]


@dataclass(frozen=True)
class Dump:
    """The program after one pass. `error` is a line and a message if the text cannot be parsed."""

    number: int
    name: str
    path: Path
    functions: dict[str, DumpedFunction]
    error: tuple[int, str] | None = None

    @property
    def title(self) -> str:
        """`34 MemoryReuse`."""
        return f"{self.number:02} {self.name}"


def dump_files(root: Path) -> list[Path]:
    """Return the dumps of an artifact in the order of the passes. Raises ArtifactError if there are none."""
    directory = root / DIRECTORY
    files = [path for path in directory.glob("*") if _DUMP.match(path.name)] if directory.is_dir() else []
    if not files:
        hint = "compile with DUMP_PASSES=1 (PyPTO: dump_passes=True)"
        raise ArtifactError(directory, "contains no dump of a pass", hint)
    return sorted(files, key=lambda path: (int(path.name.split("_")[0]), path.name))


def read_dump(path: Path) -> Dump:
    """One dump, parsed."""
    match = _DUMP.match(path.name)
    assert match is not None
    text = read_source(path)
    number, name = int(match["number"]), match["name"]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about the style of a file that nobody here wrote
            tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:  # the last two for endless nesting
        line = getattr(error, "lineno", 0) or 0
        return Dump(number, name, path, {}, (line, getattr(error, "msg", str(error)) or "is nested too deeply"))
    deep = _too_deep(tree)
    if deep:
        return Dump(number, name, path, {}, (deep, "is nested too deeply"))
    lines = text.splitlines()
    functions = {node.name: _function(node, lines) for node in _functions(tree)}
    return Dump(number, name, path, functions, None if functions else (0, "holds no function"))


def _too_deep(tree: ast.Module) -> int:
    """Return the line of a node that is nested too deeply to be analysed, or 0 if there is none."""
    level: list[ast.AST] = [tree]
    for _ in range(_MAX_NESTING):
        level = [child for node in level for child in ast.iter_child_nodes(node)]
        if not level:
            return 0
    return next((node.lineno for node in level if hasattr(node, "lineno")), 1)


def _functions(tree: ast.Module) -> Iterator[ast.FunctionDef]:
    for node in tree.body:
        for inner in node.body if isinstance(node, ast.ClassDef) else [node]:
            if isinstance(inner, ast.FunctionDef):
                yield inner


def _function(node: ast.FunctionDef, lines: list[str]) -> DumpedFunction:
    start = min([node.lineno, *(one.lineno for one in node.decorator_list)])
    if not node.decorator_list and start > 1 and lines[start - 2].startswith("#"):
        start -= 1
    end = node.end_lineno or start
    return DumpedFunction(node.name, start, tuple(lines[start - 1 : end]), node)


#: Results of these are their operand's bytes, seen in another way.
_VIEWS = {"reshape", "slice", "subview", "view", "set_validshape", "transpose_view", "bitcast", "alias", "assemble"}
_BYTES = {"FP32": 4, "INT32": 4, "UINT32": 4, "FP64": 8, "INT64": 8, "UINT64": 8, "BF16": 2, "FP16": 2, "INT16": 2}
_BYTES |= {"UINT16": 2, "INDEX": 8}
_LOWER = re.compile(r"[a-z_]\w*\Z")


@dataclass(frozen=True)
class Span:
    """Bytes on chip: memory space (`vec`), the allocation's name where there is one, first byte, number of bytes."""

    space: str
    base: str
    start: int
    size: int

    def overlaps(self, other: Span) -> bool:
        """Return whether the two spans share a byte."""
        return (
            self.space == other.space and self.start < other.start + other.size and other.start < self.start + self.size
        )


#: The branches that a statement stands in: the number of the `if`, and which of its blocks.
ElementPath = tuple[tuple[int, int], ...]


@dataclass
class DumpedValue:
    """A name assigned at `line`, by statement number `begin`. `uses` are the statement numbers and paths of its uses.

    `same` are names that share its bytes on purpose.
    """

    name: str
    line: int
    begin: int
    span: Span | None = None
    path: ElementPath = ()
    loops: tuple[int, ...] = ()
    same: set[str] = field(default_factory=set)
    uses: list[tuple[int, ElementPath]] = field(default_factory=list)

    def read_after(self, other: DumpedValue) -> bool:
        """Return whether this value is read after `other` is written, on a path of branches that reaches both."""
        taken = dict(other.path)
        return any(
            number > other.begin and all(taken.get(branch, side) == side for branch, side in path)
            for number, path in self.uses
        )


@dataclass
class Flow:
    """A function's values by name, names used without being defined, and names assigned twice, each with its line."""

    values: dict[str, DumpedValue] = field(default_factory=dict)
    undefined: list[tuple[str, int]] = field(default_factory=list)
    again: list[tuple[str, int, int]] = field(default_factory=list)
    calls: list[tuple[str, int, int, bool]] = field(default_factory=list)


def flow_of(function: DumpedFunction) -> Flow:
    """Walk a function in the order of its text."""
    return _Walk(function).flow


class _Walk:
    def __init__(self, function: DumpedFunction) -> None:
        self.flow = Flow()
        self._now = 0
        self._loops: list[int] = []
        self._path: ElementPath = ()
        self._pending: list[list[tuple[str, int, ast.expr | None, list[str]]]] = []
        self._yielded: list[list[str]] = []
        self._declared: dict[str, ast.expr] = {}
        for arg in function.node.args.args:
            self._define(arg.arg, function.node.lineno, None, ())
        self._block(function.node.body)

    # -- statements --

    def _block(self, body: Iterable[ast.stmt]) -> None:
        for statement in body:
            self._now += 1
            self._statement(statement)

    def _statement(self, node: ast.stmt) -> None:
        if isinstance(node, ast.For):
            self._loop(node)
        elif isinstance(node, ast.While):
            self._use(node.test)
            self._region(node, [node.body])
        elif isinstance(node, ast.If):
            self._use(node.test)
            self._region(node, [node.body, node.orelse])
        elif isinstance(node, ast.With):
            for item in node.items:
                self._use(item.context_expr)
                if isinstance(item.optional_vars, ast.Name):
                    self._define(item.optional_vars.id, node.lineno, None, ())
            self._block(node.body)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            self._declared[node.target.id] = node.annotation
            if node.value is not None:
                self._assign([node.target.id], node.value, node.lineno)
        elif isinstance(node, ast.Assign):
            targets = node.targets[0]
            names = [n.id for n in ast.walk(targets) if isinstance(n, ast.Name)]
            self._assign(names, node.value, node.lineno)
        elif isinstance(node, (ast.Expr, ast.Return)) and node.value is not None:
            self._use(node.value)

    def _assign(self, names: list[str], value: ast.expr, line: int) -> None:
        used = self._use(value)
        kinds = [self._declared.pop(name, None) for name in names]
        if _called(value).endswith("yield_") and self._pending:
            self._yielded.append(used)
            for position, (name, kind) in enumerate(zip(names, kinds, strict=True)):
                self._pending[-1].append((name, line, kind, used[position : position + 1]))
            return
        view = isinstance(value, ast.Name) or _called(value).rpartition(".")[2] in _VIEWS
        for name, kind in zip(names, kinds, strict=True):
            self._define(name, line, kind, used if view else ())

    def _loop(self, node: ast.For) -> None:
        inits = self._use(node.iter)
        names = [n.id for n in ast.walk(node.target) if isinstance(n, ast.Name)]
        carried = names[1:]
        started = [name for name in inits if name in self.flow.values][-len(carried) :] if carried else []
        self._loops.append(self._now)
        for position, name in enumerate(names):
            same = [started[position - 1]] if position and position - 1 < len(started) else []
            self._define(name, node.lineno, None, same, hidden=name == "_")
        loop = self._now
        self._region(node, [node.body], inside=carried)
        self._loops.pop()
        self._settle(loop)

    def _region(self, node: ast.stmt, bodies: list[list[ast.stmt]], inside: Iterable[str] = ()) -> None:
        """Visit the blocks of a statement whose yields become its results. The results are defined at its end."""
        self._pending.append([])
        before = len(self._yielded)
        around, branch = self._path, self._now
        for side, body in enumerate(bodies):
            self._path = (*around, (branch, side)) if len(bodies) > 1 else around
            self._block(body)
        self._path = around
        self._now += 1
        yielded = self._yielded[before:]
        del self._yielded[before:]
        loops = self._loops[:-1] if isinstance(node, ast.For) else self._loops
        kept, self._loops = self._loops, list(loops)
        seen: set[str] = set()
        for name, line, kind, same in self._pending.pop():
            if name in seen:
                self.flow.values[name].same.update(same)
                continue
            seen.add(name)
            self._define(name, line, kind, same)
        self._loops = kept
        for position, name in enumerate(inside):
            self.flow.values[name].same.update(row[position] for row in yielded if position < len(row))

    def _settle(self, loop: int) -> None:
        """Extend values that are defined outside of a loop and used in it until the loop ends."""
        for value in self.flow.values.values():
            if loop not in value.loops and value.begin <= loop and value.uses and value.uses[-1][0] > loop:
                value.uses.append((self._now, self._path))

    # -- names --

    def _define(
        self, name: str, line: int, kind: ast.expr | None, same: Iterable[str], *, hidden: bool = False
    ) -> None:
        earlier = self.flow.values.get(name)
        if earlier is not None and not hidden:
            self.flow.again.append((name, line, earlier.line))
        span = span_of(kind) if kind is not None else None
        self.flow.values[name] = DumpedValue(name, line, self._now, span, self._path, tuple(self._loops), set(same))

    def _use(self, node: ast.expr | None) -> list[str]:
        """Return the names that an expression uses, in order. Undefined names are remembered."""
        if node is None:
            return []
        used = []
        for one in _ordered(node):
            if isinstance(one, ast.Call):
                self._call(one)
            if isinstance(one, ast.Name) and _LOWER.match(one.id):
                used.append(one.id)
                if one.id in self.flow.values:
                    self.flow.values[one.id].uses.append((self._now, self._path))
                else:
                    self.flow.undefined.append((one.id, one.lineno))
        return used

    def _call(self, node: ast.Call) -> None:
        name = _called(node)
        if name.startswith("self.") or "." not in name:
            starred = any(isinstance(arg, ast.Starred) for arg in node.args)
            self.flow.calls.append(
                (name.removeprefix("self."), node.lineno, -1 if starred else len(node.args), "." in name)
            )


def _ordered(node: ast.AST) -> Iterator[ast.AST]:
    """Return the nodes of an expression in the order of the text, without the names of called functions."""
    yield node
    for child in ast.iter_child_nodes(node):
        if isinstance(node, ast.Call) and child is node.func:
            if isinstance(child, ast.Subscript):
                yield from _ordered(child.slice)
            continue
        if isinstance(node, ast.Attribute):
            continue
        yield from _ordered(child)


def _called(node: ast.expr) -> str:
    """`pl.tile.load` of a call, `scale` of `scale[4](x)`."""
    words: list[str] = []
    part: ast.expr = node.func if isinstance(node, ast.Call) else node
    part = part.value if isinstance(part, ast.Subscript) else part
    while isinstance(part, ast.Attribute):
        words.append(part.attr)
        part = part.value
    return ".".join([part.id, *reversed(words)]) if isinstance(part, ast.Name) else ""


# -- spans ---------------------------------------------------------------------------------------------------------


def span_of(kind: ast.expr) -> Span | None:
    """Return the bytes that a tile of this type occupies; None for other types and for tiles without an address."""
    if isinstance(kind, ast.BinOp) and isinstance(kind.op, ast.MatMult):
        start, size, space = _number(kind.right), _tile_bytes(kind.left), _space(kind.left)
        return Span(space, "", start, size) if space and start is not None and size else None
    if not isinstance(kind, ast.Subscript) or _called(kind.value) != "pl.Tile":
        return None
    for part in ast.walk(kind):
        if isinstance(part, ast.Call) and _called(part) == "pl.MemRef" and len(part.args) == 3:
            first, count, memory = _number(part.args[1]), _number(part.args[2]), _space(kind)
            base = part.args[0].id if isinstance(part.args[0], ast.Name) else ast.unparse(part.args[0])
            return Span(memory, base, first, count) if memory and first is not None and count else None
    return None


def _space(kind: ast.expr) -> str:
    for part in ast.walk(kind):
        if isinstance(part, ast.Attribute) and _called(part.value) == "pl.Mem":
            return part.attr.lower()
        if isinstance(part, ast.Name) and part.id in ("vec", "mat", "left", "right", "acc", "bias"):
            return part.id
    return ""


def _number(node: ast.expr) -> int | None:
    """A constant, also `pl.const(n, type)`."""
    if isinstance(node, ast.Call) and _called(node) == "pl.const" and node.args:
        node = node.args[0]
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, int) else None


def _tile_bytes(kind: ast.expr) -> int:
    """The bytes of `Tile[[rows, columns], type, space]`, 0 where they are not constant."""
    if not isinstance(kind, ast.Subscript) or not isinstance(kind.slice, ast.Tuple) or len(kind.slice.elts) < 2:
        return 0
    shape, element = kind.slice.elts[:2]
    sizes = [_number(one) or 0 for one in shape.elts] if isinstance(shape, ast.List) else [0]
    return math.prod(sizes) * _BYTES.get(element.id if isinstance(element, ast.Name) else "", 1)
