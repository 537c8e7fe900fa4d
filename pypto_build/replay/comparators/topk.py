"""A comparator for the indices of a top-k: equal values may be in another order."""

from __future__ import annotations

from typing import Any

import numpy as np

from pypto_build.replay.comparators.base import Arrays, Comparator, Result, listing, named
from pypto_build.replay.compare import coordinates
from pypto_build.replay.values import Array


def topk_pair_compare(vals_name: str, *, dim: int = -1, descending: bool = True, max_show: int = 10) -> Comparator:
    """Compare indices with the golden's; others are allowed where values of output `vals_name` are still in order.

    A differing index is allowed if the paired value lies between its neighbours along `dim`. The values themselves are
    compared as an output of their own.
    """
    parameters = {"vals_name": vals_name, "dim": dim, "descending": descending}

    def compare(actual: Array, expected: Array, *, actual_outputs: Arrays, **_: Any) -> Result:
        values = actual_outputs.get(vals_name)
        if values is None:
            return False, f"'{vals_name}' is not an output of this artifact"
        if values.shape != actual.shape:
            return False, f"'{vals_name}' has shape {values.shape}, the indices {actual.shape}"
        scores = np.moveaxis(values.astype(np.float64), dim, -1)
        ours, theirs = np.moveaxis(actual, dim, -1), np.moveaxis(expected, dim, -1)
        falling = scores if descending else -scores
        in_order = np.ones(scores.shape, dtype=np.bool_)
        if scores.shape[-1] > 1:
            step = falling[..., :-1] >= falling[..., 1:]
            in_order[..., :-1] &= step
            in_order[..., 1:] &= step
        bad = (ours != theirs) & ~in_order
        if not bad.any():
            return True, ""

        def line(at: int) -> str:
            index = np.unravel_index(at, bad.shape)
            column = int(index[-1])
            window = scores[index[:-1]][max(0, column - 1) : column + 2]
            return (
                f"{coordinates(at, bad.shape)} actual_idx={int(ours[index])}, expected_idx={int(theirs[index])}, "
                f"score={float(scores[index]):.8g}, neighbours={[float(f'{value:.8g}') for value in window]}"
            )

        return False, f"{int(np.count_nonzero(bad))} indices differ where the values are out of order" + listing(
            bad, max_show, line
        )

    return named("topk_pair_compare", parameters, compare)
