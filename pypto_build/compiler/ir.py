"""The program between its source and its files: functions of operations over named values.

The front end makes operations with nested operations as arguments and variables of the program as results. The passes
turn that into SSA form with types, memory spaces and addresses (see pipeline.py for the order). Facts about values are
in values.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, TypeVar, Union

from pypto_build.facts.dtypes import DType
from pypto_build.facts.positions import SourcePosition

# Values of a function: what each is, a tile, a tensor or a number, and where in the program it comes from.

NOWHERE = SourcePosition()


@dataclass(frozen=True)
class Ref:
    """A reference to a value by its name."""

    name: str


@dataclass(frozen=True)
class Const:
    """A number that is known at compile time."""

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
    """A tensor in a window: every rank of a domain has one, and can access those of the others."""

    def __str__(self) -> str:
        return f"DistributedTensor[{dims_text(self.shape)}, {self.dtype}]"


@dataclass(frozen=True)
class TileType:
    """A tile on a core: `shape` is physical rows x columns, `valid` the part with data."""

    shape: tuple[int, int]
    dtype: DType
    valid: tuple[Dim, Dim]
    space: str = ""
    pad: str = "null"

    def __str__(self) -> str:
        valid = "" if self.valid == self.shape else f", valid{dims_text(self.valid)}"
        space = f", {self.space}" if self.space else ""
        return f"Tile[{dims_text(self.shape)}, {self.dtype}{valid}{space}]"

    @property
    def bytes(self) -> int:
        return self.shape[0] * self.shape[1] * self.dtype.size

    @property
    def is_column(self) -> bool:
        """Return whether the tile has one value per row, in column layout: its bytes equal those of a row."""
        return self.space in ("", "vec") and self.shape[1] == 1 and self.shape[0] > 1


@dataclass(frozen=True)
class ScalarType:
    dtype: DType

    def __str__(self) -> str:
        return str(self.dtype)


@dataclass(frozen=True)
class TaskType:
    """A submitted task that other tasks can depend on."""

    def __str__(self) -> str:
        return "Task"


@dataclass(frozen=True)
class BufferType:
    """A buffer for the windows of a host program; `shape` has its extents, or one number of bytes if `dtype` is
    None.
    """

    shape: tuple[Dim, ...]
    dtype: DType | None = None

    def __str__(self) -> str:
        return f"Buffer[{dims_text(self.shape)}]"


@dataclass(frozen=True)
class ContextType:
    """The group of ranks that share a window, as seen from the kernel that has `window`."""

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


Expected = TypeVar("Expected")


def expect(value: object, type_: type[Expected], what: str) -> Expected:
    """Return `value` after checking its type. Raises TypeError if it has another type."""
    if not isinstance(value, type_):
        raise TypeError(f"{what} is {value}, not a {type_.__name__}")
    return value


class Values(dict[str, Value]):
    """The values of one function by name: origin and, once known, type.

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
        """Add a value that the program does not mention, and return a reference."""
        return self.add(Value(name, name, ValueKind.ADDED, position, name), type_)

    def derive(self, name: str, source: str, type_: Type) -> Ref:
        """Add a copy, view or half of another value; it keeps the same source variable."""
        return self.add(replace(self[source], name=name), type_)

    def tile(self, name: str) -> TileType:
        return expect(self.types[name], TileType, name)

    def tensor(self, name: str) -> TensorType:
        return expect(self.types[name], TensorType, name)

    def scalar(self, name: str) -> ScalarType:
        return expect(self.types[name], ScalarType, name)

    def dtype(self, name: str) -> DType:
        """Return the element type of a tile, a tensor or a number."""
        return expect(getattr(self.types[name], "dtype", None), DType, name)

    def is_tile(self, name: str) -> bool:
        return isinstance(self.types.get(name), TileType)

    def space(self, name: str) -> str:
        """Return the memory of a tile; empty for other values."""
        return self.tile(name).space if self.is_tile(name) else ""


class Direction(Enum):
    """Direction of a tensor parameter; `meta` is the spelling of compiled_meta.json."""

    IN = "In"
    OUT = "Out"
    INOUT = "InOut"


Operand = Union[Ref, Const, "Op", "tuple[Operand, ...]"]

# --- operations --------------------------------------------------------------------------------------------------


@dataclass(eq=False)
class Block:
    """Operations in order.

    `params` are values that the owner defines inside (loop index, then carried values), `yields` the values that the
    block passes to its owner.
    """

    ops: list[Op] = field(default_factory=list)
    params: tuple[str, ...] = ()
    yields: tuple[Operand, ...] = ()

    def walk(self) -> Iterator[Op]:
        """Yield every operation, outer before inner."""
        for op in self.ops:
            yield op
            for block in op.blocks:
                yield from block.walk()


@dataclass(eq=False)
class Op:
    """One operation; its name is one of these, or a row of operations.py.

    - `for`: start, stop, step, then initial values
    - `while`: initial values; its first block makes the condition, which it yields
    - `if`: condition
    - `call`: attrs callee, launch
    - `scope`: attr manual
    - `copy`: a plain assignment
    """

    name: str
    args: tuple[Operand, ...] = ()
    attrs: dict[str, Any] = field(default_factory=dict)
    results: tuple[str, ...] = ()
    blocks: tuple[Block, ...] = ()
    position: SourcePosition = NOWHERE

    @property
    def result(self) -> str:
        return self.results[0]

    @property
    def defines(self) -> tuple[str, ...]:
        """Return the operation's results, and the parameters of its blocks."""
        return (*self.results, *(name for block in self.blocks for name in block.params))

    def ref(self, number: int) -> Ref:
        """Return operand `number` as a reference. Raises TypeError for other operands."""
        return expect(self.args[number], Ref, f"{self.name}: operand {number}")

    def items(self, number: int) -> tuple[Operand, ...]:
        """Return operand `number` as a list. Raises TypeError for other operands."""
        return expect(self.args[number], tuple, f"{self.name}: operand {number}")

    @property
    def dtype(self) -> DType:
        """Return the element type that the operation computes in, or creates."""
        return expect(self.attrs["dtype"], DType, self.name)

    @property
    def callee(self) -> str:
        """Return the name of the function that a `call` calls."""
        return expect(self.attrs["callee"], str, self.name)

    @property
    def launch(self) -> Launch:
        """Return the launch of a `call`'s kernel."""
        return expect(self.attrs["launch"], Launch, self.name)


