"""Converts one function to C++: the values in scope and the lines written. The other modules translate the
operations.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import NoReturn

from pypto_build.facts.dtypes import PTO

from ..errors import PtoError
from ..lowerings import Lowerings
from ..model import Function, Module, Operation, Region, round_real
from ..resolve import Resolved, Value, resolve
from ..types import DYNAMIC, PtrType, ScalarType, TileType, Type, ViewType

# C++ spellings of types, constants and names.

SCALARS = {name: row.cpp for name, row in PTO.items() if row.cpp}
SPACES = {
    "vec": "Vec", "mat": "Mat", "left": "Left", "right": "Right", "acc": "Acc", "bias": "Bias", "scaling": "Scaling",
}  # fmt: skip
BLAYOUTS = {"row_major": "RowMajor", "col_major": "ColMajor"}
SLAYOUTS = {"none_box": "NoneBox", "row_major": "RowMajor", "col_major": "ColMajor"}
PADS = {"0": "PadValue::Null", "1": "PadValue::Zero", "2": "PadValue::Max", "3": "PadValue::Min"}
COMPACTS = {"0": "Null", "1": "Normal", "2": "RowPlusOne", "3": "RowAlignedPadding"}

#: Reserved words of C++.
KEYWORDS = frozenset("""
    alignas alignof and asm auto bool break case catch char class compl concept const constexpr continue decltype
    default delete do double dynamic_cast else enum explicit export extern false float for friend goto if inline int
    long mutable namespace new noexcept not nullptr operator or private protected public register reinterpret_cast
    requires return short signed sizeof static static_assert static_cast struct switch template this thread_local throw
    true try typedef typeid typename union unsigned using virtual void volatile wchar_t while xor
