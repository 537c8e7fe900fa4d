"""Lockstep run of the embedded runtime and the PyTorch reference.

Every task starts from the same bytes in both. Its outputs are compared before the next task begins.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pypto_build.facts.dtypes import ITEMSIZE
from pypto_build.facts.run_options import FAST
from pypto_build.facts.tasks import Slot, TensorView, slots_of
from pypto_build.replay.compare import coordinates
from pypto_build.replay.reference.hook import ReferenceFault, References
from pypto_build.replay.values import STORAGE, Array, decode, is_float, storage

# Comparison of two versions of a tensor: the elements that differ, and their values.

#: Relative difference that is explained by the order of a sum, or by one unit in the last place.
_RTOL = {"float32": 4e-5, "float16": 1.0 / 1024, "bfloat16": 1.0 / 128}
#: Share of elements that may differ by a unit in the last place, or by one, because of a different rounding.
_ROUNDED = 0.02
_SMALL = 1e-3  # of the maximum
_CONTEXT = 4


@dataclass(frozen=True)
class Limits:
    """Allowed differences. None allows differences that the rounding of the element type explains."""

    rtol: float | None = None
    atol: float | None = None


@dataclass(frozen=True)
class Difference:
    """Elements that differ: their count, the flat index of the first one, and both values there.

    ``near_actual`` and ``near_expected`` are the values around it, from flat index ``around`` on.
    """

    count: int
    numel: int
    first: int
    actual: float
    expected: float
    max_abs: float
    around: int = 0
    near_actual: list[float] = field(default_factory=list)
    near_expected: list[float] = field(default_factory=list)


@np.errstate(all="ignore")
def mask_of(actual: Array, expected: Array, dtype: str, limits: Limits) -> npt.NDArray[np.bool_]:
    """Return a mask of the stored elements that differ beyond the limits.

    NaN equals NaN here, because unwritten elements may hold NaN on both sides.
    """
    if actual.tobytes() == expected.tobytes():
        return np.zeros(actual.shape, dtype=np.bool_)
    a, e = decode(actual, dtype), decode(expected, dtype)
    if not is_float(dtype):
        return _integers_differ(a, e, limits)
    a, e = a.astype(np.float64), e.astype(np.float64)
    if dtype != "float32" and limits.rtol is None and limits.atol is None:
        off = (a != e) & ~(np.isnan(a) & np.isnan(e))
        if np.count_nonzero(off) > max(_ROUNDED * off.size, 2):
            return np.asarray(off)
    rtol = _RTOL.get(dtype, 0.07) if limits.rtol is None else limits.rtol
    finite = np.abs(e[np.isfinite(e)])
    scale = float(finite.max()) if finite.size else 0.0
    atol = 0.25 * rtol * scale if limits.atol is None else limits.atol
    close = np.abs(a - e) <= atol + rtol * np.abs(e)
    mask = np.asarray(~(close | (a == e) | (np.isnan(a) & np.isnan(e))))
    if limits.rtol is None and limits.atol is None and np.count_nonzero(mask) <= _ROUNDED * mask.size:
        # few and small differences: an operand was rounded to 16 bits in the other direction
        mask &= ~(np.abs(a - e) <= _SMALL * scale)
    return mask


def _integers_differ(a: Array, e: Array, limits: Limits) -> npt.NDArray[np.bool_]:
    """Return a mask of the integers that differ. By default, a few differences of one count as rounding ties."""
    mask = np.asarray(a != e)
    if limits.rtol is None and limits.atol is None and a.dtype != np.bool_:
        off = np.abs(a.astype(np.float64) - e.astype(np.float64))[mask]
        if off.size <= max(_ROUNDED * a.size, 1) and (off <= 1).all():
            return np.zeros(a.shape, dtype=np.bool_)
    if limits.atol is not None and a.dtype != np.bool_:
        return np.asarray(np.abs(a.astype(np.float64) - e.astype(np.float64)) > limits.atol)
    return mask


@np.errstate(all="ignore")
def describe(actual: Array, expected: Array, dtype: str, mask: npt.NDArray[np.bool_]) -> Difference:
    """Return the difference that a mask marks. At least one element must be marked."""
    flat = mask.reshape(-1)
    a, e = (decode(side.reshape(-1), dtype).astype(np.float64) for side in (actual, expected))
    first = int(np.argmax(flat))
    start = max(first - 1, 0)
    near = slice(start, min(start + _CONTEXT, flat.size))
    gap = np.abs(a - e)[flat]
    finite = gap[np.isfinite(gap)]
    return Difference(
        int(np.count_nonzero(flat)), flat.size, first, float(a[first]), float(e[first]),
        float(finite.max()) if finite.size else float("inf"), start, a[near].tolist(), e[near].tolist(),
    )  # fmt: skip


def compare_bytes(
    actual: bytes | memoryview, expected: bytes | memoryview, dtype: str, limits: Limits
) -> Difference | None:
    """Return the difference of two byte strings of stored elements, or None if there is none."""
    left, right = (storage(side, dtype, (-1,)) for side in (actual, expected))
    return compare(left, right, dtype, limits)


def compare(actual: Array, expected: Array, dtype: str, limits: Limits) -> Difference | None:
    """Return the difference of two arrays of stored elements, or None if there is none."""
    mask = mask_of(actual, expected, dtype, limits)
    return describe(actual, expected, dtype, mask) if mask.any() else None


@dataclass(frozen=True)
class Element:
    """An element of a task's argument: the argument's number, its coordinates, and its offset in the buffer.

    Outside the argument's window the coordinates are empty. `offset` counts elements from the buffer's start.
    """

    argument: int
    index: tuple[int, ...]
    offset: int


@dataclass
class TaskFinding:
    """A task whose kernels and .pto modules computed different outputs."""

    task: int
    block: int | None
    blocks: int
    kernels: tuple[tuple[str, int, str], ...]  # role, func_id, name
    dtype: str = ""
    shape: tuple[int, ...] = ()
    element: Element | None = None
    difference: Difference | None = None
    fault: str = ""  # the error that ended the reference, if one did
    inputs: list[bytes] = field(default_factory=list)  # content of each argument before the task
    inputs_differed: list[int] | None = None  # numbers of arguments that differ from a run by the reference alone

    @property
    def kernel(self) -> str:
        """The names of the kernels, such as `gemm_aic+gemm_aiv`."""
        return "+".join(dict.fromkeys(name for _, _, name in self.kernels))


@dataclass
class Outcome:
    """The result of a lockstep run: the first finding of each kernel, and the kernels without a .pto module."""

    tasks: int = 0
    findings: list[TaskFinding] = field(default_factory=list)
    unchecked: set[str] = field(default_factory=set)


class Lockstep:
    """The runtime's callback. It calls `started` with the number of each task before the task runs."""

    def __init__(
        self,
        artifact: Path,
        limits: Limits,
        started: Callable[[int], None] = lambda number: None,
        numerics: str = FAST,
    ) -> None:
        import torch

        torch.set_num_threads(1)
        self.references = References(artifact, numerics=numerics)
        self.limits = limits
        self.started = started
        self.outcome = Outcome()
        self._seen: set[str] = set()

    def __call__(self, call: Any) -> None:
        self.started(call.number)
        self.outcome.tasks = max(self.outcome.tasks, call.number + 1)
        finding = TaskFinding(call.number, call.block, call.block_num, tuple(tuple(k) for k in call.kernels))
        if finding.kernel in self._seen or finding.kernel in self.outcome.unchecked:
            call.run()
            return
        slots = slots_of(call)
        copies = Copies(slots, call)
        inputs = copies.arguments()
        try:
            executed = self.references.execute(call, copies.slots)
        except ReferenceFault as fault:
            executed, finding.fault = True, fault.message
        call.run()
        if not executed:
            self.outcome.unchecked.add(finding.kernel)
        elif finding.fault or copies.compare(finding, self.limits):
            finding.inputs = inputs
            self._seen.add(finding.kernel)
            self.outcome.findings.append(finding)


