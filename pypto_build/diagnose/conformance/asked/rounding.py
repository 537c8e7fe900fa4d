"""Questions about conversions, which `programs/rounding.py` computes."""

from __future__ import annotations

import numpy as np

from .. import question
from ..question import DEVICE, HERE, SIMULATOR, Group, Question, ReferenceAnswer, floats


def group() -> Group:
    """Return the questions with their inputs."""
    random = np.random.default_rng(3)
    steps = np.arange(512).reshape(8, 64)
    sign = np.where(steps % 2, 1.0, -1.0)
    near_half = (sign * (1 + steps * 2.0**-12)).astype(np.float32)
    near_short = (sign * (1 + steps * 2.0**-9)).astype(np.float32)
    near_whole = (sign * steps / 4).astype(np.float32)
    words = (random.integers(2**24, 2**30, (8, 64)) * sign).astype(np.int32)
    special = floats(np.nan, np.inf, -np.inf, 3e9, -3e9, 1e20, -1e20, 2.5)
    high, low = 2**31 - 1, -(2**31)
    questions = (
        Question(
            "round_to_half",
            "float16",
            (
                ReferenceAnswer("ties away from zero, as ROUND says", question.half_away(near_half), HERE | DEVICE),
                ReferenceAnswer("ties to even whatever the mode", near_half.astype(np.float16), SIMULATOR),
            ),
        ),
        Question(
            "round_to_bfloat16",
            "bfloat16",
            (
                ReferenceAnswer(
                    "ties away from zero, as ROUND says", question.bfloat16(near_short, away=True), HERE | DEVICE
                ),
                ReferenceAnswer("ties to even whatever the mode", question.bfloat16(near_short, away=False), SIMULATOR),
            ),
        ),
        Question(
            "round_to_whole",
            "float32",
            (
                ReferenceAnswer("rounded to whole numbers", np.rint(near_whole), HERE | DEVICE),
                ReferenceAnswer("copied", near_whole, SIMULATOR),
            ),
        ),
        Question(
            "round_words",
            "float32",
            (
                ReferenceAnswer("towards zero, as TRUNC says", question.words_cut_off(words), HERE | DEVICE),
                ReferenceAnswer("to nearest even whatever the mode", words.astype(np.float32), SIMULATOR),
            ),
        ),
        Question(
            "nan_to_integer",
            "int32",
            (
                ReferenceAnswer("NaN is 0, others the nearest end", question.to_words(special, 0, high), HERE),
                ReferenceAnswer("all the lowest number", question.to_words(special, low, low)),
                ReferenceAnswer(
                    "NaN is the lowest number, others the nearest end", question.to_words(special, low, high)
                ),
                ReferenceAnswer(
                    "NaN is the largest number, others the nearest end", question.to_words(special, high, high)
                ),
            ),
        ),
    )
    inputs = {
        "near_half": near_half,
        "near_short": near_short,
        "near_whole": near_whole,
        "words": words,
        "special": special,
    }
    return Group("rounding", inputs, questions)
