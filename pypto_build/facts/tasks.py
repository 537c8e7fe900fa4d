"""Submitted tasks, their arguments, and views of tensors, as the runtime's callback gets them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import msgspec

from pypto_build.facts.dtypes import ITEMSIZE

#: The position of a kernel among those of its task, by its role.
LANES = {"aic": 0, "aiv": 1, "aiv0": 1, "aiv1": 2}


class TensorView(NamedTuple):
    """A view of the `size` bytes at address `buffer`. `offset` and `strides` count elements."""

    buffer: int
    size: int
    offset: int
    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]

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
    def window(self) -> tuple[int, int]:
        """Return the first element, and one past the last, of all rows that the view touches in the buffer."""
        moving = [stride for extent, stride in zip(self.shape, self.strides, strict=True) if extent > 1]
        row = max(moving, default=1)
        reach = sum((extent - 1) * stride for extent, stride in zip(self.shape, self.strides, strict=True))
        first = self.offset // row * row
        last = -(-(self.offset + reach + 1) // row) * row
        return first, min(last, self.size // ITEMSIZE[self.dtype])


Slot = TensorView | int  # the content of an entry's `args[i]`: a tensor, or 64 bits


def slots_of(call: Any) -> list[Slot]:
    """Return the arguments of a call of the runtime's callback in the form that a kernel's entry gets."""
    return [TensorView(*slot) if isinstance(slot, tuple) else slot for slot in call.slots()]


class TaskArgument(msgspec.Struct, frozen=True):
    """An argument of a task, the `index`-th of its kernels' args[]: IN, OUT, INOUT, NO_DEP or SCALAR.

    A scalar has 64 `bits`, and a view of nothing but an element type. `before` and `after` are the bytes of the view's
    window.
    """

    index: int
    direction: str
    view: TensorView
    bits: int = 0
    before: bytes = b""
    after: bytes = b""

    @property
    def scalar(self) -> bool:
        """Return whether it is a scalar."""
        return self.direction == "SCALAR"


class Task(msgspec.Struct, frozen=True):
    """One submission that runs kernels. `number` counts these.

    `kernels` are the func_ids on AIC, AIV0 and AIV1 (-1: none), with the `names` of those there are. `together` says
    that its blocks start at the same time.
    """

    id: int
    number: int
    kernels: tuple[int, int, int] = (-1, -1, -1)
    block_num: int = 1
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
    """Return the task of a call of the runtime's callback."""
    kernels = [-1, -1, -1]
    for role, func_id, _ in call.kernels:
        kernels[LANES[role]] = func_id
    return Task(
        call.task_id,
        call.number,
        (kernels[0], kernels[1], kernels[2]),
        call.block_num,
        args=tuple(_argument(*pair) for pair in enumerate(zip(call.args, call.slots(), strict=True))),
        names=tuple(str(name) for _, _, name in call.kernels),
        together=call.block is None and call.block_num > 1,
    )


def _argument(index: int, pair: tuple[Any, Any]) -> TaskArgument:
    argument, slot = pair
    if isinstance(slot, tuple):
        return TaskArgument(index, argument.direction, TensorView(*slot))
    return TaskArgument(index, "SCALAR", TensorView(0, 0, 0, argument.dtype, (), ()), bits=slot)
