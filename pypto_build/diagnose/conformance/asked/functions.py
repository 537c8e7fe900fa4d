"""Questions about elementary functions, which `programs/functions.py` computes."""

from __future__ import annotations

import numpy as np

from ..question import DEVICE, HERE, SIMULATOR, Group, Question, ReferenceAnswer, within


def group() -> Group:
    """Return the questions with their inputs."""
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
        Question("exponential", "float32", within(np.exp(powers.astype(np.float64)), SIMULATOR, nearly=HERE)),
        Question("logarithm", "float32", within(np.log(exact), SIMULATOR, nearly=HERE)),
        Question(
            "inverse_root",
            "float32",
            (
                ReferenceAnswer("a root and a division, each rounded", in_steps, HERE),
                *within(1 / np.sqrt(exact), SIMULATOR),
            ),
        ),
        Question("root", "float32", within(np.sqrt(exact), HERE | SIMULATOR)),
        Question("quotient", "float32", within(powers.astype(np.float64) / exact, HERE | SIMULATOR)),
        Question(
            "subnormal",
            "float32",
            (
                ReferenceAnswer("kept", halved.astype(np.float32), HERE | SIMULATOR),
                ReferenceAnswer(
                    "results become zero", np.where(np.abs(halved) < least, 0, halved).astype(np.float32), DEVICE
                ),
                ReferenceAnswer("operands become zero, results are kept", operands_flushed.astype(np.float32)),
            ),
        ),
    )
    return Group("functions", {"powers": powers, "positive": positive, "small": small}, questions)
