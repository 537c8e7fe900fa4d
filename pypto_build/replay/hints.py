"""Hints: what the pattern of a mismatch says about its cause.

Two tables of rules. The first asks how the values that differ relate to the golden, the second where they lie; of each
the first rule that applies speaks. Every rule looks at plain arrays, so it is tested by a pair of small arrays.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from pypto_build.facts.dtypes import TORCH
from pypto_build.replay.child import Unwritten
from pypto_build.replay.compare import Difference, coordinates
from pypto_build.replay.values import Array, is_float

#: Elements that the rules on values look at; patterns show in these.
_SAMPLE = 1 << 18

#: Share of mismatches from which on a rule speaks of the whole output.
_NEARLY_ALL = 0.9

Floats = npt.NDArray[np.float64]
Sides = tuple[Floats, Floats]

_ROUNDING_ULPS = 4

#: Golden values below this say nothing about a factor.
_TINY = 1e-30

#: What arithmetic and conversions make of the NaN that fills memory before a run (runtime/src/data/poison.cpp), by
#: dtype.
_TAINTED = {
    np.dtype(np.float32): (np.uint32, (0x7FC5A5A5, 0x7FE50000, 0x7FC50000, 0x7FD4A000)),
    np.dtype(np.float16): (np.uint16, (0x7EA5, 0x7E2D, 0x7F28)),
}

_HEAD = 1024


@dataclass(frozen=True)
class Case:
    """One mismatched output, decoded; `initial` is what an INOUT tensor held, `unwritten` what no task wrote."""

    actual: Array
    expected: Array
    dtype: str
    difference: Difference
    direction: str = "OUT"
    initial: Array | None = None
    unwritten: Unwritten | None = None

    @cached_property
    def mask(self) -> npt.NDArray[np.bool_]:
        return self.difference.mask

    @property
    def shape(self) -> tuple[int, ...]:
        return self.mask.shape

    @cached_property
    def is_everywhere(self) -> bool:
        """Whether nearly all elements differ; the others may agree by chance."""
        return self.difference.count > _NEARLY_ALL * self.mask.size

    @cached_property
    def differing(self) -> Sides:
        """The first mismatched elements of both sides, as float64."""
        positions = np.flatnonzero(self.mask)[:_SAMPLE]
        return _wide(self.actual.reshape(-1)[positions]), _wide(self.expected.reshape(-1)[positions])

    @cached_property
    def window(self) -> Sides:
        """Consecutive elements of both sides from a little before the first mismatch on, as float64."""
        start = max(0, int(np.argmax(self.mask)) - _SAMPLE // 2)
        part = slice(start, start + _SAMPLE)
        return _wide(self.actual.reshape(-1)[part]), _wide(self.expected.reshape(-1)[part])


def _wide(values: Array) -> Floats:
    return values.astype(np.float64)


Rule = Callable[[Case], str | None]


@np.errstate(all="ignore")
def find_hints(case: Case) -> list[str]:
    """What the mismatch looks like, most telling first; empty when it has no pattern that we know."""
    if not case.mask.any():
        return []
    found = [_nan_in_golden(case), never_written(case.unwritten, case.shape), _tainted(case)]
    if not any(found[1:]):
        found.append(_not_finite(case))
    if not any(found[1:]):
        found.append(_first(VALUE_RULES, case))
    if not any(found[1:]) or not case.is_everywhere:
        found.append(_first(PLACE_RULES, case))
    return [hint for hint in found if hint]


def _first(rules: tuple[Rule, ...], case: Case) -> str | None:
    return next((hint for rule in rules if (hint := rule(case))), None)


def never_written(unwritten: Unwritten | None, shape: tuple[int, ...]) -> str | None:
    """The runtime fills outputs with a pattern before a run; where it is left, no task wrote."""
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
    count = int(np.count_nonzero(np.isnan(case.expected)))
    return f"the golden itself has {count} NaN, which equal nothing" if count else None


def _tainted(case: Case) -> str | None:
    """Bit patterns that only come of memory nobody wrote."""
    if case.actual.dtype not in _TAINTED:
        return None
    bits, patterns = _TAINTED[case.actual.dtype]
    found = np.isin(np.ascontiguousarray(case.actual).view(bits), patterns)
    count = int(np.count_nonzero(found))
    if not count:
        return None
    at = coordinates(int(np.argmax(found)), case.shape)
    return (
        f"{count} of {found.size} elements were computed from memory that no task had written, the first at {at}; "
        "'scons hazards' names the load"
    )


def _not_finite(case: Case) -> str | None:
    if not is_float(case.dtype):
        return None
    for name, test in (("NaN", np.isnan), ("inf", np.isinf)):
        stray = test(case.actual) & ~test(case.expected)
        count = int(np.count_nonzero(stray))
        if count:
            at = coordinates(int(np.argmax(stray)), case.shape)
            cause = (
                "0/0, inf-inf or memory that was never written" if name == "NaN" else "overflow or a division by zero"
            )
            return f"{count} {name} where the golden is finite, first at {at}: {cause}"
    return None


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
    if case.initial is None or np.any(case.initial[case.mask] != case.actual[case.mask]):
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
    rows, columns = case.shape
    if _close(case.actual.reshape(-1), case.expected.T.reshape(-1)):
        return "it holds the transpose of the golden"
    if rows == columns:
        return None
    return (
        "it holds the transpose of the golden" if _close(case.actual.reshape(columns, rows).T, case.expected) else None
    )


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
    """Equal up to a few roundings of float32, and not trivially so. A look at the first elements settles most cases."""
    head = slice(0, _HEAD)
    return a.size > 0 and all(
        bool(np.allclose(x, y, rtol=1e-4, atol=1e-6)) for x, y in ((a.reshape(-1)[head], b.reshape(-1)[head]), (a, b))
    )


VALUE_RULES: tuple[Rule, ...] = (_zero, _unchanged, _rounding, _transposed, _factor, _offset, _shifted)


# --- where the mismatches lie -----------------------------------------------------------------------------------------


def _span(flags: npt.NDArray[np.bool_]) -> tuple[int, int] | None:
    """First and last true position when all between are true and some outside are not."""
    positions = np.flatnonzero(flags)
    if positions.size == 0 or positions.size == flags.size or positions[-1] - positions[0] + 1 != positions.size:
        return None
    return int(positions[0]), int(positions[-1])


def _rows(case: Case) -> str | None:
    if len(case.shape) < 2:
        return None
    matrix = case.mask.reshape(-1, case.shape[-1])
    span, total = _span(np.asarray(matrix.any(axis=1))), matrix.shape[0]
    if span is None:
        return None
    first, last = span
    count = last - first + 1
    if count == 1:
        return f"only row {first} of {total} differs"
    if last == total - 1:
        return f"only the last {count} of {total} rows differ: a tail block; look at its valid rows"
    if first == 0:
        return f"only the first {count} of {total} rows differ: the first block"
    return f"only rows {first} to {last} of {total} differ: one block"


def _columns(case: Case) -> str | None:
    if len(case.shape) < 1:
        return None
    matrix = case.mask.reshape(-1, case.shape[-1])
    span, total = _span(np.asarray(matrix.any(axis=0))), matrix.shape[1]
    if span is None:
        return None
    first, last = span
    noun = "columns" if len(case.shape) > 1 else "elements"
    if first == last:
        return f"only {noun[:-1]} {first} of {total} differs"
    if last == total - 1:
        return f"only the last {last - first + 1} of {total} {noun} differ: a tail block; look at its valid columns"
    if first == 0:
        return f"only the first {last - first + 1} of {total} {noun} differ: the first block"
    return f"only {noun} {first} to {last} of {total} differ: one block"


def _stride(case: Case) -> str | None:
    positions = np.flatnonzero(case.mask)
    if positions.size < 3:
        return None
    steps = np.diff(positions)
    if steps[0] < 2 or np.any(steps != steps[0]):
        return None
    return f"every {int(steps[0])}th element differs, from element {int(positions[0])} on: a stride is wrong"


PLACE_RULES: tuple[Rule, ...] = (_stride, _rows, _columns)
