"""Numbers as PyTorch (`arith`, `math`) on all their types, against Python's own: integers exactly as their type wraps,
floats rounded once. What MLIR leaves open (division by zero, shifts by the width, values beyond a type) is not asked.
"""

from __future__ import annotations

import itertools
import math
import struct
from collections.abc import Callable
from typing import Any

import pytest
import torch

from tests.pto.samples import module
from tests.pto.torch_run import DTYPES, HEAD, namespace
from tests.rows import every

INTS = ("i8", "i16", "i32", "i64", "index")
REALS = ("f16", "bf16", "f32", "f64")
STORED = DTYPES | {"index": torch.int64, "f64": torch.float64, "i1": torch.uint8}


def width(dtype: str) -> int:
    return 64 if dtype == "index" else int(dtype[1:])


def trunc(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def signed(value: int, dtype: str) -> int:
    half = 1 << (width(dtype) - 1)
    return (value + half) % (2 * half) - half


def number(value: float, dtype: str) -> float:
    """Rounded to a type, ties to even."""
    if math.isnan(value) or math.isinf(value) or dtype == "f64":
        return value
    if dtype == "bf16":
        return float(torch.tensor(value, dtype=torch.float32).bfloat16())
    try:
        return float(
            struct.unpack("<f" if dtype == "f32" else "<e", struct.pack("<f" if dtype == "f32" else "<e", value))[0]
        )
    except OverflowError:
        return math.copysign(math.inf, value)


def kernel(line: str, arguments: dict[str, str], result: str) -> Callable[..., Any]:
    """A function of numbers: `line` computes %r."""
    body, stored = HEAD + f"  {line}\n", result
    if result in ("index", "i1"):
        stored = "i64" if result == "index" else "ui8"
        cast = "arith.index_cast %r : index to i64" if result == "index" else "arith.extui %r : i1 to ui8"
        body += f"  %s = {cast}\n"
    value = "%s" if stored != result else "%r"
    body += f"  pto.store_scalar {value}, %o[%c0] : !pto.ptr<{stored}>, {stored}"
    named = ", ".join(f"%{name}: {type_}" for name, type_ in arguments.items())
    run = namespace(module(body, f"%o: !pto.ptr<{stored}>, {named}"))["run"]

    def call(*operands: Any) -> Any:
        out = torch.zeros(1, dtype=STORED[result])
        run(out, *operands)
        return out.item()

    return call


U = Callable[[int], int]
INTEGER: dict[str, Callable[[int, int, U], int]] = {
    "addi": lambda a, b, u: a + b, "subi": lambda a, b, u: a - b, "muli": lambda a, b, u: a * b,
    "divsi": lambda a, b, u: trunc(a, b), "remsi": lambda a, b, u: a - b * trunc(a, b),
    "divui": lambda a, b, u: u(a) // u(b), "remui": lambda a, b, u: u(a) % u(b),
    "floordivsi": lambda a, b, u: a // b, "ceildivsi": lambda a, b, u: -(-a // b),
    "ceildivui": lambda a, b, u: -(-u(a) // u(b)), "minsi": lambda a, b, u: min(a, b),
    "maxsi": lambda a, b, u: max(a, b), "minui": lambda a, b, u: min(u(a), u(b)),
    "maxui": lambda a, b, u: max(u(a), u(b)), "andi": lambda a, b, u: a & b, "ori": lambda a, b, u: a | b,
    "xori": lambda a, b, u: a ^ b, "shli": lambda a, b, u: a << b, "shrsi": lambda a, b, u: a >> b,
    "shrui": lambda a, b, u: u(a) >> b,
}  # fmt: skip


@every("dtype", INTS)
@every("name", INTEGER)
def test_integer(name: str, dtype: str) -> None:
    """`index`, which is taken to be wide enough, gets small numbers."""
    top = 2 ** (width(dtype) - 1) if dtype != "index" else 2**20
    shift = name.startswith("sh")
    right: tuple[int, ...] = (
        (0, 1, 3, width(dtype) - 1 if dtype != "index" else 20) if shift else (1, 3, -3, 7, top - 1, -top)
    )
    right = tuple(n for n in right if dtype != "index" or not name.endswith("ui") or n >= 0)
    left = tuple(n for n in (0, 7, -7, 5, -1, top - 1, -top) if dtype != "index" or not shift or 0 <= n < 8)
    run = kernel(f"%r = arith.{name} %x, %y : {dtype}", {"x": dtype, "y": dtype}, dtype)
    for a, b in itertools.product(left, right):
        if dtype == "index" and name.endswith("ui") and a < 0:
            continue
        expected = INTEGER[name](a, b, lambda n: n % 2 ** width(dtype))
        assert run(a, b) == signed(expected, dtype), (a, b)


@pytest.mark.parametrize("name", ("addi", "subi", "muli", "andi", "ori", "xori"))
def test_truth_values(name: str) -> None:
    run = kernel(f"%r = arith.{name} %x, %y : i1", {"x": "i1", "y": "i1"}, "i1")
    for a, b in itertools.product((False, True), repeat=2):
        assert run(a, b) == INTEGER[name](a, b, int) % 2


SPECIAL = (0.0, -0.0, 1.5, -2.75, 3.0, 0.1, 1e4, -1e-3, 7e4, math.inf, -math.inf, math.nan)


def least(a: float, b: float) -> float:
    return math.nan if math.isnan(a) or math.isnan(b) else min(a, b)


def greatest(a: float, b: float) -> float:
    return math.nan if math.isnan(a) or math.isnan(b) else max(a, b)


def quotient(a: float, b: float) -> float:
    if b:
        return a / b
    return math.nan if a == 0 or math.isnan(a) else math.copysign(math.inf, a) * math.copysign(1, b)


FLOAT: dict[str, Callable[[float, float], float]] = {
    "arith.addf": lambda a, b: a + b, "arith.subf": lambda a, b: a - b, "arith.mulf": lambda a, b: a * b,
    "arith.divf": quotient, "arith.remf": lambda a, b: math.nan if math.isinf(a) or b == 0 else math.fmod(a, b),
    "arith.minimumf": least, "arith.maximumf": greatest,
    "arith.minnumf": lambda a, b: b if math.isnan(a) else a if math.isnan(b) else min(a, b),
    "arith.maxnumf": lambda a, b: b if math.isnan(a) else a if math.isnan(b) else max(a, b),
}  # fmt: skip
ONE_FLOAT: dict[str, Callable[[float], float]] = {
    "arith.negf": lambda a: -a, "math.absf": abs, "math.sqrt": lambda a: math.sqrt(a) if a >= 0 else math.nan,
    "math.exp": lambda a: math.inf if a > 700 else math.exp(a),
    "math.log": lambda a: -math.inf if a == 0 else math.log(a) if a > 0 else math.nan,
}  # fmt: skip


def same(actual: float, expected: float) -> bool:
    return actual == expected or (math.isnan(actual) and math.isnan(expected))


@every("dtype", REALS)
@every("name", [*FLOAT, *ONE_FLOAT])
def test_float(name: str, dtype: str) -> None:
    values = [number(x, dtype) for x in SPECIAL]
    if name in ONE_FLOAT:
        run = kernel(f"%r = {name} %x : {dtype}", {"x": dtype}, dtype)
        for a in values:
            assert same(run(a), number(ONE_FLOAT[name](a), dtype)), a
        return
    run = kernel(f"%r = {name} %x, %y : {dtype}", {"x": dtype, "y": dtype}, dtype)
    for a, b in itertools.product(values, repeat=2):
        assert same(run(a, b), number(FLOAT[name](a, b), dtype)), (a, b)


@pytest.mark.parametrize("dtype", INTS)
def test_absolute_integers(dtype: str) -> None:
    run = kernel(f"%r = math.absi %x : {dtype}", {"x": dtype}, dtype)
    assert [run(n) for n in (0, 5, -5, -100)] == [0, 5, 5, 100]


COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "eq": lambda a, b: a == b, "ne": lambda a, b: a != b, "lt": lambda a, b: a < b, "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b, "ge": lambda a, b: a >= b,
}  # fmt: skip


@every("dtype", INTS)
@every("predicate", ("eq", "ne", *(s + p for s in "su" for p in ("lt", "le", "gt", "ge"))))
def test_comparison_of_integers(predicate: str, dtype: str) -> None:
    run = kernel(f"%r = arith.cmpi {predicate}, %x, %y : {dtype}", {"x": dtype, "y": dtype}, "i1")
    for a, b in itertools.product((0, 1, -1, 100, -100), repeat=2):
        x, y = (n % 2 ** width(dtype) if predicate[0] == "u" else n for n in (a, b))
        assert run(a, b) == COMPARE[predicate[-2:]](x, y), (a, b)


@every("dtype", REALS)
@every(
    "predicate", ("false", "true", "ord", "uno", *(o + p for o in "ou" for p in ("eq", "ne", "lt", "le", "gt", "ge")))
)
def test_comparison_of_floats(predicate: str, dtype: str) -> None:
    predicate = "one" if predicate == "one" else predicate
    run = kernel(f"%r = arith.cmpf {predicate}, %x, %y : {dtype}", {"x": dtype, "y": dtype}, "i1")
    for a, b in itertools.product((0.0, 1.5, -2.0, math.inf, math.nan), repeat=2):
        unordered = math.isnan(a) or math.isnan(b)
        expected = {"false": False, "true": True, "ord": not unordered, "uno": unordered}.get(predicate)
        if expected is None:
            expected = predicate[0] == "u" if unordered else COMPARE[predicate[1:]](a, b)
        assert run(a, b) == expected, (a, b)


@every("dtype", (*INTS, *REALS))
def test_selection(dtype: str) -> None:
    run = kernel(f"%r = arith.select %c, %x, %y : {dtype}", {"c": "i1", "x": dtype, "y": dtype}, dtype)
    assert (run(True, 3, 4), run(False, 3, 4)) == (3, 4)


WHOLE = (0, 1, -1, 5, 127, -128, 255, 300, -30000, 2**31 - 1, -(2**31), 2**40 + 3)


def held(source: str) -> list[int]:
    return [n for n in WHOLE if signed(n, source) == n]


#: from narrower to wider; `index` counts as 64 bits
NARROW_WIDE = [(a, b) for a, b in itertools.combinations(("i8", "i16", "i32", "i64"), 2)]
INTEGER_CASTS = [
    *(("extsi", *pair) for pair in NARROW_WIDE), *(("extui", *pair) for pair in NARROW_WIDE),
    *(("trunci", b, a) for a, b in NARROW_WIDE),
    *((name, *pair) for name in ("index_cast", "index_castui") for n in ("i8", "i16", "i32", "i64")
      for pair in ((n, "index"), ("index", n))),
]  # fmt: skip


@every(("name", "source", "target"), INTEGER_CASTS)
def test_casts_between_integers(name: str, source: str, target: str) -> None:
    run = kernel(f"%r = arith.{name} %x : {source} to {target}", {"x": source}, target)
    for n in held(source):
        unsigned = name in ("extui", "index_castui") and width(source) < 64
        expected = n % 2 ** width(source) if unsigned else n
        assert run(n) == signed(expected, target), n


@pytest.mark.parametrize(
    ("name", "one"), (("extsi", -1), ("extui", 1), ("index_cast", -1), ("sitofp", -1.0), ("uitofp", 1.0))
)
def test_casts_of_truth_values(name: str, one: float) -> None:
    target = "f32" if name.endswith("fp") else "index" if name.startswith("index") else "i32"
    run = kernel(f"%r = arith.{name} %x : i1 to {target}", {"x": "i1"}, target)
    assert (run(False), run(True)) == (0, one)


def test_the_lowest_bit_as_a_truth_value() -> None:
    run = kernel("%r = arith.trunci %x : i32 to i1", {"x": "i32"}, "i1")
    assert [run(n) for n in (0, 1, 2, 3, -1)] == [0, 1, 0, 1, 1]


@every("real", REALS)
@every("whole", ("i8", "i16", "i32", "i64"))
def test_casts_between_integers_and_floats(whole: str, real: str) -> None:
    for name in ("sitofp", "uitofp"):
        run = kernel(f"%r = arith.{name} %x : {whole} to {real}", {"x": whole}, real)
        for n in held(whole):
            assert run(n) == number(float(n % 2 ** width(whole) if name == "uitofp" else n), real), n
    for name, numbers in (("fptosi", (0.0, 1.5, -1.5, 100.75, -128.0)), ("fptoui", (0.0, 1.5, 127.25, 200.5))):
        run = kernel(f"%r = arith.{name} %x : {real} to {whole}", {"x": real}, whole)
        for x in numbers:
            assert run(number(x, real)) == signed(int(number(x, real)), whole), x


@pytest.mark.parametrize(
    ("source", "target"), [(a, b) for a in REALS for b in REALS if STORED[a].itemsize > STORED[b].itemsize]
)
def test_casts_between_floats(source: str, target: str) -> None:
    narrow = kernel(f"%r = arith.truncf %x : {source} to {target}", {"x": source}, target)
    wide = kernel(f"%r = arith.extf %x : {target} to {source}", {"x": target}, source)
    for x in (*SPECIAL, 1 + 2.0**-8, 1 + 3 * 2.0**-11, 65519.0, 65520.0):
        assert same(narrow(number(x, source)), number(number(x, source), target)), x
        assert same(wide(number(x, target)), number(x, target)), x


@pytest.mark.parametrize(
    ("source", "target", "pairs"),
    (
        ("f32", "i32", ((1.0, 0x3F800000), (-2.5, 0xC0200000 - 2**32))),
        ("f16", "i16", ((1.0, 0x3C00), (-2.0, -0x4000))),
        ("bf16", "i16", ((1.0, 0x3F80), (-2.0, -0x4000))), ("f64", "i64", ((1.0, 0x3FF0 << 48), (-2.0, -(1 << 62)))),
    ),
)  # fmt: skip
def test_bits(source: str, target: str, pairs: tuple[tuple[float, int], ...]) -> None:
    to = kernel(f"%r = arith.bitcast %x : {source} to {target}", {"x": source}, target)
    back = kernel(f"%r = arith.bitcast %x : {target} to {source}", {"x": target}, source)
    for x, bits in pairs:
        assert (to(x), back(bits)) == (bits, x)


@every("dtype", ("i8", "i16", "i32", "i64", *REALS))
def test_numbers_in_memory(dtype: str) -> None:
    """Loaded from an element of a tensor and stored to another one; a conversion that changes nothing."""
    body = HEAD + (
        "  %five = arith.constant 5 : index\n"
        f"  %x = pto.load_scalar %a[%five] : !pto.ptr<{dtype}> -> {dtype}\n"
        f"  %y = builtin.unrealized_conversion_cast %x : {dtype} to {dtype}\n"
        f"  pto.store_scalar %y, %a[%c1] : !pto.ptr<{dtype}>, {dtype}"
    )
    a = torch.arange(8).to(STORED[dtype])
    namespace(module(body, f"%a: !pto.ptr<{dtype}>"))["run"](a)
    assert a.tolist() == [0, 5, 2, 3, 4, 5, 6, 7]


@pytest.mark.parametrize("dtype", ("ui8", "ui16", "ui32", "ui64"))
def test_unsigned_numbers_in_memory(dtype: str) -> None:
    body = HEAD + (
        f"  %x = pto.load_scalar %a[%c1] : !pto.ptr<{dtype}> -> {dtype}\n"
        f"  pto.store_scalar %x, %a[%c0] : !pto.ptr<{dtype}>, {dtype}"
    )
    top = 2 ** int(dtype[2:]) - 1
    a = torch.tensor([0, top], dtype=STORED[dtype])
    namespace(module(body, f"%a: !pto.ptr<{dtype}>"))["run"](a)
    assert a.tolist() == [top, top]
