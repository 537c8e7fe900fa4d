"""Element types of .pto as torch's, and what can be computed with them."""

from __future__ import annotations

from ..types import ScalarType, Type

TORCH = {
    "f32": "float32", "f16": "float16", "bf16": "bfloat16", "f64": "float64", "i8": "int8", "i16": "int16",
    "i32": "int32", "i64": "int64", "si8": "int8", "si16": "int16", "si32": "int32", "si64": "int64",
    "ui8": "uint8", "ui16": "uint16", "ui32": "uint32", "ui64": "uint64", "index": "int64", "i1": "bool",
    "f8E4M3FN": "float8_e4m3fn", "f8E5M2": "float8_e5m2", "f8E8M0": "float8_e8m0fnu",
}  # fmt: skip
FLOATS = ("f64", "f32", "f16", "bf16")


class UnsupportedType(Exception):
    """A type that torch has no counterpart for."""


def name_of(type_: Type | None) -> str:
    """`f32`, `ui8`, …; empty when the type is no scalar."""
    return type_.name if isinstance(type_, ScalarType) else ""


def torch_dtype(type_: Type | None) -> str:
    """`torch.float32`. Raises UnsupportedType."""
    name = TORCH.get(name_of(type_))
    if name is None:
        raise UnsupportedType(f"torch has no element type {type_}")
    return f"torch.{name}"


def is_float(type_: Type | None) -> bool:
    return isinstance(type_, ScalarType) and type_.is_float


def is_unsigned(type_: Type | None) -> bool:
    return name_of(type_).startswith("u")


def bits(type_: Type | None) -> int:
    return 8 * type_.bytes if isinstance(type_, ScalarType) else 64
