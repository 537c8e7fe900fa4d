"""The program between its source and its files: functions of operations over named values.

The front end makes operations whose arguments may be operations themselves and whose results are the program's
variables; the passes turn that into SSA form with types, memory spaces and addresses (see pipeline.py for the order).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, TypeVar, Union

from .dtypes import DType
from .errors import SourcePosition


class Direction(Enum):
    """How a function uses a tensor parameter; `meta` is the spelling of compiled_meta.json."""

    IN = "In"
    OUT = "Out"
    INOUT = "InOut"


NOWHERE = SourcePosition()

# --- operands ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Ref:
    """A value by its name."""

    name: str


@dataclass(frozen=True)
class Const:
    """A number known when compiling."""

    value: int | float | bool


Operand = Union[Ref, Const, "Op", "tuple[Operand, ...]"]
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
    """A tensor in a window: every rank of a domain has one, and reaches those of the others."""

    def __str__(self) -> str:
        return f"DistributedTensor[{dims_text(self.shape)}, {self.dtype}]"


@dataclass(frozen=True)
class TileType:
    """A tile on a core: `shape` is rows x columns as laid out, `valid` what of it holds data.

    `space` is empty until memory spaces are inferred; `pad` is what `fillpad` fills with: null, zero, max or min.
    """

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
        """One value per row: laid out as a column, so its bytes are those of a row."""
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
    """What defines a value."""

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
    """Where a value comes from: its SSA name, the variable of the user's program, what defines it, and at which line.

    What the compiler makes has its own word for a variable. Copies and views of a value keep its variable. `stem` is
    the variable as names are made of it: inline functions are expanded under new names.
    """

    name: str
    variable: str
    kind: ValueKind
    position: SourcePosition = NOWHERE
    stem: str = ""


Wanted = TypeVar("Wanted")


def _expect(found: object, wanted: type[Wanted], what: str) -> Wanted:
    if not isinstance(found, wanted):
        raise TypeError(f"{what} is {found}, not a {wanted.__name__}")
    return found


class Values(dict[str, Value]):
    """The values of one function by name: where each comes from, and its type once that is known.

    A name is never taken back, so passes add to a copy. Asking for a value that is not there is a KeyError, for a type
    that it has not a TypeError; both are faults of the compiler.
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
        return _expect(self.types[name], TileType, name)

    def tensor(self, name: str) -> TensorType:
        return _expect(self.types[name], TensorType, name)

    def scalar(self, name: str) -> ScalarType:
        return _expect(self.types[name], ScalarType, name)

    def dtype(self, name: str) -> DType:
        """The element type of a tile, a tensor or a number."""
        return _expect(getattr(self.types[name], "dtype", None), DType, name)

    def is_tile(self, name: str) -> bool:
        return isinstance(self.types.get(name), TileType)

    def space(self, name: str) -> str:
        """The memory of a tile, empty for what is none."""
        return self.tile(name).space if self.is_tile(name) else ""


# --- operations --------------------------------------------------------------------------------------------------


@dataclass(eq=False)
class Block:
    """Operations in order. `params` are what the owner defines inside (loop index, then what is carried), `yields`
    what the block passes on."""

    ops: list[Op] = field(default_factory=list)
    params: tuple[str, ...] = ()
    yields: tuple[Operand, ...] = ()

    def walk(self) -> Iterator[Op]:
        """Every operation, outer before inner."""
        for op in self.ops:
            yield op
            for block in op.blocks:
                yield from block.walk()


@dataclass(eq=False)
class Op:
    """One operation: `for` (start, stop, step, then initial values), `while` (initial values; its first block makes the
    condition, which it yields), `if` (condition), `call` (attrs callee, launch), `scope` (attr manual), `copy` (a plain
    assignment), or a row of operations.py."""

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
        """Its results, and what its blocks start with."""
        return (*self.results, *(name for block in self.blocks for name in block.params))

    def ref(self, number: int) -> Ref:
        """Operand `number`, which is a value. TypeError if it is not."""
        return _expect(self.args[number], Ref, f"{self.name}: operand {number}")

    def items(self, number: int) -> tuple[Operand, ...]:
        """Operand `number`, which is a list. TypeError if it is not."""
        return _expect(self.args[number], tuple, f"{self.name}: operand {number}")

    @property
    def dtype(self) -> DType:
        """The element type that it computes in, or makes."""
        return _expect(self.attrs["dtype"], DType, self.name)

    @property
    def callee(self) -> str:
        """The function that a `call` calls."""
        return _expect(self.attrs["callee"], str, self.name)

    @property
    def launch(self) -> Launch:
        """How a `call` launches its kernel."""
        return _expect(self.attrs["launch"], Launch, self.name)


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
        """What the program calls it."""
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
    """What an element of a tensor has to be (`op` is a comparison) when a task is dispatched, for it to run at all."""

    tensor: Operand
    indices: tuple[Operand, ...]
    op: str
    target: int


