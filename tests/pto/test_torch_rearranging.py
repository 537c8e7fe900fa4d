"""Padding, sorting and the gathers that the table of cases cannot say, as PyTorch on every element type that the
operations take, against an independent computation: exact."""

from __future__ import annotations

import struct

import numpy as np
import pytest
import torch

from pypto_build.pto.checks.elements import element_types
from tests.pto.samples import tile
from tests.pto.torch_case import random, sized
from tests.pto.torch_run import DTYPES, FLOATS, Kernel, assert_equal, exact, limits, values
from tests.rows import every

R, C = 16, 64
FILLS = ("tfillpad", "tfillpad_inplace", "tfillpad_expand")


@every("pad", ("1", "2", "3"))
@every(("name", "dtype"), [(n, d) for n in FILLS for d in sorted(element_types(f"pto.{n}"))])
def test_padding(name: str, dtype: str, pad: str) -> None:
    """Zeros, the largest or the smallest number around what is valid; always zeros of eight-bit floats, whose zero may
    be the least number."""
    rows, cols = (32, 128) if name == "tfillpad_expand" else (R, C)
    a, kind = random("any", dtype, (11, 40), 18), tile(rows=R, cols=C, dtype=dtype)
    made = tile(rows=rows, cols=cols, dtype=dtype, pad=pad)
    k = Kernel(arch="a5")
    k.load("%x", a, dtype, kind, (11, 40))
    k.tile("%p", made)
    k.add(f"pto.{name} ins(%x : {kind}) outs(%p : {made})")
    out = k.store("%p", made, (rows, cols), dtype)
    k.run()
    pad = "1" if dtype.startswith("f8") else pad
    if DTYPES[dtype].is_floating_point:
        zero = 2.0**-127 if dtype == "f8E8M0" else 0.0
        expected = np.full((rows, cols), {"1": zero, "2": np.inf, "3": -np.inf}[pad])
    else:
        expected = np.full((rows, cols), {"1": 0, "2": limits(dtype)[1], "3": limits(dtype)[0]}[pad], dtype=object)
    expected[:11, :40] = exact(a)
    assert_equal(out, expected, dtype)


@every("extent", (0, 3))
@every("fn", ("sum", "prod", "max", "min"))
@every("axis", ("row", "col"))
def test_nothing_comes_of_what_is_found_to_be_empty(axis: str, fn: str, extent: int) -> None:
    """A reduction along rows or columns of which none is valid leaves the results alone."""
    shape, layout = ((R, 1), "col_major") if axis == "row" else ((1, C), "row_major")
    a, before = random("ties", "f32", (R, C), 18), random("ties", "f32", shape, 19)
    kind = tile(rows=R, cols=C, dtype="f32", v_row="?", v_col="?")
    line = tile(rows=shape[0], cols=shape[1], dtype="f32", blayout=layout)
    k = Kernel()
    k.load("%x", a, "f32", kind, (R, C))
    k.load("%d", before, "f32", line)
    count = k.pointer(torch.tensor([extent], dtype=torch.int32), "i32")
    k.add(f"%n = pto.load_scalar {count}[%c0] : !pto.ptr<i32> -> i32")
    k.add("%w = arith.index_cast %n : i32 to index")
    k.add(f"pto.set_validshape %x, {'%x_r, %w' if axis == 'row' else '%w, %x_c'} : {kind}")
    operands, types = ("%x, %x", f"{kind}, {kind}") if axis == "row" else ("%x", kind)
    k.add(f"pto.t{axis}{fn} ins({operands} : {types}) outs(%d : {line})")
    out = k.store("%d", line, shape, "f32")
    k.run()
    part = exact(a)[:, :extent] if axis == "row" else exact(a)[:extent]
    function = getattr(np, fn)
    expected = function(part, axis=1 if axis == "row" else 0).reshape(shape) if extent else exact(before)
    assert_equal(out, expected, "f32")


