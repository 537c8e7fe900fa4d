"""Questions about sums of rows and columns, which `programs/sums.py` computes."""

from __future__ import annotations

import numpy as np

from .. import question
from ..question import DEVICE, HERE, SIMULATOR, Group, Question, ReferenceAnswer


def group() -> Group:
    """Return the questions with their inputs."""
    random = np.random.default_rng(2)
    rows = np.ldexp(random.uniform(-1, 1, (16, 192)), random.integers(-9, 10, (16, 192))).astype(np.float32)
    halves = random.uniform(-3, 3, (16, 128)).astype(np.float16)
    halves[8:, :2], halves[8:, 2:4] = 60000, -30000
    columns = random.uniform(0, 200, (16, 64)).astype(np.float16)
    in_float = question.sum_in_sequence(halves.astype(np.float32))
    pairs = columns
    while len(pairs) > 1:
        pairs = question.add_floats(pairs[::2], pairs[1::2])
    questions = (
        Question(
            "row_sum_order",
            "float32",
            (
                ReferenceAnswer(
                    "pieces of 64 in pairs, then a tree of neighbours", question.sum_in_pieces(rows), DEVICE
                ),
                ReferenceAnswer("a tree of neighbours in each 64, one after the other", question.sum_of_trees(rows)),
                ReferenceAnswer("from left to right", question.sum_in_sequence(rows), SIMULATOR),
                ReferenceAnswer("eight side by side", question.sum_by_clang(rows)),
                ReferenceAnswer("four vectors of eight side by side", question.sum_side_by_side(rows), HERE),
            ),
        ),
        Question(
            "row_sum_half",
            "float16",
            (
                ReferenceAnswer("in half, at most 65504", question.neighbours(halves, question.add_saturated), DEVICE),
                ReferenceAnswer("in half, infinite beyond", question.neighbours(halves, question.add_floats)),
                ReferenceAnswer("in float, rounded once", in_float.astype(np.float16), HERE | SIMULATOR),
            ),
        ),
        Question(
            "col_sum_half",
            "float16",
            (
                ReferenceAnswer(
                    "row after row, each sum rounded", question.sum_in_sequence(columns.T).T, DEVICE | SIMULATOR
                ),
                ReferenceAnswer("pairs of rows, each sum rounded", pairs),
                ReferenceAnswer(
                    "in float, rounded once",
                    question.sum_in_sequence(columns.T.astype(np.float32)).T.astype(np.float16),
                    HERE,
                ),
            ),
        ),
    )
    return Group("sums", {"rows": rows, "halves": halves, "columns": columns}, questions)
