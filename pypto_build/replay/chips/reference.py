"""RUNTIME=torch for several ranks: each rank's process executes its tasks by PyTorch made from .pto modules.

Kernels signal each other over the board, as compiled kernels do: a waiting rank sleeps, and a deadlock is detected at
once. A pointer into a window can reach the windows of all ranks, which are one block of memory. Programs of collectives
are executed by the definitions of torch.distributed, and not by their modules.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from pypto_build.artifact.errors import ArtifactError
from pypto_build.facts.comparisons import COMPARISON_NAMES
from pypto_build.facts.dtypes import ITEMSIZE
from pypto_build.facts.faults import FaultKind
from pypto_build.facts.tasks import Slot, TensorView, slots_of
from pypto_build.replay.chips.collectives import Collective, collective_of, require_tensors, results, signal_of
from pypto_build.replay.chips.memory import Windows
from pypto_build.replay.reference.hook import ReferenceFault, References
from pypto_build.replay.reference.tasks import Member, memory

_RELAX_S = 0.0005


class RanksReference:
    """The PyTorch of all chip programs. `programs` are their directories. A program without modules that is no
    collective runs as compiled."""

    def __init__(self, programs: Mapping[str, Path], by_modules: bool = False) -> None:
        """Load the programs. With `by_modules`, collectives are executed by their modules. Raises ArtifactError if
        PyTorch can execute none of the programs."""
        torch.set_num_threads(1)  # ranks are copies of this process: threads would be missing there
        self._programs: dict[str, References | Collective | None] = {}
        error: ArtifactError | None = None
        for name, root in programs.items():
            if not by_modules and (collective := collective_of(name)) is not None:
                self._programs[name] = collective
                continue
            try:
                self._programs[name] = References(root)
            except ArtifactError as refusal:
                self._programs[name], error = None, refusal
        if error is not None and not any(self._programs.values()):
            raise error

    def hook(self, program: str, domains: Sequence[Windows]) -> Callable[[Any], None] | None:
        """Return the runtime's callback for each task of a program; None if the program runs as compiled."""
        reference = self._programs[program]
        if isinstance(reference, Collective):
            return _CollectiveHook(reference, domains)
        return None if reference is None else RankHook(reference, domains)


class RankHook:
    """Executes the tasks of one dispatch."""

    def __init__(self, references: References, domains: Sequence[Windows]) -> None:
        self._references, self._domains = references, domains

    def __call__(self, call: Any) -> None:
        if self._references.members(call) is None:
            call.run()
            return
        for unit in self._references.units.loaded():
            _connect(unit.namespace, call)
        self._references.execute(call, self.slots(call))

    def members(self, call: Any) -> list[Member]:
        """Return the kernels of a task if all of them have modules."""
        return self._references.members(call) or []

    def slots(self, call: Any) -> list[Slot]:
        """Return the arguments of a task. A tensor in a window becomes a part of all windows of its domain."""
        return [_among_all(slot, self._domains) for slot in slots_of(call)]


def _among_all(slot: Slot, domains: Sequence[Windows]) -> Slot:
    windows = _windows_of(slot, domains)
    if windows is None or not isinstance(slot, TensorView):
        return slot
    first, last = windows.addresses[0], windows.addresses[-1] + windows.size
    offset = slot.offset + (slot.buffer - first) // ITEMSIZE[slot.dtype]
    return slot._replace(buffer=first, size=last - first, offset=offset)


def _windows_of(slot: Slot, domains: Sequence[Windows]) -> Windows | None:
    """Return the windows that contain an argument."""
    if isinstance(slot, TensorView):
        for windows in domains:
            if windows.addresses[0] <= slot.buffer < windows.addresses[-1] + windows.size:
                return windows
    return None


class _CollectiveHook:
    """Executes a collective. When all members have arrived, each reads its result from all windows. When all have read,
    each writes the result to its own window. The program's signals synchronize them, and are zero afterwards."""

    def __init__(self, collective: Collective, domains: Sequence[Windows]) -> None:
        self._collective, self._domains = collective, domains

    def __call__(self, call: Any) -> None:
        if call.block:  # the first block acts for all of them
            return
        tensors = [slot for slot in slots_of(call) if isinstance(slot, TensorView)]
        windows = _windows_of(tensors[0], self._domains) if tensors else None
        try:
            require_tensors(self._collective, tensors)
            signal = signal_of(self._collective)
            if windows is None or any(_windows_of(slot, self._domains) is not windows for slot in tensors):
                raise ValueError(f"all tensors of {self._collective.name} must lie in the windows of one domain")
            me = max(index for index, start in enumerate(windows.addresses) if start <= tensors[0].buffer)
            operands = [[_view(slot, start - windows.addresses[me]) for start in windows.addresses] for slot in tensors]
            cells = [_address(tensors[signal]) + start - windows.addresses[me] for start in windows.addresses]
            _meet(call, cells, me)
            outputs = results(self._collective, operands, me)
            _meet(call, cells, me)
            for number, value in outputs:
                operands[number][me][: value.shape[0]] = value
        except (ValueError, RuntimeError, IndexError) as error:
            kernels = "+".join(name for _, _, name in call.kernels)
            raise ReferenceFault(str(error), call.number, kernels, FaultKind.REFERENCE) from error


def _meet(call: Any, cells: Sequence[int], me: int) -> None:
    """Wait for all ranks at a barrier: every rank gives each other one credit, and takes back those that it got."""
    others = [rank for rank in range(len(cells)) if rank != me]
    for other in others:
        call.notify(cells[other] + 4 * me, 1, False)
    for other in others:
        call.wait(cells[me] + 4 * other, 1, COMPARISON_NAMES.index("ge"))
        call.notify(cells[me] + 4 * other, -1, False)


def _address(slot: TensorView) -> int:
    return slot.buffer + slot.offset * ITEMSIZE[slot.dtype]


def _view(slot: TensorView, shift: int) -> torch.Tensor:
    """Return another rank's view of a window tensor, `shift` bytes further; it shares the memory."""
    dtype = getattr(torch, slot.dtype)
    whole = memory(slot.buffer + shift, slot.size)[: slot.size // dtype.itemsize * dtype.itemsize].view(dtype)
    return whole.as_strided(slot.shape, slot.strides, slot.offset)


def _connect(namespace: dict[str, Any], call: Any) -> None:
    """Let the helpers of a unit's text use the board for a task."""

    def notify(signal: Any, value: int, *, add: bool) -> None:
        for address in _cells(signal):
            call.notify(address, int(value), not add)

    def wait(signal: Any, value: int, comparison: str) -> None:
        for address in _cells(signal):
            call.wait(address, int(value), COMPARISON_NAMES.index(comparison))

    for name, function in (("notify", notify), ("wait", wait)):
        if name in namespace:
            namespace[name] = function
    if "_relax" in namespace:
        namespace["_relax"][:] = [lambda: time.sleep(_RELAX_S)]


def _cells(signal: Any) -> Iterator[int]:
    """Yield the addresses of the signals in a view."""
    cells: torch.Tensor = signal.elements()
    for index in itertools.product(*map(range, cells.shape)):
        yield cells.data_ptr() + sum(i * stride for i, stride in zip(index, cells.stride(), strict=True)) * 4