@every("dtype", sorted(element_types("pto.tgatherb")))
def test_gather_of_blocks(dtype: str) -> None:
    """Blocks of 32 bytes, by their distance in bytes."""
    a, per = random("any", dtype, (R, C), 3), 32 // sized(dtype)
    blocks = C // per
    order = torch.randperm(R * blocks, generator=torch.Generator().manual_seed(2)).reshape(R, blocks)
    kind, offsets = tile(rows=R, cols=C, dtype=dtype), tile(rows=R, cols=max(blocks, 8), dtype="ui32")
    k = Kernel(arch="a5")
    k.load("%x", a, dtype, kind)
    k.load("%o", (order * 32).to(torch.uint32), "ui32", offsets, (R, blocks))
    k.tile("%z", kind, (R, C - 3))
    k.add(f"pto.tgatherb ins(%x, %o : {kind}, {offsets}) outs(%z : {kind})")
    out = k.store("%z", kind, (R, C - 3), dtype)
    k.run()
    assert_equal(out, exact(a).reshape(-1, per)[order.reshape(-1)].reshape(R, C)[:, : C - 3], dtype)


@every("mode", ("gt", "eq", ""))
@every("dtype", ("f32", "f16", "i32", "i16"))
def test_positions_of_what_compares(dtype: str, mode: str) -> None:
    """For each row, the positions of the elements that compare (without a mode: are equal), and their number.

    Positions count from 100 on along all rows.
    """
    a, kind, where = random("ties", dtype, (11, 40), 4), tile(rows=R, cols=C, dtype=dtype), tile(rows=R, dtype="i32")
    count = tile(rows=R, cols=1, dtype="i32", blayout="col_major")
    k = Kernel()
    k.load("%x", a, dtype, kind, (11, 40))
    k.load("%z", torch.full((R, C), -1, dtype=torch.int32), "i32", where)
    for name, type_ in (("%t", kind), ("%n", count)):
        k.tile(name, type_)
    k.add(f"%k = arith.constant {'1.0' if dtype in FLOATS else '1'} : {dtype}")
    how = f" {{cmpMode = #pto<cmp {mode}>}}" if mode else ""
    k.add(
        f"pto.tgather ins(%x, %k, %t{how} : {kind}, {dtype}, {kind}) "
        f"outs(%z, %n : {where}, {count}) {{offset = 100 : i32}}"
    )
    actual, counts = k.store("%z", where, (R, C), "i32"), k.store("%n", count, (R, 1), "i32")
    k.run()
    for row, numbers in enumerate(exact(a).tolist()):
        chosen = [100 + row * C + c for c, x in enumerate(numbers) if (x > 1 if mode == "gt" else x == 1)]
        assert counts[row].tolist() == [len(chosen)]
        assert actual[row].tolist() == chosen + [-1] * (C - len(chosen))


def records(numbers: list[float], names: list[int], dtype: str) -> bytes:
    """Values and their indices as they lie in memory: 8 bytes each."""
    form = "<fI" if dtype == "f32" else "<exxI"
    return b"".join(struct.pack(form, x, name) for x, name in zip(numbers, names, strict=True))


def descending(numbers: list[float]) -> list[int]:
    """Positions of the largest first, of equal ones the first."""
    return sorted(range(len(numbers)), key=lambda i: (-numbers[i], i))


SORTED = sorted(element_types("pto.tsort32") & element_types("pto.tmrgsort"))


def bytes_of(tensor: torch.Tensor) -> bytes:
    return tensor.contiguous().view(torch.uint8).numpy().tobytes()


@pytest.mark.parametrize("shared", (False, True), ids=("own names", "shared names"))
@pytest.mark.parametrize("dtype", sorted(element_types("pto.tsort32")))
def test_sorted_groups(dtype: str, shared: bool) -> None:
    """32 values each with their names; one row of names may serve all."""
    a, wide = values(dtype, 4, 96, 5).round(), 8 // sized(dtype)
    names = torch.randperm(4 * 96, generator=torch.Generator().manual_seed(1)).reshape(4, 96)[: 1 if shared else 4]
    keys, index = tile(rows=4, cols=96, dtype=dtype), tile(rows=len(names), cols=96, dtype="ui32")
    pairs = tile(rows=4, cols=96 * wide, dtype=dtype)
    k = Kernel()
    k.load("%x", a, dtype, keys)
    k.load("%i", names.to(torch.uint32), "ui32", index)
    k.tile("%p", pairs)
    k.add(f"pto.tsort32 ins(%x, %i : {keys}, {index}) outs(%p : {pairs})")
    out = k.store("%p", pairs, (4, 96 * wide), dtype)
    k.run()
    expected = b""
    for row in range(4):
        for start in range(0, 96, 32):
            numbers = a[row, start : start + 32].tolist()
            named = names[0 if shared else row, start : start + 32].tolist()
            order = descending(numbers)
            expected += records([numbers[i] for i in order], [named[i] for i in order], dtype)
    assert bytes_of(out) == expected


