"""Vector operations beyond plain arithmetic as PyTorch against an independent computation: powers, comparisons with a
number, partial operands, padding, packing, quantization, gathers of blocks. Exact where nothing else is said.
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
    Kernel,
    as_floats,
    assert_floats,
    assert_integers,
    values,
)

R, C = 16, 64
VALID = ((16, 64), (11, 40))


def small(dtype: str, rows: int, cols: int) -> torch.Tensor:
    """Exponents from 0 to 4."""
    return (torch.arange(rows * cols).reshape(rows, cols) % 5).to(DTYPES[dtype])


@pytest.mark.parametrize(
    ("dtype", "valid"), [*((d, VALID[1]) for d in (*FLOATS, *INTEGERS)), ("f32", VALID[0]), ("i32", VALID[0])]
)
@pytest.mark.parametrize("name", ("tpow", "tpows"))
def test_powers(name: str, dtype: str, valid: tuple[int, int]) -> None:
    """Of floats to two units in the last place, of integers exactly: they wrap."""
    a, b, kind = values(dtype, *valid, 1), small(dtype, *valid), tile(rows=R, cols=C, dtype=dtype)
    floats = dtype in FLOATS
    k = Kernel()
    k.load("%x", a, dtype, kind, valid)
    k.load("%y", b, dtype, kind, valid)
    k.tile("%t", kind)
    k.tile("%z", kind, valid)
    k.add(f"%n = arith.constant {'3.0' if floats else '3'} : {dtype}")
    second, type_ = ("%y", kind) if name == "tpow" else ("%n", dtype)
    tmp, tmp_type = (", %t", f", {kind}") if floats else ("", "")
    k.add(f"pto.{name} ins(%x, {second}{tmp} : {kind}, {type_}{tmp_type}) outs(%z : {kind})")
    out = k.store("%z", kind, valid, dtype)
    k.run()
    exponent = b.double().numpy() if name == "tpow" else np.full(valid, 3.0)
    if floats:
        assert_floats(out, np.power(as_floats(a), exponent), dtype, 2)
    else:
        rows = zip(a.to(torch.int64).tolist(), exponent.tolist(), strict=True)
        assert_integers(out, [[x ** int(n) for x, n in zip(p, q, strict=True)] for p, q in rows], dtype)


COMPARE: dict[str, Callable[..., object]] = {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
}  # fmt: skip


@pytest.mark.parametrize("dtype", ("f32", "f16", "i16", "i32", "ui8"))
@pytest.mark.parametrize("mode", COMPARE)
def test_comparison_with_a_number(mode: str, dtype: str) -> None:
    valid = (11, 40)
    a, kind, mask = values(dtype, *valid, 9, -3, 3), tile(rows=R, cols=C, dtype=dtype), tile(cols=32, dtype="ui8")
    a[:, ::5] = 2
    k = Kernel()
    k.load("%x", a, dtype, kind, valid)
    k.tile("%m", mask)
    k.add(f"%n = arith.constant {'2.0' if dtype in FLOATS else '2'} : {dtype}")
    k.add(f"pto.tcmps ins(%x, %n {{cmpMode = #pto<cmp {mode}>}} : {kind}, {dtype}) outs(%m : {mask})")
    out = k.store("%m", mask, (R, 32), "ui8")
    k.run()
    found = np.unpackbits(out.numpy(), axis=1, bitorder="little")[: valid[0], : valid[1]]
    assert found.tolist() == np.asarray(COMPARE[mode](as_floats(a), 2)).astype(np.uint8).tolist()


PARTIAL = {"tpartadd": np.add, "tpartmul": np.multiply, "tpartmax": np.maximum, "tpartmin": np.minimum}


@pytest.mark.parametrize("dtype", (*FLOATS, "i32", "i16"))
@pytest.mark.parametrize("name", PARTIAL)
def test_partial_operands(name: str, dtype: str) -> None:
    """One operand covers all columns of some rows, the other some columns of all; to one unit in the last place."""
    a, b, kind = values(dtype, R, 40, 1), values(dtype, 11, C, 2), tile(rows=R, cols=C, dtype=dtype)
    k = Kernel()
    k.load("%x", a, dtype, kind, (R, 40))
    k.load("%y", b, dtype, kind, (11, C))
    k.tile("%z", kind, (R, C))
    k.add(f"pto.{name} ins(%x, %y : {kind}, {kind}) outs(%z : {kind})")
    out = k.store("%z", kind, (R, C), dtype)
    k.run()
    wide = np.float64 if dtype in FLOATS else np.int64
    x, y, expected = a.to(torch.float64).numpy().astype(wide), b.double().numpy().astype(wide), np.zeros((R, C), wide)
    expected[:, :40] = x
    expected[:11] = y
    expected[:11, :40] = PARTIAL[name](x[:11], y[:, :40])
    if dtype in FLOATS:
        assert_floats(out, expected, dtype)
    else:
        assert_integers(out, expected.astype(np.int64).tolist(), dtype)


@pytest.mark.parametrize("dtype", ("f32", "f16", "i32"))
@pytest.mark.parametrize("name", ("tpartargmax", "tpartargmin"))
def test_partial_extremes_and_their_indices(name: str, dtype: str) -> None:
    a, b = values(dtype, R, 40, 1, -2, 2), values(dtype, 11, C, 2, -2, 2)
    a[:11, ::7] = b[:, :40:7]  # of equal values the second one's index
    i, j = torch.arange(R * 40, dtype=torch.int32).reshape(R, 40), -torch.arange(11 * C, dtype=torch.int32).view(11, C)
    kind, index = tile(rows=R, cols=C, dtype=dtype), tile(rows=R, cols=C, dtype="i32")
    k = Kernel()
    k.load("%x", a, dtype, kind, (R, 40))
    k.load("%y", b, dtype, kind, (11, C))
    k.load("%i", i, "i32", index, (R, 40))
    k.load("%j", j, "i32", index, (11, C))
    k.tile("%z", kind, (R, C))
    k.tile("%w", index, (R, C))
    k.add(f"pto.{name} ins(%x, %y, %i, %j : {kind}, {kind}, {index}, {index}) outs(%z, %w : {kind}, {index})")
    value, where = k.store("%z", kind, (R, C), dtype), k.store("%w", index, (R, C), "i32")
    k.run()
    x, y = as_floats(a), as_floats(b)
    for r in range(R):
        for c in range(C):
            have_a, have_b = c < 40, r < 11
            if not (have_a or have_b):
                continue
            first = have_a and (not have_b or (x[r, c] > y[r, c] if name == "tpartargmax" else x[r, c] < y[r, c]))
            assert float(value[r, c]) == (x[r, c] if first else y[r, c])
            assert int(where[r, c]) == int(i[r, c] if first else j[r, c])


@pytest.mark.parametrize("dtype", ("f32", "f16", "bf16", "i8", "i16", "i32", "ui8"))
@pytest.mark.parametrize("pad", ("1", "2", "3"))
@pytest.mark.parametrize("name", ("tfillpad", "tfillpad_inplace", "tfillpad_expand"))
def test_padding(name: str, pad: str, dtype: str) -> None:
    """Zeros, the greatest or the smallest number around what is valid."""
    rows, cols = (32, 128) if name == "tfillpad_expand" else (R, C)
    a, kind = values(dtype, 11, 40, 18), tile(rows=R, cols=C, dtype=dtype)
    made = tile(rows=rows, cols=cols, dtype=dtype, pad=pad)
    k = Kernel()
    k.load("%x", a, dtype, kind, (11, 40))
    k.tile("%p", made)
    k.add(f"pto.{name} ins(%x : {kind}) outs(%p : {made})")
    out = k.store("%p", made, (rows, cols), dtype)
    k.run()
    if dtype in FLOATS:
        number = {"1": 0.0, "2": np.inf, "3": -np.inf}[pad]
    else:
        limits = torch.iinfo(DTYPES[dtype])
        number = {"1": 0, "2": limits.max, "3": limits.min}[pad]
    expected = np.full((rows, cols), number, np.float64)
    expected[:11, :40] = as_floats(a)
    assert as_floats(out).tolist() == expected.tolist()


@pytest.mark.parametrize("dtype", ("f32", "f16", "bf16", "i16", "i32", "ui8"))
def test_gather_of_blocks(dtype: str) -> None:
    """Blocks of 32 bytes, by their distance in bytes."""
    a = values(dtype, R, C, 3)
    per = 32 // a.element_size()
    blocks = C // per
    order = torch.randperm(R * blocks, generator=torch.Generator().manual_seed(2)).reshape(R, blocks)
    kind, offsets = tile(rows=R, cols=C, dtype=dtype), tile(rows=R, cols=max(blocks, 8), dtype="i32")
    k = Kernel()
    k.load("%x", a, dtype, kind)
    k.load("%o", (order * 32).to(torch.int32), "i32", offsets, (R, blocks))
    k.tile("%z", kind)
    k.add(f"pto.tgatherb ins(%x, %o : {kind}, {offsets}) outs(%z : {kind})")
    out = k.store("%z", kind, (R, C), dtype)
    k.run()
    assert out.reshape(-1, per).tolist() == [a.reshape(-1, per)[n].tolist() for n in order.reshape(-1).tolist()]


@pytest.mark.parametrize("valid", VALID)
@pytest.mark.parametrize(("source", "target"), (("i32", "i16"), ("ui32", "ui16"), ("i16", "i8"), ("ui16", "ui8"),
                                                ("i32", "i8"), ("ui32", "ui8")))  # fmt: skip
def test_packing_keeps_the_low_bits(source: str, target: str, valid: tuple[int, int]) -> None:
    a, kinds = values(source, *valid, 4, -40000, 40000), [tile(rows=R, cols=C, dtype=d) for d in (source, target)]
    k = Kernel()
    k.load("%x", a, source, kinds[0], valid)
    k.tile("%z", kinds[1], valid)
    k.add(f"pto.tpack ins(%x : {kinds[0]}) outs(%z : {kinds[1]})")
    out = k.store("%z", kinds[1], valid, target)
    k.run()
    assert_integers(out, a.to(torch.int64).tolist(), target)


@pytest.mark.parametrize("valid", VALID)
@pytest.mark.parametrize("dtype", ("i8", "i16"))
def test_dequantization(dtype: str, valid: tuple[int, int]) -> None:
    a, rows = values(dtype, *valid, 5), valid[0]
    scale, offset = values("f32", rows, 1, 6).abs() + 0.1, values("f32", rows, 1, 7).round()
    kind, made, column = tile(dtype=dtype), tile(), tile(cols=1, blayout="col_major")
    k = Kernel()
    k.load("%x", a, dtype, kind, valid)
    k.load("%s", scale, "f32", column, (rows, 1))
    k.load("%o", offset, "f32", column, (rows, 1))
    k.tile("%z", made, valid)
    k.add(f"pto.tdequant ins(%x, %s, %o : {kind}, {column}, {column}) outs(%z : {made})")
    out = k.store("%z", made, valid, "f32")
    k.run()
    assert_floats(out, (as_floats(a) - as_floats(offset)) * as_floats(scale), "f32")
