"""TCVT between all pairs of element types, in every mode, with and without saturation, as PyTorch against exact
arithmetic: exact."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch

from pypto_build.pto.checks.elements import element_types
from pypto_build.pto.torch import UnsupportedOperations
from tests.pto.samples import tile
from tests.pto.torch_run import DTYPES, Exact, Kernel, Kernels, assert_equal, exact, limits
from tests.rows import every

SHAPE = (8, 32)
MODES = ("", "NONE", "RINT", "CAST_RINT", "ROUND", "FLOOR", "CEIL", "TRUNC", "ODD")
ONLY_F32 = ("f8E4M3FN", "f8E5M2")  # the hardware converts them from and to f32
NOT_CONVERTED = {"f8E8M0", "ui64"}  # no platform has an instruction for them
TYPES = sorted(element_types("pto.tcvt") - NOT_CONVERTED)
#: bits of the fraction, exponents of the smallest and of the largest normal number
FORMATS = {"f32": (23, -126, 127), "f16": (10, -14, 15), "bf16": (7, -126, 127), "f8E4M3FN": (3, -6, 8),
           "f8E5M2": (2, -14, 15)}  # fmt: skip
LARGEST = {"f8E4M3FN": 448.0} | {
    t: (2 - 2.0**-bits) * 2.0**top for t, (bits, _, top) in FORMATS.items() if t != "f8E4M3FN"
}
BEYOND = {"f8E4M3FN": math.nan}

ROUND: dict[str, Callable[[Any], Any]] = {
    "RINT": np.rint, "CAST_RINT": np.rint, "ROUND": lambda q: np.copysign(np.floor(np.abs(q) + 0.5), q),
    "FLOOR": np.floor, "CEIL": np.ceil, "TRUNC": np.trunc,
    "ODD": lambda q: np.where(q == np.floor(q), q, np.floor(q) + (np.floor(q) % 2 == 0)),
}  # fmt: skip


def is_float(dtype: str) -> bool:
    return dtype in FORMATS


def values(dtype: str) -> torch.Tensor:
    """Numbers of all sizes, with ties, limits of the integer types and what is not finite."""
    count, generator = SHAPE[0] * SHAPE[1], torch.Generator().manual_seed(len(dtype))
    raw = torch.randint(0, 256, (count * DTYPES[dtype].itemsize,), generator=generator, dtype=torch.uint8)
    made = raw.view(DTYPES[dtype]).clone()
    if is_float(dtype):
        wide = [0.0, -0.0, math.inf, -math.inf, math.nan, 448.0, 464.0, 465.0, -480.0, 61440.0, 65504.0, 65520.0, 1e-7]
        wide += [sign * (n / 4) for n in range(1, 24) for sign in (1, -1)]
        near = [2.0**e + d for e in (7, 8, 15, 16, 31, 32, 63, 64) for d in (-1, -0.5, 0, 1)]
        wide += near + [-n for n in near]
        wide += [1 + n / 2**9 for n in range(12)] + [1 + 2.0**-12, 3.0e38, -3.0e38]
    else:
        low, high = limits(dtype)
        near = [2**e + d for e in (7, 8, 11, 15, 16, 24, 31, 32, 53, 63) for d in (-1, 0, 1, 3)]
        wide = [n for n in (low, high, *near, *(-n for n in near)) if low <= n <= high]
    made[: len(wide)] = torch.tensor(wide, dtype=torch.float64 if is_float(dtype) else DTYPES[dtype]).to(DTYPES[dtype])
    return made.reshape(SHAPE)


def rounded(q: Exact, mode: str) -> Exact:
    with np.errstate(all="ignore"):
        return np.asarray(ROUND[mode](q))


def float_to_float(x: Exact, target: str, mode: str, saturate: bool) -> Exact:
    """Round in units of the last place, then look whether that is beyond the largest number."""
    bits, least, _ = FORMATS[target]
    with np.errstate(all="ignore"):
        exponent = np.where(np.isfinite(x) & (x != 0), np.floor(np.log2(np.abs(x))), least)
        unit = np.exp2(np.maximum(exponent, least) - bits)
        return beyond(x, rounded(x / unit, mode) * unit, target, mode, saturate)


def beyond(x: Exact, limited: Exact, target: str, mode: str, saturate: bool) -> Exact:
    odd = mode == "ODD" and target != "f8E4M3FN"  # whose largest number is even
    towards_zero = mode == "TRUNC" or odd or (mode == "FLOOR") & (x > 0) | (mode == "CEIL") & (x < 0)
    outside = np.copysign(BEYOND.get(target, np.inf), x)
    largest = np.copysign(LARGEST[target], x)
    if target in ONLY_F32:  # what is beyond is so whatever the mode, unless the mode leaves it within
        within = towards_zero & (np.abs(x) < 2 * LARGEST[target] - previous(target)) & np.isfinite(x)
        clipped = np.where(within | saturate, largest, outside)
    else:
        clipped = np.where(towards_zero & np.isfinite(x), largest, outside)
    limited = np.where(np.abs(limited) > LARGEST[target], clipped, limited)
    return np.where(np.isnan(x), np.nan, limited)


def previous(target: str) -> float:
    """The number before the largest."""
    bits, _, top = FORMATS[target]
    return float(LARGEST[target] - 2.0 ** (top - bits))


def int_to_float(n: int, target: str, mode: str) -> float:
    """In integers: which multiple of the unit in the last place."""
    bits, _, _ = FORMATS[target]
    unit = 2 ** max(abs(n).bit_length() - 1 - bits, 0)
    down, rest = divmod(n, unit)
    twice = 2 * rest
    up = {
        "RINT": twice > unit or (twice == unit and down % 2), "ROUND": twice > unit or (twice == unit and n > 0),
        "FLOOR": False, "CEIL": rest > 0, "TRUNC": rest > 0 and n < 0, "ODD": rest > 0 and down % 2 == 0,
    }["RINT" if mode == "CAST_RINT" else mode]  # fmt: skip
    made = (down + bool(up)) * unit
    return float(beyond(np.array(float(n)), np.array(float(made)), target, mode, False))


def float_to_int(x: Exact, target: str, mode: str, saturate: bool) -> Exact:
    """Types of less than 32 bits take what lies within 32 bits and wrap it, or take the nearest they have."""
    wide = int(target.lstrip("ui")) >= 32
    low, high = limits(target if wide or saturate else "i32")
    numbers = rounded(x, mode).reshape(-1).tolist()
    integers = [0 if math.isnan(n) else high if n >= high else low if n <= low else int(n) for n in numbers]
    return np.array(integers, dtype=object).reshape(x.shape)


def expected(x: Exact, source: str, target: str, mode: str, saturate: bool) -> Exact:
    mode = mode or "RINT"  # where none is written
    if mode == "NONE":
        if source == target:
            return x
        mode = "TRUNC" if is_float(source) and not is_float(target) else "RINT"
    if is_float(source):
        if not is_float(target):
            return float_to_int(x, target, mode, saturate)
        if source == target:  # of f32 a whole number, as there is nothing else to round
            return np.where(np.isfinite(x), rounded(x, mode), x) if source == "f32" else x
        return float_to_float(x, target, mode, saturate)
    if is_float(target):
        return np.array([int_to_float(n, target, mode) for n in x.reshape(-1)]).reshape(x.shape)
    return np.clip(x, *limits(target)) if saturate else x


def ways(source: str, target: str) -> list[tuple[str, bool]]:
    """Modes and saturation that make a difference."""
    modes = MODES if is_float(source) or is_float(target) else ("",)
    saturating = (False, True) if not is_float(target) or target in ONLY_F32 else (False,)
    return [(mode, saturate) for mode in modes for saturate in saturating]


def kernel(source: str, target: str) -> tuple[Kernel, list[torch.Tensor]]:
    k, kinds = Kernel(arch="a5"), [tile(rows=SHAPE[0], cols=SHAPE[1], dtype=d) for d in (source, target)]
    k.load("%x", values(source), source, kinds[0])
    results = []
    for number, (mode, saturate) in enumerate(ways(source, target)):
        words = [f"rmode = #pto<round_mode {mode}>"] if mode else []
        words += ["sat_mode = #pto<sat_mode ON>"] if saturate else []
        within = f" {{{', '.join(words)}}}" if words else ""
        k.tile(f"%z{number}", kinds[1])
        k.add(f"pto.tcvt ins(%x{within} : {kinds[0]}) outs(%z{number} : {kinds[1]})")
        results.append(k.store(f"%z{number}", kinds[1], SHAPE, target))
    return k, results


def targets(source: str) -> list[str]:
    return [t for t in TYPES if not {source, t} & set(ONLY_F32) or ("f32" in (source, t) and source != t)]


@cache
def module(source: str) -> tuple[Kernels, dict[str, list[torch.Tensor]]]:
    made = {target: kernel(source, target) for target in targets(source)}
    return Kernels({target: k for target, (k, _) in made.items()}), {t: results for t, (_, results) in made.items()}


@pytest.mark.parametrize("dtype", sorted(NOT_CONVERTED))
def test_what_no_platform_converts_is_refused(dtype: str) -> None:
    for pair in ((dtype, "f32"), ("f32", dtype)):
        k = Kernel(arch="a5")
        for name, element in zip(("%x", "%z"), pair, strict=True):
            k.tile(name, tile(dtype=element))
        k.add(f"pto.tcvt ins(%x : {tile(dtype=pair[0])}) outs(%z : {tile(dtype=pair[1])})")
        with pytest.raises(UnsupportedOperations, match=f"tcvt from {pair[0]} to {pair[1]}"):
            Kernels({"k": k})


@every(("source", "target"), [(s, t) for s in TYPES for t in targets(s)])
def test_conversion(source: str, target: str) -> None:
    kernels, results = module(source)
    kernels.run(target)
    for (mode, saturate), actual in zip(ways(source, target), results[target], strict=True):
        assert_equal(actual, expected(exact(values(source)), source, target, mode, saturate), target, name=mode)
