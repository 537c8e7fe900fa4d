"""Elementary functions: see programs/functions.py."""

from __future__ import annotations

import numpy as np

from ..question import Group, KnownAnswer, Question, within


def group() -> Group:
    """The questions."""
    random = np.random.default_rng(4)
    powers = random.uniform(-80, 80, (8, 64)).astype(np.float32)
    positive = np.ldexp(random.uniform(1, 2, (8, 64)), random.integers(-60, 60, (8, 64))).astype(np.float32)
    small = np.ldexp(random.uniform(1, 2, (8, 64)), random.integers(-140, -120, (8, 64))).astype(np.float32)
    exact = positive.astype(np.float64)
    halved = small.astype(np.float64) / 2
    least = 2.0**-126
    operands_flushed = np.where(np.abs(small) < least, 0, small.astype(np.float64)) / 2
    in_steps = np.float32(1) / np.sqrt(positive)
    questions = (
        Question(
            "exponential",
            "float32",
            within("rounded correctly", np.exp(powers.astype(np.float64))),
            here="within 1 of the last place",
            simulator="rounded correctly",
        ),
        Question(
            "logarithm",
            "float32",
            within("rounded correctly", np.log(exact)),
            here="within 1 of the last place",
            simulator="rounded correctly",
        ),
        Question(
            "inverse_root",
            "float32",
            (
                KnownAnswer("a root and a division, each rounded", in_steps),
                *within("rounded correctly", 1 / np.sqrt(exact)),
            ),
            here="a root and a division, each rounded",
            simulator="rounded correctly",
        ),
        Question(
            "root",
            "float32",
            within("rounded correctly", np.sqrt(exact)),
            here="rounded correctly",
            simulator="rounded correctly",
        ),
        Question(
            "quotient",
            "float32",
            within("rounded correctly", powers.astype(np.float64) / exact),
            here="rounded correctly",
            simulator="rounded correctly",
        ),
        Question(
            "subnormal",
            "float32",
            (
                KnownAnswer("kept", halved.astype(np.float32)),
                KnownAnswer("results become zero", np.where(np.abs(halved) < least, 0, halved).astype(np.float32)),
                KnownAnswer("operands become zero, results are kept", operands_flushed.astype(np.float32)),
            ),
            here="kept",
            device="results become zero",
            simulator="kept",
        ),
    )
    return Group("functions", {"powers": powers, "positive": positive, "small": small}, questions)
