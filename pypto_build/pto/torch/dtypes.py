"""Element types of .pto as torch's, and the computations that torch supports on them."""

from __future__ import annotations

from pypto_build.facts.dtypes import PTO

from ..types import ScalarType, Type

TORCH = {name: row.torch for name, row in PTO.items() if row.torch}
#: Types with arithmetic.
FLOATS = tuple(name for name, row in PTO.items() if row.is_float and row.size > 1)


class UnsupportedTorchType(Exception):
    """A type without a counterpart in torch."""


def name_of(type_: Type | None) -> str:
    """Return `f32`, `ui8`, …; empty for types that are not scalars."""
    return type_.name if isinstance(type_, ScalarType) else ""


def torch_dtype(type_: Type | None) -> str:
    """Return the torch type, such as `torch.float32`. Raises UnsupportedTorchType."""
    name = TORCH.get(name_of(type_))
    if name is None:
        raise UnsupportedTorchType(f"PyTorch has no element type {type_}")
    return f"torch.{name}"


def is_float(type_: Type | None) -> bool:
    return isinstance(type_, ScalarType) and type_.is_float


def is_unsigned(type_: Type | None) -> bool:
    return name_of(type_).startswith("u")


def bits(type_: Type | None) -> int:
    return 8 * type_.bytes if isinstance(type_, ScalarType) else 64
