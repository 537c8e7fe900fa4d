"""Scratch tiles, attributes that go together, extents and slots: one operation each, and the exact message."""

from __future__ import annotations

import pytest

from pypto_build.pto import parse
from pypto_build.pto.checks import check_module
from tests.pto.samples import module, tile
from tests.rows import every


def static(rows: int = 16, cols: int = 64, dtype: str = "f32", loc: str = "vec", valid: str = "", **more: str) -> str:
    """A tile type whose valid extents are written: all of it, or `rows x columns`."""
    v_rows, v_cols = valid.split("x") if valid else (str(rows), str(cols))
    text = tile(loc, rows, cols, dtype, **more)
    return text.replace("v_row=?", f"v_row={v_rows}").replace("v_col=?", f"v_col={v_cols}")


def problems(operation: str, arch: str = "a2a3", args: str = "", kind: str = "vector", **tiles: str) -> list[str]:
    """Return the checks' messages on one operation; `<x>` in it is the type of the tile %x."""
    lines = []
    for number, (name, type_) in enumerate(tiles.items()):
        lines.append(f"  %a{number} = arith.constant {number * 16384} : i64")
        lines.append(f"  %{name} = pto.alloc_tile addr = %a{number} : {type_}")
        operation = operation.replace(f"<{name}>", type_)
    actual = check_module(parse(module("\n".join([*lines, operation]), args, kind, arch), "k.pto"))
    return [str(error).split(": ", 1)[1] for error in actual]


T, ROW, COLUMN = static(), static(1, 64), static(16, 1, blayout="col_major")
HALF, BYTES, WIDE = static(dtype="f16"), static(dtype="i8"), static(16, 256)
INTS = static(dtype="i32")
BINARY = "pto.{op} ins(%x, %y, %t : <x>, <y>, <t>) outs(%o : <o>)"

# operation, tiles, what a2a3 says, what a5 says
SCRATCH: list[tuple[str, dict[str, str], list[str], list[str]]] = [
    (BINARY.format(op="trem"), {"x": T, "y": T, "t": static(valid="1x64"), "o": T},
     ["pto.trem: tmp has 1 valid rows, expected at least 2"], []),
    (BINARY.format(op="trem"), {"x": T, "y": T, "t": static(2, 32), "o": T},
     ["pto.trem: tmp has 32 valid columns, dst has 64"], []),
    (BINARY.format(op="trem"), {"x": T, "y": T, "t": static(2, 64), "o": T}, [], []),
    (BINARY.format(op="trem"), {"x": T, "y": T, "t": HALF, "o": T},
     ["pto.trem: tmp has elements f16, dst has f32"], []),
    (BINARY.format(op="txor"), {"x": BYTES, "y": BYTES, "t": static(1, 64, "i8"), "o": BYTES},
     ["pto.txor: tmp has 1 valid rows, dst has 16"], []),
    (BINARY.format(op="tprelu"), {"x": T, "y": T, "t": static(16, 32, "ui8"), "o": T},
     ["pto.tprelu: tmp has 16 rows, expected one more than the 16 of dst"], []),
    (BINARY.format(op="tprelu"), {"x": T, "y": T, "t": static(17, 32, "ui8", valid="16x7"), "o": T},
     ["pto.tprelu: tmp has 7 valid columns, expected 8, a bit for each of dst"], []),
    (BINARY.format(op="tprelu"), {"x": T, "y": T, "t": static(17), "o": T},
     ["pto.tprelu: tmp holds a mask of 8-bit integers, found elements f32"], []),
    ("pto.trems ins(%x, %s, %t : <x>, f32, <t>) outs(%o : <o>)", {"x": T, "t": static(valid="0x64"), "o": T},
     ["pto.trems: tmp has 0 valid rows, expected at least 1"], []),
    ("pto.trowargmax ins(%x, %t : <x>, <t>) outs(%o : <o>)",
     {"x": WIDE, "t": static(16, 8), "o": static(16, 1, "i32", blayout="col_major")},
     ["pto.trowargmax: tmp has 8 valid columns, expected at least 16 for 256 of src"], []),
    ("pto.trowargmax ins(%x, %t : <x>, <t>) outs(%o : <o>)",
     {"x": WIDE, "t": WIDE, "o": static(16, 1, "i32", blayout="col_major")}, [], []),
    ("pto.trowargmax ins(%x, %t : <x>, <t>) outs(%o : <o>)",
     {"x": T, "t": static(16, 1, blayout="col_major"), "o": static(16, 1, "i32", blayout="col_major")},
     ["pto.trowargmax: tmp has 16 valid rows, expected at least 32"], []),
    ("pto.tcolargmin ins(%x, %t : <x>, <t>) outs(%o : <o>)", {"x": WIDE, "t": static(1, 8), "o": static(1, 256, "i32")},
     ["pto.tcolargmin: tmp has 8 valid columns, expected at least 16 for 256 of src"], []),
    ("pto.tgather ins(%x, %i, %t : <x>, <i>, <t>) outs(%o : <o>)", {"x": T, "i": INTS, "t": T, "o": T},
     ["pto.tgather: tmp has elements f32, idx has i32"], []),
]  # fmt: skip


