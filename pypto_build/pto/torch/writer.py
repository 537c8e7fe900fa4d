"""Translates one function to Python: the values in scope and the lines written. The other modules of this package
translate the operations.
"""

from __future__ import annotations

import ast
import builtins
import keyword
import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath

from ..lowerings import Lowerings
from ..model import Function, Module, Operation, Region
from ..ops import TABLE, TILE_ALLOCATIONS
from ..resolve import Resolved, Value, resolve
from ..types import DYNAMIC, TileType
from . import dtypes
from .effects import Extent, Extents, plain_sizes, valid_extents
from .promote import Promotion, promote, seen_as

# Names of generated Python: what a text has as names of its own, made valid, and never two the same.


def sanitize(hint: str) -> str:
    """Return a valid name derived from the hint: `q__ssa_v0` -> `q_ssa_v0`, `0abc` -> `v_0abc`, `for` -> `for_v`."""
    name = re.sub(r"_+", "_", re.sub(r"[^A-Za-z0-9_]", "_", hint)).strip("_")
    if not name:
        return "v"
    if name[0].isdigit():
        name = f"v_{name}"
    return f"{name}_v" if keyword.iskeyword(name) else name


def function_names(functions: Iterable[str], taken: Collection[str]) -> dict[str, str]:
    """Return the names of the user's functions in a generated file.

    A name that is `taken`, or no name in Python, gets a number behind it. `run` may be the user's.
    """
    own = set(functions)
    names: dict[str, str] = {}
    for name in sorted(own):
        chosen, number = name, 0
        while keyword.iskeyword(chosen) or (chosen in taken and chosen != "run") or (number and chosen in own):
            number += 1
            chosen = f"{name}_{number}"
        names[name] = chosen
    return names


