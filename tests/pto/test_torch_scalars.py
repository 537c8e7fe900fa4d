"""Scalar arithmetic and instructions of three operands as PyTorch, against Python's own numbers: integers exactly as
their type wraps, floats as float32 rounds; tiles to one unit in the last place.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch

from tests.pto.samples import module, tile
from tests.pto.torch_run import (
    DTYPES,
    FLOATS,
    HEAD,
    INTEGERS,
    Kernel,
    as_floats,
    assert_floats,
    assert_integers,
    namespace,
    values,
)

R, C = 16, 64
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


TERNARY: dict[str, tuple[str, Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]]] = {
    "taddc": ("%x, %y, %w", lambda a, b, c: a + b + c), "tsubc": ("%x, %y, %w", lambda a, b, c: a - b + c),
    "taddsc": ("%x, %n, %w", lambda a, b, c: a + 3 + c), "tsubsc": ("%x, %n, %w", lambda a, b, c: a - 3 + c),
}  # fmt: skip


@pytest.mark.parametrize("dtype", (*FLOATS, "i32", "i16"))
@pytest.mark.parametrize("name", TERNARY)
def test_sums_of_three(name: str, dtype: str) -> None:
    """Floats to 4 units in the last place of the greatest operand: there are two roundings."""
    a, b, c = (values(dtype, R, C, seed) for seed in (1, 2, 3))
    kind, (operands, function) = tile(rows=R, cols=C, dtype=dtype), TERNARY[name]
    k = Kernel()
    for letter, tensor in (("%x", a), ("%y", b), ("%w", c)):
        k.load(letter, tensor, dtype, kind)
    k.tile("%z", kind)
    k.add(f"%n = arith.constant {'3.0' if dtype in FLOATS else '3'} : {dtype}")
    types = ", ".join(dtype if word == "%n" else kind for word in operands.split(", "))
    k.add(f"pto.{name} ins({operands} : {types}) outs(%z : {kind})")
    out = k.store("%z", kind, (R, C), dtype)
    k.run()
    if dtype in FLOATS:
        slack = {"f32": 2.0**-20, "f16": 2.0**-7, "bf16": 2.0**-4}[dtype]
        np.testing.assert_allclose(as_floats(out), function(*map(as_floats, (a, b, c))), rtol=0, atol=4 * slack)
    else:
        exact = [tensor.to(torch.int64).numpy() for tensor in (a, b, c)]
        assert_integers(out, function(*exact).tolist(), dtype)


@pytest.mark.parametrize("dtype", ("f32", "f16"))
def test_axpy_adds_to_what_is_there(dtype: str) -> None:
    a, b, kind = values(dtype, R, C, 4), values(dtype, R, C, 5), tile(rows=R, cols=C, dtype=dtype)
    k = Kernel()
    k.load("%x", a, dtype, kind)
    k.load("%z", b, dtype, kind)
    k.add(f"%n = arith.constant 2.0 : {dtype}")
    k.add(f"pto.taxpy ins(%x, %n : {kind}, {dtype}) outs(%z : {kind})")
    out = k.store("%z", kind, (R, C), dtype)
    k.run()
    np.testing.assert_allclose(as_floats(out), as_floats(b) + 2 * as_floats(a), rtol=2.0**-9, atol=2.0**-8)


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("name", ("tshls", "tshrs"))
def test_shifts_by_a_number(name: str, dtype: str) -> None:
    a, kind = values(dtype, R, C, 6), tile(rows=R, cols=C, dtype=dtype)
    k = Kernel()
    k.load("%x", a, dtype, kind)
    k.tile("%z", kind)
    k.add(f"%n = arith.constant 3 : {dtype}")
    k.add(f"pto.{name} ins(%x, %n : {kind}, {dtype}) outs(%z : {kind})")
    out = k.store("%z", kind, (R, C), dtype)
    k.run()
    wide = a.to(torch.int64)
    assert_integers(out, (wide << 3 if name == "tshls" else wide >> 3).tolist(), dtype)


@pytest.mark.parametrize("dtype", ("f32", "f16", "i32", "i16"))
@pytest.mark.parametrize("name", ("mul", "max", "min"))
def test_partial_operands(name: str, dtype: str) -> None:
    """Where only one operand is valid, the result is that one's element."""
    function = {"mul": torch.mul, "max": torch.maximum, "min": torch.minimum}[name]
    a, b = values(dtype, R, 40, 7, -9, 9), values(dtype, 8, C, 8, -9, 9)
    kind = tile(rows=R, cols=C, dtype=dtype)
    k = Kernel()
    k.load("%x", a, dtype, kind, (R, 40))
    k.load("%y", b, dtype, kind, (8, C))
    k.tile("%z", kind)
    k.add(f"pto.tpart{name} ins(%x, %y : {kind}, {kind}) outs(%z : {kind})")
    out = k.store("%z", kind, (R, C), dtype)
    k.run()
    expected = torch.zeros(R, C, dtype=DTYPES[dtype])
    expected[:, :40] = a
    expected[:8] = b
    expected[:8, :40] = function(a[:8], b[:, :40])
    assert torch.equal(out, expected)


@pytest.mark.parametrize("dtype", ("f32", "f16", "bf16"))
@pytest.mark.parametrize("form", ("", ".acc", ".bias"))
def test_products_with_one_row(form: str, dtype: str) -> None:
    """Within 1e-6 of float64."""
    a, b, bias = values(dtype, 1, 64, 9), values(dtype, 64, 32, 10), values("f32", 1, 32, 11)
    left, right, acc = tile("left", 1, 64, dtype), tile("right", 64, 32, dtype), tile("acc", 1, 32)
    row, mats = tile("bias", 1, 32), (tile("mat", 1, 64, dtype), tile("mat", 64, 32, dtype))
    k = Kernel("cube")
    k.load("%a", a, dtype, mats[0])
    k.load("%b", b, dtype, mats[1])
    k.load("%bias", bias, "f32", row)
    for name, type_ in (("%l", left), ("%r", right), ("%z", acc)):
        k.tile(name, type_)
    k.add(f"pto.tmov ins(%a : {mats[0]}) outs(%l : {left})")
    k.add(f"pto.tmov ins(%b : {mats[1]}) outs(%r : {right})")
    if form == ".bias":
        k.add(f"pto.tgemv.bias ins(%l, %r, %bias : {left}, {right}, {row}) outs(%z : {acc})")
    else:
        k.add(f"pto.tgemv ins(%l, %r : {left}, {right}) outs(%z : {acc})")
    if form == ".acc":
        k.add(f"pto.tgemv.acc ins(%z, %l, %r : {acc}, {left}, {right}) outs(%z : {acc})")
    out = k.store("%z", acc, (1, 32), "f32")
    k.run()
    product = as_floats(a) @ as_floats(b)
    expected = 2 * product if form == ".acc" else product + as_floats(bias) if form else product
    assert_floats(out, expected, "f32", 8)
