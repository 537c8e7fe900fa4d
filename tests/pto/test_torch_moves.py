"""Conversions, comparisons, products, copies, sorts and gathers as PyTorch against an independent computation: exact,
but for products, which are float64's to 1e-6.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch

from tests.pto.samples import tile
from tests.pto.torch_run import DTYPES, FLOATS, Kernel, as_floats, assert_floats, assert_integers, values

R, C, V = 16, 64, 40
MODES = ("RINT", "ROUND", "FLOOR", "CEIL", "TRUNC")
WHOLE: dict[str, Callable[[float], float]] = {
    "RINT": round, "ROUND": lambda x: math.copysign(math.floor(abs(x) + 0.5), x), "FLOOR": math.floor,
    "CEIL": math.ceil, "TRUNC": math.trunc,
}  # fmt: skip


def convert(a: torch.Tensor, source: str, target: str, mode: str, more: str = "") -> torch.Tensor:
    kinds = [tile(rows=R, cols=C, dtype=d) for d in (source, target)]
    k = Kernel()
    k.load("%x", a, source, kinds[0], (R, V))
    k.tile("%z", kinds[1], (R, V))
    k.add(f"pto.tcvt ins(%x {{rmode = #pto<round_mode {mode}>{more}}} : {kinds[0]}) outs(%z : {kinds[1]})")
    out = k.store("%z", kinds[1], (R, V), target)
    k.run()
    return out


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("target", ("i32", "i16", "ui8", "i8"))
def test_conversion_to_integers(target: str, mode: str) -> None:
    a = (torch.arange(R * V).reshape(R, V) - 320) / 4.0
    expected = [[int(WHOLE[mode](x)) for x in row] for row in a.tolist()]
    assert_integers(convert(a, "f32", target, mode), expected, target)


def test_saturating_conversion() -> None:
    a = (torch.arange(R * V).reshape(R, V) - 320).float()
    found = convert(a, "f32", "i8", "RINT", ", sat_mode = #pto<sat_mode ON>")
    assert found.tolist() == a.clamp(-128, 127).to(torch.int8).tolist()


@pytest.mark.parametrize("mode", (*MODES, "ODD"))
@pytest.mark.parametrize("target", ("bf16", "f16"))
def test_conversion_to_16_bits(target: str, mode: str) -> None:
    """Each result is one of the two neighbours, and the one the mode asks for."""
    a = values("f32", R, V, 8)
    a[0, :4] = torch.tensor([1.00390625, -1.00390625, 1.01171875, 0.5])  # ties of bfloat16
    found = convert(a, "f32", target, mode).reshape(-1)
    bits = found.view(torch.int16).to(torch.int32)
    for x, y, b in zip(a.reshape(-1).tolist(), found.double().tolist(), bits.tolist(), strict=True):
        near = [float(torch.tensor([b + d], dtype=torch.int32).to(torch.int16).view(DTYPES[target])) for d in (-1, 1)]
        spacing = max(abs(n - y) for n in near)
        error = y - x
        assert abs(error) <= spacing * (0.5 if mode in ("RINT", "ROUND") else 1)
        if mode == "FLOOR":
            assert error <= 0
        if mode == "CEIL":
            assert error >= 0
        if mode == "TRUNC":
            assert abs(y) <= abs(x)
        if mode == "ODD":
            assert error == 0 or b & 1
        if mode == "ROUND" and abs(error) == spacing / 2:
            assert abs(y) > abs(x)
        if mode == "RINT" and abs(error) == spacing / 2:
            assert not b & 1


@pytest.mark.parametrize("dtype", ("f32", "f16", "i16"))
@pytest.mark.parametrize("mode", ("eq", "ne", "lt", "le", "gt", "ge"))
def test_comparison_and_selection(mode: str, dtype: str) -> None:
    a, b = values(dtype, R, V, 9, -3, 3), values(dtype, R, V, 10, -3, 3)
    a[:, ::5] = b[:, ::5]
    kind, mask = tile(rows=R, cols=C, dtype=dtype), tile(rows=R, cols=32, dtype="ui8")
    k = Kernel()
    k.load("%x", a, dtype, kind, (R, V))
    k.load("%y", b, dtype, kind, (R, V))
    k.tile("%m", mask)
    k.tile("%t", kind)
    k.tile("%z", kind, (R, V))
    k.add(f"pto.tcmp ins(%x, %y {{cmpMode = #pto<cmp {mode}>}} : {kind}, {kind}) outs(%m : {mask})")
    k.add(f"pto.tsel ins(%m, %x, %y, %t : {mask}, {kind}, {kind}, {kind}) outs(%z : {kind})")
    out = k.store("%z", kind, (R, V), dtype)
    k.run()
    compare = {"eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater,
               "ge": np.greater_equal}[mode]  # fmt: skip
    expected = np.where(compare(a.numpy(), b.numpy()), a.numpy(), b.numpy())
    assert out.tolist() == expected.tolist()


@pytest.mark.parametrize(("dtype", "acc"), (("f32", "f32"), ("f16", "f32"), ("bf16", "f32"), ("i8", "i32")))
@pytest.mark.parametrize("form", ("", ".acc", ".bias"))
def test_products(form: str, dtype: str, acc: str) -> None:
    m, depth, n = 32, 64, 16
    a, b = values(dtype, m, depth, 11), values(dtype, depth, n, 12)
    bias = values(acc, 1, n, 13, -50, 50)
    left, right = tile("left", m, depth, dtype), tile("right", depth, n, dtype)
    kinds = {name: tile("mat", *shape, dtype) for name, shape in (("a", (m, depth)), ("b", (depth, n)))}
    made, row = tile("acc", m, n, acc), tile("bias", 1, n, acc)
    k = Kernel("cube")
    k.load("%a", a, dtype, kinds["a"])
    k.load("%b", b, dtype, kinds["b"])
    k.load("%bias", bias, acc, row)
    k.tile("%l", left)
    k.tile("%r", right)
    k.tile("%z", made)
    k.add(f"pto.tmov ins(%a : {kinds['a']}) outs(%l : {left})")
    k.add(f"pto.tmov ins(%b : {kinds['b']}) outs(%r : {right})")
    if form == ".bias":
        k.add(f"pto.tmatmul.bias ins(%l, %r, %bias : {left}, {right}, {row}) outs(%z : {made})")
    else:
        k.add(f"pto.tmatmul ins(%l, %r : {left}, {right}) outs(%z : {made})")
    if form == ".acc":
        k.add(f"pto.tmatmul.acc ins(%z, %l, %r : {made}, {left}, {right}) outs(%z : {made})")
    out = k.store("%z", made, (m, n), acc)
    k.run()
    expected = as_floats(a) @ as_floats(b)
    expected = 2 * expected if form == ".acc" else expected + as_floats(bias) if form == ".bias" else expected
    if acc == "i32":
        assert_integers(out, expected.astype(np.int64).tolist(), acc)
    else:
        np.testing.assert_allclose(out.numpy(), expected, rtol=1e-6, atol=1e-4)


def test_partial_operands_pass_through_where_one_is_valid() -> None:
    a, b = values("f32", R, V, 14), values("f32", 8, C, 15)
    kind = tile(rows=R, cols=C)
    k = Kernel()
    k.load("%x", a, "f32", kind, (R, V))
    k.load("%y", b, "f32", kind, (8, C))
    k.tile("%z", kind, (R, C))
    k.add(f"pto.tpartadd ins(%x, %y : {kind}, {kind}) outs(%z : {kind})")
    out = k.store("%z", kind, (R, C), "f32")
    k.run()
    expected = torch.zeros(R, C)
    expected[:, :V] += a
    expected[:8] += b
    assert torch.equal(out, expected)


def test_sort_and_merge_keep_indices_and_order_of_ties() -> None:
    x = values("f32", 1, 128, 16).round()
    numbers = torch.arange(128, dtype=torch.int32)[None]
    keys, names = tile(rows=1, cols=128), tile(rows=1, cols=128, dtype="ui32")
    pairs = tile(rows=1, cols=256)
    k = Kernel()
    k.load("%x", x, "f32", keys)
    k.load("%i", numbers.view(torch.uint32), "ui32", names)
    k.tile("%p", pairs)
    k.tile("%q", pairs)
    k.add(f"pto.tsort32 ins(%x, %i : {keys}, {names}) outs(%p : {pairs})")
    k.add("%n = arith.constant 64 : i32")
    k.add(f"pto.tmrgsort ins(%p, %n : {pairs}, i32) outs(%q : {pairs})")
    k.tile("%v", keys)
    k.tile("%w", tile(rows=1, cols=128, dtype="i32"))
    k.add(f"pto.tgather ins(%q, {{maskPattern = #pto.mask_pattern<P0101>}} : {pairs}) outs(%v : {keys})")
    k.add(
        f"pto.tgather ins(%q, {{maskPattern = #pto.mask_pattern<P1010>}} : {pairs}) "
        f"outs(%w : {tile(rows=1, cols=128, dtype='i32')})"
    )
    value, index = (
        k.store("%v", keys, (1, 128), "f32"),
        k.store("%w", tile(rows=1, cols=128, dtype="i32"), (1, 128), "i32"),
    )
    k.run()
    order = sorted(range(128), key=lambda i: (-float(x[0, i]), i))
    assert index[0].tolist() == order
    assert value[0].tolist() == [float(x[0, i]) for i in order]


def test_gather_and_scatter_by_index_are_inverse() -> None:
    x, order = values("f32", 1, C, 17), torch.randperm(C, generator=torch.Generator().manual_seed(1))[None].int()
    kind, index = tile(rows=1, cols=C), tile(rows=1, cols=C, dtype="i32")
    k = Kernel()
    k.load("%x", x, "f32", kind)
    k.load("%i", order, "i32", index)
    k.tile("%t", index)
    k.tile("%g", kind)
    k.tile("%s", kind)
    k.add(f"pto.tgather ins(%x, %i, %t : {kind}, {index}, {index}) outs(%g : {kind})")
    k.add(f"pto.tscatter ins(%g, %i : {kind}, {index}) outs(%s : {kind})")
    gathered, back = k.store("%g", kind, (1, C), "f32"), k.store("%s", kind, (1, C), "f32")
    k.run()
    assert gathered[0].tolist() == x[0][order[0].long()].tolist()
    assert torch.equal(back, x)


def test_fillpad_transpose_and_concat() -> None:
    x = values("f32", R, 24, 18)
    kind, padded, turned = tile(rows=R, cols=32), tile(rows=R, cols=32, pad=3), tile(rows=32, cols=R)  # type: ignore[arg-type]
    wide = tile(rows=R, cols=C)
    k = Kernel()
    k.load("%x", x, "f32", kind, (R, 24))
    k.tile("%p", padded)
    k.tile("%t", turned)
    k.tile("%c", wide)
    k.add(f"pto.tfillpad ins(%x : {kind}) outs(%p : {padded})")
    k.add(f"pto.ttrans ins(%p : {padded}) outs(%t : {turned})")
    k.add(f"pto.tconcat ins(%p, %p : {padded}, {padded}) outs(%c : {wide})")
    turned_out, wide_out = k.store("%t", turned, (32, R), "f32"), k.store("%c", wide, (R, C), "f32")
    k.run()
    expected = torch.full((R, 32), -math.inf)
    expected[:, :24] = x
    assert torch.equal(turned_out, expected.T)
    assert torch.equal(wide_out, torch.cat((expected, expected), 1))


@pytest.mark.parametrize("dtype", FLOATS)
def test_selection_with_a_number_and_prelu(dtype: str) -> None:
    a, b = values(dtype, R, V, 21), values(dtype, R, V, 22)
    kind, mask = tile(rows=R, cols=C, dtype=dtype), tile(rows=R, cols=32, dtype="ui8")
    k = Kernel()
    k.load("%x", a, dtype, kind, (R, V))
    k.load("%y", b, dtype, kind, (R, V))
    for name in ("%s", "%p"):
        k.tile(name, kind, (R, V))
    k.tile("%m", mask)
    k.tile("%t", kind)
    k.add(f"%n = arith.constant 0.25 : {dtype}")
    k.add(f"pto.tcmp ins(%x, %y {{cmpMode = #pto<cmp gt>}} : {kind}, {kind}) outs(%m : {mask})")
    k.add(f"pto.tsels ins(%m, %x, %t, %n : {mask}, {kind}, {kind}, {dtype}) outs(%s : {kind})")
    k.add(f"pto.tprelu ins(%x, %y, %t : {kind}, {kind}, {kind}) outs(%p : {kind})")
    selected, scaled = k.store("%s", kind, (R, V), dtype), k.store("%p", kind, (R, V), dtype)
    k.run()
    assert torch.equal(selected, torch.where(a > b, a, torch.tensor(0.25, dtype=a.dtype)))
    x, y = as_floats(a), as_floats(b)
    assert_floats(scaled, np.where(x > 0, x, x * y), dtype)


def test_insert_and_extract() -> None:
    """A 16 x 32 part of a tile, put elsewhere into another one."""
    a, kind, part = values("f32", 32, 64, 23), tile("mat", 32, 64), tile("mat", 16, 32)
    k = Kernel("cube")
    k.load("%x", a, "f32", kind)
    k.tile("%p", part)
    k.tile("%z", kind)
    k.add("%r = arith.constant 16 : index")
    k.add("%c = arith.constant 32 : index")
    k.add(f"pto.textract ins(%x, %r, %c : {kind}, index, index) outs(%p : {part})")
    k.add(f"pto.tinsert ins(%p, %c0, %c : {part}, index, index) outs(%z : {kind})")
    out = k.store("%z", kind, (32, 64), "f32")
    k.run()
    expected = torch.zeros(32, 64)
    expected[:16, 32:] = a[16:, 32:]
    assert torch.equal(out, expected)


def test_int32_comparison_of_a2a3_is_equality() -> None:
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
        k.add(f"pto.tcmp ins(%x, %y {{cmpMode = #pto<cmp lt>}} : {kind}, {kind}) outs(%m : {mask})")
        k.add(f"pto.tsel ins(%m, %x, %y, %t : {mask}, {kind}, {kind}, {kind}) outs(%z : {kind})")
        results[arch] = k.store("%z", kind, (R, V), "i32")
        k.run()
    assert torch.equal(results["a2a3"], b)
    assert torch.equal(results["a5"], torch.minimum(a, b))


def test_generated_patterns() -> None:
    row, square = tile(rows=1, cols=C, dtype="i32"), tile(rows=R, cols=32)
    k = Kernel()
    k.tile("%i", row)
    k.tile("%d", row)
    k.tile("%t", square)
    k.tile("%f", square)
    k.add("%five = arith.constant 5 : i32")
    k.add("%half = arith.constant 0.5 : f32")
    k.add(f"pto.tci ins(%five : i32) outs(%i : {row})")
    k.add(f"pto.tci ins(%five {{descending = true}} : i32) outs(%d : {row})")
    k.add(f"pto.texpands ins(%half : f32) outs(%f : {square})")
    outs = [k.store("%i", row, (1, C), "i32"), k.store("%d", row, (1, C), "i32"), k.store("%f", square, (R, 32), "f32")]
    k.run()
    assert outs[0][0].tolist() == list(range(5, 5 + C))
    assert outs[1][0].tolist() == list(range(5, 5 - C, -1))
    assert set(outs[2].reshape(-1).tolist()) == {0.5}
