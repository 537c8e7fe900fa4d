"""Inputs by kind: random ones, values at the edges of their type, values with a structure.

Tensors of whole numbers are tables and lengths as a rule, so they stay what the artifact's data has.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any

import numpy as np

from pypto_build.facts.dtypes import TORCH
from pypto_build.replay.values import encode

Values = np.ndarray[Any, Any]
Shape = tuple[int, ...]

#: The groups of kinds that VALUES= takes; "special" only when it is asked for.
GROUPS: dict[str, tuple[str, ...]] = {
    "random": ("normal", "uniform", "wide"),
    "edge": ("zeros", "ones", "negative-zeros", "denormals", "large", "alternating"),
    "structured": ("ramp", "one-hot", "constant-rows", "small-integers"),
    "special": ("infinities", "nans"),
}
USUAL = ("random", "edge", "structured")
#: From plain to wild: among failing cases of one size the plainest is kept.
PLAINNESS = (
    "zeros", "ones", "small-integers", "ramp", "one-hot", "constant-rows", "alternating", "negative-zeros", "normal",
    "uniform", "wide", "large", "denormals", "infinities", "nans",
)  # fmt: skip


def make(kind: str, seed: int, name: str, dtype: str, shape: Shape) -> bytes:
    """The bytes of a floating-point tensor of ``shape``: they depend on nothing but the arguments."""
    generator = np.random.default_rng([seed, zlib.crc32(f"{name} {kind}".encode())])
    with np.errstate(all="ignore"):
        values = np.asarray(_MAKERS[kind](generator, shape, dtype), dtype=np.float32)
        return encode(np.ascontiguousarray(values), dtype).tobytes()


def _wide(generator: np.random.Generator, shape: Shape, dtype: str) -> Values:
    """Over many magnitudes."""
    return generator.standard_normal(shape) * np.exp2(generator.integers(-8, 9, shape))


def _filled(value: float) -> Callable[[np.random.Generator, Shape, str], Values]:
    return lambda generator, shape, dtype: np.full(shape, value)


def _denormals(generator: np.random.Generator, shape: Shape, dtype: str) -> Values:
    """Between zero and the smallest normal number, of either sign; of types that have none, zeros."""
    exponent, mantissa = _bits(dtype)
    smallest = 2.0 ** (2 - (1 << (exponent - 1)))
    return generator.integers(-(1 << mantissa) + 1, 1 << mantissa, shape) * (smallest / (1 << mantissa))


def _large(generator: np.random.Generator, shape: Shape, dtype: str) -> Values:
    """A square or a sum of few of them still has room."""
    exponent, _ = _bits(dtype)
    sizes = generator.uniform(0.5, 1, shape) * generator.choice([-1, 1], shape)
    return np.asarray(sizes * 2.0 ** ((1 << (exponent - 1)) / 2 - 4))


def _alternating(generator: np.random.Generator, shape: Shape, dtype: str) -> Values:
    return np.where(np.indices(shape).sum(0) % 2, -1.0, 1.0) if shape else np.ones(shape)


def _ramp(generator: np.random.Generator, shape: Shape, dtype: str) -> Values:
    count = int(np.prod(shape))
    return np.arange(count).reshape(shape) / max(count, 1)


def _one_hot(generator: np.random.Generator, shape: Shape, dtype: str) -> Values:
    """One in each row."""
    values = np.zeros(shape)
    if values.size:
        at = generator.integers(0, shape[-1], shape[:-1]) if shape else ()
        np.put_along_axis(values, np.expand_dims(at, -1), 1.0, -1) if shape else values.fill(1)
    return values


def _constant_rows(generator: np.random.Generator, shape: Shape, dtype: str) -> Values:
    row = generator.standard_normal((*shape[:-1], 1) if shape else ())
    return np.array(np.broadcast_to(row, shape))


def _sprinkled(*special: float) -> Callable[[np.random.Generator, Shape, str], Values]:
    """Random values, a few of them special."""

    def sprinkled(generator: np.random.Generator, shape: Shape, dtype: str) -> Values:
        chosen = generator.random(shape) < 0.02
        return np.where(chosen, generator.choice(special, shape), generator.standard_normal(shape))

    return sprinkled


def _bits(dtype: str) -> tuple[int, int]:
    """Bits of exponent and mantissa."""
    return TORCH[dtype].exponent, TORCH[dtype].mantissa


_MAKERS: dict[str, Callable[[np.random.Generator, Shape, str], Values]] = {
    "normal": lambda generator, shape, dtype: generator.standard_normal(shape),
    "uniform": lambda generator, shape, dtype: generator.uniform(-1, 1, shape),
    "wide": _wide,
    "zeros": _filled(0.0),
    "ones": _filled(1.0),
    "negative-zeros": _filled(-0.0),
    "denormals": _denormals,
    "large": _large,
    "alternating": _alternating,
    "ramp": _ramp,
    "one-hot": _one_hot,
    "constant-rows": _constant_rows,
    "small-integers": lambda generator, shape, dtype: generator.integers(-4, 5, shape),
    "infinities": _sprinkled(np.inf, -np.inf),
    "nans": _sprinkled(np.nan),
}
