"""Every operation as PyTorch against an independent computation: integers exactly in Python's own, floats in numpy's
float64 rounded once. Exact where the operation is; one unit in the last place where it rounds on the way.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

from tests.pto.samples import tile
from tests.pto.torch_run import (
    DTYPES,
    FLOATS,
    INTEGERS,
    ULP,
    Kernel,
    as_floats,
    assert_floats,
    assert_integers,
    values,
)

R, C, V = 16, 64, 40


def trunc(a: int, b: int) -> int:
    return -1 if b == 0 else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def fmod(a: int, b: int) -> int:
    return a if b == 0 else a - b * trunc(a, b)


def shift_left(a: int, b: int, bits: int) -> int:
    return a << b if 0 <= b < bits else 0


BINARY: dict[str, tuple[Callable[..., object] | None, Callable[[int, int], int] | None]] = {
    "tadd": (np.add, lambda a, b: a + b), "tsub": (np.subtract, lambda a, b: a - b),
    "tmul": (np.multiply, lambda a, b: a * b), "tdiv": (np.divide, trunc),
    "tmax": (np.maximum, max), "tmin": (np.minimum, min), "tfmod": (np.fmod, fmod),
    "trem": (np.mod, lambda a, b: a if b == 0 else a % b), "tand": (None, lambda a, b: a & b),
    "tor": (None, lambda a, b: a | b), "txor": (None, lambda a, b: a ^ b),
}  # fmt: skip
WITH_TMP = {"trem", "txor"}


def binary(name: str, dtype: str, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    kind = tile(rows=R, cols=C, dtype=dtype)
    k = Kernel()
    k.load("%x", a, dtype, kind, (R, V))
    k.load("%y", b, dtype, kind, (R, V))
    k.tile("%t", kind)
    k.tile("%z", kind, (R, V))
    tmp = ", %t" if name in WITH_TMP else ""
    types = ", ".join([kind] * (3 if tmp else 2))
    k.add(f"pto.{name} ins(%x, %y{tmp} : {types}) outs(%z : {kind})")
    out = k.store("%z", kind, (R, V), dtype)
    k.run()
    return out


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", [n for n, (f, _) in BINARY.items() if f is not None])
def test_binary_of_floats(name: str, dtype: str) -> None:
    a, b = values(dtype, R, V, 1), values(dtype, R, V, 2)
    function = BINARY[name][0]
    assert function is not None
    expected = function(as_floats(a), as_floats(b))
    assert_floats(binary(name, dtype, a, b), expected, dtype, 4 if name in ("trem", "tfmod") else 1)  # type: ignore[arg-type]


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("name", [n for n, (_, f) in BINARY.items() if f is not None])
def test_binary_of_integers_wraps(name: str, dtype: str) -> None:
    a, b = values(dtype, R, V, 1), values(dtype, R, V, 2)
    if name in ("tdiv", "tfmod", "trem"):
        b[0, 0] = 3  # the lowest number by -1 is beyond every type
    function = BINARY[name][1]
    assert function is not None
    rows = zip(a.to(torch.int64).tolist(), b.to(torch.int64).tolist(), strict=True)
    expected = [[function(x, y) for x, y in zip(p, q, strict=True)] for p, q in rows]
    assert_integers(binary(name, dtype, a, b), expected, dtype)


@pytest.mark.parametrize("dtype", ("i16", "i32", "ui16"))
@pytest.mark.parametrize("name", ("tshl", "tshr"))
def test_shifts(name: str, dtype: str) -> None:
    bits = torch.iinfo(DTYPES[dtype]).bits
    a, by = values(dtype, R, V, 1), (torch.arange(R * V).reshape(R, V) % (bits + 3)).to(DTYPES[dtype])

    def expected(x: int, n: int) -> int:
        return shift_left(x, n, bits) if name == "tshl" else x >> min(n, 64)

    rows = zip(a.to(torch.int64).tolist(), by.to(torch.int64).tolist(), strict=True)
    assert_integers(
        binary(name, dtype, a, by), [[expected(x, n) for x, n in zip(p, q, strict=True)] for p, q in rows], dtype
    )


SCALAR: dict[str, tuple[Callable[..., object] | None, Callable[[int, int], int] | None]] = {
    "tadds": BINARY["tadd"], "tsubs": BINARY["tsub"], "tmuls": BINARY["tmul"], "tdivs": BINARY["tdiv"],
    "tmaxs": BINARY["tmax"], "tmins": BINARY["tmin"], "tfmods": BINARY["tfmod"], "trems": BINARY["trem"],
    "tands": BINARY["tand"], "tors": BINARY["tor"], "txors": BINARY["txor"],
    "tlrelu": (lambda x, s: np.where(x > 0, x, x * s), None),
}  # fmt: skip


def with_scalar(name: str, dtype: str, a: torch.Tensor, number: str, *, first: bool = False) -> torch.Tensor:
    kind = tile(rows=R, cols=C, dtype=dtype)
    k = Kernel()
    k.load("%x", a, dtype, kind, (R, V))
    k.tile("%z", kind, (R, V))
    k.add(f"%s = arith.constant {number} : {dtype}")
    operands, types = ("%s, %x", f"{dtype}, {kind}") if first else ("%x, %s", f"{kind}, {dtype}")
    k.add(f"pto.{name} ins({operands} : {types}) outs(%z : {kind})")
    out = k.store("%z", kind, (R, V), dtype)
    k.run()
    return out


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", [n for n, (f, _) in SCALAR.items() if f is not None])
def test_scalar_of_floats(name: str, dtype: str) -> None:
    a, function = values(dtype, R, V, 1), SCALAR[name][0]
    assert function is not None
    expected = function(as_floats(a), -1.25)
    assert_floats(with_scalar(name, dtype, a, "-1.25"), expected, dtype, 2)  # type: ignore[arg-type]


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("name", [n for n, (_, f) in SCALAR.items() if f is not None])
def test_scalar_of_integers(name: str, dtype: str) -> None:
    a, function = values(dtype, R, V, 1), SCALAR[name][1]
    assert function is not None
    expected = [[function(x, 7) for x in row] for row in a.to(torch.int64).tolist()]
    assert_integers(with_scalar(name, dtype, a, "7"), expected, dtype)


def test_number_divided_by_tile() -> None:
    a = values("f32", R, V, 1)
    assert_floats(with_scalar("tdivs", "f32", a, "3.0", first=True), 3.0 / as_floats(a), "f32")


UNARY: dict[str, Callable[..., object]] = {
    "tabs": np.abs, "tneg": np.negative, "texp": np.exp, "tlog": np.log, "tsqrt": np.sqrt,
    "trsqrt": lambda x: 1 / np.sqrt(x), "trecip": lambda x: 1 / x, "trelu": lambda x: np.maximum(x, 0),
}  # fmt: skip


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", UNARY)
def test_unary(name: str, dtype: str) -> None:
    a = values(dtype, R, V, 3)
    a = a.abs() + 0.25 if name in ("tlog", "tsqrt", "trsqrt") else a
    kind = tile(rows=R, cols=C, dtype=dtype)
    k = Kernel()
    k.load("%x", a, dtype, kind, (R, V))
    k.tile("%z", kind, (R, V))
    k.add(f"pto.{name} ins(%x : {kind}) outs(%z : {kind})")
    out = k.store("%z", kind, (R, V), dtype)
    k.run()
    assert_floats(out, UNARY[name](as_floats(a)), dtype, 2)  # type: ignore[arg-type]


@pytest.mark.parametrize("dtype", ("i8", "i16", "ui8"))
def test_not(dtype: str) -> None:
    a, kind = values(dtype, R, V, 3), tile(rows=R, cols=C, dtype=dtype)
    k = Kernel()
    k.load("%x", a, dtype, kind, (R, V))
    k.tile("%z", kind, (R, V))
    k.add(f"pto.tnot ins(%x : {kind}) outs(%z : {kind})")
    out = k.store("%z", kind, (R, V), dtype)
    k.run()
    assert_integers(out, [[~value for value in row] for row in a.to(torch.int64).tolist()], dtype)


REDUCE = {"sum": np.sum, "max": np.max, "min": np.min, "prod": np.prod}


@pytest.mark.parametrize("dtype", (*FLOATS, "i32"))
@pytest.mark.parametrize("axis", ("row", "col"))
@pytest.mark.parametrize("name", REDUCE)
def test_reductions(name: str, axis: str, dtype: str) -> None:
    a = values(dtype, R, V, 4, -3, 3)
    if name == "prod":
        a = (a.float() / 3).to(DTYPES[dtype]) if dtype in FLOATS else torch.ones_like(a) * -1
    kind = tile(rows=R, cols=C, dtype=dtype)
    made = (
        tile(rows=R, cols=1, dtype=dtype, blayout="col_major") if axis == "row" else tile(rows=1, cols=C, dtype=dtype)
    )
    shape = (R, 1) if axis == "row" else (1, V)
    k = Kernel()
    k.load("%x", a, dtype, kind, (R, V))
    k.tile("%t", kind)
    k.tile("%z", made, shape)
    k.add(f"pto.t{axis}{name} ins(%x, %t : {kind}, {kind}) outs(%z : {made})")
    out = k.store("%z", made, shape, dtype)
    k.run()
    wide = as_floats(a) if dtype in FLOATS else a.to(torch.int64).numpy()
    expected = REDUCE[name](wide, axis=1 if axis == "row" else 0, keepdims=True)  # type: ignore[operator]
    if dtype in FLOATS:
        np.testing.assert_allclose(as_floats(out), expected, rtol=8 * ULP[dtype], atol=1e-5)
    else:
        assert_integers(out, expected.tolist(), dtype)


@pytest.mark.parametrize("axis", ("row", "col"))
@pytest.mark.parametrize("name", ("argmax", "argmin"))
def test_argument_of_the_extreme(name: str, axis: str) -> None:
    a = values("f32", R, V, 5).round()
    kind = tile(rows=R, cols=C)
    shape = (R, 1) if axis == "row" else (1, V)
    made = {d: tile(rows=R, cols=1, dtype=d, blayout="col_major") if axis == "row" else tile(rows=1, cols=C, dtype=d)
            for d in ("f32", "i32")}  # fmt: skip
    k = Kernel()
    k.load("%x", a, "f32", kind, (R, V))
    k.tile("%t", kind)
    k.tile("%v", made["f32"], shape)
    k.tile("%i", made["i32"], shape)
    k.add(f"pto.t{axis}{name} ins(%x, %t : {kind}, {kind}) outs(%v, %i : {made['f32']}, {made['i32']})")
    value, index = k.store("%v", made["f32"], shape, "f32"), k.store("%i", made["i32"], shape, "i32")
    k.run()
    number = 1 if axis == "row" else 0
    expected = getattr(np, name)(a.numpy(), axis=number, keepdims=True)
    assert index.tolist() == expected.tolist()
    assert value.tolist() == np.take_along_axis(a.numpy(), expected, number).tolist()


EXPAND = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "max": np.maximum, "min": np.minimum,
    "expdif": lambda a, b: np.exp(a - b),
}  # fmt: skip


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("axis", ("row", "col"))
@pytest.mark.parametrize("name", EXPAND)
def test_broadcasts(name: str, axis: str, dtype: str) -> None:
    a = values(dtype, R, V, 6)
    narrow = values(dtype, *((R, 1) if axis == "row" else (1, V)), 7).abs() + 0.5
    kind = tile(rows=R, cols=C, dtype=dtype)
    small = (
        tile(rows=R, cols=1, dtype=dtype, blayout="col_major") if axis == "row" else tile(rows=1, cols=C, dtype=dtype)
    )
    k = Kernel()
    k.load("%x", a, dtype, kind, (R, V))
    k.load("%y", narrow, dtype, small, tuple(narrow.shape))  # type: ignore[arg-type]
    k.tile("%z", kind, (R, V))
    k.add(f"pto.t{axis}expand{name} ins(%x, %y : {kind}, {small}) outs(%z : {kind})")
    out = k.store("%z", kind, (R, V), dtype)
    k.run()
    expected = EXPAND[name](as_floats(a), as_floats(narrow))  # type: ignore[operator]
    slack = 24 if name == "expdif" and dtype != "f32" else 4
    assert_floats(out, expected, dtype, slack)
