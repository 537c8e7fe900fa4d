"""Gathers, scatters, scaled exits of the accumulator and products of scaled elements as PyTorch.

They are compared with an independent computation: exactly, but for products and 16-bit results.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch

from pypto_build.pto.checks.elements import element_types
from tests.pto.samples import tile
from tests.pto.torch_case import random
from tests.pto.torch_run import DTYPES, FLOATS, Kernel, as_floats, assert_floats, values, view
from tests.rows import every

ROWS, WIDTH = 24, 32
TYPES = sorted(element_types("pto.mgather") & element_types("pto.mscatter"))


def part(rows: int, cols: int, dtype: str) -> str:
    return f"!pto.partition_tensor_view<{rows}x{cols}x{dtype}>"


def indices(mode: str, shape: tuple[int, int], limit: int) -> tuple[torch.Tensor, np.ndarray]:
    """Indices, some of them outside where the mode says what that means, and where they lead, -1 for nowhere."""
    made = torch.randperm(limit, generator=torch.Generator().manual_seed(3))[: shape[0] * shape[1]].reshape(shape)
    made = made.to(torch.int32)
    if mode != "undefined":
        made.view(-1)[:3] = torch.tensor([limit + 5, limit, -1 if mode != "wrap" else limit + 9])
    raw = made.numpy().astype(np.int64)
    if mode == "clamp":
        return made, np.clip(raw, 0, limit - 1)
    return made, raw % limit if mode == "wrap" else np.where((raw < 0) | (raw >= limit), -1, raw)


@every(
    ("mode", "dtype"),
    [*(("zero", dtype) for dtype in TYPES), *((mode, "f32") for mode in ("undefined", "clamp", "wrap"))],
)
@every("by", ("row", "elem"))
def test_gather_from_a_table(by: str, mode: str, dtype: str) -> None:
    table, count = random("any", dtype, (ROWS, WIDTH), 1), 11
    shape, limit = ((1, count), ROWS) if by == "row" else ((count, 20), ROWS * WIDTH)
    index, leads = indices(mode, shape, limit)
    kind, names = tile(rows=16, cols=WIDTH, dtype=dtype), tile(rows=1 if by == "row" else 16, cols=32, dtype="i32")
    valid = (count, WIDTH if by == "row" else 20)
    k = Kernel()
    k.load("%i", index, "i32", names, shape)
    k.body += view("g", k.pointer(table, dtype), ROWS, WIDTH, dtype)
    k.tile("%z", kind, valid)
    k.add(
        f"pto.mgather ins(%g, %i : {part(ROWS, WIDTH, dtype)}, {names}) outs(%z : {kind}) "
        f"{{coalesce = #pto.coalesce<{by}>, gatherOob = #pto.gather_oob<{mode}>}}"
    )
    out = k.store("%z", kind, valid, dtype)
    k.run()
    source = as_floats(table)
    rows = source[leads[0]] if by == "row" else source.reshape(-1)[leads]
    expected = np.where((leads.T if by == "row" else leads) < 0, 0.0, rows)
    assert as_floats(out).tolist() == expected.tolist()


COMBINE: dict[str, Callable[[float, float], float]] = {
    "none": lambda _, new: new, "add": lambda old, new: old + new, "max": max, "min": min,
}  # fmt: skip


@every("combine", COMBINE)
@every(
    ("mode", "dtype"),
    [*(("clamp", dtype) for dtype in TYPES), *((mode, "f32") for mode in ("undefined", "skip", "wrap"))],
)
@every("by", ("row", "elem"))
def test_scatter_to_a_table(by: str, mode: str, combine: str, dtype: str) -> None:
    """Numbers small enough that sums are exact; of equal positions the last one stays, or all are combined, which
    nothing does with eight-bit floats."""
    if combine != "none" and dtype.startswith("f8"):
        return
    table, count = torch.ones(ROWS, WIDTH).to(DTYPES[dtype]), 11
    shape, limit = ((1, count), ROWS) if by == "row" else ((count, 20), ROWS * WIDTH)
    index, leads = indices(mode, shape, limit)
    valid = (count, WIDTH if by == "row" else 20)
    value = (torch.arange(valid[0] * valid[1]).reshape(valid) % 17).to(DTYPES[dtype])
    kind, names = tile(rows=16, cols=WIDTH, dtype=dtype), tile(rows=1 if by == "row" else 16, cols=32, dtype="i32")
    k = Kernel()
    k.load("%x", value, dtype, kind, valid)
    k.load("%i", index, "i32", names, shape)
    k.body += view("g", k.pointer(table, dtype), ROWS, WIDTH, dtype)
    k.add(
        f"pto.mscatter ins(%x, %i : {kind}, {names}) outs(%g : {part(ROWS, WIDTH, dtype)}) "
        f"{{coalesce = #pto.coalesce<{by}>, scatterAtomicOp = #pto.scatter_atomic_op<{combine}>, "
        f"scatterOob = #pto.scatter_oob<{mode}>}}"
    )
    k.run()
    function = COMBINE[combine]
    expected = [[1.0] * WIDTH for _ in range(ROWS)]
    for r, row in enumerate(as_floats(value).tolist()):
        for c, item in enumerate(row):
            position = int(leads[0, r]) if by == "row" else int(leads[r, c])
            if position >= 0:
                y, x = (position, c) if by == "row" else divmod(position, WIDTH)
                expected[y][x] = function(expected[y][x], item)
    assert as_floats(table).tolist() == expected


def column_scales(cols: int) -> tuple[torch.Tensor, np.ndarray]:
    """Powers of two as the low halves of 64 bits, whose high halves say other things."""
    scales = (2.0 ** (torch.arange(cols) % 5 - 3)).to(torch.float32)
    raw = scales.view(torch.int32).to(torch.int64) + (torch.arange(cols) << 33)
    return raw[None], scales.double().numpy()


TARGETS = (
    ("f32", "f16"),
    ("f32", "bf16"),
    ("f32", "i8"),
    ("f32", "ui8"),
    ("i32", "f16"),
    ("i32", "i8"),
    ("i32", "ui8"),
)


@every(("acc", "target", "relu"), [(*pair, False) for pair in TARGETS] + [("f32", "i8", True)])
@every("name", ("tmov.fp", "textract_fp", "tinsert_fp", "tstore_fp", "tstore.fp"))
def test_scales_for_each_column(name: str, acc: str, target: str, relu: bool) -> None:
    """Integers round to nearest, ties to even, and saturate; 16-bit floats are right to one unit in the last place."""
    m, n = 16, 32
    a = values(acc, m, n, 2, -900, 900) * (40 if acc == "f32" else 1)
    if acc == "i32":
        a[0, :2] = torch.tensor([1000, -1000])
    raw, scales = column_scales(n)
    kinds = tile("acc", m, n, acc), tile("scaling", 1, n, "i64"), tile("mat", m, n, target)
    k = Kernel("cube")
    k.load("%x", a, acc, kinds[0])
    k.load("%s", raw, "i64", kinds[1])
    mode = " {reluPreMode = #pto.relu_pre_mode<normal_relu>}" if relu else ""
    if name.startswith("tstore"):
        out = torch.zeros(m, n, dtype=DTYPES[target])
        k.body += view("o", k.pointer(out, target), m, n, target)
        k.add(f"pto.{name} ins(%x, %s : {kinds[0]}, {kinds[1]}) outs(%o : {part(m, n, target)}){mode}")
    else:
        k.tile("%z", kinds[2])
        offsets, types = ("", "") if name == "tmov.fp" else (", %c0, %c0", ", index, index")
        k.add(f"pto.{name} ins(%x, %s{offsets} : {kinds[0]}, {kinds[1]}{types}) outs(%z : {kinds[2]}){mode}")
        out = k.store("%z", kinds[2], (m, n), target)
    k.run()
    expected = as_floats(a) * scales
    expected = np.maximum(expected, 0) if relu else expected
    if target in FLOATS:
        assert_floats(out, expected, target)
    else:
        limits = torch.iinfo(DTYPES[target])
        assert as_floats(out).tolist() == np.clip(np.rint(expected), limits.min, limits.max).tolist()


F8 = {"f8E4M3FN": torch.float8_e4m3fn, "f8E5M2": torch.float8_e5m2}


@every(("a_type", "b_type"), [(a, b) for a in F8 for b in F8])
@every("form", ("", ".acc", ".bias"))
@every("name", ("tmatmul.mx", "tgemv.mx"))
def test_products_of_scaled_elements(name: str, form: str, a_type: str, b_type: str) -> None:
    """A power of two for every 32 elements along k; to 1e-6."""
    m, depth, n = 1 if name == "tgemv.mx" else 16, 64, 32
    a, b = values("f32", m, depth, 1).to(F8[a_type]), values("f32", depth, n, 2).to(F8[b_type])
    powers = (torch.arange(n * 2) % 5 - 2).float().exp2()
    sa, sb = (powers[:size].reshape(shape).to(torch.float8_e8m0fnu) for size, shape in
              ((m * 2, (m, 2)), (n * 2, (2, n))))  # fmt: skip
    bias = values("f32", 1, n, 3)
    kinds = {"a": tile("left", 16, depth, a_type), "p": tile("scaling", 16, 2, "f8E8M0"),
             "b": tile("right", depth, n, b_type), "q": tile("scaling", 2, n, "f8E8M0")}  # fmt: skip
    made, row = tile("acc", 16, n, "f32"), tile("bias", 1, n, "f32")
    k = Kernel("cube", "a5")
    for letter, tensor in (("a", a), ("p", sa), ("b", b), ("q", sb)):
        type_ = {"a": a_type, "b": b_type}.get(letter, "f8E8M0")
        k.load(f"%{letter}", tensor, type_, kinds[letter], tuple(tensor.shape))  # type: ignore[arg-type]
    k.load("%bias", bias, "f32", row)
    k.tile("%z", made, (m, n))
    operands, types = "%a, %p, %b, %q", ", ".join(kinds.values())
    if form == ".bias":
        k.add(f"pto.{name}.bias ins({operands}, %bias : {types}, {row}) outs(%z : {made})")
    else:
        k.add(f"pto.{name} ins({operands} : {types}) outs(%z : {made})")
    if form == ".acc":
        k.add(f"pto.{name}.acc ins(%z, {operands} : {made}, {types}) outs(%z : {made})")
    out = k.store("%z", made, (m, n), "f32")
    k.run()
    x = as_floats(a.float()) * np.repeat(as_floats(sa.float()), 32, axis=1)
    y = as_floats(b.float()) * np.repeat(as_floats(sb.float()), 32, axis=0)
    expected = x @ y
    expected = 2 * expected if form == ".acc" else expected + as_floats(bias) if form == ".bias" else expected
    np.testing.assert_allclose(out.numpy(), expected, rtol=1e-6, atol=1e-4)
