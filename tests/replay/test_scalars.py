"""Scalars: values to the 64 bits of a task argument and back."""

from __future__ import annotations

import math

import pytest

from pypto_build.replay.scalars import Scalar, natural_dtype, parse_scalar, scalar_bits, scalar_value


@pytest.mark.parametrize(
    ("value", "dtype", "bits"),
    [
        (1.5, "float32", 0x3FC00000),
        (-0.0, "float32", 0x80000000),
        (math.inf, "float32", 0x7F800000),
        (1.5, None, 0x3FC00000),
        (1.5, "float64", 0x3FF8000000000000),
        (1.5, "float16", 0x3E00),
        (1.5, "bfloat16", 0x3FC0),
        (1.00390625, "bfloat16", 0x3F80),  # half-way between two: to the even one
        (1.01171875, "bfloat16", 0x3F82),
        (math.nan, "bfloat16", 0x7FC0),
        (3, "int32", 3),
        (-1, "int32", 0xFFFFFFFFFFFFFFFF),
        (-1, "int8", 0xFFFFFFFFFFFFFFFF),
        (255, "uint8", 255),
        (2**64 - 1, "uint64", 2**64 - 1),
        (-(2**63), "int64", 2**63),
        (7, None, 7),
        (-7, None, 2**64 - 7),
        (True, None, 1),
        (False, "bool", 0),
        (2.0, "int32", 2),
    ],
)
def test_bits(value: Scalar, dtype: str | None, bits: int) -> None:
    assert scalar_bits(value, dtype or natural_dtype(value)) == bits


@pytest.mark.parametrize(
    ("value", "dtype", "message"),
    [
        (128, "int8", "128 does not fit int8"),
        (-1, "uint32", "-1 does not fit uint32"),
        (0.5, "int32", "0.5 is not an integer, as int32 is"),
        (2, "bool", "2 is not a bool"),
        (1e300, "float32", "1e+300 does not fit float32"),
        (
            1,
            "float8_e4m3fn",
            "float8_e4m3fn is not a scalar type; the types are float64, float32, float16, bfloat16, int8, int16, "
            "int32, int64, uint8, uint16, uint32, uint64, bool",
        ),
    ],
)
def test_values_that_do_not_fit(value: Scalar, dtype: str, message: str) -> None:
    with pytest.raises(ValueError) as error:
        scalar_bits(value, dtype)
    assert str(error.value) == message


@pytest.mark.parametrize(
    ("data", "dtype", "value"),
    [
        (b"\x00\x00\xc0\x3f", "float32", 1.5),
        (b"\xc0\x3f", "bfloat16", 1.5),
        (b"\x00\x3e", "float16", 1.5),
        (b"\xff\xff\xff\xff", "int32", -1),
        (b"\xff", "uint8", 255),
        (b"\x01", "bool", True),
    ],
)
def test_value_of_stored_bytes(data: bytes, dtype: str, value: Scalar) -> None:
    assert scalar_value(data, dtype) == value


@pytest.mark.parametrize(("text", "value"), [("3", 3), ("0x10", 16), ("3.0", 3.0), ("0.5", 0.5), ("True", True)])
def test_scalar_on_a_command_line(text: str, value: Scalar) -> None:
    parsed = parse_scalar(text)
    assert (parsed, type(parsed)) == (value, type(value))


def test_scalar_that_is_no_number() -> None:
    with pytest.raises(ValueError, match=r"^'many' is not a number, true or false$"):
        parse_scalar("many")
