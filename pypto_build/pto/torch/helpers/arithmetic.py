"""Arithmetic that torch lacks or defines differently: rounding, wrapping, remainders, shifts."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from typing import Any

import torch


def f32(value: float) -> float:
    """Return a scalar rounded to float32."""
    try:
        return float(struct.unpack("<f", struct.pack("<f", float(value)))[0])
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


def f16(value: float) -> float:
    """Return a scalar rounded to float16."""
    try:
        return float(struct.unpack("<e", struct.pack("<e", float(value)))[0])
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


def bf16(value: float) -> float:
    """Return a scalar rounded to bfloat16."""
    return float(torch.tensor(f32(value), dtype=torch.float32).to(torch.bfloat16))


def whole(value: float | int, bits: int) -> int:
    """Return a scalar as a signed integer of `bits` bits, with wraparound."""
    half = 1 << (bits - 1)
    return (int(value) + half) % (2 * half) - half


def natural(value: float | int, bits: int) -> int:
    """Return a scalar as an unsigned integer of `bits` bits, with wraparound."""
    return int(value) % (1 << bits)


def quotient(a: int, b: int) -> int:
    """Return a / b, truncated."""
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def real_quotient(a: float, b: float) -> float:
    """Return a / b; infinite or NaN if b is zero."""
    if b:
        return a / b
    return math.nan if a == 0 or math.isnan(a) else math.copysign(math.inf, a) * math.copysign(1.0, b)


def real(function: Callable[..., float], *operands: float) -> float:
    """Return a version of a function of Python's math that returns infinity or NaN instead of raising."""
    try:
        return function(*operands)
    except OverflowError:
        return math.inf
    except ValueError:
        return -math.inf if function is math.log and operands[0] == 0 else math.nan


def lesser(a: float, b: float, *, numbers: bool = False) -> float:
    """Return the lesser of two numbers. If one is NaN, return NaN, or with `numbers` the other one."""
    if math.isnan(a) or math.isnan(b):
        return (b if math.isnan(a) else a) if numbers else math.nan
    return min(a, b)


def greater(a: float, b: float, *, numbers: bool = False) -> float:
    """Return the greater of two numbers. If one is NaN, return NaN, or with `numbers` the other one."""
    return -lesser(-a, -b, numbers=numbers)


def rest(a: int, b: int) -> int:
    """Return the remainder of a divided by b; it has the sign of a."""
    return a - b * quotient(a, b)


def recast(value: Any, source: torch.dtype, target: torch.dtype) -> Any:
    """Return the scalar of another type with the same bits."""
    return torch.tensor([value], dtype=source).view(target).item()


def float_bits(value: float) -> int:
    """Return the bits of a float32 as an integer."""
    return int(struct.unpack("<i", struct.pack("<f", value))[0])


def bits_float(value: int) -> float:
    """Return the float32 with these bits."""
    return float(struct.unpack("<f", struct.pack("<I", value % (1 << 32)))[0])