class PythonNames:
    """Assigns unique names: the first use unchanged, then `name_1`, `name_2`, …, skipping every name in use."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self.taken = {*taken, *dir(builtins), "torch", "run"}
        self.last: dict[str, int] = {}

    def unique(self, hint: str) -> str:
        base = sanitize(hint)
        name, number = base, self.last.get(base, 0)
        while name in self.taken:
            number += 1
            name = f"{base}_{number}"
        self.last[base] = number
        self.taken.add(name)
        return name


# Loads that need no copy: nothing can change what was loaded before it was read for the last time.

#: Families without writes to global memory and without switches to another core.
_QUIET = frozenset((
    "arith", "arith_compare", "arith_select", "array", "cast", "colexpand", "colreduce", "compare", "concat",
    "constant", "control:for", "control:if", "control:yield", "convert", "core_id", "element:get", "elementwise",
    "fill", "fillpad", "matmul", "move", "none", "pointer", "rowexpand", "rowreduce", "scalar:load", "select",
    "ternary", "tile", "transfer:load", "transpose", "view",
))  # fmt: skip
#: Families whose result may be a view of an operand.
_VIEWS = frozenset(("convert", "fillpad", "move", "transpose", "rowexpand:copy", "colexpand:copy"))


@dataclass
class _Uses:
    """The writers and the readers of a variable."""

    writers: list[Operation] = field(default_factory=list)
    readers: list[Operation] = field(default_factory=list)


def borrowing_loads(resolved: Resolved, promotion: Promotion) -> set[int]:
    """Return the ids of loads whose variables may be views of global memory."""
    return _Borrowing(resolved, promotion).borrowable()


class _Borrowing:
    def __init__(self, resolved: Resolved, promotion: Promotion) -> None:
        self.resolved, self.promotion = resolved, promotion
        self.position: dict[int, tuple[int, int, Operation | None]] = {}  # op -> its region, number there, op around it
        self.regions: dict[int, Region] = {}
        self.uses: dict[int, _Uses] = defaultdict(_Uses)
        self.zeroed = {id(value) for value in promotion.zeroed}
        assert resolved.function.body is not None
        self._region(resolved.function.body, None)

    def _region(self, region: Region, around: Operation | None) -> None:
        self.regions[id(region)] = region
        for number, op in enumerate(region.ops):
            self.position[id(op)] = id(region), number, around
            for role in op.operands:
                source = self.promotion.sources.get((id(op), role))
                if source is not None:
                    self.uses[id(source)].readers.append(op)
                about = TABLE[op.name].role(role, op.variant)
                value = self.resolved.value(op, role)
                if value is not None and value in self.promotion and about is not None and "w" in about.access:
                    self.uses[id(self.promotion.variables[id(value)])].writers.append(op)
            for inner in op.regions:
                self._region(inner, op)

    def borrowable(self) -> set[int]:
        loads = set()
        for number, uses in self.uses.items():
            load = uses.writers[0] if len(uses.writers) == 1 else None
            if load is None or load.name != "pto.tload" or number in self.zeroed:
                continue
            region, first, _ = self.position[id(load)]
            last = self._last_use(number, region, first)
            if last is not None and all(map(_is_quiet, self.regions[region].ops[first + 1 : last + 1])):
                loads.add(id(load))
        return loads

    def _last_use(self, variable: int, region: int, first: int) -> int | None:
        """Return the number of the last reader of the variable and its views; None unless all are in the region."""
        last = first
        for op in self.uses[variable].readers:
            number = self._number_in(op, region)
            if number is None or number <= first:
                return None
            last = max(last, number)
            if _VIEWS.isdisjoint(TABLE[op.name].keys):
                continue
            target = self.resolved.value(op, "dst")
            if target is None or target not in self.promotion:
                continue  # copied into a memory
            derived = id(self.promotion.variables[id(target)])
            if len(self.uses[derived].writers) != 1 or derived == variable:
                return None
            further = self._last_use(derived, region, first)
            if further is None:
                return None
            last = max(last, further)
        return last

    def _number_in(self, op: Operation, region: int) -> int | None:
        """Return the position, in a region, of an operation or of the operation around it."""
        while True:
            own, number, around = self.position[id(op)]
            if own == region:
                return number
            if around is None:
                return None
            op = around


def _is_quiet(op: Operation) -> bool:
    quiet = not _QUIET.isdisjoint(TABLE[op.name].keys)
    return quiet and all(_is_quiet(inner) for region in op.regions for inner in region.ops)


# Windows of global memory that are only loaded to and stored from variables: plain views of a tensor.


def plain_windows(resolved: Resolved, promotion: Promotion) -> set[int]:
    """Return the ids of windows that are plain views, and of tensor views that have only such windows."""
    uses: dict[int, list[tuple[Operation, str]]] = defaultdict(list)
    values: dict[int, Value] = {}
    for op in resolved.function.walk():
        for role in op.operands:
            for value in resolved.values(op, role):
                uses[id(value)].append((op, role))
        for value in resolved.results(op):
            values[id(value)] = value
    plain = {
        number
        for number, value in values.items()
        if plain_sizes(resolved, value) is not None
        and uses[number]
        and all(_moves_variable(resolved, promotion, op, role) for op, role in uses[number])
    }
    return plain | {
        number
        for number, value in values.items()
        if value.op is not None
        and value.op.name == "pto.make_tensor_view"
        and all(id(result) in plain for op, _ in uses[number] for result in resolved.results(op) or (None,))
    }


def _moves_variable(resolved: Resolved, promotion: Promotion, op: Operation, role: str) -> bool:
    if op.name == "pto.tload" and role == "src":
        tile = resolved.value(op, "dst")
        return tile is not None and tile in promotion
    return op.name == "pto.tstore" and role == "dst" and (id(op), "src") in promotion.sources


def joined(terms: list[tuple[str, str]]) -> str:
    """Return the sum of products, with constants added up: `4096 + i * 64`."""
    constant, others = 0, []
    for a, b in terms:
        if a.lstrip("-").isdigit() and b.lstrip("-").isdigit():
            constant += int(a) * int(b)
        elif "0" not in (a, b):
            others.append(b if a == "1" else a if b == "1" else f"{a} * {b}")
    return " + ".join([*others, *([str(constant)] if constant or not others else [])])


class Unsupported(Exception):
    """An operation, as it is written, has no translation."""


@dataclass
class PythonLines:
    """Python lines, each with the token of the .pto operation that it came from."""

    text: list[str] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    indent: int = 1
    token: int = -1

    def add(self, line: str) -> None:
        self.text.append("    " * self.indent + line if line else "")
        self.tokens.append(self.token)


Lower = Callable[["Writer", Operation], None]
#: Filled by the modules of this package.
LOWERINGS: Lowerings[Lower] = Lowerings()
Finder = Callable[[Operation], "Lower | None"]


def _yields(lines: Sequence[str]) -> bool:
    """Return whether the lines of a function make it a generator."""
    tree = ast.parse("\n".join([*lines, "    pass"]))
    return any(isinstance(node, ast.Yield | ast.YieldFrom) for node in ast.walk(tree))


@dataclass(frozen=True)
class Scope:
    """The parts of a module that a function's translation needs.

    `names` has the Python names of its functions, `scheduled` the members of scheduled groups, `reserved` the taken
    names. `unsplit` is, by pipe, the second vector core's part in traffic that is not split.
    """

    module: Module
    names: Mapping[str, str]
    scheduled: frozenset[str] = frozenset()
    reserved: frozenset[str] = frozenset()
    check_shapes: bool = False
    probes: bool = False  # tell `_probe` what every instruction wrote
    in_memory: bool = False  # all tiles are views of memories
    unsplit: dict[int, str] = field(default_factory=dict)
    numerics: str = ""  # calls of `_numerics` where results of this setting differ from PyTorch's


class Writer:
    def __init__(self, function: Function, scope: Scope, find: Finder) -> None:
        self.function = function
        self.scope = scope
        self.find = find
        self.resolved: Resolved = resolve(function, scope.module)
        self.names = PythonNames(scope.reserved)
        self.bound: dict[int, str] = {}
        self.out = PythonLines()
        self.spaces: dict[str, str] = {}  # memory space -> variable
        self.buffers: dict[tuple[str, int], str] = {}  # (direction, pipe id) -> variable of the consumer's buffer
        self.problems: list[tuple[Operation, str]] = []
        self.promotion = Promotion() if scope.probes or scope.in_memory else promote(self.resolved)
        self.plain = plain_windows(self.resolved, self.promotion)
        self.borrowing = borrowing_loads(self.resolved, self.promotion)
        self.arch = "a2a3"

    # --- the function --------------------------------------------------------------------------------------------

    @property
    def is_generator(self) -> bool:
        return self.function.name in self.scope.scheduled

    def write(self) -> PythonLines:
        """Return the lines of the whole function. Operations without a translation are collected in `problems`."""
        function = self.function
        parameters = [self.bind(value, self.names.unique(value.name)) for value in self.resolved.arguments]
        self.out.token = function.token
        self.out.indent = 0
        self.out.add(f"def {self.scope.names[function.name]}({', '.join(parameters)}):")
        self.out.indent = 1
        head = len(self.out.text)
        self._arguments()
        assert function.body is not None
        self.region(function.body)
        if self.is_generator and not _yields(self.out.text):
            self.out.add("yield from ()")
        opened = [f'{name} = Memory("{space}", {self._size(space)})' for space, name in self.spaces.items()]
        opened += [f"{self.text(value)} = {self._zeros(value)}" for value in self.promotion.zeroed]
        self.out.text[head:head] = [f"    {line}" for line in opened]
        self.out.tokens[head:head] = [function.token] * len(opened)
        if len(self.out.text) == 1:
            self.out.add("pass")
        return self.out

    def _arguments(self) -> None:
        """Convert the used tensor arguments to pointers."""
        used = {name for op in self.function.walk() for _, name in op.all_operands()}
        for value in self.resolved.arguments:
            element = getattr(value.type, "element", None)
            name = self.bound[id(value)]
            if element is None or value.name not in used:
                continue
            if self.scope.check_shapes:
                self.out.add(f'assert isinstance({name}, (torch.Tensor, Pointer)), "Expected {name} to be a Tensor"')
            try:
                self.out.add(f"{name} = pointer({name}, {dtypes.torch_dtype(element)})")
            except dtypes.UnsupportedTorchType as error:
                self.problems.append((Operation("func.func", token=self.function.token), f"{value.name}: {error}"))

    def _size(self, space: str) -> int:
        """Return the bytes that a memory needs: up to the end of the last tile, or its whole size if an address is
        unknown.
        """
        end = 0
        for op in self.function.walk():
            key = TABLE[op.name].keys[0]
            if key in ("pipe:open", "tile:alloc_multi"):
                return _BYTES[space]
            if key not in ("tile:alloc", "tile:assign"):
                continue
            if self.resolved.results(op)[0] in self.promotion:
                continue
            type_ = self.resolved.results(op)[0].type
            address = self.resolved.constant(op, "addr") if "addr" in op.operands else 0
            if isinstance(type_, TileType) and type_.loc == space:
                if address is None:
                    return _BYTES[space]
                end = max(end, address + type_.bytes)
        return -(-max(end, 512) // 512) * 512

    def _zeros(self, value: Value) -> str:
        assert isinstance(value.type, TileType)
        return f"torch.zeros({value.type.rows}, {value.type.cols}, dtype={dtypes.torch_dtype(value.type.dtype)})"

    def region(self, region: Region) -> None:
        for op in region.ops:
            self.operation(op)

    def operation(self, op: Operation) -> None:
        outer, self.out.token = self.out.token, op.token
        lower = self.find(op)
        try:
            if lower is None:
                raise Unsupported("")
            lower(self, op)
        except (Unsupported, dtypes.UnsupportedTorchType) as error:
            self.problems.append((op, str(error)))
            for value in self.resolved.results(op):
                self.bound.setdefault(id(value), sanitize(value.name))
        if self.scope.probes:
            self._probe(op)
        self.out.token = outer

    def _probe(self, op: Operation) -> None:
        """Write `_probe(line, instruction, result)`, for instructions that compute or move data."""
        definition = TABLE.get(op.name)
        if definition is None:
            return
        role = "tile" if definition.fn == "push" or definition.family == "element" else "dst"
        value = self.resolved.value(op, role) if role in op.operands else None
        if definition.family == "pipe" and definition.fn == "pop":
            value = self.resolved.results(op)[0]
        elif not definition.cpp and definition.fn != "push":
            return
        if value is not None and id(value) in self.bound:
            line = self.scope.module.source.position(op.token).line
            self.out.add(f'_probe({line}, "{op.name}", {self.bound[id(value)]})')

    def note(self, op: Operation) -> str:
        """Return the comment with an operation's position: in the module, and in the program it was made from."""
        source = self.scope.module.source
        position = source.position(op.token)
        where = f"{PurePath(position.path).name}:{position.line}" if position.line else ""
        if op.loc is not None and op.loc.file:
            where += f"{', ' if where else ''}{PurePath(op.loc.file).name}:{op.loc.line}"
        return f"  # {where}" if where else ""

    def add(self, op: Operation, line: str) -> None:
        """Append a line with its source position."""
        self.out.add(line + self.note(op))

    # --- values --------------------------------------------------------------------------------------------------

    def bind(self, value: Value, text: str) -> str:
        self.bound[id(value)] = text
        return text

    def name_result(self, op: Operation, number: int = 0) -> str:
        value = self.resolved.results(op)[number]
        return self.bind(value, self.names.unique(value.name))

    def define(self, op: Operation, expression: str) -> None:
        """Write `name = expression` for the one result; a constant is only recorded."""
        value = self.resolved.results(op)[0]
        if value.constant is not None:
            self.bind(value, str(value.constant))
        else:
            self.out.add(f"{self.name_result(op)} = {expression}")

    def text(self, value: Value) -> str:
        if value.constant is not None:
            return str(value.constant)
        text = self.bound.get(id(value))
        if text is None:
            raise Unsupported(f"{value.name} cannot be translated to PyTorch")
        return text

    def operand(self, op: Operation, role: str, default: str = "") -> str:
        value = self.resolved.value(op, role)
        return default if value is None else self.text(value)

    def operands(self, op: Operation, role: str) -> list[str]:
        return [self.text(value) for value in self.resolved.values(op, role)]

    def value(self, op: Operation, role: str) -> Value:
        operand = self.resolved.value(op, role)
        if operand is None:
            raise Unsupported(f"the operand {role} is missing")
        return operand

    def tile_type(self, op: Operation, role: str) -> TileType:
        type_ = self.value(op, role).type
        if not isinstance(type_, TileType):
            raise Unsupported(f"the operand {role} must be a tile, found {type_}")
        return type_

    # --- tiles ---------------------------------------------------------------------------------------------------

    def memory(self, space: str) -> str:
        """Return the variable of one of this core's memories."""
        if space not in _BYTES:
            raise Unsupported(f"the memory space {space} does not exist")
        if space not in self.spaces:
            self.spaces[space] = self.names.unique(space)
        return self.spaces[space]

    def same_extent(self, first: Value, second: Value) -> bool:
        """Return whether two tiles certainly have the same valid region."""
        extents, other = self.resolved.extents(first), self.resolved.extents(second)
        if None not in extents:
            return extents == other
        if id(first) in self.resolved.resized or id(second) in self.resolved.resized:
            return first is second
        return first is second or (first.type == second.type and _extents(first) == _extents(second) != ())

    def read(self, op: Operation, role: str, region_of: str = "dst") -> str:
        """Return the operand over another one's valid region: `a`, `a[:]`, or `a[d.valid]` where they may differ."""
        value, other = self.value(op, role), self.value(op, region_of)
        variable = self._variable(op, role, valid_extents(self.resolved, other))
        if variable is not None:
            return variable
        text = self.text(value)
        return f"{text}[:]" if self.same_extent(value, other) else f"{text}[{self.valid(op, region_of)}]"

    def own(self, op: Operation, role: str) -> str:
        """Return the operand over its own valid region."""
        variable = self._variable(op, role, valid_extents(self.resolved, self.value(op, role)))
        return variable if variable is not None else f"{self.operand(op, role)}[:]"

    def part(self, op: Operation, role: str, rows: str, cols: str) -> str:
        """Return the first rows and columns of the operand."""
        if self.is_variable(op, role):
            variable, extents = self.own(op, role), valid_extents(self.resolved, self.value(op, role))
            assert extents is not None
            return variable + sliced((rows, cols), tuple(map(self.extent, extents)))
        return f"{self.operand(op, role)}[{rows}, {cols}]"

    def is_variable(self, op: Operation, role: str) -> bool:
        """Return whether a read operand is a plain tensor."""
        return (id(op), role) in self.promotion.sources

    def extent(self, extent: Extent) -> str:
        return self.text(extent) if isinstance(extent, Value) else str(extent)

    def valid(self, op: Operation, role: str) -> str:
        """Return the valid rows and columns of a tile, a pair."""
        value = self.value(op, role)
        if value not in self.promotion:
            return f"{self.text(value)}.valid"
        rows, cols = self.valid_texts(op, role)
        return f"({rows}, {cols})"

    def valid_texts(self, op: Operation, role: str) -> tuple[str, str]:
        """Return the valid rows, and columns, of a tile."""
        value = self.value(op, role)
        extents = valid_extents(self.resolved, value) if value in self.promotion else None
        if extents is None:
            return f"{self.text(value)}.valid[0]", f"{self.text(value)}.valid[1]"
        return self.extent(extents[0]), self.extent(extents[1])

    def _variable(self, op: Operation, role: str, part: Extents | None) -> str | None:
        """Return the expression of an operand that is a variable, or of its first rows and columns; None for others."""
        source = self.promotion.sources.get((id(op), role))
        if source is None:
            return None
        value = self.value(op, role)
        text = seen_as(self.text(source), self.promotion.layout(source), self.promotion.layout(value))
        own = valid_extents(self.resolved, value)
        assert text is not None and own is not None
        if part is None or part == own:
            return text
        return text + sliced(tuple(map(self.extent, part)), tuple(map(self.extent, own)))

    def assign(
        self, op: Operation, expression: str, role: str = "dst", *, kept: bool = True, view_of: str = ""
    ) -> None:
        """Assign an expression to a tile. `kept`: the expression already has the tile's element type. `view_of`: it
        may share memory with this operand.
        """
        value = self.value(op, role)
        if value not in self.promotion:
            self.add(op, f"{self.text(value)}[:] = {expression}")
            return
        if not kept:
            expression = f"{enclosed(expression)}.to({dtypes.torch_dtype(self.tile_type(op, role).dtype)})"
        if view_of and not self.is_variable(op, view_of):
            expression = f"{enclosed(expression)}.clone()"
        target = self.promotion.variables[id(value)]
        turned = seen_as(enclosed(expression), self.promotion.layout(value), self.promotion.layout(target))
        assert turned is not None
        if turned == enclosed(expression):
            turned = expression
        if turned != self.text(target):
            self.add(op, f"{self.text(target)} = {turned}")


