"""Checks after a run that inputs are unchanged, and compares each output with its golden."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pypto_build.replay.arena import Arena, Overrun
from pypto_build.replay.binding import Binding, TensorArg
from pypto_build.replay.child import InputWrite, Unwritten
from pypto_build.replay.comparators.base import Comparator
from pypto_build.replay.compare import Numbers, coordinates, count_where, difference, first_mismatches
from pypto_build.replay.hints import Case, find_hints, never_written, tainted
from pypto_build.replay.overruns import overrun_message
from pypto_build.replay.values import Array, decode, storage
from pypto_build.replay.verdict import OUT_OF_BOUNDS, ErrorInfo, OutputResult


@dataclass(frozen=True)
class Rules:
    """The comparison rules: tolerances, and comparators by output name."""

    rtol: float
    atol: float
    comparators: Mapping[str, Comparator]


def check_memory(binding: Binding, arena: Arena, writes: Sequence[InputWrite]) -> ErrorInfo | None:
    """Return an error for a forbidden write: next to a tensor, or into an IN tensor.

    `writes` are the writes into IN tensors that the runtime saw, each with its task. Contents are compared, so a write
    of the same bytes is no error: some kernels do that to order later tasks.
    """
    overrun = find_overrun(binding, arena, writes)
    if overrun is not None:
        tensor = binding.tensors[overrun.index]
        end = "end" if overrun.offset > 0 else "start"
        return ErrorInfo(
            OUT_OF_BOUNDS,
            overrun_message(overrun, tensor),
            hint=f"look for an offset or a valid shape that passes the tensor's {end}",
        )
    for index, tensor in enumerate(binding.tensors):
        if tensor.direction != "IN" or tensor.initial is None:
            continue
        write = next((write for write in writes if write.tensor == index), None)
        first, changed = _first_change(tensor, arena.tensor(index))
        if first is None and not (write and write.in_copy):
            continue
        # The runtime may have kept the write away from the tensor; then the position is known, but not the count.
        at = coordinates(first if first is not None else _element(tensor, write), tensor.shape)
        by_task = write if write and write.task is not None else None
        culprit = (
            f"kernel '{by_task.kernel}'" if by_task else "the orchestration" if write and write.kernel else "a kernel"
        )
        share = f": {changed} of {tensor.numel} elements" if changed else ""
        return ErrorInfo(
            "input_changed",
            f"input '{tensor.name}' was changed by {culprit}{share}, first at {at}",
            by_task.task if by_task else None,
            by_task.kernel if by_task else None,
            hint=f"declare '{tensor.name}' INOUT in the program, or find the kernel that writes it",
        )
    return None


def find_overrun(binding: Binding, arena: Arena, writes: Sequence[InputWrite]) -> Overrun | None:
    """Return a write next to a tensor, or next to the copy of a tensor that the runtime made."""
    past = (Overrun(one.tensor, one.offset) for one in writes if one.offset >= binding.tensors[one.tensor].nbytes)
    return arena.overrun() or next(past, None)


def _first_change(tensor: TensorArg, memory: memoryview) -> tuple[int | None, int]:
    """Return the flat index of the first changed element of an input, and the number of changed elements."""
    if memory is tensor.initial:  # lent: only what the run had of it can differ
        return None, 0
    before, after = np.frombuffer(tensor.initial or b"", dtype=np.uint8), np.frombuffer(memory, dtype=np.uint8)
    if np.array_equal(before, after):
        return None, 0
    before, after = before.reshape(tensor.numel, -1), after.reshape(tensor.numel, -1)
    count, first = count_where(tensor.numel, lambda part: (before[part] != after[part]).any(axis=1))
    return first, count


def _element(tensor: TensorArg, write: InputWrite | None) -> int:
    return write.offset // (tensor.nbytes // tensor.numel) if write else 0


def check_outputs(binding: Binding, arena: Arena, rules: Rules, unwritten: Sequence[Unwritten]) -> list[OutputResult]:
    """Return one result per output, in argument order. All outputs are compared, even after a mismatch."""
    outputs = {index: tensor for index, tensor in enumerate(binding.tensors) if tensor.is_output}
    holes = {item.tensor: item for item in unwritten}
    run = _Run(binding, rules, {tensor.name: _stored(arena.tensor(i), tensor) for i, tensor in outputs.items()})
    return [run.compare(tensor, holes.get(index)) for index, tensor in outputs.items()]


def _stored(data: memoryview | bytes, tensor: TensorArg) -> Array:
    return storage(data, tensor.dtype, tensor.shape)


@dataclass(frozen=True)
class _Run:
    """The outputs of one round: the stored elements of every output by name."""

    binding: Binding
    rules: Rules
    outputs: Mapping[str, Array]

    def compare(self, tensor: TensorArg, hole: Unwritten | None) -> OutputResult:
        """Return the result of one output. A comparator, if there is one, decides; the mismatch counts are the default
        rule's."""
        actual = self.outputs[tensor.name]
        result = OutputResult(tensor.name, "unchecked", list(tensor.shape), tensor.dtype, tensor.numel, comparator="")
        hint = never_written(hole, tensor.shape)
        result.hints = [hint] if hint else []
        if tensor.golden is None or not self.binding.checked:
            return result
        expected = _stored(tensor.golden, tensor)
        differing = difference(actual, expected, tensor.dtype, self.rules.rtol, self.rules.atol)
        result.status, result.comparator = "mismatch" if differing.count else "pass", "allclose"
        result.mismatched, result.max_abs, result.max_rel = differing.count, differing.max_abs, differing.max_rel
        result.first = first_mismatches(actual, expected, tensor.dtype, differing.mask)
        comparator = self.rules.comparators.get(tensor.name)
        if comparator is not None:
            decoded = decode(actual, tensor.dtype), decode(expected, tensor.dtype)
            ok, result.detail = self._apply(comparator, decoded)
            result.status, result.comparator = "pass" if ok else "mismatch", comparator.__name__
        if result.status == "mismatch":
            before = tensor.initial if tensor.direction == "INOUT" else None
            initial = None if before is None else _stored(before, tensor)
            result.hints = find_hints(Case(actual, expected, tensor.dtype, differing, tensor.direction, initial, hole))
            result.tainted = differing.count > 0 and tainted(Numbers(actual, tensor.dtype))[0] > 0
        return result

    def _apply(self, comparator: Comparator, decoded: tuple[Array, Array]) -> tuple[bool, str]:
        """Call a comparator with everything it may look at."""
        tensors = {tensor.name: tensor for tensor in self.binding.tensors}
        inputs = {name: self._initial(tensor) for name, tensor in tensors.items() if tensor.direction == "IN"}
        scalars = {scalar.name: np.asarray(scalar.value) for scalar in self.binding.scalars}
        goldens = {name: tensors[name].golden for name in self.outputs}
        return comparator(
            *decoded,
            actual_outputs={name: decode(array, tensors[name].dtype) for name, array in self.outputs.items()},
            expected_outputs={
                name: decode(_stored(golden, tensors[name]), tensors[name].dtype)
                for name, golden in goldens.items()
                if golden is not None
            },
            inputs={name: array for name, array in inputs.items() if array is not None} | scalars,
            rtol=self.rules.rtol,
            atol=self.rules.atol,
        )

    @staticmethod
    def _initial(tensor: TensorArg) -> Array | None:
        """Return the decoded contents of a tensor before the run; None if it had none."""
        return None if tensor.initial is None else decode(_stored(tensor.initial, tensor), tensor.dtype)