@dataclass(frozen=True)
class Launch:
    """How a kernel is submitted: on so many SPMD blocks, all of them starting together or not, after other tasks.

    `dumps` are the arguments a selective dump shows; `early_resolve` lets tasks that depend on this one start early.
    `device` is the rank that a host program dispatches a chip program to.
    """

    blocks: Operand | None = None
    sync_start: bool = False
    deps: tuple[Operand, ...] = ()
    dumps: tuple[Operand, ...] = ()
    early_resolve: bool = False
    predicate: Predicate | None = None
    device: Operand | None = None

    def map(self, change: Callable[[Operand], Operand]) -> Launch:
        """The same launch with its operands changed."""
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
    """The pipe of a group: directions (1 cube to vector, 2 back, 3 both), bytes of a slot, slots."""

    mask: int
    slot_size: int
    slots: int

    @property
    def buffer_bytes(self) -> int:
        """Of the buffer in global memory that backs the pipe, all directions together."""
        return self.slot_size * self.slots * (2 if self.mask == 3 else 1)


@dataclass(eq=False)
class IrFunction:
    """`kind`: kernel, inline, orchestration or host. `core` is aic, aiv or mixed once inferred; `group` names the unit
    of an expanded mixed kernel. `split` is the axis along which two vector cores share the tiles (0 rows, 1 columns),
    -1 where one has them whole; `spmd` tells that it is launched on blocks. `values` has every value, `addresses` the
    tiles' bytes once planned."""

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
        """Whether it is the compiler's own: such functions have names that no program can give."""
        return "." in self.name

    @property
    def types(self) -> dict[str, Type]:
        return self.values.types

    def tensors(self) -> tuple[TensorParam, ...]:
        return tuple(p for p in self.params if isinstance(p, TensorParam))

    def windows(self) -> tuple[TensorParam, ...]:
        """The tensors that lie in windows; each has a context, by which the ranks are known."""
        return tuple(p for p in self.tensors() if isinstance(p.type, WindowType))

    def scalars(self) -> tuple[ScalarParam, ...]:
        return tuple(p for p in self.params if isinstance(p, ScalarParam))


@dataclass(eq=False)
class Program:
    """`functions` in order of definition, kernels before those that call them; `entries` the orchestrations.
    `tolerances` are those of the reference, relative and absolute; None when there is no reference."""

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


# --- walking and rewriting ---------------------------------------------------------------------------------------


def refs(operand: Operand) -> Iterator[str]:
    """Names an operand mentions, those of nested operations included."""
    if isinstance(operand, Ref):
        yield operand.name
    elif isinstance(operand, tuple):
        for item in operand:
            yield from refs(item)
    elif isinstance(operand, Op):
        yield from op_refs(operand)


def op_refs(op: Op) -> Iterator[str]:
    """Names an operation itself mentions; blocks not included."""
    for arg in op.args:
        yield from refs(arg)
    if "launch" in op.attrs:
        yield from refs(op.launch.operands)


def map_operand(operand: Operand, change: Callable[[Ref], Operand]) -> Operand:
    """The operand with every name replaced by what `change` makes of it."""
    if isinstance(operand, Ref):
        return change(operand)
    if isinstance(operand, tuple):
        return tuple(map_operand(item, change) for item in operand)
    if isinstance(operand, Op):
        return replace(operand, args=tuple(map_operand(a, change) for a in operand.args))
    return operand


def map_op(op: Op, change: Callable[[Ref], Operand]) -> Op:
    """A copy of the operation with its own operands changed; blocks are kept as they are."""
    attrs = dict(op.attrs)
    if "launch" in attrs:
        attrs["launch"] = op.launch.map(lambda operand: map_operand(operand, change))
    return replace(op, args=tuple(map_operand(a, change) for a in op.args), attrs=attrs)


def mentions(op: Op) -> set[str]:
    """Names that an operation and its blocks use or pass on."""
    return set(op_refs(op)).union(*map(uses, op.blocks))


def uses(block: Block) -> set[str]:
    return set(refs(block.yields)).union(*map(mentions, block.ops))


def free_names(block: Block) -> set[str]:
    """Names a block uses but does not define."""
    used: set[str] = set()
    defined = set(block.params)
    for op in block.ops:
        used |= set(op_refs(op)) - defined
        for inner in op.blocks:
            used |= free_names(inner) - defined
        defined |= set(op.results)
    return used | set(refs(block.yields)) - defined
