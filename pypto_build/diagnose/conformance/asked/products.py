"""Questions about products of matrices, which `programs/products.py` computes."""

from __future__ import annotations

import numpy as np

from .. import question
from ..question import DEVICE, HERE, SIMULATOR, Group, Question, ReferenceAnswer


def group() -> Group:
    """Return the questions with their inputs."""
    random = np.random.default_rng(1)
    corner = np.zeros((16, 16), np.float16)
    corner[:, 0] = 4096
    left = random.integers(0, 3, (16, 64)).astype(np.float16)
    right = random.integers(0, 3, (64, 16)).astype(np.float16)
    # One large product in each row, at another k; the others are multiples of 1/16.
    mixed, more = ((random.integers(1, 9, shape) / 4).astype(np.float16) for shape in ((16, 64), (64, 16)))
    more[::4] = 1024
    mixed[:, ::4] = 0
    mixed[np.arange(16), 4 * np.arange(16)] = 16384
    float_left, float_right = np.zeros((2, 16, 16), np.float32)
    float_left[:, 0] = 1 + random.integers(1, 2**12, 16) * 2.0**-23
    float_right[0] = 1 + random.integers(1, 2**12, 16) * 2.0**-23
    steps = question.products_in_steps
    c, nothing = np.full((16, 16), 2.0**24), np.zeros((16, 16))
    product = steps(nothing, left, right)
    accumulated = Question(
        "accumulate_from_c",
        "float32",
        (
            ReferenceAnswer("begins with C, each step rounded", steps(c, left, right), HERE | DEVICE),
            ReferenceAnswer("begins with C, 16 products at a time", steps(c, left, right, 16)),
            ReferenceAnswer("begins with C, 8 products at a time", steps(c, left, right, 8)),
            ReferenceAnswer("adds C at the end", (c + product).astype(np.float32), SIMULATOR),
        ),
    )
    order = Question(
        "product_order",
        "float32",
        (
            ReferenceAnswer("one after the other", steps(nothing, mixed, more), HERE | SIMULATOR),
            ReferenceAnswer("16 at a time, added and rounded once", steps(nothing, mixed, more, 16)),
            ReferenceAnswer("16 at a time, rounded and then added", steps(nothing, mixed, more, 16, apart=True)),
            ReferenceAnswer("8 at a time, added and rounded once", steps(nothing, mixed, more, 8)),
            ReferenceAnswer("32 at a time, added and rounded once", steps(nothing, mixed, more, 32)),
            ReferenceAnswer("all at once", steps(nothing, mixed, more, 64)),
        ),
    )
    exact = float_left.astype(np.float64) @ float_right.astype(np.float64)
    floats = Question(
        "float_products",
        "float32",
        (
            ReferenceAnswer("all bits", exact.astype(np.float32), HERE | SIMULATOR),
            ReferenceAnswer("operands rounded to HF32", question.hf32(float_left) @ question.hf32(float_right)),
        ),
    )
    inputs = {
        "c_left": corner,
        "c_right": corner.T.copy(),
        "left": left,
        "right": right,
        "mixed": mixed,
        "more": more,
        "float_left": float_left,
        "float_right": float_right,
    }
    return Group("products", inputs, (accumulated, order, floats))
