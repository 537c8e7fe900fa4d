"""Questions of the kit: their known answers, and the program and inputs that test them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Flag, auto
from typing import Any

import numpy as np
import numpy.typing as npt

# Numpy models of possible results of an instruction: sums in any order, roundings and choices.
# They share no code with the runtime's headers. Numbers are numpy arrays in float32 or float16; bfloat16 is stored
# as the uint16 of its bits. The kit's inputs are chosen so that every sum here is exact in float64 before it is
# rounded.

Array = npt.NDArray[Any]


def rounded(values: Array) -> Array:
    """Round float64 numbers to float32, and return them as float64."""
    return values.astype(np.float32).astype(np.float64)


def products_in_steps(start: Array, left: Array, right: Array, group: int = 1, apart: bool = False) -> Array:
    """Return start + left @ right, summed along k with ``group`` products at a time.

    The exact sum of a group is added to the total, which is then rounded. With ``apart``, the sum of the group is also
    rounded before it is added.
    """
    total = start.astype(np.float64)
    a, b = left.astype(np.float64), right.astype(np.float64)
    for k in range(0, a.shape[1], group):
        part = a[:, k : k + group] @ b[k : k + group]
        total = rounded(total + (rounded(part) if apart else part))
    return total.astype(np.float32)


def neighbours(values: Array, add: Callable[[Array, Array], Array]) -> Array:
    """Combine each row as a binary tree of neighbours. The length of a row is a power of two."""
    while values.shape[1] > 1:
        values = add(values[:, ::2], values[:, 1::2])
    return values


def add_floats(a: Array, b: Array) -> Array:
    """Return the sum in the operands' type."""
    with np.errstate(over="ignore"):
        return np.asarray(a + b)


def add_saturated(a: Array, b: Array) -> Array:
    """Return the sum of halves, with an infinite sum replaced by the largest half (65504)."""
    return np.clip(add_floats(a, b), np.float16(-65504), np.float16(65504))


def sum_in_sequence(rows: Array, add: Callable[[Array, Array], Array] = add_floats) -> Array:
    """Sum each row from left to right, starting from its first element."""
    total = rows[:, :1]
    for column in range(1, rows.shape[1]):
        total = add(total, rows[:, column : column + 1])
    return total


def sum_in_pieces(rows: Array) -> Array:
    """Sum rows as the headers for a2a3 do.

    Pieces of 64 elements are added in pairs, and an odd last piece to the first sum. The result is summed as a tree of
    neighbours.
    """
    pieces = [rows[:, at : at + 64] for at in range(0, rows.shape[1], 64)]
    sums = [add_floats(pieces[i], pieces[i + 1]) for i in range(0, len(pieces) - 1, 2)]
    if len(pieces) % 2:
        sums[0] = add_floats(sums[0], pieces[-1])
    while len(sums) > 1:
        sums = [add_floats(sums[i], sums[i + 1]) for i in range(0, len(sums), 2)]
    return neighbours(sums[0], add_floats)


def sum_of_trees(rows: Array) -> Array:
    """Sum rows as the headers for a5 do: each piece of 64 elements as a tree of neighbours, piece after piece."""
    trees = [neighbours(rows[:, at : at + 64], add_floats) for at in range(0, rows.shape[1], 64)]
    return sum_in_sequence(np.concatenate(trees, axis=1))


def sum_by_clang(rows: Array) -> Array:
    """Sum rows as clang vectorises the loop of upstream's simulator: eight sums, their halves, then lane by lane."""
    sums = np.zeros((len(rows), 8), np.float32)
    for at in range(0, rows.shape[1], 8):
        sums = add_floats(sums, rows[:, at : at + 8])
    return sum_in_sequence(add_floats(sums[:, :4], sums[:, 4:]))


def sum_side_by_side(rows: Array) -> Array:
    """Sum rows as the embedded runtime does: four vectors of eight sums, then their halves."""
    sums = [np.zeros((len(rows), 8), np.float32) for _ in range(4)]
    for at in range(0, rows.shape[1], 32):
        sums = [add_floats(total, rows[:, at + 8 * k : at + 8 * k + 8]) for k, total in enumerate(sums)]
    lanes = add_floats(add_floats(sums[0], sums[1]), add_floats(sums[2], sums[3]))
    while lanes.shape[1] > 1:
        half = lanes.shape[1] // 2
        lanes = add_floats(lanes[:, :half], lanes[:, half:])
    return lanes


def bfloat16(values: Array, away: bool) -> Array:
    """Return the bits of float32 numbers as bfloat16, rounded to nearest with ties away from zero or to even."""
    bits = values.view(np.uint32)
    kept: Array = (bits + (0x8000 if away else 0x7FFF + ((bits >> 16) & 1))) >> 16
    return kept.astype(np.uint16)


