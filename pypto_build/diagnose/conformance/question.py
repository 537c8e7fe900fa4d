"""What the kit asks: questions, their known answers, and which program asks them with which inputs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from .models import Array

#: How far an answer may be off that is known up to an error, in units of the last place.
_ULPS = (1, 4, 64, 1024)


@dataclass(frozen=True)
class KnownAnswer:
    """One known answer: what it is called, its elements, and how many units in the last place may be between."""

    label: str
    values: Array
    ulps: int = 0


@dataclass(frozen=True)
class Question:
    """A row of the table of agreements (`pto/ops/agreement.py`), of the same name as the output that tells.

    ``device`` and ``simulator`` are the labels of what the two are known to give, empty where nobody says; ``here`` is
    that of the embedded runtime as it is.
    """

    name: str
    dtype: str
    answers: tuple[KnownAnswer, ...]
    here: str
    device: str = ""
    simulator: str = ""


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


def within(label: str, exact: Array) -> tuple[KnownAnswer, ...]:
    """An exact answer in float32, and the same up to errors."""
    values = exact.astype(np.float32)
    return (KnownAnswer(label, values), *(KnownAnswer(f"within {n} of the last place", values, n) for n in _ULPS))


def floats(*numbers: float) -> Array:
    """These numbers again and again in a float32 tile of 8 x 64."""
    return np.resize(np.array(numbers, np.float32), (8, 64))