class Copies:
    """Copies of the buffers that a task writes. The reference gets the copies, the kernels the originals."""

    def __init__(self, slots: list[Slot], call: Any) -> None:
        import torch

        self.originals = slots
        self.buffers: dict[tuple[int, int], Any] = {}
        self.slots: list[Slot] = []
        directions = [getattr(argument, "direction", "") for argument in call.args]
        written = {
            (slot.buffer, slot.size)
            for slot, direction in zip(slots, directions, strict=True)
            if isinstance(slot, TensorView) and direction != "IN"
        }
        for slot in slots:
            if isinstance(slot, TensorView) and (slot.buffer, slot.size) in written:
                key = (slot.buffer, slot.size)
                if key not in self.buffers:
                    self.buffers[key] = torch.from_numpy(_bytes(*key).copy())
                self.slots.append(slot._replace(buffer=self.buffers[key].data_ptr()))
            else:
                self.slots.append(slot)

    def arguments(self) -> list[bytes]:
        """Return the current content of each argument."""
        return [window(slot).tobytes() if isinstance(slot, TensorView) else b"" for slot in self.originals]

    def compare(self, finding: TaskFinding, limits: Limits) -> bool:
        """Fill in the first element that differs. Returns False if none does."""
        for number, (slot, copied) in enumerate(zip(self.originals, self.slots, strict=True)):
            if isinstance(slot, int) or isinstance(copied, int) or (slot.buffer, slot.size) not in self.buffers:
                continue
            key = (slot.buffer, slot.size)
            real, copy = _bytes(*key), self.buffers[key].numpy()
            if np.array_equal(real, copy):
                continue
            if self._window_differs(number, slot, copied, finding, limits):
                return True
        return self._rest_differs(finding, limits)

    def _window_differs(
        self, number: int, slot: TensorView, copied: TensorView, finding: TaskFinding, limits: Limits
    ) -> bool:
        actual, expected = np.ascontiguousarray(window(slot)), np.ascontiguousarray(window(copied))
        finding.difference = compare(actual, expected, slot.dtype, limits)
        if finding.difference is None:
            return False
        index = coordinates(finding.difference.first, slot.shape)
        offset = slot.offset + sum(i * stride for i, stride in zip(index, slot.strides, strict=True))
        finding.element, finding.dtype, finding.shape = Element(number, index, offset), slot.dtype, slot.shape
        return True

    def _rest_differs(self, finding: TaskFinding, limits: Limits) -> bool:
        """Fill in the first element that differs outside the arguments' windows, in their buffers."""
        for number, slot in enumerate(self.originals):
            if not isinstance(slot, TensorView) or (slot.buffer, slot.size) not in self.buffers:
                continue
            key = slot.buffer, slot.size
            real, copy = (_elements(side, slot.dtype) for side in (_bytes(*key), self.buffers[key].numpy()))
            finding.difference = compare(real, copy, slot.dtype, limits)
            if finding.difference is not None:
                finding.element = Element(number, (), finding.difference.first)
                finding.dtype, finding.shape = slot.dtype, slot.shape
                return True
        return False


