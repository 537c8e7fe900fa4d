"""Finds the task that wrote next to a tensor, and its line: repeats the run with red zones that cannot be written.

That run may not crash, if a system call or a thread of the kernel did the write. Then it is repeated task by task, with
a check of the red zones after each.
"""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Protocol

from pypto_build.replay.arena import ALIGNMENT, Arena, Overrun
from pypto_build.replay.binding import TensorArg
from pypto_build.replay.faults import RunFault
from pypto_build.replay.run_options import SettingValue
from pypto_build.replay.verdict import ErrorInfo

_BYTES = 512
#: The options that give kernels the tensors themselves, not copies of them.
_IN_PLACE: dict[str, SettingValue] = {"protect_inputs": False}

#: Runs once on an arena, with these options in place of those of the request. Raises `RunFault`.
Rerun = Callable[[Arena, dict[str, SettingValue]], None]


class _Task(Protocol):
    """The task object that the runtime passes to a callback (`pypto_build.runtime`)."""

    number: int
    kernels: list[Any]

    def run(self) -> None: ...


def overrun_message(overrun: Overrun, tensor: TensorArg, writer: str = "a kernel") -> str:
    """Return a message that names the writer, the tensor and the byte that was written."""
    return f"{writer} wrote outside tensor '{tensor.name}': at byte {overrun.offset}, while it has {tensor.nbytes}"


def name_writer(error: ErrorInfo, overrun: Overrun, tensors: Sequence[TensorArg], run: Rerun) -> None:
    """Add the task that wrote next to a tensor to an error that reports such a write."""
    sizes = [tensor.nbytes for tensor in tensors]
    trapped = _trapped(overrun, sizes, run)
    if trapped is not None:
        error.task, error.kernel, error.detail, error.line = trapped.task, trapped.kernel, trapped.detail, trapped.line
    else:
        error.task, error.kernel = _watched(sizes, run)
    if error.kernel is not None:
        error.message = overrun_message(overrun, tensors[overrun.index], f"kernel '{error.kernel}'")
    if error.line:
        error.message += f", in {error.line}"


def _trapped(overrun: Overrun, sizes: list[int], run: Rerun) -> ErrorInfo | None:
    """Return the crash of a run with closed red zones, if it crashed inside one."""
    arena = Arena(sizes, at_ends=overrun.offset > 0)
    base = _address(arena)
    closed = _close(arena, base)
    try:
        run(arena, {"serial": True, **_IN_PLACE})
    except RunFault as fault:
        touched = fault.error.address
        if touched is not None and any(first <= touched - base < last for first, last in closed):
            return fault.error
    return None


def _address(arena: Arena) -> int:
    return ctypes.addressof(ctypes.c_char.from_buffer(arena.memory))


def _close(arena: Arena, base: int) -> list[tuple[int, int]]:
    """Make writes to the red zones crash, as far as these are whole pages; return begin and end of each such part."""
    library = ctypes.CDLL(None)
    pages = [(-(-start // ALIGNMENT) * ALIGNMENT, stop // ALIGNMENT * ALIGNMENT) for start, stop in arena.zones()]
    for first, last in pages:
        if first < last:
            library.mprotect(ctypes.c_void_p(base + first), ctypes.c_size_t(last - first), mmap.PROT_READ)
    return pages


def _watched(sizes: list[int], run: Rerun) -> tuple[str, str] | tuple[None, None]:
    """Return the number of the first task after which a red zone is changed, and the name of its kernel."""
    arena = Arena(sizes)
    first = _FirstOverrun(arena)
    with suppress(RunFault):  # overruns that were seen before the fault still count
        run(arena, {"on_task": first, **_IN_PLACE})
    return first.culprit or (None, None)


class _FirstOverrun:
    """A callback for every task of a run on ``arena``, called in the kernels' process. It reports through shared
    memory."""

    def __init__(self, arena: Arena) -> None:
        self._arena = arena
        self._memory = mmap.mmap(-1, _BYTES)
        self._seen = False

    def __call__(self, call: _Task) -> None:
        call.run()
        if not self._seen and self._arena.overrun() is not None:
            self._seen = True
            names = "+".join(dict.fromkeys(str(kernel[2]) for kernel in call.kernels))
            text = f"{call.number} {names}".encode()[: _BYTES - 1]
            self._memory[: len(text)] = text

    @property
    def culprit(self) -> tuple[str, str] | None:
        """Return the number of the task and the name of its kernel; None if no task changed a red zone."""
        number, _, name = bytes(self._memory).rstrip(b"\0").decode(errors="replace").partition(" ")
        return (number, name) if name else None