@every(("operation", "tiles", "a2a3", "a5"), SCRATCH)
def test_scratch(operation: str, tiles: dict[str, str], a2a3: list[str], a5: list[str]) -> None:
    assert problems(operation, "a2a3", "%s: f32", **tiles) == a2a3
    assert problems(operation, "a5", "%s: f32", **tiles) == a5


# the same on both platforms
EVERYWHERE: list[tuple[str, dict[str, str], list[str]]] = [
    ("pto.trowmax ins(%x, %t : <x>, <t>) outs(%o : <o>)", {"x": T, "t": HALF, "o": COLUMN},
     ["pto.trowmax: tmp has elements f16, src has f32"]),
    ("pto.tcolsum ins(%x, %t {isBinary = true} : <x>, <t>) outs(%o : <o>)", {"x": T, "t": static(8, 32), "o": ROW},
     ["pto.tcolsum: tmp has 32 columns, expected at least the 64 of src"]),
    ("pto.tcolsum ins(%x, %t : <x>, <t>) outs(%o : <o>)", {"x": T, "t": T, "o": ROW},
     ["pto.tcolsum: has a tmp without isBinary"]),
    ("pto.tcolsum ins(%x {isBinary = true} : <x>) outs(%o : <o>)", {"x": T, "o": ROW},
     ["pto.tcolsum: needs a tmp for isBinary"]),
    ("pto.trsqrt ins(%x : <x>) outs(%o : <o>) {precisionType = #pto<rsqrt_precision high_precision>}",
     {"x": T, "o": T}, ["pto.trsqrt: needs a tmp for precisionType high_precision"]),
    ("pto.tpow ins(%x, %y : <x>, <y>) outs(%o : <o>)", {"x": T, "y": T, "o": T},
     ["pto.tpow: needs a tmp for elements f32"]),
    ("pto.tpows ins(%x, %n, %t : <x>, i32, <t>) outs(%o : <o>)", {"x": INTS, "t": INTS, "o": INTS},
     ["pto.tpows: takes no tmp for elements i32"]),
    ("pto.trowargmax ins(%x, %t : <x>, <t>) outs(%o : <o>)",
     {"x": static(valid="0x64"), "t": static(valid="0x64"), "o": static(16, 8, "i32", valid="0x1")},
     ["pto.trowargmax: src has no valid rows"]),
    ("%w = pto.subview %x[%c, %c] sizes [8, 64] valid [%four, %full] : <x> -> " + static(8, 64, valid="5x64"),
     {"x": T}, ["pto.subview: the window has 4 valid rows, its type 5"]),
    ("pto.tstore ins(%x : <x>) outs(%part : !pto.partition_tensor_view<32x64xf32>)", {"x": T},
     ["pto.tstore: the tile has 16 x 64 valid elements, the partition 32x64"]),
    ("pto.mgather ins(%part, %i : !pto.partition_tensor_view<32x64xf32>, <i>) outs(%x : <x>)", {"i": INTS, "x": T},
     ["pto.mgather: attribute 'coalesce' is missing (row or elem)"]),
    ("%m = pto.alloc_multi_tile : !pto.multi_tile_buf<vec, 16x64xf32, count=1>", {},
     ["pto.alloc_multi_tile: has 2 tiles at least, found count=1"]),
    ("%m = pto.alloc_multi_tile : !pto.multi_tile_buf<vec, 16x64xf32, count=2>\n"
     "  %w = pto.multi_tile_get %m[%four] : !pto.multi_tile_buf<vec, 16x64xf32, count=2> -> "
     "!pto.tile_buf<vec, 16x64xf32>", {}, ["pto.multi_tile_get: slot 4 of 2"]),
    ("%w = pto.alloc_tile : " + tile(), {},
     ["pto.alloc_tile: valid_row is missing: the type has ? valid rows",
      "pto.alloc_tile: valid_col is missing: the type has ? valid columns"]),
]  # fmt: skip


