"""Comparator for paged pools: mapped rows by ratio, every other row bit for bit, which finds stray writes."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from pypto_build.replay.comparators.base import Arrays, Comparator, Result, as_float32, named
from pypto_build.replay.comparators.ratio import out_of_tolerance
from pypto_build.replay.values import Array

Rows = npt.NDArray[np.int64]


def mapped_pool_ratio_allclose(
    mapping_name: str,
    *,
    mapping_shape: tuple[int, ...],
    block_size: int,
    leading_rank_axis: bool = False,
    pool_name: str = "pool",
    atol: float | None = None,
    rtol: float | None = None,
    max_error_ratio: float = 0.005,
) -> Comparator:
    """A pool `[blocks, block, …]`, or `[ranks, blocks, block, …]` with `leading_rank_axis`.

    The integer input `mapping_name` names the rows (`block * block_size + slot`) that the program writes, -1 for none;
    with ranks its first axis counts them. Mapped rows get the ratio rule, all others must equal the golden exactly.
    """
    parameters = {
        "mapping_name": mapping_name,
        "mapping_shape": tuple(mapping_shape),
        "block_size": block_size,
        "leading_rank_axis": leading_rank_axis,
        "pool_name": pool_name,
        "atol": atol,
        "rtol": rtol,
        "max_error_ratio": max_error_ratio,
    }
    fixed_atol, fixed_rtol = atol, rtol

    def compare(actual: Array, expected: Array, *, inputs: Arrays, rtol: float, atol: float, **_: Any) -> Result:
        used_atol = atol if fixed_atol is None else fixed_atol
        used_rtol = rtol if fixed_rtol is None else fixed_rtol
        axes = 3 if leading_rank_axis else 2
        if actual.ndim < axes or actual.shape[axes - 1] != block_size:
            form = "[ranks, blocks, block, ...]" if leading_rank_axis else "[blocks, block, ...]"
            return False, f"{pool_name}: shape {actual.shape} is not {form} with block_size={block_size}"
        ranks = actual.shape[0] if leading_rank_axis else 1
        rows = actual.shape[axes - 2] * block_size
        mapping = inputs.get(mapping_name)
        wrong = _mapping_fault(mapping, mapping_name, tuple(mapping_shape), rows, ranks if leading_rank_axis else None)
        if wrong or mapping is None:
            return False, wrong
        ours, theirs = (side.reshape(ranks, rows, -1) for side in (actual, expected))
        targets = mapping.reshape(ranks, -1).astype(np.int64)
        for rank in range(ranks):
            wrong = _rank_fault(
                ours[rank],
                theirs[rank],
                targets[rank],
                used_rtol,
                used_atol,
                max_error_ratio,
                f"{pool_name} rank {rank}",
            )
            if wrong:
                return False, wrong
        return True, ""

    return named("mapped_pool_ratio_allclose", parameters, compare)


def _mapping_fault(mapping: Array | None, name: str, shape: tuple[int, ...], rows: int, ranks: int | None) -> str:
    """Return the fault of the mapping input; "" if it can be used."""
    if mapping is None:
        return f"mapping '{name}' is not an input of this artifact"
    if mapping.dtype.kind not in "iu":
        return f"mapping '{name}' has dtype {mapping.dtype}, expected an integer"
    if mapping.shape != shape:
        return f"mapping '{name}' has shape {mapping.shape}, expected {shape}"
    if ranks is not None and (not shape or shape[0] != ranks):
        return f"mapping '{name}' has shape {shape}, expected {ranks} ranks first"
    low, high = int(mapping.min(initial=0)), int(mapping.max(initial=-1))
    if low < -1 or high >= rows:
        return f"mapping '{name}' holds {low if low < -1 else high}, outside -1..{rows - 1}"
    for rank, entries in enumerate(mapping.reshape(ranks or 1, -1)):
        used, counts = np.unique(entries[entries >= 0], return_counts=True)
        if np.any(counts > 1):
            return f"mapping '{name}' names row {int(used[np.argmax(counts > 1)])} twice in rank {rank}"
    return ""


def _rank_fault(
    actual: Array, expected: Array, mapping: Rows, rtol: float, atol: float, max_error_ratio: float, label: str
) -> str:
    mapped = mapping[mapping >= 0]
    stray = np.ones(actual.shape[0], dtype=np.bool_)
    stray[mapped] = False
    changed = (actual != expected) & ~((actual != actual) & (expected != expected)) & stray[:, None]
    if changed.any():
        row = int(np.argmax(changed.any(axis=1)))
        count = int(np.count_nonzero(changed[row]))
        return f"{label} row {row}: {count} values changed in a row the mapping does not name"
    bad = out_of_tolerance(as_float32(actual[mapped]), as_float32(expected[mapped]), rtol, atol)
    count, allowed = int(np.count_nonzero(bad)), round(max_error_ratio * bad.size)
    if count <= allowed:
        return ""
    row = int(mapped[np.argmax(bad.any(axis=1))])
    return f"{label}: error_count={count}/{bad.size} exceeds allowed={allowed} in mapped rows, first in row {row}"