Records = tuple[list[float], list[int], torch.Tensor]


def joined(lists: list[Records]) -> tuple[list[float], list[int]]:
    """Values and names of all lists, one after another."""
    return [x for numbers, *_ in lists for x in numbers], [x for _, names, _ in lists for x in names]


def pairs_of(dtype: str, count: int, seed: int) -> Records:
    """A sorted list of records: values, names, and its bytes as a row of elements."""
    numbers = sorted(values(dtype, 1, count, seed).round()[0].tolist(), reverse=True)
    names = list(range(1000 * seed, 1000 * seed + count))
    raw = bytearray(records(numbers, names, dtype))
    return numbers, names, torch.frombuffer(raw, dtype=torch.uint8).view(DTYPES[dtype])[None].clone()


@pytest.mark.parametrize("dtype", SORTED)
def test_merged_blocks(dtype: str) -> None:
    """Every four blocks of 32 records become one of 128; the order of equal values stays."""
    lists = [pairs_of(dtype, 32, seed) for seed in range(1, 7)]
    row, per = torch.cat([raw for *_, raw in lists], dim=1), 8 // sized(dtype)
    kind = tile(rows=1, cols=row.shape[1], dtype=dtype)
    k = Kernel()
    k.load("%p", row, dtype, kind)
    k.tile("%q", kind)
    k.add(f"%n = arith.constant {32 * per} : i32")
    k.add(f"pto.tmrgsort ins(%p, %n : {kind}, i32) outs(%q : {kind})")
    out = k.store("%q", kind, (1, row.shape[1]), dtype)
    k.run()
    expected = b""
    for part in (lists[:4], lists[4:]):
        numbers, names = joined(part)
        order = descending(numbers)
        expected += records([numbers[i] for i in order], [names[i] for i in order], dtype)
    assert bytes_of(out) == expected


@every("exhausted", (False, True))
@every("count", (2, 3, 4))
@every("dtype", SORTED)
def test_merged_lists(dtype: str, count: int, exhausted: bool) -> None:
    """Lists of several lengths become one; if asked to, only until one of them is used up."""
    lists = [pairs_of(dtype, length, seed) for seed, length in enumerate((32, 16, 64, 32)[:count], 1)]
    wide = sum(raw.shape[1] for *_, raw in lists)
    made = tile(rows=1, cols=wide, dtype=dtype)
    k = Kernel()
    kinds = [tile(rows=1, cols=raw.shape[1], dtype=dtype) for *_, raw in lists]
    for number, (kind, (*_, raw)) in enumerate(zip(kinds, lists, strict=True)):
        k.load(f"%p{number}", raw, dtype, kind)
    k.tile("%t", made)
    k.load("%q", torch.zeros(1, wide, dtype=DTYPES[dtype]), dtype, made)
    sources, types = ", ".join(f"%p{n}" for n in range(count)), ", ".join(kinds)
    word = f" {{exhausted = {str(exhausted).lower()}}}"
    k.add("%e = arith.constant dense<0> : vector<4xi16>")
    k.add(f"pto.tmrgsort ins({sources}, %t{word} : {types}, {made}) outs(%q, %e : {made}, vector<4xi16>)")
    out = k.store("%q", made, (1, wide), dtype)
    k.run()
    numbers, names = joined(lists)
    order: list[int] = []
    left = [len(n) for n, *_ in lists]
    origin = [number for number, (n, *_) in enumerate(lists) for _ in n]
    for i in descending(numbers):
        order.append(i)
        left[origin[i]] -= 1
        if exhausted and not left[origin[i]]:
            break
    expected = records([numbers[i] for i in order], [names[i] for i in order], dtype)
    assert bytes_of(out)[: len(expected)] == expected
    assert not any(bytes_of(out)[len(expected) :])