def half_away(values: Array) -> Array:
    """Round float32 numbers to half, to nearest with ties away from zero. The results must be normal halves."""
    kept: Array = (values.view(np.uint32) + 0x1000) & ~np.uint32(0x1FFF)
    return kept.view(np.float32).astype(np.float16)


def words_cut_off(words: Array) -> Array:
    """Convert int32 to float32, rounded towards zero."""
    nearest = words.astype(np.float32)
    beyond = np.abs(nearest.astype(np.float64)) > np.abs(words.astype(np.float64))
    return np.where(beyond, np.nextafter(nearest, np.float32(0)), nearest)


def hf32(values: Array) -> Array:
    """Round float32 numbers to HF32: ten bits after the point, to nearest even."""
    bits = values.view(np.uint32)
    kept: Array = (bits + 0xFFF + ((bits >> 13) & 1)) & ~np.uint32(0x1FFF)
    return kept.view(np.float32)


def to_words(values: Array, nan: int, high: int) -> Array:
    """Convert float32 numbers to int32, truncated. NaN becomes ``nan``, and numbers that are too large ``high``."""
    finite = np.where(np.isfinite(values) & (np.abs(values) < 2**31), values, 0).astype(np.int32)
    with np.errstate(invalid="ignore"):
        low, up = values < -(2**31), values >= 2**31
    words = np.where(np.isnan(values), np.int32(nan), finite)
    return np.where(up, np.int32(high), np.where(low, np.int32(-(2**31)), words)).astype(np.int32)


def select_running_on(condition: Array, valid: int, bytes_a_row: int) -> Array:
    """Return the choices of a mask whose rows are padded but whose bits are read as one run without padding."""
    mask = np.zeros((len(condition), 8 * bytes_a_row), bool)
    mask[:, :valid] = condition[:, :valid]
    return mask.ravel()[: len(condition) * valid].reshape(len(condition), valid)


#: Error bounds in units of the last place, for answers that are known only up to an error.
_ULPS = (1, 4, 64, 1024)


class By(Flag):
    """The implementations that give an answer: the embedded runtime, a device, upstream's simulator."""

    HERE = auto()
    DEVICE = auto()
    SIMULATOR = auto()


NOBODY, HERE, DEVICE, SIMULATOR = By(0), By.HERE, By.DEVICE, By.SIMULATOR


@dataclass(frozen=True)
class ReferenceAnswer:
    """A known answer: its label, its elements, the implementations that give it, and its tolerance.

    ``ulps`` is the tolerance in units of the last place.
    """

    label: str
    values: Array
    by: By = NOBODY
    ulps: int = 0


@dataclass(frozen=True)
class Question:
    """A row of the table of agreements (`pto/ops/agreement.py`). The output that answers it has the same name."""

    name: str
    dtype: str
    answers: tuple[ReferenceAnswer, ...]

    def _label(self, by: By) -> str:
        return next((answer.label for answer in self.answers if by in answer.by), "")

    @property
    def here(self) -> str:
        """The label of the embedded runtime's answer."""
        return self._label(HERE)

    @property
    def device(self) -> str:
        """The label of a device's answer, or an empty text if it is unknown."""
        return self._label(DEVICE)

    @property
    def simulator(self) -> str:
        """The label of the answer of upstream's simulator."""
        return self._label(SIMULATOR)


@dataclass(frozen=True)
class KernelEdit:
    """A change of one place of a compiled file: a pattern, and its replacement."""

    path: str
    pattern: str
    replacement: str


@dataclass(frozen=True)
class Group:
    """The questions that one program answers. ``inputs`` are its input tensors by name."""

    name: str
    inputs: Mapping[str, Array]
    questions: tuple[Question, ...]
    untouched: Mapping[str, Array] = field(default_factory=dict)  # outputs that are written only in part
    edits: tuple[KernelEdit, ...] = ()  # of the compiled kernels, which then differ from their modules

    @property
    def artifact(self) -> str:
        """The name of the group's artifact."""
        return f"_jit_conformance_{self.name}"


def within(exact: Array, by: By, nearly: By = NOBODY) -> tuple[ReferenceAnswer, ...]:
    """Return a correctly rounded answer in float32, and answers with the same values up to larger and larger errors.

    ``by`` gives the correctly rounded answer, ``nearly`` the one with the smallest error.
    """
    values = exact.astype(np.float32)
    return (
        ReferenceAnswer("rounded correctly", values, by),
        ReferenceAnswer(f"within {_ULPS[0]} of the last place", values, nearly, _ULPS[0]),
        *(ReferenceAnswer(f"within {n} of the last place", values, ulps=n) for n in _ULPS[1:]),
    )


def floats(*numbers: float) -> Array:
    """Return a float32 tile of 8 x 64 that repeats these numbers."""
    return np.resize(np.array(numbers, np.float32), (8, 64))
