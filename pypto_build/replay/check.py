"""Checks after a run that inputs are unchanged, and compares each output with its golden."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from pypto_build.facts.dtypes import TORCH
from pypto_build.replay.arena import Arena, Overrun
from pypto_build.replay.binding import Binding, TensorArg
from pypto_build.replay.child import InputWrite, Unwritten
from pypto_build.replay.comparators import Comparator
from pypto_build.replay.compare import (
    PIECE,
    Difference,
    Flags,
    Numbers,
    coordinates,
    count_where,
    difference,
    first_mismatches,
    first_positions,
)
from pypto_build.replay.overruns import overrun_message
from pypto_build.replay.values import Array, decode, is_float, storage
from pypto_build.replay.verdict import OUT_OF_BOUNDS, ErrorInfo, OutputResult
from pypto_build.runtime.waits import ordinal

# Hints: derive the likely cause of a mismatch from its pattern.
# There are two tables of rules. The first relates the differing values to the golden, the second looks at their
# positions. In each table the first rule that applies gives the hint. Rules look at plain arrays, so a pair of small
# arrays tests each.

#: The number of elements that the rules on values look at.
_SAMPLE = PIECE

#: Share of mismatches from which a rule describes the whole output.
_NEARLY_ALL = 0.9

Floats = npt.NDArray[np.float64]
Sides = tuple[Floats, Floats]

_ROUNDING_ULPS = 4

#: Golden values below this are not used to find a factor.
_TINY = 1e-30

#: What arithmetic and conversions make of the NaN that fills memory before a run (runtime/src/data/poison.cpp), by
#: dtype.
_TAINTED = {
    np.dtype(np.float32): (np.uint32, (0x7FC5A5A5, 0x7FE50000, 0x7FC50000, 0x7FD4A000)),
    np.dtype(np.float16): (np.uint16, (0x7EA5, 0x7E2D, 0x7F28)),
}

_HEAD = 1024

#: Kinds of numbers that are not finite: the name, the test for it, and its usual cause.
_STRAY: tuple[tuple[str, Callable[[Array], Flags], str], ...] = (
    ("NaN", np.isnan, "0/0, inf-inf or memory that was never written"),
    ("inf", np.isinf, "overflow or a division by zero"),
)


@dataclass(frozen=True)
class Case:
    """One mismatched output, its elements as stored: `initial` is the previous content of an INOUT tensor, `unwritten`
    the elements that no task wrote. A tensor may be larger than free memory, so nothing here copies one."""

    actual: Array
    expected: Array
    dtype: str
    difference: Difference
    direction: str = "OUT"
    initial: Array | None = None
    unwritten: Unwritten | None = None

    @cached_property
    def numbers(self) -> tuple[Numbers, Numbers]:
        """Return both sides as decoded numbers by flat index."""
        return Numbers(self.actual, self.dtype), Numbers(self.expected, self.dtype)

    @cached_property
    def mask(self) -> npt.NDArray[np.bool_]:
        return self.difference.mask

    @property
    def shape(self) -> tuple[int, ...]:
        return self.mask.shape

    @cached_property
    def is_everywhere(self) -> bool:
        """Return whether nearly all elements differ; the others may agree by chance."""
        return self.difference.count > _NEARLY_ALL * self.mask.size

    @cached_property
    def differing(self) -> Sides:
        """Return the first mismatched elements of both sides, as float64."""
        positions = first_positions(self.mask, _SAMPLE)
        actual, expected = self.numbers
        return _wide(actual[positions]), _wide(expected[positions])

    @cached_property
    def window(self) -> Sides:
        """Return consecutive elements of both sides as float64, beginning a little before the first mismatch."""
        start = max(0, int(np.argmax(self.mask)) - _SAMPLE // 2)
        part = slice(start, start + _SAMPLE)
        actual, expected = self.numbers
        return _wide(actual[part]), _wide(expected[part])


def _wide(values: Array) -> Floats:
    return values.astype(np.float64)


Rule = Callable[[Case], str | None]


@np.errstate(all="ignore")
def find_hints(case: Case) -> list[str]:
    """Return descriptions of the mismatch, most telling first; empty if it matches no known pattern."""
    if not case.mask.any():
        return []
    hints = [_nan_in_golden(case), never_written(case.unwritten, case.shape), _tainted_elements(case)]
    if not any(hints[1:]):
        hints.append(_not_finite(case))
    if not any(hints[1:]):
        hints.append(_first(VALUE_RULES, case))
    if not any(hints[1:]) or not case.is_everywhere:
        hints.append(_first(PLACE_RULES, case))
    return [hint for hint in hints if hint]


def _first(rules: tuple[Rule, ...], case: Case) -> str | None:
    return next((hint for rule in rules if (hint := rule(case))), None)


def never_written(unwritten: Unwritten | None, shape: tuple[int, ...]) -> str | None:
    """Return a hint if no task wrote some elements: the runtime fills outputs with a pattern before a run."""
    if unwritten is None:
        return None
    total = math.prod(shape)
    if unwritten.count == total:
        return "never written: no task wrote to it; look at its direction and at the orchestration's add_output calls"
    at = coordinates(unwritten.first[0], shape)
    return f"{unwritten.count} of {total} elements were never written, the first at {at}"


# --- values that are no numbers ---------------------------------------------------------------------------------------


def _nan_in_golden(case: Case) -> str | None:
    if not is_float(case.dtype):
        return None
    _, expected = case.numbers
    count, _ = count_where(expected.size, lambda part: np.isnan(expected[part]))
    return f"the golden itself has {count} NaN, which equal nothing" if count else None


def tainted(actual: Numbers) -> tuple[int, int]:
    """Return the number of elements with bit patterns that only unwritten memory gives, and the first of them (-1:
    none)."""
    kind = actual[:0].dtype
    if kind not in _TAINTED:
        return 0, -1
    bits, patterns = _TAINTED[kind]
    return count_where(actual.size, lambda part: np.isin(actual[part].view(bits), patterns))


def _tainted_elements(case: Case) -> str | None:
    count, first = tainted(case.numbers[0])
    if not count:
        return None
    return (
        f"{count} of {case.mask.size} elements were computed from memory that no task had written, the first at "
        f"{coordinates(first, case.shape)}; 'scons hazards' names the load"
    )


def _not_finite(case: Case) -> str | None:
    if not is_float(case.dtype):
        return None
    for name, test, cause in _STRAY:
        count, first = _stray(case, test)
        if count:
            return f"{count} {name} where the golden is finite, first at {coordinates(first, case.shape)}: {cause}"
    return None


def _stray(case: Case, test: Callable[[Array], Flags]) -> tuple[int, int]:
    """Return the number of elements for which the test holds in the output but not in the golden, and the first of
    them."""
    actual, expected = case.numbers
    return count_where(actual.size, lambda part: test(actual[part]) & ~test(expected[part]))


# --- how the values relate to the golden ------------------------------------------------------------------------------


def _scope(case: Case) -> str:
    return "everywhere" if case.is_everywhere else "wherever it differs"


def _zero(case: Case) -> str | None:
    actual, _ = case.differing
    if actual.any():
        return None
    if not case.is_everywhere:
        return "zero wherever it differs: that part was never written"
    if case.direction == "IN":
        return "all zero: it is declared IN, so no task writes it; declare it OUT"
    return "all zero: never written, or a kernel writes it through an argument declared IN"


def _unchanged(case: Case) -> str | None:
    if case.initial is None:
        return None
    before, (after, _), mask = Numbers(case.initial, case.dtype), case.numbers, case.mask.reshape(-1)
    if count_where(mask.size, lambda part: mask[part] & (before[part] != after[part]))[0]:
        return None
    return f"still its initial value {_scope(case)}: no task wrote it"


def _rounding(case: Case) -> str | None:
    row = TORCH[case.dtype]
    if not row.mantissa or case.difference.max_rel > _ROUNDING_ULPS * 2 * row.epsilon:
        return None
    return f"within {_ROUNDING_ULPS} units in the last place of {case.dtype}: rounding; RTOL or ATOL may be too tight"


def _transposed(case: Case) -> str | None:
    if len(case.shape) != 2 or min(case.shape) < 2:
        return None
    holds, golden = case.actual.reshape(case.shape[::-1]), case.expected.T
    if holds.shape[1] > holds.shape[0]:  # pieces are of whole rows
        holds, golden = holds.T, golden.T
    rows = max(1, _HEAD // holds.shape[1])
    for part in (slice(rows), *_row_pieces(holds)):
        if not _close(decode(holds[part], case.dtype), decode(golden[part], case.dtype)):
            return None
    return "it holds the transpose of the golden"


def _row_pieces(matrix: Array) -> Iterator[slice]:
    rows = max(1, PIECE // matrix.shape[1])
    return (slice(start, start + rows) for start in range(0, matrix.shape[0], rows))


def _factor(case: Case) -> str | None:
    actual, expected = case.differing
    usable = np.abs(expected) > _TINY
    if np.count_nonzero(usable) < 2:
        return None
    ratio = float(np.median(actual[usable] / expected[usable]))
    if ratio in (0.0, 1.0) or not _close(actual, expected * ratio):
        return None
    return f"actual is {ratio:.6g} times the golden {_scope(case)}"


def _offset(case: Case) -> str | None:
    actual, expected = case.differing
    if actual.size < 2:
        return None
    offset = float(np.median(actual - expected))
    if offset == 0 or not _close(actual - offset, expected):
        return None
    return f"actual is the golden {'plus' if offset > 0 else 'minus'} {abs(offset):.6g} {_scope(case)}"


def _shifted(case: Case) -> str | None:
    actual, expected = case.window
    width = case.shape[-1] if case.shape else 1
    if np.all(expected == expected[0]):
        return None
    for step in sorted({*range(1, 17), 32, 64, 128, *(width << shift for shift in range(7))}):
        if step > actual.size // 2:
            break
        for sign, ours, theirs in (
            ("later", actual[step:], expected[:-step]),
            ("earlier", actual[:-step], expected[step:]),
        ):
            if _close(ours, theirs):
                rows = step // width
                unit = f" ({rows} row{'s' if rows > 1 else ''})" if len(case.shape) > 1 and step % width == 0 else ""
                return f"the golden appears {step} element{'s' if step > 1 else ''}{unit} {sign}: an offset is wrong"
    return None


def _close(a: Array, b: Array) -> bool:
    """Return whether the sides agree up to a few float32 roundings, without being trivially equal. The first
    elements settle most cases.
    """
    head = slice(0, _HEAD)
    return a.size > 0 and all(
        bool(np.allclose(x, y, rtol=1e-4, atol=1e-6)) for x, y in ((a.reshape(-1)[head], b.reshape(-1)[head]), (a, b))
    )


VALUE_RULES: tuple[Rule, ...] = (_zero, _unchanged, _rounding, _transposed, _factor, _offset, _shifted)


# --- where the mismatches lie -----------------------------------------------------------------------------------------


def _span(flags: npt.NDArray[np.bool_]) -> tuple[int, int] | None:
    """Return the first and last true position if all between are true and some outside are not."""
    count, size = int(np.count_nonzero(flags)), flags.size
    if count in (0, size):
        return None
    first, last = int(np.argmax(flags)), size - 1 - int(np.argmax(flags[::-1]))
    return (first, last) if last - first + 1 == count else None


def _rows(case: Case) -> str | None:
    return _block(case, 0, "rows", "rows") if len(case.shape) > 1 else None


def _columns(case: Case) -> str | None:
    return _block(case, 1, "columns" if len(case.shape) > 1 else "elements", "columns") if case.shape else None


def _block(case: Case, axis: int, noun: str, valid: str) -> str | None:
    """Return a hint if the mismatches lie in a block of rows (axis 0) or columns (axis 1); `noun` names the axis."""
    matrix = case.mask.reshape(-1, case.shape[-1])
    span, total = _span(np.asarray(matrix.any(axis=1 - axis))), matrix.shape[axis]
    if span is None:
        return None
    first, last = span
    count = last - first + 1
    if count == 1:
        return f"only {noun[:-1]} {first} of {total} differs"
    if last == total - 1:
        return f"only the last {count} of {total} {noun} differ: a tail block; look at its valid {valid}"
    if first == 0:
        return f"only the first {count} of {total} {noun} differ: the first block"
    return f"only {noun} {first} to {last} of {total} differ: one block"


def _stride(case: Case) -> str | None:
    count = case.difference.count
    if count < 3:
        return None
    first, second = map(int, first_positions(case.mask, 2))
    step = second - first
    every = case.mask.reshape(-1)[first::step][:count]
    if step < 2 or every.size < count or not every.all():
        return None
    return f"every {ordinal(step)} element differs, from element {first} on: a stride is wrong"


PLACE_RULES: tuple[Rule, ...] = (_stride, _rows, _columns)


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
