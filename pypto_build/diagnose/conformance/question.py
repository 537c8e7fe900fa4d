"""Questions of the kit: their known answers, and the program and inputs that test them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Flag, auto

import numpy as np

from .models import Array

#: Error bounds in units of the last place, for answers that are known only up to an error.
_ULPS = (1, 4, 64, 1024)


class By(Flag):
    """The implementations that give an answer: the embedded runtime, a device, upstream's simulator."""

    HERE = auto()
    DEVICE = auto()
    SIMULATOR = auto()


NOBODY, HERE, DEVICE, SIMULATOR = By(0), By.HERE, By.DEVICE, By.SIMULATOR


@dataclass(frozen=True)
class KnownAnswer:
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
    answers: tuple[KnownAnswer, ...]

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


def within(exact: Array, by: By, nearly: By = NOBODY) -> tuple[KnownAnswer, ...]:
    """Return a correctly rounded answer in float32, and answers with the same values up to larger and larger errors.

    ``by`` gives the correctly rounded answer, ``nearly`` the one with the smallest error.
    """
    values = exact.astype(np.float32)
    return (
        KnownAnswer("rounded correctly", values, by),
        KnownAnswer(f"within {_ULPS[0]} of the last place", values, nearly, _ULPS[0]),
        *(KnownAnswer(f"within {n} of the last place", values, ulps=n) for n in _ULPS[1:]),
    )


def floats(*numbers: float) -> Array:
    """Return a float32 tile of 8 x 64 that repeats these numbers."""
    return np.resize(np.array(numbers, np.float32), (8, 64))
