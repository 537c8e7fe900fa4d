"""Constants that are too large for their type are infinite in C++ and in PyTorch, as when C++ reads them."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest

from pypto_build.pto import parse
from pypto_build.pto.cpp import emitter
from pypto_build.pto.model import round_real
from pypto_build.pto.torch import tiles
from pypto_build.pto.torch.module import UnsupportedOperations, generate
from pypto_build.pto.types import ScalarType

# The largest float32, the first number that rounds to infinity, and one that is a little less than 3.5e38.
_LARGEST, _TOO_LARGE, _BETWEEN = 3.4028234663852886e38, 3.4028235677973366e38, 3.45e38


@pytest.mark.parametrize(
    "value, cpp, python",
    [
        (_LARGEST, "3.4028234663852886e+38f", "3.4028234663852886e+38"),
        (_TOO_LARGE, "__builtin_inff()", 'float("inf")'),
        (-_BETWEEN, "(-__builtin_inff())", 'float("-inf")'),
        (1e300, "__builtin_inff()", 'float("inf")'),
        (0.1, "0.10000000149011612f", "0.10000000149011612"),
    ],
)
def test_f32(value: float, cpp: str, python: str) -> None:
    assert emitter.real(value, ScalarType("f32", "f32")) == cpp
    assert tiles.real(value, ScalarType("f32", "f32")) == python


def test_other_types() -> None:
    assert round_real(65519.0, "f16") == 65504.0
    assert round_real(-65520.0, "f16") == -math.inf
    assert round_real(1e300, "f64") == 1e300


def test_a_window_of_another_rank_has_no_translation() -> None:
    text = (Path(__file__).parents[2] / "examples/artifacts/_jit_vector_dag/ptoas/kernel_add.pto").read_text()
    first = re.search(r"offsets = \[([^],]+)", text)
    assert first is not None
    damaged = text.replace(first[0], f"{first[0]}, {first[1]}", 1)
    with pytest.raises(UnsupportedOperations, match=r"with 3 offsets for 2 dimensions"):
        generate(parse(damaged))
