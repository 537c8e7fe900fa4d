"""Converts scalars to the 64 bits that an orchestration decodes with `from_u64<T>`.

The rules are those of simpler's task interface. Floating-point bits have the declared width and are zero-extended.
Integers and bool are two's complement, masked to 64 bits. A Python float without a declared type is a float32.
"""

from __future__ import annotations

import struct
from contextlib import suppress

Scalar = int | float | bool

#: dtype -> struct code of the value and of the unsigned integer of the same width.
_FLOAT_CODES: dict[str, tuple[str, str]] = {
    "float64": ("<d", "<Q"),
    "float32": ("<f", "<I"),
    "float16": ("<e", "<H"),
}

#: Integer dtype -> struct code; capitals are unsigned.
_INT_CODES: dict[str, str] = {
    "int8": "<b",
    "int16": "<h",
    "int32": "<i",
    "int64": "<q",
    "uint8": "<B",
    "uint16": "<H",
    "uint32": "<I",
    "uint64": "<Q",
}

SCALAR_DTYPES = (*_FLOAT_CODES, "bfloat16", *_INT_CODES, "bool")


def bfloat16_bits(value: float) -> int:
    """Return the 16 bits of `value` rounded to bfloat16, nearest even; NaN stays a quiet NaN."""
    (bits,) = struct.unpack("<I", struct.pack("<f", value))
    if bits & 0x7FFFFFFF > 0x7F800000:
        return int(bits >> 16) | 0x40
    return int((bits + 0x7FFF + (bits >> 16 & 1)) >> 16) & 0xFFFF


def natural_dtype(value: Scalar) -> str:
    """Return the dtype of a Python scalar without a declared type."""
    return "bool" if isinstance(value, bool) else "float32" if isinstance(value, float) else "int64"


def scalar_bits(value: Scalar, dtype: str) -> int:
    """Return `value` as the unsigned 64-bit slot of a task argument.

    `dtype` is a torch name. Raises `ValueError` for a value that it cannot hold, and for a dtype that is no scalar
    type.
    """
    if dtype == "bool":
        if value not in (0, 1):
            raise ValueError(f"{value!r} is not a bool")
        return int(value)
    if dtype == "bfloat16":
        return bfloat16_bits(float(value))
    if dtype in _FLOAT_CODES:
        code, unsigned = _FLOAT_CODES[dtype]
        try:
            return int(struct.unpack(unsigned, struct.pack(code, float(value)))[0])
        except OverflowError:
            raise ValueError(f"{value!r} does not fit {dtype}") from None
    if dtype in _INT_CODES:
        code = _INT_CODES[dtype]
        span = 1 << 8 * struct.calcsize(code)
        low = 0 if code.isupper() else -span // 2
        if isinstance(value, float) and not value.is_integer():
            raise ValueError(f"{value!r} is not an integer, as {dtype} is")
        if not low <= value < low + span:
            raise ValueError(f"{value!r} does not fit {dtype}")
        return int(value) & 0xFFFFFFFFFFFFFFFF
    raise ValueError(f"{dtype} is not a scalar type; the types are {', '.join(SCALAR_DTYPES)}")


def scalar_value(data: bytes, dtype: str) -> Scalar:
    """Return the value of a 0-dim tensor's bytes. Raises `ValueError` for a dtype that is no scalar type."""
    if dtype == "bool":
        return bool(data[0])
    if dtype == "bfloat16":
        return float(struct.unpack("<f", b"\0\0" + data)[0])
    code = _FLOAT_CODES[dtype][0] if dtype in _FLOAT_CODES else _INT_CODES.get(dtype)
    if code is None:
        raise ValueError(f"{dtype} is not a scalar type; the types are {', '.join(SCALAR_DTYPES)}")
    value: Scalar = struct.unpack(code, data)[0]
    return value


def parse_scalar(text: str) -> Scalar:
    """Return a scalar typed on the command line: `3`, `0.5`, `true`, `0x10`. Raises `ValueError` for anything else."""
    word = text.strip().lower()
    if word in ("true", "false"):
        return word == "true"
    with suppress(ValueError):
        return int(word, 0)
    try:
        return float(word)
    except ValueError:
        raise ValueError(f"{text!r} is not a number, true or false") from None
