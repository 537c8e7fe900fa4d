"""The language of programs; `import pypto_build.compiler.language as pl`.

    @pl.jit.incore
    def add(a: pl.Tensor[[128, 128], pl.FP32], b: …, c: pl.Out[pl.Tensor[[128, 128], pl.FP32]]):
        pl.store(pl.load(a, [0, 0], [128, 128]) + pl.load(b, [0, 0], [128, 128]), [0, 0], c)

    @pl.jit
    def program(a: …, b: …, c: pl.Out[…]):
        add(a, b, c)

Functions decorated here are not run: the compiler reads their source. Everything in them that does not depend on their
parameters is ordinary Python, evaluated once. Besides the names below, `pl` has the operations of operations.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Generic, NoReturn, TypeVar

from pypto_build.facts.dtypes import (
    BF16,
    BOOL,
    FP16,
    FP32,
    INDEX,
    INT8,
    INT16,
    INT32,
    INT64,
    UINT8,
    UINT16,
    UINT32,
    UINT64,
    DType,
)
from pypto_build.facts.run_options import is_tolerance

from ..errors import similar
from ..ir import Dim, Direction, Ref, ScalarType, TensorType
from ..operations import OPERATIONS, called

__all__ = [
    "BF16", "BOOL", "FP16", "FP32", "INDEX", "INT8", "INT16", "INT32", "INT64", "UINT8", "UINT16", "UINT32", "UINT64",
    "DType", "Dynamic", "InOut", "Mem", "Out", "Scalar", "Split", "Tensor", "dynamic", "jit", "launch", "manual_scope",
    "range", "scope", "unroll",
]  # fmt: skip

#: A domain has this many members at most.
MOST_RANKS = 64

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")


@dataclass(frozen=True)
class Dynamic:
    """An extent that is known only at run time; `example` is its size in the snapshot."""

    name: str
    example: int = 1


def dynamic(name: str, example: int = 1) -> Dynamic:
    """Return an extent called `name`; it is the same in all parameters of a function."""
    if not name.isidentifier():
        raise ValueError(f"the dynamic extent {name!r} is not a valid name")
    return Dynamic(name, example)


@dataclass(frozen=True)
class Annotation:
    """A parameter's evaluated annotation; `extents` are the dynamic extents by name."""

    type: TensorType | ScalarType
    direction: Direction = Direction.IN
    extents: tuple[Dynamic, ...] = ()


class Tensor(Generic[T]):
    """`pl.Tensor[[rows, cols], dtype]`: a tensor in global memory, read unless wrapped in Out or InOut."""

    def __class_getitem__(cls, item: Any) -> Any:
        if not (isinstance(item, tuple) and len(item) == 2 and isinstance(item[1], DType)):
            raise TypeError("write pl.Tensor[[extent, …], dtype]")
        shape, dtype = list(item[0]), item[1]
        if not shape or not all(isinstance(e, Dynamic) or (type(e) is int and e > 0) for e in shape):
            raise TypeError(f"extents are positive numbers or pl.dynamic, found {shape}")
        dims: tuple[Dim, ...] = tuple(Ref(e.name) if isinstance(e, Dynamic) else e for e in shape)
        return Annotation(TensorType(dims, dtype), extents=tuple(e for e in shape if isinstance(e, Dynamic)))


class Scalar(Generic[T]):
    """`pl.Scalar[dtype]`: a number passed by value; a default is its value in the snapshot."""

    def __class_getitem__(cls, item: Any) -> Any:
        if not isinstance(item, DType):
            raise TypeError("write pl.Scalar[dtype]")
        return Annotation(ScalarType(item))


def _directed(direction: Direction, name: str) -> type:
    class Directed(Generic[T]):
        def __class_getitem__(cls, item: Any) -> Any:
            if not (isinstance(item, Annotation) and isinstance(item.type, TensorType)):
                raise TypeError(f"write pl.{name}[pl.Tensor[[extent, …], dtype]]")
            return Annotation(item.type, direction, item.extents)

    Directed.__name__ = name
    return Directed


Out = _directed(Direction.OUT, "Out")
InOut = _directed(Direction.INOUT, "InOut")


class Mem:
    """Memories that a program can choose for a tile instead of the compiler."""

    Vec = "vec"
    Mat = "mat"
    Left = "left"
    Right = "right"
    Acc = "acc"


class Split:
    """Ways to split the tiles of a kernel between the two vector cores of a group: by rows, or by columns."""

    UpDown = "up_down"
    LeftRight = "left_right"


_SPLIT_AXES = {"": -1, Split.UpDown: 0, Split.LeftRight: 1}


@dataclass(frozen=True)
class Intrinsic:
    """An operation that is valid only in the source of a decorated function."""

    name: str

    def __call__(self, *args: object, **kwargs: object) -> NoReturn:
        raise TypeError(f"{called(self.name)} is an operation of kernels and programs; the compiler does not run it")


range = Intrinsic("range")
unroll = Intrinsic("unroll")
scope = Intrinsic("scope")
manual_scope = Intrinsic("manual_scope")
launch = Intrinsic("launch")