@every("arch", ["a2a3", "a5"])
@every(("operation", "tiles", "messages"), EVERYWHERE)
def test_on_every_platform(operation: str, tiles: dict[str, str], messages: list[str], arch: str) -> None:
    constants = "".join(
        f"  %{name} = arith.constant {value} : index\n" for name, value in (("c", 0), ("four", 4), ("full", 64))
    )
    args = "%n: i32, %part: !pto.partition_tensor_view<32x64xf32>"
    assert problems(constants + "  " + operation, arch, args, **tiles) == messages


COMPARE = "pto.tgather ins(%x, %s, %t {{cmpMode = #pto<cmp {mode}>}} : <x>, i32, <t>) outs(%o, %c : <o>, <c>)"


@pytest.mark.parametrize(
    ("dtype", "mode", "arch", "messages"),
    [
        ("f16", "gt", "a2a3", []),
        ("i32", "eq", "a2a3", []),
        ("i32", "gt", "a2a3", ["pto.tgather: src has elements i32, a2a3 compares f16, f32"]),
        ("i16", "gt", "a5", []),
        ("f32", "lt", "a5", ["pto.tgather: attribute 'cmpMode' is eq or gt, found lt"]),
    ],
)
def test_gather_that_compares(dtype: str, mode: str, arch: str, messages: list[str]) -> None:
    """Its result are positions: the width of the data does not matter."""
    tiles = {"x": static(dtype=dtype), "t": BYTES, "o": INTS, "c": INTS}
    assert problems(COMPARE.format(mode=mode), arch, "%s: i32", **tiles) == messages


A5_ELEMENTS = [
    ("tdiv", "i8", "src0 has elements i8, a5 takes f16, f32, i16, i32"),
    ("tmax", "bf16", "src0 has elements bf16, a5 takes f16, f32, i16, i32, i8"),
    ("tand", "f32", "src0 has elements f32, a5 takes i16, i32, i8"),
    ("tshl", "i64", "src0 has elements i64, a5 takes i16, i32, i8"),
]


@pytest.mark.parametrize(("op", "dtype", "message"), A5_ELEMENTS)
def test_element_types_of_a5(op: str, dtype: str, message: str) -> None:
    type_ = static(dtype=dtype)
    text = f"pto.{op} ins(%x, %y : <x>, <y>) outs(%o : <o>)"
    assert problems(text, "a5", x=type_, y=type_, o=type_) == [f"pto.{op}: {message}"]


RING = "  pto.aic_initialize_pipe {{id = 0, dir_mask = {mask}, slot_size = 1024, {more}}}"


@pytest.mark.parametrize(
    ("mask", "more", "arch", "messages"),
    [
        (1, "slot_num = 0", "a2a3", ["slot_num is 1 at least, found 0"]),
        (1, "local_slot_num = 8", "a2a3", []),
        (3, "local_slot_num = 5", "a2a3", ["local_slot_num is between 1 and slot_num, which is 4, found 5"]),
        (2, "slot_num = 2, local_slot_num = 3", "a2a3",
         ["local_slot_num is between 1 and slot_num, which is 2, found 3"]),
        (1, "local_slot_num = 1", "a5", ["attribute 'local_slot_num' is for a2a3, not a5"]),
    ],
)  # fmt: skip
def test_slots_of_a_pipe(mask: int, more: str, arch: str, messages: list[str]) -> None:
    text = RING.format(mask=mask, more=more)
    assert problems(text, arch, kind="cube") == [f"pto.aic_initialize_pipe: {message}" for message in messages]