""".split())  # fmt: skip  # noqa: SIM905
# what a local variable must not be called: names that the generated code itself uses, too
_TAKEN = KEYWORDS | frozenset(SCALARS.values()) | {
    "pto", "args", "kernel_entry", "Tile", "GlobalTensor", "Shape", "Stride", "Layout", "get_block_idx",
    "get_block_num",
}  # fmt: skip


class UnsupportedCppType(ValueError):
    """A type without a C++ counterpart here."""


def scalar(type_: Type | None) -> str:
    """Return the C++ type of a scalar, a pointer, or an element."""
    if isinstance(type_, ScalarType) and type_.name in SCALARS:
        return SCALARS[type_.name]
    if isinstance(type_, PtrType):
        return f"__gm__ {scalar(type_.element)}*"
    if isinstance(type_, ViewType) and type_.kind == "memref" and type_.space == "gm":
        return f"__gm__ {scalar(type_.element)}*"
    raise UnsupportedCppType(f"the type {type_} has no C++ type")


def tile(type_: TileType) -> str:
    """Return `Tile<…>`; unusual pad values are bit patterns."""
    if type_.loc not in SPACES:
        raise UnsupportedCppType(f"a tile cannot be in the memory space {type_.loc}")
    pad = PADS.get(type_.pad) or f"PadValue({type_.pad})"
    valid = [-1 if v == DYNAMIC else v for v in (type_.v_row, type_.v_col)]
    return (
        f"Tile<TileType::{SPACES[type_.loc]}, {scalar(type_.dtype)}, {type_.rows}, {type_.cols}, "
        f"BLayout::{BLAYOUTS[type_.blayout]}, {valid[0]}, {valid[1]}, SLayout::{SLAYOUTS[type_.slayout]}, "
        f"{type_.fractal}, {pad}, CompactMode::{COMPACTS.get(type_.compact, 'Null')}>"
    )


def integer(value: int, type_: Type | None = None) -> str:
    """Return an integer literal."""
    if isinstance(type_, ScalarType) and type_.name == "i1":
        return "true" if value else "false"
    if -(2**31) <= value < 2**31:
        return str(value) if value >= 0 else f"({value})"
    if value == -(2**63):
        return "(-9223372036854775807LL - 1)"
    return f"{value}LL" if value < 2**63 else f"{value}ULL"


def real(value: float, type_: Type) -> str:
    """Return a floating literal with exactly the value that `type_` rounds it to."""
    name = type_.name if isinstance(type_, ScalarType) else "f64"
    if math.isnan(value):
        text = '__builtin_nanf("")'
    elif math.isinf(value) or (name != "f64" and math.isinf(round_real(value, "f32"))):
        text = "__builtin_inff()" if value > 0 else "(-__builtin_inff())"
    elif name == "f64":
        return repr(value)
    else:
        text = f"{round_real(value, 'f32')!r}f"
    return text if name in ("f32", "f64") else f"({scalar(type_)})({text})"


class CppNames:
    """Unique C++ names for SSA values, close to their names in the .pto text."""

    def __init__(self) -> None:
        self.used: set[str] = set(_TAKEN)

    def new(self, hint: str) -> str:
        base = re.sub(r"\W", "_", hint.lstrip("%"), flags=re.ASCII)
        if not base or base[0].isdigit():
            base = f"v{base}"
        name, count = base, 0
        while name in self.used:
            count += 1
            name = f"{base}_{count}"
        self.used.add(name)
        return name


# Views of global memory: a pointer with extents and strides, spelled as a GlobalTensor where an instruction takes
# one.

Extent = int | str  # known, or the C++ expression that has it


@dataclass(frozen=True)
class GlobalView:
    """`pointer` is a C++ expression, `element` the C++ element type; `layout` is ND, DN or NZ.

    `variable` is the GlobalTensor that has it already, whose place a pipe may change.
    """

    pointer: str
    element: str
    shape: tuple[Extent, ...]
    strides: tuple[Extent, ...]
    layout: str = "ND"
    variable: str = ""

    def window(self, offsets: tuple[Extent, ...], sizes: tuple[Extent, ...]) -> GlobalView:
        """Return the part of `sizes` at `offsets`."""
        terms = [times(o, s) for o, s in zip(offsets, self.strides, strict=True)]
        return replace(self, pointer=plus(self.pointer, *terms), shape=sizes, variable="")

    def components(self) -> list[tuple[str, str]]:
        """Return (C++ type, expression) of everything needed to carry the view through a loop or branch."""
        extents = [("int64_t", str(extent)) for extent in (*self.shape, *self.strides)]
        return [(f"__gm__ {self.element}*", self.pointer), *extents]

    def rebuilt(self, names: list[str]) -> GlobalView:
        """Return the same kind of view, built from carried components."""
        rank = len(self.shape)
        shape, strides = tuple(names[1 : 1 + rank]), tuple(names[1 + rank :])
        return replace(self, pointer=names[0], shape=shape, strides=strides, variable="")

    def declaration(self, name: str) -> str:
        """Return `GlobalTensor<…> name(pointer, shape, stride);` with five extents, of which known ones are in the
        type.
        """
        lead = 5 - len(self.shape)
        outer = times(self.shape[0], self.strides[0]) if self.shape else 1
        outer = outer if isinstance(outer, int) else self.strides[0]
        shape = _extents("pto::Shape", (*[1] * lead, *self.shape))
        stride = _extents("pto::Stride", (*[outer] * lead, *self.strides))
        kind = f"GlobalTensor<{self.element}, {shape[0]}, {stride[0]}, pto::Layout::{self.layout}>"
        return f"{kind} {name}({self.pointer}, {shape[0]}({shape[1]}), {stride[0]}({stride[1]}));"


def row_major_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the strides in elements of a tensor without gaps."""
    strides = [1]
    for extent in reversed(shape[1:]):
        strides.insert(0, strides[0] * extent)
    return tuple(strides[: len(shape)])


def _extents(name: str, extents: tuple[Extent, ...]) -> tuple[str, str]:
    """Return the type with -1 for extents that are expressions, and those expressions."""
    fixed = ", ".join(str(e) if isinstance(e, int) else "-1" for e in extents)
    return f"{name}<{fixed}>", ", ".join(e for e in extents if isinstance(e, str))


def times(a: Extent, b: Extent) -> Extent:
    if isinstance(a, int) and isinstance(b, int):
        return a * b
    if a == 0 or b == 0:
        return 0
    if a == 1:
        return b
    if b == 1:
        return a
    return f"{a} * {b}"


