"""Questions about kernels that break a rule of the device, which `programs/rules.py` computes once edited.

The compiler keeps the rules, so each kernel is compiled as it should be, and one line of its C++ is changed.
"""

from __future__ import annotations

import numpy as np

from ..question import DEVICE, HERE, SIMULATOR, Array, Group, KernelEdit, Question, ReferenceAnswer

_IN_PLACE = (r"TASSIGN\(tmp0__ssa_v0, \d+\)", "TASSIGN(tmp0__ssa_v0, 0)")
_EDITS = (
    KernelEdit("kernels/aiv/invert.cpp", *_IN_PLACE),
    KernelEdit("kernels/aiv/divide.cpp", *_IN_PLACE),
    KernelEdit("kernels/aiv/mask_bits.cpp", *_IN_PLACE),
    KernelEdit(
        "kernels/aiv/max_of_rows.cpp",
        r"8, 256, BLayout::RowMajor(.*) tmp0__ssa_v0__scratch\(8, 256\)",
        r"8, 1, BLayout::ColMajor\1 tmp0__ssa_v0__scratch(8, 1)",
    ),
)


def group() -> Group:
    """Return the questions with their inputs."""
    random = np.random.default_rng(6)
    inputs: dict[str, Array] = {
        "numbers": random.uniform(1, 9, (8, 64)).astype(np.float32),
        "words": random.integers(0, 99, (8, 64)).astype(np.int16),
        "wide": random.integers(-999, 999, (8, 256)).astype(np.float32),
    }
    numbers, words = inputs["numbers"], inputs["words"]
    ones = np.ones_like(numbers)
    questions = (
        _question("recip_in_place", np.float32(1) / numbers, ones),
        _question("quotient_in_place", np.float32(3) / numbers, ones),
        _question("bits_in_place", words & np.int16(6), np.full_like(words, 6)),
        _question("small_scratch", inputs["wide"].max(axis=1, keepdims=True), _max_in_a_column(inputs["wide"])),
    )
    return Group("rules", inputs, questions, edits=_EDITS)


def _question(name: str, right: Array, device: Array) -> Question:
    answers = (
        ReferenceAnswer("as if the rule were kept", right, HERE | SIMULATOR),
        ReferenceAnswer("as the headers' steps give it", device, DEVICE),
    )
    return Question(name, right.dtype.name, answers)


def _max_in_a_column(wide: Array) -> Array:
    """Return the max of each row where the rows of the scratch tile lie on each other."""
    value = max(wide[-1, :128].max(), wide[:, 128:].max())
    return np.full((8, 1), value, np.float32)
