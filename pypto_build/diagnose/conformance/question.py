"""What the kit asks: questions, their known answers, and which program asks them with which inputs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Flag, auto

import numpy as np

from .models import Array

#: How far an answer may be off that is known up to an error, in units of the last place.
_ULPS = (1, 4, 64, 1024)


class By(Flag):
    """Who is known to give an answer: the embedded runtime as it is, a device, upstream's simulator."""

    HERE = auto()
    DEVICE = auto()
    SIMULATOR = auto()


NOBODY, HERE, DEVICE, SIMULATOR = By(0), By.HERE, By.DEVICE, By.SIMULATOR


@dataclass(frozen=True)
class KnownAnswer:
    """One known answer: what it is called, its elements, who gives it, and how many units in the last place may be
    between."""

    label: str
    values: Array
    by: By = NOBODY
    ulps: int = 0


@dataclass(frozen=True)
class Question:
    """A row of the table of agreements (`pto/ops/agreement.py`), of the same name as the output that tells."""

    name: str
    dtype: str
    answers: tuple[KnownAnswer, ...]

    def _label(self, by: By) -> str:
        return next((answer.label for answer in self.answers if by in answer.by), "")

    @property
    def here(self) -> str:
        """The label of what the embedded runtime gives as it is."""
        return self._label(HERE)

    @property
    def device(self) -> str:
        """The label of what a device is known to give, empty where nobody says."""
        return self._label(DEVICE)

    @property
    def simulator(self) -> str:
        """The label of what upstream's simulator is known to give."""
        return self._label(SIMULATOR)


@dataclass(frozen=True)
class Group:
    """Questions that one program asks; ``inputs`` are its tensors, ``shapes`` tell how large the outputs are."""

    name: str
    inputs: Mapping[str, Array]
    questions: tuple[Question, ...]
    untouched: Mapping[str, Array] = field(default_factory=dict)  # outputs of which only a part is written

    @property
    def artifact(self) -> str:
        """The name of its artifact."""
        return f"_jit_conformance_{self.name}"


def within(exact: Array, by: By, nearly: By = NOBODY) -> tuple[KnownAnswer, ...]:
    """An answer in float32 that is rounded correctly, and the same up to errors; ``nearly`` who makes the smallest."""
    values = exact.astype(np.float32)
    return (
        KnownAnswer("rounded correctly", values, by),
        KnownAnswer(f"within {_ULPS[0]} of the last place", values, nearly, _ULPS[0]),
        *(KnownAnswer(f"within {n} of the last place", values, ulps=n) for n in _ULPS[1:]),
    )


def floats(*numbers: float) -> Array:
    """These numbers again and again in a float32 tile of 8 x 64."""
    return np.resize(np.array(numbers, np.float32), (8, 64))