@dataclass(frozen=True)
class IrParam:
    """A parameter of a function."""

    value: Value
    type: TensorType | ScalarType
    direction: Direction = Direction.IN

    @property
    def name(self) -> str:
        return self.value.name

    @property
    def variable(self) -> str:
        """Return the parameter's name in the program."""
        return self.value.variable


@dataclass(frozen=True)
class TensorParam(IrParam):
    type: TensorType


@dataclass(frozen=True)
class ScalarParam(IrParam):
    """`default` is its value in the snapshot."""

    type: ScalarType
    default: int | float | bool | None = None


@dataclass(frozen=True)
class Predicate:
    """A condition on an element of a tensor (`op` is a comparison); a task runs only if it holds at dispatch."""

    tensor: Operand
    indices: tuple[Operand, ...]
    op: str
    target: int


@dataclass(frozen=True)
class Launch:
    """The submission of a kernel: the number of SPMD blocks, whether all start together, and the tasks that it depends
    on.

    `dumps` are the arguments that a selective dump shows; `early_resolve` lets dependent tasks start early. `device` is
    the rank that a host program dispatches a chip program to.
    """

    blocks: Operand | None = None
    sync_start: bool = False
    deps: tuple[Operand, ...] = ()
    dumps: tuple[Operand, ...] = ()
    early_resolve: bool = False
    predicate: Predicate | None = None
    device: Operand | None = None

    def map(self, change: Callable[[Operand], Operand]) -> Launch:
        """Return the launch with `change` applied to its operands."""
        blocks = None if self.blocks is None else change(self.blocks)
        device = None if self.device is None else change(self.device)
        deps, dumps, predicate = tuple(map(change, self.deps)), tuple(map(change, self.dumps)), self.predicate
        if predicate is not None:
            indices = tuple(map(change, predicate.indices))
            predicate = replace(predicate, tensor=change(predicate.tensor), indices=indices)
        return replace(self, blocks=blocks, deps=deps, dumps=dumps, predicate=predicate, device=device)

    @property
    def operands(self) -> tuple[Operand, ...]:
        condition = (self.predicate.tensor, *self.predicate.indices) if self.predicate else ()
        counts = (operand for operand in (self.blocks, self.device) if operand is not None)
        return (*counts, *self.deps, *self.dumps, *condition)


@dataclass(frozen=True)
class PipePlan:
    """The pipe of a group: directions (1 cube to vector, 2 vector to cube, 3 both), bytes of a slot, number of
    slots.
    """

    mask: int
    slot_size: int
    slots: int

    @property
    def buffer_bytes(self) -> int:
        """Return the bytes of the buffer in global memory that backs the pipe, all directions together."""
        return self.slot_size * self.slots * (2 if self.mask == 3 else 1)


@dataclass(eq=False)
class IrFunction:
    """A function. `kind`: kernel, inline, orchestration or host. `core` is aic, aiv or mixed once inferred; `group`
    names the unit of an expanded mixed kernel. `split` is the axis along which two vector cores share the tiles (0
    rows, 1 columns), -1 if each has whole tiles. `spmd`: it is launched on blocks. `values` has every value,
    `addresses` the planned byte addresses of tiles.
    """

    name: str
    kind: str
    params: tuple[IrParam, ...]
    body: Block
    position: SourcePosition = NOWHERE
    core: str = ""
    group: str = ""
    pipe: PipePlan | None = None
    split: int = -1
    spmd: bool = False
    symbols: tuple[str, ...] = ()
    values: Values = field(default_factory=Values)
    addresses: dict[str, int] = field(default_factory=dict)

    @property
    def is_library(self) -> bool:
        """Return whether the function belongs to the compiler's library; its name cannot occur in a program."""
        return "." in self.name

    @property
    def types(self) -> dict[str, Type]:
        return self.values.types

    def tensors(self) -> tuple[TensorParam, ...]:
        return tuple(p for p in self.params if isinstance(p, TensorParam))

    def windows(self) -> tuple[TensorParam, ...]:
        """Return the tensors that lie in windows; each has a context with the ranks that share it."""
        return tuple(p for p in self.tensors() if isinstance(p.type, WindowType))

    def scalars(self) -> tuple[ScalarParam, ...]:
        return tuple(p for p in self.params if isinstance(p, ScalarParam))


@dataclass(eq=False)
class Program:
    """A program; `functions` are in order of definition, kernels before their callers, `entries` are the
    orchestrations.

    `tolerances` are the relative and absolute tolerance of the reference; None without a reference.
    """

    name: str
    functions: dict[str, IrFunction]
    platform: str = "a2a3sim"
    position: SourcePosition = NOWHERE
    tolerances: tuple[float, float] | None = None

    @property
    def entries(self) -> list[IrFunction]:
        return [f for f in self.functions.values() if f.kind == "orchestration"]

    @property
    def kernels(self) -> list[IrFunction]:
        return [f for f in self.functions.values() if f.kind == "kernel"]

    @property
    def arch(self) -> str:
        return self.platform.removesuffix("sim")