# Names in other languages of the field, and in torch.
_ELSEWHERE = {
    "FLOAT": "FP32", "FLOAT32": "FP32", "FLOAT16": "FP16", "HALF": "FP16", "BFLOAT16": "BF16", "float32": "FP32",
    "float16": "FP16", "bfloat16": "BF16", "int32": "INT32", "dot": "matmul", "where": "select", "zeros": "full",
    "sum": "row_sum or pl.col_sum", "exp2": "exp", "program_id": "get_block_idx", "num_programs": "get_block_num",
    "InCore": "jit.incore", "for_range": "range", "parallel": "range", "sigmoid": "exp: x / (pl.exp(-x) + 1.0)",
}  # fmt: skip


def __getattr__(name: str) -> Intrinsic:
    if name in OPERATIONS and OPERATIONS[name].prefix == "pl":
        return Intrinsic(name)
    if name in OPERATIONS and OPERATIONS[name].prefix:
        where = "import pypto_build.compiler.language.distributed as pld"
        raise AttributeError(f"pl has no '{name}'; use {OPERATIONS[name].spelled} ({where})")
    if name in _ELSEWHERE:
        raise AttributeError(f"pl has no '{name}'; use pl.{_ELSEWHERE[name]}")
    raise AttributeError(f"pl has no operation '{name}'{similar(name, {*OPERATIONS, *__all__})}")


@dataclass(eq=False)
class JitFunction:
    """A decorated function. `kind`: kernel, inline, orchestration or host. A program may have a reference.

    `split` is the axis along which two vector cores share a kernel's tiles, or -1. `ranks` is the number of chips that
    a host program is compiled for.
    """

    function: Callable[..., Any]
    kind: str
    split: int = -1
    reference_function: Callable[..., Any] | None = None
    inputs_function: Callable[..., Any] | None = None
    tolerances: dict[str, float] = field(default_factory=dict)
    ranks: int = 0

    @property
    def name(self) -> str:
        return self.function.__name__

    @property
    def accepted(self) -> tuple[float, float] | None:
        """Return the relative and absolute tolerance of the reference; None without a reference."""
        if self.reference_function is None:
            return None
        return self.tolerances.get("rtol", 1e-5), self.tolerances.get("atol", 1e-5)

    def __call__(self, *args: object, **kwargs: object) -> NoReturn:
        raise TypeError(f"{self.name} is compiled, not called: python -m pypto_build.compiler PROGRAM --output DIR")

    def __getitem__(self, launch: object) -> NoReturn:
        raise TypeError(f"{self.name}[…] launches a kernel; it means something only in an orchestration")

    def reference(self, *args: Any, rtol: float | None = None, atol: float | None = None) -> Any:
        """`@program.reference` or `@program.reference(rtol=…, atol=…)`: a function of the program's parameters by name,
        in torch, that writes the outputs in place. It may use the module's imports, constants and plain functions."""

        def register(function: F) -> F:
            self.reference_function = function
            self.tolerances = tolerances
            return function

        tolerances = {k: v for k, v in (("rtol", rtol), ("atol", atol)) if v is not None}
        for name, value in tolerances.items():
            if not is_tolerance(value):
                raise ValueError(f"{name}={value!r} is not a tolerance; write a finite number of 0 or more")
        return register(args[0]) if args else register

    def inputs(self, function: F) -> F:
        """`@program.inputs`: a function without parameters that returns a dictionary of input tensors by name, for
        those that must not be random. The generator is seeded."""
        self.inputs_function = function
        return function


class _Jit:
    """`@pl.jit` an orchestration, `@pl.jit.incore` a kernel, `@pl.jit.inline` a function expanded at its calls,
    `@pl.jit.host` a program for several chips, which dispatches orchestrations."""

    def __call__(self, function: Callable[..., Any]) -> JitFunction:
        return JitFunction(function, "orchestration")

    def incore(self, *args: Callable[..., Any], split: str = "") -> Any:
        """`@pl.jit.incore`, or `@pl.jit.incore(split=pl.Split.UpDown)` for two vector cores that share the tiles."""
        if split not in _SPLIT_AXES:
            raise ValueError(f"split must be pl.Split.UpDown or pl.Split.LeftRight, found {split!r}")

        def make(function: Callable[..., Any]) -> JitFunction:
            return JitFunction(function, "kernel", _SPLIT_AXES[split])

        return make(args[0]) if args else make

    def inline(self, function: Callable[..., Any]) -> JitFunction:
        return JitFunction(function, "inline")

    def host(self, *args: Callable[..., Any], ranks: int = 2) -> Any:
        """Decorate with `@pl.jit.host`, or `@pl.jit.host(ranks=4)` for the number of chips to compile for."""
        if type(ranks) is not int or not 1 <= ranks <= MOST_RANKS:
            raise ValueError(f"ranks must be a number from 1 to {MOST_RANKS}, found {ranks!r}")

        def make(function: Callable[..., Any]) -> JitFunction:
            return JitFunction(function, "host", ranks=ranks)

        return make(args[0]) if args else make


jit = _Jit()
