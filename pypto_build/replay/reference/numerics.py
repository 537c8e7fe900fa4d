"""PyTorch functions with the results of the device or of the simulator, as NUMERICS= selects.

docs/lookup/agreement.md describes the differences. Generated modules call `_numerics` in place of PyTorch for these
functions; `pypto_build.pto.torch.followed` lists the covered differences.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from pypto_build.facts.run_options import DEVICE_RESULTS, SIMULATOR


@contextmanager
def flushed(numerics: str) -> Iterator[None]:
    """In the block, treat subnormal numbers as zero, as the device does."""
    if numerics != DEVICE_RESULTS:
        yield
        return
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(False)


class Functions:
    """The functions of one setting, which a generated module calls as `_numerics`. Tensors are tiles, rows by
    columns."""

    def __init__(self, numerics: str, arch: str) -> None:
        self._simulator, self._a2a3 = numerics == SIMULATOR, arch != "a5"

    # --- elementwise, as the simulator ---

    def maximum(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        """Return the larger value. In the simulator: NaN where `a` is NaN, but a NaN of `b` is ignored."""
        return torch.where(torch.isnan(b), a, torch.maximum(a, b)) if self._is_float(a) else torch.maximum(a, b)

    def minimum(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        """Return the smaller value. In the simulator: NaN where `a` is NaN, but a NaN of `b` is ignored."""
        return torch.where(torch.isnan(b), a, torch.minimum(a, b)) if self._is_float(a) else torch.minimum(a, b)

    def _is_float(self, a: torch.Tensor) -> bool:
        return self._simulator and a.is_floating_point()

    def exp(self, a: torch.Tensor) -> torch.Tensor:
        """Compute in double, and round once."""
        return torch.exp(a.double()).to(a.dtype) if self._simulator else torch.exp(a)

    def log(self, a: torch.Tensor) -> torch.Tensor:
        """Compute in double, and round once."""
        return torch.log(a.double()).to(a.dtype) if self._simulator else torch.log(a)

    def rsqrt(self, a: torch.Tensor) -> torch.Tensor:
        """Compute in double, and round once."""
        return (1.0 / a.double().sqrt()).to(a.dtype) if self._simulator else torch.rsqrt(a)

    def round_to(self, value: torch.Tensor, dtype: torch.dtype, mode: str) -> torch.Tensor:
        """Round to nearest even in every mode, as the simulator does."""
        if value.dtype in (torch.int64, torch.int32) and dtype != torch.float32:
            return value.double().float().to(dtype)
        return value.to(dtype)

    def to_whole(self, value: torch.Tensor, mode: str) -> torch.Tensor:
        """Copy the value, as the simulator does where the device rounds to whole numbers."""
        return value

    # --- along rows and columns ---

    def reduce(self, a: torch.Tensor, dim: int, name: str, pairs: bool) -> torch.Tensor:
        """Return the sum, prod, max or min of rows (dim 1) or columns (dim 0), with one element left along that
        dimension.

        With `pairs`, pairs of rows are added first.
        """
        if name in ("max", "min"):
            return self._extreme(a, dim, name)
        if self._simulator or dim == 0:
            halves = dim == 1 and name == "sum" and a.dtype == torch.float16  # in float, rounded once
            if pairs and not self._simulator and name == "sum":
                return _pairs(a)
            reduced = _one_by_one(a.float() if halves else a, dim, name)
            return reduced.to(a.dtype)
        return _sum_of_rows(a, self._a2a3) if name == "sum" else _product_of_rows(a)

    def _extreme(self, a: torch.Tensor, dim: int, name: str) -> torch.Tensor:
        """Return the maximum or minimum. A NaN counts only in first position, as in the simulator."""
        end, find = (-torch.inf, torch.amax) if name == "max" else (torch.inf, torch.amin)
        if not self._is_float(a):
            return find(a, dim=dim, keepdim=True)
        first = a.narrow(dim, 0, 1)
        others = find(torch.where(torch.isnan(a), torch.full_like(a, end), a), dim=dim, keepdim=True)
        return torch.where(torch.isnan(first), first, others)


def _add(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Add, rounded to the operands' own type."""
    return (a.float() + b.float()).to(a.dtype)


