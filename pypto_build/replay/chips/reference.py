"""RUNTIME=torch over ranks: each rank executes its tasks by PyTorch made from .pto modules, in its process.

What kernels tell each other goes over the board, as for compiled kernels: a rank that waits sleeps, and a deadlock is
seen at once. A pointer into a window reaches the windows of all ranks, which lie in one piece of memory.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from pypto_build.artifact.errors import ArtifactError
from pypto_build.facts.dtypes import ITEMSIZE
from pypto_build.replay.chips.memory import Windows
from pypto_build.replay.reference.hook import References, slots_of
from pypto_build.replay.reference.slots import Slot, TensorArgument

#: Comparisons as torch calls them, numbered as the board does.
_COMPARISONS = ("eq", "ne", "gt", "ge", "lt", "le")
_RELAX_S = 0.0005


class RanksReference:
    """The PyTorch of all chip programs. `programs` are their directories; those without modules run as compiled."""

    def __init__(self, programs: Mapping[str, Path]) -> None:
        """Raises ArtifactError where no program has a module."""
        torch.set_num_threads(1)  # ranks are copies of this process: threads would be missing there
        self._programs: dict[str, References | None] = {}
        error: ArtifactError | None = None
        for name, root in programs.items():
            try:
                self._programs[name] = References(root)
            except ArtifactError as found:  # noqa: PERF203
                self._programs[name], error = None, found
        if error is not None and not any(self._programs.values()):
            raise error

    def hook(self, program: str, domains: Sequence[Windows]) -> Callable[[Any], None] | None:
        """What the runtime calls for each task of a program; None where it runs as compiled."""
        references = self._programs[program]
        return None if references is None else _RankHook(references, domains)


class _RankHook:
    """Executes the tasks of one dispatch."""

    def __init__(self, references: References, domains: Sequence[Windows]) -> None:
        self._references, self._domains = references, domains

    def __call__(self, call: Any) -> None:
        if self._references.members(call) is None:
            call.run()
            return
        for unit in self._references.units.loaded():
            _connect(unit.namespace, call)
        self._references.execute(call, [self._slot(slot) for slot in slots_of(call)])

    def _slot(self, slot: Slot) -> Slot:
        """A tensor in a window as a part of all windows of its domain."""
        if not isinstance(slot, TensorArgument):
            return slot
        for windows in self._domains:
            first, last = windows.addresses[0], windows.addresses[-1] + windows.size
            if first <= slot.buffer < last:
                offset = slot.offset + (slot.buffer - first) // ITEMSIZE[slot.dtype]
                return slot._replace(buffer=first, size=last - first, offset=offset)
        return slot


def _connect(namespace: dict[str, Any], call: Any) -> None:
    """Let the helpers of a unit's text use the board, in the name of a task."""

    def notify(signal: Any, value: int, *, add: bool) -> None:
        for address in _cells(signal):
            call.notify(address, int(value), not add)

    def wait(signal: Any, value: int, comparison: str) -> None:
        for address in _cells(signal):
            call.wait(address, int(value), _COMPARISONS.index(comparison))

    for name, function in (("notify", notify), ("wait", wait)):
        if name in namespace:
            namespace[name] = function
    if "_relax" in namespace:
        namespace["_relax"][:] = [lambda: time.sleep(_RELAX_S)]


def _cells(signal: Any) -> Iterator[int]:
    """The addresses of a view's signals."""
    cells: torch.Tensor = signal.elements()
    for place in itertools.product(*map(range, cells.shape)):
        yield cells.data_ptr() + sum(i * stride for i, stride in zip(place, cells.stride(), strict=True)) * 4