def plus(pointer: str, *terms: Extent) -> str:
    """Return `pointer` moved by the sum of the terms."""
    constant = sum(t for t in terms if isinstance(t, int))
    parts = [t if "*" in t or t.isidentifier() else f"({t})" for t in terms if isinstance(t, str)]
    if constant:
        parts.append(str(constant))
    if not parts:
        return pointer
    base = pointer if pointer.isidentifier() else f"({pointer})"
    return f"{base} + ({' + '.join(parts)})" if len(parts) > 1 else f"{base} + {parts[0]}"


GUARDS = {"cube": "__DAV_CUBE__", "vector": "__DAV_VEC__"}


@dataclass(frozen=True)
class TileVar:
    """A Tile variable; `type` is its declared type, which for a window is that of the enclosing tile."""

    name: str
    type: TileType

    def components(self) -> list[tuple[str, str]]:
        return [(tile(self.type), self.name)]

    def rebuilt(self, names: list[str]) -> TileVar:
        return replace(self, name=names[0])


@dataclass(frozen=True)
class Scalar:
    """A C++ expression, a name or a literal; `ctype` its type."""

    text: str
    ctype: str

    def components(self) -> list[tuple[str, str]]:
        return [(self.ctype, self.text)]

    def rebuilt(self, names: list[str]) -> Scalar:
        return replace(self, text=names[0])


@dataclass(frozen=True)
class MultiTile:
    address: str
    type: TileType
    count: int


Carried = TileVar | Scalar | GlobalView  # what loops and branches can pass on
Bound = Carried | MultiTile


@dataclass
class CppLines:
    """C++ lines, each with the token of the .pto operation that it came from."""

    text: list[str] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    indent: int = 0
    token: int = -1

    def add(self, line: str) -> None:
        self.text.append(line if line.startswith("#") or not line else "    " * self.indent + line)
        self.tokens.append(self.token)


Emit = Callable[["Emitter", Operation], None]
#: Filled by the modules of this package.
LOWERINGS: Lowerings[Emit] = Lowerings()
Finder = Callable[[Operation], "Emit | None"]


