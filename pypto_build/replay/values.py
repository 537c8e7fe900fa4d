"""Converts stored bytes to numbers and back, in numpy's types.

numpy has no bfloat16 and no 8-bit floats. They are stored as unsigned integers and decoded exactly into float32."""

from __future__ import annotations

import zlib
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from pypto_build.facts.dtypes import TORCH

Array = npt.NDArray[Any]

#: torch name -> numpy dtype of the stored elements.
STORAGE: dict[str, str] = {name: row.storage for name, row in TORCH.items()}


def is_float(dtype: str) -> bool:
    """Return whether a dtype is floating point, so that tolerances apply; integers and bool compare exactly."""
    return "float" in dtype


def storage(data: memoryview | bytes, dtype: str, shape: tuple[int, ...]) -> Array:
    """Return the stored elements of a tensor, without a copy."""
    return np.frombuffer(data, dtype=STORAGE[dtype]).reshape(shape)


def decode(stored: Array, dtype: str) -> Array:
    """Return stored elements as numbers: numpy's own types unchanged, the others as float32."""
    if dtype == "bfloat16":
        return (stored.astype(np.uint32) << 16).view(np.float32)
    if dtype.startswith("float8"):
        return _float8_values(dtype)[stored]
    return stored


@cache
def _float8_values(dtype: str) -> npt.NDArray[np.float32]:
    """Return the 256 values of an 8-bit format."""
    codes = np.arange(256)
    if dtype == "float8_e8m0fnu":
        return np.where(codes == 255, np.nan, np.exp2(codes.astype(np.float64) - 127)).astype(np.float32)
    exponent_bits, mantissa_bits = TORCH[dtype].exponent, TORCH[dtype].mantissa
    bias, has_inf = (1 << exponent_bits - 1) - 1, not dtype.endswith("fn")  # finite only, says torch's name
    exponent = codes >> mantissa_bits & (1 << exponent_bits) - 1
    mantissa = (codes & (1 << mantissa_bits) - 1) / (1 << mantissa_bits)
    magnitude = np.where(exponent == 0, mantissa * 2.0 ** (1 - bias), (1 + mantissa) * np.exp2(exponent - float(bias)))
    top = exponent == (1 << exponent_bits) - 1
    if has_inf:
        magnitude = np.where(top, np.where(mantissa == 0, np.inf, np.nan), magnitude)
    else:
        magnitude = np.where(codes & 0x7F == 0x7F, np.nan, magnitude)
    return np.where(codes & 0x80, -magnitude, magnitude).astype(np.float32)


def encode(values: npt.NDArray[np.float32], dtype: str) -> Array:
    """Return float32 values as stored elements of `dtype`, rounded to nearest even; integers are stored unchanged."""
    if dtype == "bfloat16":
        bits = values.view(np.uint32)
        rounded = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16
        return np.where(np.isnan(values), bits >> 16 | 0x40, rounded).astype(np.uint16)
    if dtype.startswith("float8"):
        return _encode_float8(values, dtype)
    return values.astype(STORAGE[dtype])


def _encode_float8(values: npt.NDArray[np.float32], dtype: str) -> npt.NDArray[np.uint8]:
    """Return the code of the nearest finite value, ties to the even code; magnitudes beyond the largest saturate."""
    table = _float8_values(dtype)[: 255 if dtype == "float8_e8m0fnu" else 128].astype(np.float64)
    finite = table[np.isfinite(table)]
    magnitude = np.clip(np.abs(values.astype(np.float64)), finite[0], finite[-1])
    upper = np.clip(np.searchsorted(finite, magnitude), 1, len(finite) - 1)
    below, above = magnitude - finite[upper - 1], finite[upper] - magnitude
    code = np.where((below < above) | ((below == above) & (upper % 2 == 1)), upper - 1, upper)
    sign = np.where(np.signbit(values), 0x80, 0) if dtype != "float8_e8m0fnu" else 0
    return (code | sign).astype(np.uint8)


def seeded_bytes(seed: int, name: str, dtype: str, shape: tuple[int, ...]) -> bytes:
    """Return the bytes of a tensor of `shape`: normal values for floating-point dtypes, 0..7 for integers, 0 or 1 for
    bool.

    They depend on seed, parameter name, dtype and shape only, so adding a parameter does not change the others.
    """
    generator = np.random.default_rng([seed, zlib.crc32(name.encode())])
    values: npt.NDArray[np.float32]
    if dtype == "bool":
        values = generator.integers(0, 2, shape).astype(np.float32)
    elif dtype.startswith(("int", "uint")):
        values = generator.integers(0, 8, shape).astype(np.float32)
    elif dtype == "float8_e8m0fnu":
        values = np.exp2(generator.integers(-4, 5, shape)).astype(np.float32)
    else:
        values = generator.standard_normal(shape, dtype=np.float32)
    return encode(values, dtype).tobytes()