def sliced(part: Sequence[str], have: Sequence[str]) -> str:
    """Return `[:8]`, `[:, :n]`, `[:8, :n]`, or an empty text for the whole."""
    rows, cols = ("" if w == h else w for w, h in zip(part, have, strict=True))
    return f"[:{rows}, :{cols}]" if cols else f"[:{rows}]" if rows else ""


def enclosed(expression: str) -> str:
    """Return an expression, in parentheses if needed, to which an attribute access can be appended."""
    node = ast.parse(expression, mode="eval").body
    plain = isinstance(node, (ast.Name, ast.Call, ast.Subscript, ast.Attribute))
    return expression if plain else f"({expression})"


_BYTES = {
    "vec": 1 << 18, "mat": 1 << 19, "left": 1 << 16, "right": 1 << 16, "acc": 1 << 18, "bias": 1 << 13,
    "scaling": 1 << 13,
}  # fmt: skip


def _extents(value: Value) -> Sequence[str]:
    """Return the names of the values that set an allocated tile's valid region."""
    op = value.op
    if op is None or op.name not in TILE_ALLOCATIONS:
        return ()
    return tuple(name for role in ("valid_row", "valid_col") for name in op.operands.get(role, ()))


def extent_text(type_: TileType, rows: str, cols: str) -> str:
    """Return `, valid=(r, c)` if the valid region is not the whole tile; else an empty text."""
    texts = [
        text if extent == DYNAMIC and text else str(size if extent == DYNAMIC else extent)
        for text, extent, size in ((rows, type_.v_row, type_.rows), (cols, type_.v_col, type_.cols))
    ]
    return "" if texts == [str(type_.rows), str(type_.cols)] else f", valid=({texts[0]}, {texts[1]})"


_PAD = {"1": "zero", "2": "max", "3": "min"}


def shape_text(type_: TileType) -> str:
    """Return `torch.float32, 16, 64` and, if it is not row by row, the layout."""
    text = f"{dtypes.torch_dtype(type_.dtype)}, {type_.rows}, {type_.cols}"
    outer = "n" if type_.blayout == "col_major" else "z"
    if type_.slayout == "none_box":
        text += ', layout="col"' if outer == "n" else ""
    else:
        inner = "z" if type_.slayout == "row_major" else "n"
        text += f', layout="{outer}{inner}", fractal={type_.fractal_extents}'
    if type_.pad != "0":
        if type_.pad not in _PAD:
            raise Unsupported(f"a tile with pad={type_.pad}")
        text += f', pad="{_PAD[type_.pad]}"'
    return text
