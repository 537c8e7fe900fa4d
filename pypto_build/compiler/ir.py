"""The program between its source and its files: functions of operations over named values.

The front end makes operations with nested operations as arguments and variables of the program as results. The passes
turn that into SSA form with types, memory spaces and addresses (see pipeline.py for the order). Facts about values are
in values.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, Union

from pypto_build.facts.dtypes import DType
from pypto_build.facts.positions import SourcePosition

from .values import NOWHERE, Const, Ref, ScalarType, TensorType, Type, Value, Values, WindowType, expect


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

    `params` are the owner's definitions inside (loop index, then carried values), `yields` the values that the block
    passes on.
    """

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
        """Return its results, and the parameters of its blocks."""
        return (*self.results, *(name for block in self.blocks for name in block.params))

    def ref(self, number: int) -> Ref:
        """Operand `number`, which is a value. TypeError if it is not."""
        return expect(self.args[number], Ref, f"{self.name}: operand {number}")

    def items(self, number: int) -> tuple[Operand, ...]:
        """Operand `number`, which is a list. TypeError if it is not."""
        return expect(self.args[number], tuple, f"{self.name}: operand {number}")

    @property
    def dtype(self) -> DType:
        """The element type that it computes in, or makes."""
        return expect(self.attrs["dtype"], DType, self.name)

    @property
    def callee(self) -> str:
        """The function that a `call` calls."""
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
        """Return its name in the program."""
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
    """A condition on an element of a tensor (`op` is a comparison), without which a dispatched task does not run."""

    tensor: Operand
    indices: tuple[Operand, ...]
    op: str
    target: int


@dataclass(frozen=True)
class Launch:
    """The submission of a kernel: the number of SPMD blocks, whether all start together, and the tasks before it.

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
        """Return the bytes of the buffer in global memory that backs the pipe, all directions together."""
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
        """Return whether it is the compiler's own; such names cannot occur in a program."""
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
    """A program; `functions` are in order of definition, kernels before their callers, `entries` are the
    orchestrations.

    `tolerances` are the reference's, relative and absolute; None without a reference.
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
