"""Arguments of a task, written to a file that the debugger's printers read."""

from __future__ import annotations

from typing import Any

import msgspec

from pypto_build.diagnose.recorded.names import Names
from pypto_build.facts.dtypes import ITEMSIZE

#: The name of that file in the session's directory.
TASK_FILE = "task.json"


class GivenArgument(msgspec.Struct, frozen=True):
    """An argument: a tensor (address of its first element, shape, strides in elements) or a scalar (``text``)."""

    name: str
    direction: str = ""
    dtype: str = ""
    address: int = 0
    shape: tuple[int, ...] = ()
    strides: tuple[int, ...] = ()
    text: str = ""


class GivenTask(msgspec.Struct, frozen=True):
    """A task with its kernels and arguments. ``block`` is None if all its blocks run together."""

    task: int
    block: int | None
    blocks: int
    kernels: list[str]
    arguments: list[GivenArgument]


def describe(call: Any, names: Names) -> GivenTask:
    """Return the description of a task from the call that the runtime passes to its callback."""
    func_ids = [func_id for _, func_id, _ in call.kernels]
    arguments = []
    for index, slot in enumerate(call.slots()):
        name = names.argument(func_ids, index) or f"args[{index}]"
        if isinstance(slot, tuple):
            buffer, _, offset, dtype, shape, strides = slot
            address = buffer + offset * ITEMSIZE[dtype]
            direction = getattr(call.args[index], "direction", "")
            arguments.append(GivenArgument(name, direction, dtype, address, shape, strides))
        else:
            typed = names.scalar(func_ids, index, slot)
            text = f"{typed[1]} ({typed[0]})" if typed else f"0x{slot & (1 << 64) - 1:x}"
            arguments.append(GivenArgument(name, text=text))
    kernels = list(dict.fromkeys(name for _, _, name in call.kernels))
    return GivenTask(call.number, call.block, call.block_num, kernels, arguments)