def _one_by_one(a: torch.Tensor, dim: int, name: str) -> torch.Tensor:
    """Combine one element after the other, with rounding after each step."""
    total = a.narrow(dim, 0, 1)
    for at in range(1, a.shape[dim]):
        one = a.narrow(dim, at, 1)
        total = _add(total, one) if name == "sum" else (total.float() * one.float()).to(a.dtype)
    return total


def _pairs(a: torch.Tensor) -> torch.Tensor:
    """Add rows in pairs, then pairs of these sums; an odd one is added to the first."""
    while len(a) > 1:
        left = a[-1:] if len(a) % 2 else None
        a = _add(a[0 : len(a) // 2 * 2 : 2], a[1 : len(a) // 2 * 2 : 2])
        if left is not None:
            a = torch.cat((_add(a[:1], left), a[1:]))
    return a


def _neighbours(lanes: torch.Tensor) -> torch.Tensor:
    """Add the lanes of a vector as its reduction does: as a tree of neighbours. Sums of halves are clamped to 65504."""
    while lanes.shape[1] > 1:
        lanes = _add(lanes[:, 0::2], lanes[:, 1::2])
        if lanes.dtype == torch.float16:
            lanes = lanes.clamp(-65504.0, 65504.0)
    return lanes


def _sum_of_rows(a: torch.Tensor, a2a3: bool) -> torch.Tensor:
    rows, cols = a.shape
    width = 256 // a.element_size()
    if a2a3 and cols > width:
        return _neighbours(_lanes(a, cols // width, width))
    total = None
    for at in range(0, cols, width):
        lanes = torch.zeros(rows, width, dtype=a.dtype)
        lanes[:, : min(width, cols - at)] = a[:, at : at + width]
        row_sum = _neighbours(lanes)
        total = row_sum if total is None else _add(total, row_sum)
    return a if total is None else total


def _lanes(a: torch.Tensor, whole: int, width: int) -> torch.Tensor:
    """Return the sum of each lane. Whole vectors are added in pairs; an odd one and a partial one are added to the
    first sum. The sums are then added as a tree, in which an odd end is added to the sum before it (a2a3)."""
    pieces = [a[:, at * width : (at + 1) * width] for at in range(whole)]
    sums = [_add(pieces[2 * i], pieces[2 * i + 1]) for i in range(whole // 2)] or [pieces[0]]
    if whole > 1 and whole % 2:
        sums[0] = _add(sums[0], pieces[-1])
    left = a[:, whole * width :]
    if left.shape[1]:
        joined = _add(sums[0][:, : left.shape[1]], left)
        sums[0] = torch.cat((joined, sums[0][:, left.shape[1] :]), dim=1)
    while len(sums) > 1:
        odd = sums[-1] if len(sums) % 2 else None
        sums = [_add(sums[2 * i], sums[2 * i + 1]) for i in range(len(sums) // 2)]
        if odd is not None:
            sums[-1] = _add(sums[-1], odd)
    return sums[0]


def _product_of_rows(a: torch.Tensor) -> torch.Tensor:
    """Multiply blocks of 32 bytes lane by lane, then multiply the resulting lanes one after the other."""
    width = 32 // a.element_size()
    lanes = torch.ones(len(a), width, dtype=a.dtype)
    for at in range(0, a.shape[1], width):
        part = a[:, at : at + width]
        product = (lanes[:, : part.shape[1]].float() * part.float()).to(a.dtype)
        lanes = torch.cat((product, lanes[:, part.shape[1] :]), dim=1)
    return _one_by_one(lanes, 1, "prod")
