"""The cube core's operations as PyTorch against an independent computation: products are float64's to 1.2e-7 of the sum
of magnitudes, integers and moves are exact.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch

from pypto_build.pto.checks.elements import element_types
from tests.pto.samples import tile
from tests.pto.torch_case import random
from tests.pto.torch_run import DTYPES, Kernel, as_floats, assert_equal, exact, limits, values
from tests.rows import every

R, C, V = 16, 64, 40
#: What the cube core multiplies, and what it adds up in.
PRODUCTS = (("f32", "f32", "f32"), ("f16", "f16", "f32"), ("bf16", "bf16", "f32"), ("i8", "i8", "i32"),
            *((a, b, "f32") for a in ("f8E4M3FN", "f8E5M2") for b in ("f8E4M3FN", "f8E5M2")))  # fmt: skip


@every(("first", "second", "acc"), PRODUCTS)
@every("form", ("", ".acc", ".bias"))
@every("name", ("tmatmul", "tgemv"))
def test_products(name: str, form: str, first: str, second: str, acc: str) -> None:
    m, depth, n = 1 if name == "tgemv" else 32, 64, 32
    bias = values(acc, 1, n, 13, -50, 50)
    a, b = ((values("f32", *shape, seed) if acc == "f32" else values("i8", *shape, seed)).to(DTYPES[dtype])
            for shape, seed, dtype in (((m, depth), 11, first), ((depth, n), 12, second)))  # fmt: skip
    left, right = tile("left", m, depth, first), tile("right", depth, n, second)
    kinds = {"a": tile("mat", m, depth, first), "b": tile("mat", depth, n, second)}
    made, row = tile("acc", m, n, acc), tile("bias", 1, n, acc)
    k = Kernel("cube", "a5")
    k.load("%a", a, first, kinds["a"])
    k.load("%b", b, second, kinds["b"])
    k.load("%bias", bias, acc, row)
    k.tile("%l", left)
    k.tile("%r", right)
    k.tile("%z", made)
    k.add(f"pto.tmov ins(%a : {kinds['a']}) outs(%l : {left})")
    k.add(f"pto.tmov ins(%b : {kinds['b']}) outs(%r : {right})")
    if form == ".bias":
        k.add(f"pto.{name}.bias ins(%l, %r, %bias : {left}, {right}, {row}) outs(%z : {made})")
    else:
        k.add(f"pto.{name} ins(%l, %r : {left}, {right}) outs(%z : {made})")
    if form == ".acc":
        k.add(f"pto.{name}.acc ins(%z, %l, %r : {made}, {left}, {right}) outs(%z : {made})")
    out = k.store("%z", made, (m, n), acc)
    k.run()
    x, y = exact(a), exact(b)
    expected = x @ y
    expected = 2 * expected if form == ".acc" else expected + exact(bias) if form == ".bias" else expected
    if acc == "i32":
        assert_equal(out, expected, acc)
    else:
        assert (np.abs(as_floats(out) - expected) <= 1e-3 * 2.0**-13 * (np.abs(x) @ np.abs(y) + 50)).all()


@every("target", ("left", "right", "mat", "vec"))
@every("dtype", sorted(element_types("pto.textract") & element_types("pto.tinsert")))
def test_insert_and_extract(dtype: str, target: str) -> None:
    """A part of a tile of fractals to a tile whose fractals lie otherwise, and from there to another place."""
    kind, part = tile("mat", 64, 64, dtype), tile(target, 32, 32, dtype)
    a, before = random("any", dtype, (64, 64), 1), random("any", dtype, (64, 64), 2)
    k = Kernel("cube", "a5")
    k.load("%x", a, dtype, kind)
    k.load("%z", before, dtype, kind)
    k.tile("%p", part)
    k.add("%r = arith.constant 16 : index")
    k.add("%c = arith.constant 32 : index")
    k.add(f"pto.textract ins(%x, %r, %c : {kind}, index, index) outs(%p : {part})")
    k.add(f"pto.tinsert ins(%p, %c, %c0 : {part}, index, index) outs(%z : {kind})")
    out = k.store("%z", kind, (64, 64), dtype)
    k.run()
    expected = exact(before)
    expected[32:, :32] = exact(a)[16:48, 32:]
    assert_equal(out, expected, dtype)


#: What leaves the accumulator without a scale, and with one.
PLAIN = (("f32", "f32"), ("f32", "f16"), ("f32", "bf16"), ("i32", "i32"))
SCALED = (("f32", "f16"), ("f32", "bf16"), ("f32", "i8"), ("f32", "ui8"), ("i32", "f16"), ("i32", "i8"), ("i32", "ui8"))


OUT = ("tmov", "textract", "tinsert", "tstore")
WAYS_OUT = [(name, *pair, 0.0) for name in OUT for pair in PLAIN]
WAYS_OUT += [(name, *pair, 0.375) for name in OUT if name != "tinsert" for pair in SCALED]


@every("relu", (False, True))
@every(("name", "acc", "target", "scale"), WAYS_OUT)
def test_ways_out_of_the_accumulator(name: str, acc: str, target: str, scale: float, relu: bool) -> None:
    """Scaled, cut below zero, rounded to the nearest, saturated for integers: exact."""
    a = values(acc, 16, 32, 2, -900, 900) * (40 if acc == "f32" else 1)
    kind, made = tile("acc", 16, 32, acc), tile("mat", 16, 32, target)
    k = Kernel("cube")
    k.load("%x", a, acc, kind)
    k.add(f"%s = arith.constant {int(np.float32(scale).view(np.int32))} : i64")
    offsets, types = (", %c0, %c0", ", index, index") if name in ("textract", "tinsert") else ("", "")
    offsets, types = (f"{offsets}, %s", f"{types}, i64") if scale else (offsets, types)
    mode = " {reluPreMode = #pto.relu_pre_mode<normal_relu>}" if relu else ""
    if name == "tstore":
        out = k.store_to("%x", kind, (16, 32), target, offsets, types, mode)
    else:
        k.tile("%z", made)
        k.add(f"pto.{name} ins(%x{offsets} : {kind}{types}) outs(%z : {made}){mode}")
        out = k.store("%z", made, (16, 32), target)
    k.run()
    expected = a.double().numpy() * (scale or 1)
    expected = np.maximum(expected, 0) if relu else expected
    if target in ("i8", "ui8"):
        expected = np.clip(np.rint(expected), *limits(target))
    assert_equal(out, expected, target)


@every("dtype", sorted(t for t in element_types("pto.tstore") if "8" not in t[:2] and "64" not in t))
def test_stores_that_add(dtype: str) -> None:
    a, kind = random("any", dtype, (R, C), 1), tile(dtype=dtype)
    if a.dtype.is_floating_point:
        a = values(dtype, R, C)
    k, before = Kernel(), random("ties", dtype, (R, C), 2)
    k.load("%x", a, dtype, kind)
    out = k.store_to("%x", kind, (R, C), dtype, "", "", " {atomicType = #pto<atomic_type atomic_add>}")
    out.copy_(before)
    k.run()
    assert_equal(out, exact(a) + exact(before), dtype)


@pytest.mark.parametrize("with_scalar", [False, True])
def test_int32_comparison_of_a2a3_is_equality(with_scalar: bool) -> None:
    a, b = values("i32", R, V, 19, 0, 1), values("i32", R, V, 20, 0, 1)
    results = {}
    for arch in ("a2a3", "a5"):
        kind, mask = tile(rows=R, cols=C, dtype="i32"), tile(rows=R, cols=32, dtype="ui8")
        k = Kernel(arch=arch)
        k.load("%x", a, "i32", kind, (R, V))
        k.load("%y", b, "i32", kind, (R, V))
        k.tile("%m", mask)
        k.tile("%z", kind, (R, V))
        k.tile("%t", kind)
        if with_scalar:
            k.add("%n = arith.constant 1 : i32")
            k.add(f"pto.tcmps ins(%x, %n {{cmpMode = #pto<cmp lt>}} : {kind}, i32) outs(%m : {mask})")
        else:
            k.add(f"pto.tcmp ins(%x, %y {{cmpMode = #pto<cmp lt>}} : {kind}, {kind}) outs(%m : {mask})")
        k.add(f"pto.tsel ins(%m, %x, %y, %t : {mask}, {kind}, {kind}, {kind}) outs(%z : {kind})")
        results[arch] = k.store("%z", kind, (R, V), "i32")
        k.run()
    equal, less = (a == 1, a < 1) if with_scalar else (a == b, a < b)
    assert not torch.equal(equal, less)
    assert torch.equal(results["a2a3"], torch.where(equal, a, b))
    assert torch.equal(results["a5"], torch.where(less, a, b))
