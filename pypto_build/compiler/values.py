"""Values of a function: what each is, a tile, a tensor or a number, and where in the program it comes from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import TypeVar

from pypto_build.facts.dtypes import DType
from pypto_build.facts.positions import SourcePosition

NOWHERE = SourcePosition()


@dataclass(frozen=True)
class Ref:
    """A value by its name."""

    name: str


@dataclass(frozen=True)
class Const:
    """A number known when compiling."""

    value: int | float | bool


Dim = int | Ref


# --- types -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TensorType:
    """A tensor in global memory; dynamic extents are names."""

    shape: tuple[Dim, ...]
    dtype: DType

    def __str__(self) -> str:
        return f"Tensor[{dims_text(self.shape)}, {self.dtype}]"


@dataclass(frozen=True)
class WindowType(TensorType):
    """A tensor in a window: every rank of a domain has one, and reaches the others'."""

    def __str__(self) -> str:
        return f"DistributedTensor[{dims_text(self.shape)}, {self.dtype}]"


@dataclass(frozen=True)
class TileType:
    """A tile on a core: `shape` is rows x columns as laid out, `valid` the part with data."""

    shape: tuple[int, int]
    dtype: DType
    valid: tuple[Dim, Dim]
    space: str = ""
    pad: str = "null"

    def __str__(self) -> str:
        valid = "" if self.valid == self.shape else f", valid={dims_text(self.valid)}"
        space = f", {self.space}" if self.space else ""
        return f"Tile[{dims_text(self.shape)}, {self.dtype}{valid}{space}]"

    @property
    def bytes(self) -> int:
        return self.shape[0] * self.shape[1] * self.dtype.size

    @property
    def is_column(self) -> bool:
        """One value per row, laid out as a column: its bytes are those of a row."""
        return self.space in ("", "vec") and self.shape[1] == 1 and self.shape[0] > 1


@dataclass(frozen=True)
class ScalarType:
    dtype: DType

    def __str__(self) -> str:
        return str(self.dtype)


@dataclass(frozen=True)
class TaskType:
    """A submitted task, for others to wait for."""

    def __str__(self) -> str:
        return "Task"


@dataclass(frozen=True)
class BufferType:
    """A buffer of the windows of a host program; `shape` has its extents, one number of bytes where `dtype` is none."""

    shape: tuple[Dim, ...]
    dtype: DType | None = None

    def __str__(self) -> str:
        return f"Buffer[{dims_text(self.shape)}]"


@dataclass(frozen=True)
class ContextType:
    """The ranks that share a window, as the kernel that has `window` sees them."""

    window: str

    def __str__(self) -> str:
        return "CommCtx"


TASK = TaskType()


Type = TensorType | TileType | ScalarType | TaskType | BufferType | ContextType


def dims_text(shape: tuple[Dim, ...]) -> str:
    return "[" + ", ".join(d.name if isinstance(d, Ref) else str(d) for d in shape) + "]"


# --- values ------------------------------------------------------------------------------------------------------


class ValueKind(Enum):
    """Kinds of definitions of a value."""

    PARAMETER = "parameter"
    EXTENT = "extent"  # of a tensor's dynamic axis
    VARIABLE = "variable"  # an assignment
    INDEX = "index"  # of a loop
    CARRIED = "carried"  # what an iteration starts with
    LEFT = "left"  # what a loop leaves
    MERGED = "merged"  # what a condition leaves
    TEMPORARY = "temporary"  # a part of an expression
    ADDED = "added"  # by the compiler, under a name of its own


@dataclass(frozen=True)
class Value:
    """The origin of a value: its SSA name, the source variable, the kind and the position of its definition.

    Values that the compiler makes have words of their own for a variable. Copies and views of a value keep its
    variable. `stem` is the variable as names are made of it: inline functions are expanded under new names.
    """

    name: str
    variable: str
    kind: ValueKind
    position: SourcePosition = NOWHERE
    stem: str = ""


Wanted = TypeVar("Wanted")


def expect(value: object, type_: type[Wanted], what: str) -> Wanted:
    """Return `value`, which has this type. Raises TypeError if it does not."""
    if not isinstance(value, type_):
        raise TypeError(f"{what} is {value}, not a {type_.__name__}")
    return value


class Values(dict[str, Value]):
    """The values of one function by name: the origin of each, and its type once that is known.

    Names are never removed, so passes add to a copy. A missing value raises KeyError, a missing or different type
    TypeError; both are faults of the compiler.
    """

    def __init__(self, values: Mapping[str, Value] = {}, types: Mapping[str, Type] = {}) -> None:
        super().__init__(values)
        self.types = dict(types)

    def copy(self) -> Values:
        return Values(self, self.types)

    def add(self, value: Value, type_: Type | None = None) -> Ref:
        self[value.name] = value
        if type_ is not None:
            self.types[value.name] = type_
        return Ref(value.name)

    def make(self, name: str, position: SourcePosition, type_: Type | None = None) -> Ref:
        """A value that the program does not mention."""
        return self.add(Value(name, name, ValueKind.ADDED, position, name), type_)

    def derive(self, name: str, source: str, type_: Type) -> Ref:
        """A copy, a view or a half of another value: it comes from the same variable."""
        return self.add(replace(self[source], name=name), type_)

    def tile(self, name: str) -> TileType:
        return expect(self.types[name], TileType, name)

    def tensor(self, name: str) -> TensorType:
        return expect(self.types[name], TensorType, name)

    def scalar(self, name: str) -> ScalarType:
        return expect(self.types[name], ScalarType, name)

    def dtype(self, name: str) -> DType:
        """The element type of a tile, a tensor or a number."""
        return expect(getattr(self.types[name], "dtype", None), DType, name)

    def is_tile(self, name: str) -> bool:
        return isinstance(self.types.get(name), TileType)

    def space(self, name: str) -> str:
        """Return the memory of a tile; empty for other values."""
        return self.tile(name).space if self.is_tile(name) else ""
