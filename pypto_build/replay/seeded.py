"""Inputs made from a seed: the part of binding that needs numpy."""

from __future__ import annotations

import zlib

import numpy as np
import numpy.typing as npt

from pypto_build.replay.values import encode


def seeded_bytes(seed: int, name: str, dtype: str, shape: tuple[int, ...]) -> bytes:
    """Bytes of a tensor of `shape`: normal for floating-point dtypes, 0..7 for integers, 0 or 1 for bool.

    The values depend on seed, parameter name, dtype and shape only, so adding a parameter leaves the others alone.
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
