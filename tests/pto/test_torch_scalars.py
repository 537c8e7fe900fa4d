"""Scalar arithmetic and instructions of three operands as PyTorch, against Python's own numbers: integers exactly as
their type wraps, floats as float32 rounds; tiles to one unit in the last place.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch

from tests.pto.samples import module
from tests.pto.torch_run import HEAD, namespace

M = 2**32


def trunc(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


INTEGER: dict[str, Callable[[int, int], int]] = {
    "addi": lambda a, b: a + b, "subi": lambda a, b: a - b, "muli": lambda a, b: a * b, "divsi": trunc,
    "remsi": lambda a, b: a - b * trunc(a, b), "divui": lambda a, b: (a % M) // (b % M),
    "remui": lambda a, b: (a % M) % (b % M), "floordivsi": lambda a, b: a // b, "ceildivsi": lambda a, b: -(-a // b),
    "ceildivui": lambda a, b: -(-(a % M) // (b % M)), "minsi": min, "maxsi": max,
    "minui": lambda a, b: min(a % M, b % M), "maxui": lambda a, b: max(a % M, b % M), "andi": lambda a, b: a & b,
    "ori": lambda a, b: a | b, "xori": lambda a, b: a ^ b, "shli": lambda a, b: a << (b % 32),
    "shrsi": lambda a, b: a >> (b % 32), "shrui": lambda a, b: (a % M) >> (b % 32),
}  # fmt: skip


@pytest.mark.parametrize("name", INTEGER)
def test_integer(name: str) -> None:
    pairs = [(7, 3), (-7, 3), (7, 31), (-2147483648, 5), (2147483647, 9), (-1, 2)]
    if not name.startswith("sh"):
        pairs += [(7, -3), (-7, -3)]
    body = HEAD + f"  %r = arith.{name} %x, %y : i32\n  pto.store_scalar %r, %o[%c0] : !pto.ptr<i32>, i32"
    run = namespace(module(body, "%o: !pto.ptr<i32>, %x: i32, %y: i32"))["run"]
    for a, b in pairs:
        out = torch.zeros(1, dtype=torch.int32)
        run(out, a, b)
        assert out.item() == (INTEGER[name](a, b) + 2**31) % M - 2**31, (a, b)


FLOAT: dict[str, Callable[[float, float], float]] = {
    "arith.addf": lambda a, b: a + b, "arith.subf": lambda a, b: a - b, "arith.mulf": lambda a, b: a * b,
    "arith.divf": lambda a, b: a / b, "arith.remf": math.fmod, "arith.minimumf": min, "arith.maximumf": max,
    "arith.minnumf": min, "arith.maxnumf": max,
}  # fmt: skip
ONE_FLOAT: dict[str, Callable[[float], float]] = {
    "arith.negf": lambda a: -a, "math.absf": abs, "math.sqrt": lambda a: math.sqrt(abs(a)), "math.exp": math.exp,
    "math.log": lambda a: math.log(abs(a)),
}  # fmt: skip


@pytest.mark.parametrize("name", [*FLOAT, *ONE_FLOAT])
def test_float(name: str) -> None:
    operands = "%x, %y" if name in FLOAT else "%x"
    body = HEAD + f"  %r = {name} {operands} : f32\n  pto.store_scalar %r, %o[%c0] : !pto.ptr<f32>, f32"
    run = namespace(module(body, "%o: !pto.ptr<f32>, %x: f32, %y: f32"))["run"]
    for a, b in ((1.5, 0.1), (-2.75, 3.0), (1e20, -1e-3)):
        a = abs(a) if name in ("math.sqrt", "math.log") else min(a, 3.0) if name == "math.exp" else a
        a, b = float(np.float32(a)), float(np.float32(b))
        out = torch.zeros(1)
        run(out, a, b)
        expected = FLOAT[name](a, b) if name in FLOAT else ONE_FLOAT[name](a)
        assert out.item() == float(np.float32(expected)), (a, b)