class Emitter:
    def __init__(self, function: Function, module: Module, addresses: dict[int, int], find: Finder, arch: str) -> None:
        """`addresses` places the allocations without an address; `find` gives the lowering of an operation."""
        self.function = function
        self.module = module
        self.resolved: Resolved = resolve(function, module)
        self.addresses = addresses
        self.find = find
        self.arch = arch
        self.names = CppNames()
        self.bound: dict[int, Bound] = {}
        self.out = CppLines()
        self.pipes: dict[int, str] = {}  # pipe id, or id of a pipe value -> C++ variable

    # --- the function --------------------------------------------------------------------------------------------

    def emit(self) -> CppLines:
        """Return the lines of the whole function."""
        if self.resolved.problems:
            problem = self.resolved.problems[0]
            self.fail(problem.op, problem.message)
        if len(self.function.results) > 1:
            self.fail(None, "returns several values, but a C++ function returns one; return the others through memory")
        for name in self.function.name, *(f.name for f in self.module.functions()):
            self.names.used.add(name)
        self.out.token = self.function.token
        parameters = []
        for value in self.resolved.arguments:
            name = self.names.new(value.name)
            try:
                bound, ctype = self.parameter(value, name)
            except UnsupportedCppType as error:
                self.fail(None, f"argument {value.name}: {error}")
            parameters.append(f"{ctype} {name}")
            self.bound[id(value)] = bound
        result = scalar(self.function.results[0]) if self.function.results else "void"
        self.out.add(f"static __aicore__ {result} {self.function.name}({', '.join(parameters)}) {{")
        guard = GUARDS.get(self.function.kernel_kind)
        if guard:
            self.out.add(f"#if defined({guard})")
        self.out.indent = 1
        if self.function.kernel_kind == "vector":
            self.out.add("set_mask_norm();")
            self.out.add("set_vector_mask(-1, -1);")
        assert self.function.body is not None
        self.region(self.function.body)
        if guard and not self.function.results:
            self.out.add("pipe_barrier(PIPE_ALL);")  # what it has stored is there when the task is over
        self.out.indent = 0
        if guard:
            for line in ("#else", "    return {};") if self.function.results else ():
                self.out.add(line)
            self.out.add(f"#endif // {guard}")
        self.out.add("}")
        return self.out

    @staticmethod
    def parameter(value: Value, name: str) -> tuple[Bound, str]:
        """Return a parameter and its C++ type; a memref in global memory is a pointer with known extents."""
        type_ = value.type
        if isinstance(type_, ViewType) and type_.kind == "memref" and type_.space == "gm":
            if DYNAMIC in type_.shape or type_.layout or len(type_.shape) > 5:
                raise UnsupportedCppType(
                    f"a view of the type {type_} is not supported; pass a !pto.ptr and use pto.make_tensor_view"
                )
            element = scalar(type_.element)
            return GlobalView(name, element, type_.shape, row_major_strides(type_.shape)), scalar(type_)
        ctype = scalar(type_)
        return Scalar(name, ctype), ctype

    def fail(self, op: Operation | None, message: str) -> NoReturn:
        token = op.token if op is not None else self.function.token
        raise PtoError(
            self.module.source.position(token), message, op.name if op is not None else f"@{self.function.name}"
        )

    def region(self, region: Region) -> None:
        for op in region.ops:
            self.operation(op)

    def operation(self, op: Operation) -> None:
        outer, self.out.token = self.out.token, op.token
        emit = self.find(op)
        if emit is None:
            self.fail(op, "is not supported by the built-in assembler; use ptoas")
        try:
            emit(self, op)
        except UnsupportedCppType as error:
            self.fail(op, str(error))
        self.out.token = outer

    # --- values --------------------------------------------------------------------------------------------------

    def text(self, op: Operation, role: str, default: str = "") -> str:
        """Return the C++ expression of the one value of a role."""
        value = self.resolved.value(op, role)
        return default if value is None else self.expression(value, op)

    def expression(self, value: Value, op: Operation) -> str:
        bound = self.bound.get(id(value))
        if isinstance(bound, GlobalView) and bound.variable:
            return bound.variable
        if isinstance(bound, GlobalView):
            name = self.names.new(f"{value.name}_tensor")
            self.out.add(bound.declaration(name))
            return name
        if isinstance(bound, TileVar):
            return bound.name
        if isinstance(bound, Scalar):
            return bound.text
        self.fail(op, f"{value.name} cannot be used here")

    def extent(self, value: Value, op: Operation) -> Extent:
        return value.constant if value.constant is not None else self.expression(value, op)

    def extents(self, op: Operation, role: str) -> tuple[Extent, ...]:
        return tuple(self.extent(value, op) for value in self.resolved.values(op, role))

    def tile(self, op: Operation, role: str) -> TileVar:
        value = self.resolved.value(op, role)
        bound = self.bound.get(id(value))
        if not isinstance(bound, TileVar):
            self.fail(op, f"{role} is not a tile that the built-in assembler supports")
        return bound

    def bind(self, op: Operation, bound: Bound) -> None:
        self.bound[id(self.resolved.results(op)[0])] = bound

    def define(self, op: Operation, expression: str, type_: Type | None = None) -> None:
        """Write `const T name = expression;` for the operation's one result; a constant is only recorded."""
        value = self.resolved.results(op)[0]
        ctype = scalar(type_ or value.type)
        if value.constant is not None:
            self.bind(op, Scalar(integer(value.constant, value.type), ctype))
            return
        name = self.names.new(value.name)
        declared = f"{ctype} const" if ctype.endswith("*") else f"const {ctype}"
        self.out.add(f"{declared} {name} = {expression};")
        self.bind(op, Scalar(name, ctype))

    def declare_tile(self, op: Operation, type_: TileType, rows: str = "", cols: str = "") -> TileVar:
        """Write `Tile<…> name(rows, cols);` for the operation's result, with the extents that the type leaves open."""
        name = self.names.new(self.resolved.results(op)[0].name)
        arguments = [
            text or str(size)
            for text, extent, size in ((rows, type_.v_row, type_.rows), (cols, type_.v_col, type_.cols))
            if extent == DYNAMIC
        ]
        self.out.add(f"{tile(type_)} {name}{'(' + ', '.join(arguments) + ')' if arguments else ''};")
        variable = TileVar(name, type_)
        self.bind(op, variable)
        return variable