def _bytes(address: int, size: int) -> Any:
    import ctypes

    return np.frombuffer(memoryview((ctypes.c_uint8 * size).from_address(address)), dtype=np.uint8)


def _elements(data: Any, dtype: str) -> Any:
    """Return bytes as stored elements, without an incomplete last element."""
    return data[: len(data) // ITEMSIZE[dtype] * ITEMSIZE[dtype]].view(STORAGE[dtype])


def window(slot: TensorView) -> Any:
    """Return an argument's stored elements in its shape. The array shares memory with the buffer."""
    whole = _elements(_bytes(slot.buffer, slot.size), slot.dtype)
    strides = tuple(stride * whole.itemsize for stride in slot.strides)
    if 0 in slot.shape:
        return np.zeros(slot.shape, whole.dtype)
    return np.lib.stride_tricks.as_strided(whole[slot.offset :], slot.shape, strides)


class Stop(Exception):
    """Ends a run when it has reached its goal."""


class ReferenceInputs:
    """The callback of a run by the reference alone, up to a finding's task. It finds the inputs that differed."""

    def __init__(self, artifact: Path, finding: TaskFinding, limits: Limits, numerics: str = FAST) -> None:
        self.references = References(artifact, numerics=numerics)
        self.finding, self.limits = finding, limits

    def __call__(self, call: Any) -> None:
        finding = self.finding
        if (call.number, call.block) == (finding.task, finding.block):
            finding.inputs_differed = self._compare(call)
            raise Stop
        if not self.references.execute(call):
            call.run()

    def _compare(self, call: Any) -> list[int]:
        differing = []
        for number, (slot, before) in enumerate(zip(slots_of(call), self.finding.inputs, strict=True)):
            if not isinstance(slot, TensorView) or call.args[number].direction == "OUT":
                continue
            expected = np.ascontiguousarray(window(slot))
            actual = storage(before, slot.dtype, slot.shape)
            if mask_of(actual, expected, slot.dtype, self.limits).any():
                differing.append(number)
        return differing
