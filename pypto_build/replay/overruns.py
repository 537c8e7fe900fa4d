"""Which task wrote next to a tensor: the run is repeated task by task, with a look at the red zones after each."""

from __future__ import annotations

import mmap
from typing import Any

from pypto_build.replay.arena import Arena

_BYTES = 512


class FirstOverrun:
    """Called for every task of a run on ``arena``, in the process of the kernels; told of in memory that both have."""

    def __init__(self, arena: Arena) -> None:
        self._arena = arena
        self._memory = mmap.mmap(-1, _BYTES)
        self._seen = False

    def __call__(self, call: Any) -> None:
        call.run()
        if not self._seen and self._arena.overrun() is not None:
            self._seen = True
            names = "+".join(dict.fromkeys(str(kernel[2]) for kernel in call.kernels))
            text = f"{call.number} {names}".encode()[: _BYTES - 1]
            self._memory[: len(text)] = text

    @property
    def culprit(self) -> tuple[str, str] | None:
        """The number of the task and the name of its kernel; None if no task did it."""
        number, _, name = bytes(self._memory).rstrip(b"\0").decode(errors="replace").partition(" ")
        return (number, name) if name else None
