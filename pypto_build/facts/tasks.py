"""Submitted tasks, their arguments, and views of tensors, wherever they were seen: in a run, or in what a run left."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, NamedTuple

import msgspec

from pypto_build.facts.dtypes import ITEMSIZE

#: The largest address.
END = 1 << 62
_Size = Annotated[int, msgspec.Meta(ge=0, le=END)]
_Extents = Annotated[tuple[Annotated[int, msgspec.Meta(ge=0, le=1 << 48)], ...], msgspec.Meta(max_length=16)]
_Number = Annotated[int, msgspec.Meta(ge=-1, le=(1 << 31) - 1)]
_Id = Annotated[int, msgspec.Meta(ge=0)]

#: The position of a kernel among those of its task, by its role.
LANES = {"aic": 0, "aiv": 1, "aiv0": 1, "aiv1": 2}
_NONE = (-1, -1, -1)
#: Tags of simpler for the directions that the runtime's callback tells, and the other way round.
_TAGS = {"IN": "INPUT", "OUT": "OUTPUT", "INOUT": "INOUT", "NO_DEP": "NO_DEP"}
_DIRECTIONS = {"INPUT": "IN", "OUTPUT": "OUT", "OUTPUT_EXISTING": "OUT", "INOUT": "INOUT"}


class TensorView(NamedTuple):
    """A view of the `size` bytes at address `buffer`. `offset` and `strides` count elements."""

    buffer: _Size
    size: _Size
    offset: Annotated[int, msgspec.Meta(ge=0, le=1 << 56)]
    dtype: str
    shape: _Extents
    strides: _Extents

    @property
    def contiguous(self) -> bool:
        """Return whether the view is row-major without gaps."""
        stride = 1
        for extent, actual in zip(reversed(self.shape), reversed(self.strides), strict=True):
            if extent != 1 and actual != stride:
                return False
            stride *= extent
        return True

    @property
    def empty(self) -> bool:
        """Return whether the view has no element."""
        return 0 in self.shape

    @property
    def reach(self) -> int:
        """Return the number of elements from the first to the last, both included."""
        if 0 in self.shape:
            return 0
        return 1 + sum([(extent - 1) * stride for extent, stride in zip(self.shape, self.strides, strict=False)])

    @property
    def bytes(self) -> tuple[int, int]:
        """Return the positions in the buffer of the first byte, and one past the last."""
        size = ITEMSIZE.get(self.dtype, 1)
        return self.offset * size, (self.offset + self.reach) * size

    @property
    def span(self) -> tuple[int, int]:
        """Return the addresses of the first byte, and one past the last."""
        first, last = self.bytes
        return self.buffer + first, self.buffer + last

    @property
    def window(self) -> tuple[int, int]:
        """Return the first element, and one past the last, of all rows that the view touches in the buffer."""
        moving = [stride for extent, stride in zip(self.shape, self.strides, strict=True) if extent > 1]
        row = max(moving, default=1)
        first = self.offset // row * row
        last = -(-(self.offset + max(self.reach, 1)) // row) * row
        return first, min(last, self.size // ITEMSIZE[self.dtype])

    def holds(self, address: int) -> bool:
        """Return whether an address is one of the buffer."""
        return self.buffer <= address < self.buffer + self.size


Slot = TensorView | int  # the content of an entry's `args[i]`: a tensor, or 64 bits


def slots_of(call: Any) -> list[Slot]:
    """Return the arguments of a call of the runtime's callback in the form that a kernel's entry gets."""
    return [TensorView(*slot) if isinstance(slot, tuple) else slot for slot in call.slots()]


class TaskArgument(msgspec.Struct, frozen=True, array_like=True):
    """An argument of a task, the `index`-th of its kernels' args[], with simpler's tag.

    A scalar has the tag SCALAR, 64 `bits`, and a view of nothing but an element type. `owner` is the task that
    allocated the buffer, `tensor` the buffer's id in a graph. `before` and `after` are the bytes of the view's window.
    """

    index: int
    tag: str
    view: TensorView
    owner: Annotated[int, msgspec.Meta(ge=0)] = 0
    manual: bool = False
    tensor: int | None = None
    bits: int = 0
    before: bytes = b""
    after: bytes = b""

    @property
    def scalar(self) -> bool:
        """Return whether it is a scalar."""
        return self.tag == "SCALAR"

    @property
    def direction(self) -> str:
        """IN, OUT, INOUT or NO_DEP."""
        return _DIRECTIONS.get(self.tag, "NO_DEP")

    @property
    def reads(self) -> bool:
        """Return whether the task may read it. An argument without dependencies is tagged UNKNOWN by some vintages."""
        return self.tag in ("INPUT", "INOUT", "NO_DEP", "UNKNOWN")

    @property
    def writes(self) -> bool:
        """Return whether the task may write it."""
        return self.tag in ("OUTPUT", "OUTPUT_EXISTING", "INOUT", "NO_DEP")

    @property
    def key(self) -> tuple[int, int]:
        """The buffer's address and its allocation. Both are needed because memory is reused."""
        return self.view.buffer, self.owner


class Task(msgspec.Struct, frozen=True):
    """One submission. `number` counts those that run a kernel; it is -1 for others, and where it is not known.

    `kernels` are the func_ids on AIC, AIV0 and AIV1 (-1: none), with the `names` of those there are. `waits` are
    producers with the reason of each dependency, `host_waits` the waits of the orchestration itself before it.
    """

    id: _Id
    number: _Number = -1
    kernels: Annotated[tuple[_Number, ...], msgspec.Meta(min_length=1, max_length=3)] = _NONE
    block_num: _Number = 1
    manual: bool = False
    host_waits: _Number = 0
    waits: tuple[tuple[int, str], ...] = ()
    args: tuple[TaskArgument, ...] = ()
    names: tuple[str, ...] = ()
    together: bool = False

    @property
    def func_ids(self) -> tuple[int, ...]:
        """The func_ids of its kernels, each once."""
        return tuple(dict.fromkeys([kernel for kernel in self.kernels if kernel >= 0]))

    @property
    def kernel(self) -> str:
        """The names of its kernels: `gemm_aic+gemm_aiv`."""
        return joined(self.names)

    @property
    def title(self) -> str:
        """`task 3 gemm_aic+gemm_aiv`."""
        return f"task {self.number} {self.kernel}"

    @property
    def tensors(self) -> list[TaskArgument]:
        """The tensors among its arguments."""
        return [one for one in self.args if not one.scalar]


def joined(names: Iterable[str]) -> str:
    """Return the names of a task's kernels, each once."""
    return "+".join(dict.fromkeys(names))


def task_of(call: Any) -> Task:
    """Return the task of a call of the runtime's callback. `together` says that its blocks start at the same time."""
    kernels = list(_NONE)
    for role, func_id, _ in call.kernels:
        kernels[LANES[role]] = func_id
    return Task(
        call.task_id,
        call.number,
        tuple(kernels),
        call.block_num,
        args=tuple(_argument(*pair) for pair in enumerate(zip(call.args, call.slots(), strict=True))),
        names=tuple(str(name) for _, _, name in call.kernels),
        together=call.block is None and call.block_num > 1,
    )


def _argument(index: int, pair: tuple[Any, Any]) -> TaskArgument:
    given, slot = pair
    if isinstance(slot, tuple):
        return TaskArgument(index, _TAGS[given.direction], TensorView(*slot))
    return TaskArgument(index, "SCALAR", TensorView(0, 0, 0, given.dtype, (), ()), bits=slot)