def divide(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Return the truncated quotient of integers; x / 0 has all bits set."""
    quotients = torch.div(a.to(torch.int64), torch.where(b == 0, 1, b), rounding_mode="trunc")
    return torch.where(b == 0, -1, quotients)


def fmod(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Return the remainder with the sign of the dividend; an integer modulo zero is itself."""
    if a.dtype.is_floating_point:
        return torch.fmod(a, b)
    return torch.where(b == 0, a, torch.fmod(a, torch.where(b == 0, 1, b)))


def remainder(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Return the remainder with the sign of the divisor; an integer modulo zero is itself."""
    rests = fmod(a, b)
    return torch.where((rests != 0) & ((rests < 0) != (b < 0)) & (b != 0), rests + b, rests)


def square_root(value: torch.Tensor) -> torch.Tensor:
    """Return the correctly rounded square root: torch's own for float32 is sometimes one unit off."""
    return torch.sqrt(value.double()).to(value.dtype)


def power(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Return a to the power b; integers wrap, and a negative power is the truncated reciprocal.

    Floats are computed in float64, rounded once to float32: torch's own float32 power depends on the memory layout.
    """
    if a.dtype.is_floating_point:
        return torch.pow(a.double(), b.double()).float()
    a, b = a.to(torch.int64), b.to(torch.int64)
    result, base, left = torch.ones_like(a * b), a.clone(), b.clamp(min=0)
    while bool((left > 0).any()):
        result = torch.where(left % 2 == 1, result * base, result)
        base, left = base * base, left // 2
    sign = torch.where(b % 2 == 0, 1, -1)
    return torch.where(b >= 0, result, torch.where(a == 1, 1, torch.where(a == -1, sign, 0)))


def shift_left(a: torch.Tensor, by: torch.Tensor, bits: int) -> torch.Tensor:
    """Shift left; the result is zero if the shift is at least as wide as the element."""
    return torch.where((by >= 0) & (by < bits), a.to(torch.int64) << by.to(torch.int64).clamp(0, bits - 1), 0)


def shift_right(a: torch.Tensor, by: torch.Tensor, bits: int) -> torch.Tensor:
    """Shift right; the result is all sign bits (zero if unsigned) if the shift is at least as wide as the element."""
    by = torch.where((by >= 0) & (by < bits), by.to(torch.int64), 63 if bits == 64 else bits)
    return a.to(torch.int64) >> by


def bits_of(value: torch.Tensor) -> torch.Tensor:
    """Return the same bytes as signed integers, for which torch has more operations."""
    return value.view({1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[value.element_size()])


def _away(mode: str, exact: torch.Tensor, below: torch.Tensor, above: torch.Tensor, odd: torch.Tensor) -> torch.Tensor:
    """Return whether a number between two neighbours becomes the neighbour away from zero.

    `below` and `above` are its distances; `odd` is the last bit of the other neighbour.
    """
    return {
        "rint": (below > above) | ((below == above) & odd),
        "round": below >= above,
        "floor": (exact < 0) & (below > 0),
        "ceil": (exact > 0) & (below > 0),
        "trunc": torch.zeros_like(odd),
        "odd": (below > 0) & ~odd,
    }[mode]


def round_to(value: torch.Tensor, dtype: torch.dtype, mode: str) -> torch.Tensor:
    """Return numbers rounded to a narrower floating-point type.

    `mode` is to nearest (ties to even: rint, away from zero: round), down (floor), up (ceil), towards zero (trunc), or
    the neighbour with an odd last bit (odd).
    """
    exact = value.to(torch.float64)
    if value.dtype == torch.int64:  # what float64 cannot hold must not round twice: its lowest bits become one
        low = (value >> 11 << 11 != value).to(torch.int64)
        exact = torch.where(value.abs() >> 53 != 0, ((value >> 11) | low).double() * 2048, exact)
    nearest = exact.to(torch.float32).to(dtype) if dtype != torch.float32 else exact.to(dtype)
    inner = torch.where(nearest.double().abs() > exact.abs(), (bits_of(nearest) - 1).view(dtype), nearest)
    outer = (bits_of(inner) + 1).view(dtype)
    beyond = 2.0 ** (128 if dtype != torch.float16 else 16)  # what comes after the largest number
    far = torch.where(outer.isinf(), torch.full_like(exact, beyond), outer.double().abs())
    below, above = exact.abs() - inner.double().abs(), far - exact.abs()
    odd = (bits_of(inner) & 1) == 1
    take = _away(mode, exact, below, above, odd)
    return torch.where(exact.isfinite() & inner.isfinite(), torch.where(take, outer, inner), nearest)


def integral(value: torch.Tensor, mode: str) -> torch.Tensor:
    """Return numbers rounded to integers, in float64."""
    exact = value.to(torch.float64)
    down = exact.floor()
    if mode == "round":
        return torch.copysign((exact.abs() + 0.5).floor(), exact)
    if mode == "odd":
        return torch.where((exact != down) & (down % 2 == 0), down + 1, down)
    return {"rint": exact.round(), "floor": down, "ceil": exact.ceil(), "trunc": exact.trunc()}[mode]


def to_whole(value: torch.Tensor, mode: str) -> torch.Tensor:
    """Return numbers rounded to integers, for a conversion between floating-point types."""
    return integral(value, mode)


def to_integer(value: torch.Tensor, dtype: torch.dtype, mode: str, saturate: bool) -> torch.Tensor:
    """Return floating-point numbers as integers.

    Numbers outside of 32 bits become the nearest end, not-a-number becomes zero. Narrower types wrap or, with
    `saturate`, saturate.
    """
    integers = torch.nan_to_num(integral(value, mode), nan=0.0, posinf=2.0**63, neginf=-(2.0**63))
    if dtype == torch.int64:
        highest = integers >= 2.0**63
        return torch.where(
            highest, 2**63 - 1, torch.where(highest, 0.0, integers).clamp(min=-(2.0**63)).to(torch.int64)
        )
    limits = torch.iinfo(dtype if saturate or dtype == torch.uint32 else torch.int32)
    return integers.clamp(limits.min, limits.max).to(torch.int64)


def saturated(value: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Return integers clamped to the range of `dtype`."""
    limits = torch.iinfo(dtype)
    return value.to(torch.int64).clamp(limits.min, min(limits.max, 2**63 - 1))


def to_float8(value: torch.Tensor, dtype: torch.dtype, mode: str, saturate: bool) -> torch.Tensor:
    """Return numbers rounded to an eight-bit floating-point type. Those beyond its range become NaN (infinite in
    f8E5M2), or with `saturate` the largest.
    """
    largest, beyond = (0x7E, 0x7F) if dtype == torch.float8_e4m3fn else (0x7B, 0x7C)
    steps = torch.arange(largest + 1, dtype=torch.uint8).view(dtype).double()
    steps = torch.cat((steps, 2 * steps[-1:] - steps[-2:-1]))  # and what would come next
    exact, size = value.double(), value.double().abs()
    inner = (torch.searchsorted(steps, size, right=True) - 1).clamp(0, largest)
    below, above = size - steps[inner], steps[inner + 1] - size
    code = inner + _away(mode, exact, below, above, inner % 2 == 1).to(torch.int64)
    code = torch.where((code > largest) | (size >= steps[-1]), largest if saturate else beyond, code)
    code = torch.where(exact.isnan(), 0x7F, code) + 128 * torch.signbit(exact)
    return code.to(torch.uint8).view(dtype)
