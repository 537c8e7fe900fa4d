"""Questions about choices and comparisons, which `programs/choices.py` computes."""

from __future__ import annotations

import numpy as np

from .. import question
from ..question import DEVICE, HERE, SIMULATOR, Array, Group, Question, ReferenceAnswer, floats


def group() -> Group:
    """Return the questions with their inputs."""
    inputs = _inputs()
    questions = (*_largest(inputs), _relu(inputs["zeros"]), *_comparisons(inputs), _mask_rows(inputs["signs"]))
    return Group("choices", inputs, questions, {"mask_rows": np.zeros((8, 64), np.float32)})


def _inputs() -> dict[str, Array]:
    nan, random = np.float32(np.nan), np.random.default_rng(5)
    first, second = (random.uniform(-9, 9, (8, 64)).astype(np.float32) for _ in range(2))
    first[:, ::4], second[:, 1::4], first[:, 2::16], second[:, 2::16] = nan, nan, nan, nan
    some = random.uniform(-9, 9, (8, 64)).astype(np.float32)
    some[:3, 0], some[3:6, 40], some[6, :] = nan, nan, nan
    words, others = (random.integers(0, 4, (8, 64)).astype(np.int32) for _ in range(2))
    return {
        "first": first,
        "second": second,
        "some_nan": some,
        "zeros": floats(-0.0, 0.0, np.nan, -1, 1),
        "words": words,
        "others": others,
        "close": floats(0, 1e-10, -1e-10, 1e-8, -0.0, 1),
        "signs": random.uniform(-1, 1, (8, 64)).astype(np.float32),
        "ones": np.full((8, 64), 1, np.float32),
        "twos": np.full((8, 64), 2, np.float32),
    }


def _largest(inputs: dict[str, Array]) -> tuple[Question, Question]:
    """Return the questions on NaN as an operand of a maximum: of two tiles, and of a row."""
    nan, first, second, some = np.float32(np.nan), inputs["first"], inputs["second"], inputs["some_nan"]
    greater = np.where(first < second, second, first)
    one, other = np.isnan(first), np.isnan(second)
    largest = np.fmax.reduce(some, axis=1, keepdims=True)
    return (
        Question(
            "max_with_nan",
            "float32",
            (
                ReferenceAnswer("NaN where either is", np.where(one | other, nan, greater), HERE | DEVICE),
                ReferenceAnswer(
                    "NaN where the first is", np.where(one, nan, np.where(other, first, greater)), SIMULATOR
                ),
                ReferenceAnswer("NaN where the second is", np.where(other, nan, np.where(one, second, greater))),
                ReferenceAnswer("the number where one is", np.fmax(first, second)),
            ),
        ),
        Question(
            "row_max_with_nan",
            "float32",
            (
                ReferenceAnswer("NaN", np.max(some, axis=1, keepdims=True), HERE),
                ReferenceAnswer("NaN where it comes first", np.where(np.isnan(some[:, :1]), nan, largest), SIMULATOR),
                ReferenceAnswer("the largest number", largest),
            ),
        ),
    )


def _relu(zeros: Array) -> Question:
    nan, of_nan, positive = np.float32(np.nan), np.isnan(zeros), np.where(zeros > 0, zeros, np.float32(0))
    signed = np.where(np.signbit(zeros) & (zeros == 0), np.float32(-0.0), positive)
    return Question(
        "relu_of_zero",
        "float32",
        (
            ReferenceAnswer("0, and NaN stays", np.where(of_nan, nan, positive), HERE),
            ReferenceAnswer("-0, and NaN stays", np.where(of_nan, nan, signed), SIMULATOR),
            ReferenceAnswer("0, and NaN becomes 0", positive),
            ReferenceAnswer("-0, and NaN becomes 0", signed),
        ),
    )


def _comparisons(inputs: dict[str, Array]) -> tuple[Question, Question]:
    words, others, close = inputs["words"], inputs["others"], inputs["close"]

    def yes(condition: Array) -> Array:
        return np.asarray(np.where(condition, np.float32(1), np.float32(0)))

    return (
        Question(
            "compare_words",
            "float32",
            (
                ReferenceAnswer("for equality whatever the mode", yes(words == others), HERE | DEVICE),
                ReferenceAnswer("by the mode", yes(words < others), SIMULATOR),
            ),
        ),
        Question(
            "compare_near",
            "float32",
            (
                ReferenceAnswer("what is equal", yes(close == 0), HERE | DEVICE),
                ReferenceAnswer("what is within 10^-9", yes(np.abs(close) < 1e-9), SIMULATOR),
            ),
        ),
    )


def _mask_rows(signs: Array) -> Question:
    def chosen(mask: Array) -> Array:
        return np.asarray(np.pad(np.where(mask, np.float32(1), np.float32(2)), ((0, 0), (0, 64 - mask.shape[1]))))

    return Question(
        "mask_rows",
        "float32",
        (
            ReferenceAnswer("each row at a row of the mask", chosen(signs[:, :36] > 0), HERE | DEVICE),
            ReferenceAnswer(
                "bits run on from row to row", chosen(question.select_running_on(signs > 0, 36, 8)), SIMULATOR
            ),
        ),
    )
