"""TLOAD, TSTORE and the moves between tiles, for every layout and element size, against plain indexing."""

from __future__ import annotations

import numpy as np
import pytest

from tests.rows import every
from tests.runtime.instructions.tile_harness import (
    CPP,
    NUMPY,
    Array,
    Cases,
    Core,
    Tile,
    bf16_round,
    declare,
    decode,
    encode,
    size_of,
)

DTYPES = ("f32", "bf16", "i8")
REGIONS = ((64, 96), (33, 41), (16, 32), (1, 96), (64, 1), (0, 7), (7, 0), (31, 95))
# Every layout a load or a move meets, with the memory it lives in.
LAYOUTS = {
    "vec_nd": ("ND", "Vec"),
    "vec_dn": ("DN", "Vec"),
    "mat_nz": ("NZ", "Mat"),
    "mat_zn": ("ZN", "Mat"),
    "left_zz": ("ZZ", "Left"),
    "right_zn": ("ZN", "Right"),
}
MOVES = [
    ("mat_nz", "left_zz"), ("mat_nz", "right_zn"), ("mat_zn", "right_zn"), ("mat_zn", "left_zz"), ("vec_nd", "vec_nd"),
    ("vec_nd", "vec_dn"), ("vec_dn", "vec_nd"), ("vec_nd", "mat_nz"), ("mat_nz", "vec_nd"), ("mat_nz", "mat_zn"),
]  # fmt: skip
GLOBAL_ROWS, GLOBAL_COLS = 70, 100
AT = 1024  # of the destination


def _tile(dtype: str, kind: str, rows: int = 64, cols: int = 96) -> Tile:
    layout, space = LAYOUTS[kind]
    return Tile(dtype, rows, cols, layout, space)


def _global(dtype: str, pointer: str, shape: str, stride: str, layout: str = "ND") -> str:
    """A GlobalTensor `g` with dynamic extents written as C++ expressions."""
    return (
        "using shape_t = Shape<-1, -1, -1, -1, -1>; using stride_t = Stride<-1, -1, -1, -1, -1>;\n"
        f"GlobalTensor<{CPP[dtype]}, shape_t, stride_t, Layout::{layout}> "
        f"g(({CPP[dtype]} *){pointer}, shape_t({shape}), stride_t({stride}));"
    )


MATRIX = "1, 1, 1, v[0], v[1]", f"0, 0, 0, {GLOBAL_COLS}, 1"
COLUMN_MAJOR = "1, 1, 1, v[0], v[1]", f"0, 0, 0, 1, {GLOBAL_ROWS}"


@pytest.fixture(scope="module")
def core() -> Core:
    cases = Cases()
    for dtype in DTYPES:
        for kind in LAYOUTS:
            tile = declare(("t", _tile(dtype, kind), 0, 0))
            for order, (shape, stride) in (("nd", MATRIX), ("dn", COLUMN_MAJOR)):
                view = _global(dtype, "v[2]", shape, stride, order.upper())
                cases.add(f"load_{dtype}_{kind}_{order}", f"{tile}\n{view}\nTLOAD(t, g);")
                cases.add(f"store_{dtype}_{kind}_{order}", f"{tile}\n{view}\nTSTORE(g, t);")
        for source, target in MOVES:
            same_space = LAYOUTS[source][1] == LAYOUTS[target][1]
            address = 65536 if same_space else 0
            tiles = declare(("s", _tile(dtype, source), 0, 2), ("d", _tile(dtype, target, 32, 64), address, 0))
            cases.add(f"extract_{dtype}_{source}_{target}", f"{tiles}\nTEXTRACT(d, s, v[4], v[5]);")
            tiles = declare(("s", _tile(dtype, source, 32, 64), 0, 0), ("d", _tile(dtype, target), address, 2))
            cases.add(f"insert_{dtype}_{source}_{target}", f"{tiles}\nTINSERT(d, s, v[4], v[5]);")
        tiles = declare(("s", _tile(dtype, "vec_nd"), 0, 0), ("d", _tile(dtype, "vec_nd", 96, 64), 65536, 2))
        cases.add(f"transpose_{dtype}", f"{tiles}\nTTRANS(d, s, d);")
        tiles = declare(
            ("a", _tile(dtype, "vec_nd", 32, 32), 0, 0),
            ("b", _tile(dtype, "vec_nd", 32, 64), 8192, 2),
            ("d", _tile(dtype, "vec_nd"), 65536, 4),
        )
        cases.add(f"concat_{dtype}", f"{tiles}\nTCONCAT(d, a, b);")
        cases.add(
            f"nz_blocks_{dtype}",
            declare(("t", _tile(dtype, "mat_nz"), 0, 0))
            + _global(dtype, "v[2]", f"1, {96 * size_of(dtype) // 32}, 4, 16, {32 // size_of(dtype)}",
                      f"0, {64 * 32 // size_of(dtype)}, {512 // size_of(dtype)}, {32 // size_of(dtype)}, 1", "NZ")
            + "if (v[3]) TSTORE(g, t); else TLOAD(t, g);",
        )  # fmt: skip
        cases.add(
            f"stacked_{dtype}",
            declare(("t", _tile(dtype, "vec_nd"), 0, 0))
            + _global(dtype, "v[2]", "2, 2, 4, 4, v[1]", f"4000, 1800, 400, {GLOBAL_COLS}, 1")
            + "if (v[3]) TSTORE(g, t); else TLOAD(t, g);",
        )
    accumulator = Tile("f32", 64, 96, "NZ", "Acc", 1024)
    for target in ("f32", "f16", "bf16"):
        tile = declare(("t", accumulator, 0, 0))
        cases.add(f"store_acc_{target}", f"{tile}\n{_global(target, 'v[2]', *MATRIX)}\nTSTORE(g, t);")
        for kind in ("vec_nd", "mat_nz"):
            tiles = declare(("s", accumulator, 0, 0), ("d", _tile(target, kind), 0, 0))
            cases.add(f"move_acc_{target}_{kind}", f"{tiles}\nTMOV(d, s);")
    for pad in ("Zero", "Max", "Min"):
        for dtype in ("f32", "f16", "bf16", "i8", "u8", "i32"):
            padded = Tile(dtype, 32, 64, pad=pad)
            tiles = declare(("s", Tile(dtype, 32, 64), 0, 0), ("d", padded, 65536, 0), ("i", padded, 0, 0))
            view = _global(dtype, "v[2]", *MATRIX)
            cases.add(f"pad_load_{dtype}_{pad}", f"{tiles}\n{view}\nTLOAD(d, g);")
            cases.add(f"pad_fill_{dtype}_{pad}", f"{tiles}\nTFILLPAD(d, s);")
            cases.add(f"pad_in_place_{dtype}_{pad}", f"{tiles}\nTFILLPAD_INPLACE(i, s);")
    custom = Tile("f32", 32, 64, pad="PadValueCustom(-2.5f)")
    cases.add("pad_custom", declare(("s", Tile("f32", 32, 64), 0, 0), ("d", custom, 65536, 0)) + "TFILLPAD(d, s);")
    for dtype in ("e4m3", "e8m0", "hif8"):
        tiles = declare(("s", Tile(dtype, 32, 64), 0, 0), ("d", Tile(dtype, 32, 64, pad="Max"), 65536, 0))
        cases.add(f"pad_fill_{dtype}", f"{tiles}\nTFILLPAD(d, s);")
    wide = Tile("f32", 40, 128, pad="Min")
    cases.add("pad_expand", declare(("s", Tile("f32", 32, 64), 0, 0), ("d", wide, 65536, 0)) + "TFILLPAD_EXPAND(d, s);")
    cases.add(
        "assign_host",
        declare(("s", Tile("f32", 32, 64), 4096, 0))
        + "auto d = s; TASSIGN(d, (uint64_t)s.data()); *(int64_t *)v[2] = d.data() == s.data();",
    )
    return cases.build()


def _numbered(dtype: str, shape: tuple[int, ...]) -> Array:
    return (
        np.random.default_rng(3)
        .integers(0, 1 << (8 * size_of(dtype)), shape, dtype=np.uint64)
        .astype(f"u{size_of(dtype)}")
        .view(NUMPY[dtype])
    )


def _outside(shape: tuple[int, int], top: int, left: int, rows: int, cols: int) -> Array:
    mask = np.ones(shape, bool)
    mask[top : top + rows, left : left + cols] = False
    return mask


def _same_bits(a: Array, b: Array) -> bool:
    return a.shape == b.shape and np.ascontiguousarray(a).tobytes() == np.ascontiguousarray(b).tobytes()


@every("region", REGIONS)
@every("order", ["nd", "dn"])
@every("kind", LAYOUTS)
@every("dtype", DTYPES)
def test_load_and_store(core: Core, dtype: str, kind: str, order: str, region: tuple[int, int]) -> None:
    tile, (rows, cols) = _tile(dtype, kind), region
    memory = _numbered(dtype, (GLOBAL_ROWS, GLOBAL_COLS))
    stored = np.asfortranarray(memory) if order == "dn" else memory
    core.fill(tile.space, 0x5A)
    before = core.get(tile, 0).copy()
    core.call(f"load_{dtype}_{kind}_{order}", rows, cols, stored.ctypes.data)
    after = core.get(tile, 0)
    assert _same_bits(after[:rows, :cols], memory[:rows, :cols])
    outside = _outside(after.shape, 0, 0, rows, cols)
    assert _same_bits(after[outside], before[outside])

    target = np.zeros_like(stored, order="K")
    core.call(f"store_{dtype}_{kind}_{order}", rows, cols, target.ctypes.data)
    assert _same_bits(target[:rows, :cols], memory[:rows, :cols])
    assert not target.view(f"u{size_of(dtype)}")[_outside(target.shape, 0, 0, rows, cols)].any()


@every("corner", [(0, 0), (16, 32), (5, 7), (32, 16)])
@every("region", [(32, 64), (17, 33), (1, 1), (0, 3)])
@every("move", MOVES)
@every("dtype", DTYPES)
def test_extract_and_insert(
    core: Core, dtype: str, move: tuple[str, str], region: tuple[int, int], corner: tuple[int, int]
) -> None:
    (source, target), (rows, cols), (top, left) = move, region, corner
    address = 65536 if LAYOUTS[source][1] == LAYOUTS[target][1] else 0
    large, small = _tile(dtype, source), _tile(dtype, target, 32, 64)
    values = _numbered(dtype, (64, 96))
    core.fill(small.space, 0)
    core.put(large, 0, values)
    core.call(f"extract_{dtype}_{source}_{target}", rows, cols, 64, 96, top, left)
    actual = core.get(small, address)
    assert _same_bits(actual[:rows, :cols], values[top : top + rows, left : left + cols])
    assert not actual[_outside((32, 64), 0, 0, rows, cols)].any()

    small, large = _tile(dtype, source, 32, 64), _tile(dtype, target)
    core.fill(large.space, 0)
    core.put(small, 0, values[:32, :64])
    core.call(f"insert_{dtype}_{source}_{target}", rows, cols, 64, 96, top, left)
    actual = core.get(large, address)
    expected = np.zeros_like(actual)
    expected[top : top + rows, left : left + cols] = values[:rows, :cols]
    assert _same_bits(actual, expected)


@every("region", [(64, 96), (33, 41), (1, 5), (16, 16), (0, 1)])
@every("dtype", DTYPES)
def test_transpose(core: Core, dtype: str, region: tuple[int, int]) -> None:
    values, (rows, cols) = _numbered(dtype, (64, 96)), region
    core.put(_tile(dtype, "vec_nd"), 0, values)
    core.call(f"transpose_{dtype}", rows, cols, cols, rows)
    assert _same_bits(core.get(_tile(dtype, "vec_nd", 96, 64), 65536)[:cols, :rows], values[:rows, :cols].T)


@pytest.mark.parametrize("dtype", DTYPES)
def test_concat(core: Core, dtype: str) -> None:
    values = _numbered(dtype, (64, 96))
    core.put(_tile(dtype, "vec_nd", 32, 32), 0, values[:32, :32])
    core.put(_tile(dtype, "vec_nd", 32, 64), 8192, values[:32, 32:])
    core.call(f"concat_{dtype}", 32, 9, 32, 50, 32, 59)
    joined = np.hstack([values[:32, :9], values[:32, 32:82]])
    assert _same_bits(core.get(_tile(dtype, "vec_nd"), 65536)[:32, :59], joined)


@pytest.mark.parametrize("dtype", DTYPES)
def test_global_memory_in_nz_blocks(core: Core, dtype: str) -> None:
    tile = _tile(dtype, "mat_nz")
    memory = _numbered(dtype, (64 * 96,))
    core.call(f"nz_blocks_{dtype}", 64, 96, memory.ctypes.data, 0)
    assert _same_bits(core.elements(tile, 0), memory)
    back = np.zeros_like(memory)
    core.call(f"nz_blocks_{dtype}", 64, 96, back.ctypes.data, 1)
    assert _same_bits(back, memory)


@pytest.mark.parametrize("dtype", DTYPES)
def test_outer_dimensions_stack_as_rows(core: Core, dtype: str) -> None:
    memory = _numbered(dtype, (10000,))
    core.call(f"stacked_{dtype}", 61, 50, memory.ctypes.data, 0)
    index = np.array(
        [
            i * 4000 + j * 1800 + k * 400 + r * GLOBAL_COLS
            for i in range(2)
            for j in range(2)
            for k in range(4)
            for r in range(4)
        ]
    )
    index = index[:61, None] + np.arange(50)
    assert _same_bits(core.get(_tile(dtype, "vec_nd"), 0)[:61, :50], memory[index])
    back = np.zeros_like(memory)
    core.call(f"stacked_{dtype}", 61, 50, back.ctypes.data, 1)
    assert _same_bits(back[index], memory[index])
    assert np.count_nonzero(back) <= index.size


@every("region", [(64, 96), (33, 41), (1, 1)])
@every("dtype", ["f32", "f16", "bf16"])
def test_accumulator_is_converted_on_its_way_out(core: Core, dtype: str, region: tuple[int, int]) -> None:
    rows, cols = region
    accumulator = Tile("f32", 64, 96, "NZ", "Acc", 1024)
    values = np.random.default_rng(1).standard_normal((64, 96)).astype(np.float32)
    core.put(accumulator, 0, values)
    expected = encode(values, dtype)[:rows, :cols]
    target = np.zeros((GLOBAL_ROWS, GLOBAL_COLS), NUMPY[dtype])
    core.call(f"store_acc_{dtype}", rows, cols, target.ctypes.data)
    assert _same_bits(target[:rows, :cols], expected)
    for kind in ("vec_nd", "mat_nz"):
        core.call(f"move_acc_{dtype}_{kind}", rows, cols)
        assert _same_bits(core.get(_tile(dtype, kind), 0)[:rows, :cols], expected)


def _pad_value(dtype: str, pad: str) -> float:
    if pad == "Zero":
        return 0
    if dtype in ("f32", "f16", "bf16"):
        return np.inf if pad == "Max" else -np.inf
    info = np.iinfo(NUMPY[dtype])
    return int(info.max if pad == "Max" else info.min)


@every("region", [(32, 64), (9, 13), (0, 0), (1, 64)])
@every("pad", ["Zero", "Max", "Min"])
@every("dtype", ["f32", "f16", "bf16", "i8", "u8", "i32"])
def test_padding(core: Core, dtype: str, pad: str, region: tuple[int, int]) -> None:
    rows, cols = region
    memory = encode(np.arange(GLOBAL_ROWS * GLOBAL_COLS).reshape(GLOBAL_ROWS, GLOBAL_COLS) % 100, dtype)
    expected = np.full((32, 64), _pad_value(dtype, pad), np.float64)
    expected[:rows, :cols] = decode(memory, dtype)[:rows, :cols]
    core.fill("Vec", 0x11)
    core.call(f"pad_load_{dtype}_{pad}", rows, cols, memory.ctypes.data)
    assert np.array_equal(decode(core.get(Tile(dtype, 32, 64), 65536), dtype), expected)
    core.put(Tile(dtype, 32, 64), 0, memory[:32, :64])
    core.fill("Vec", 0x11)
    core.put(Tile(dtype, 32, 64), 0, memory[:32, :64])
    core.call(f"pad_fill_{dtype}_{pad}", rows, cols)
    assert np.array_equal(decode(core.get(Tile(dtype, 32, 64), 65536), dtype), expected)
    core.call(f"pad_in_place_{dtype}_{pad}", rows, cols)
    assert np.array_equal(decode(core.get(Tile(dtype, 32, 64), 0), dtype), expected)


@pytest.mark.parametrize("dtype", ["e4m3", "e8m0", "hif8"])
def test_padding_of_small_floating_point_types_is_zero(core: Core, dtype: str) -> None:
    core.fill("Vec", 0x11)
    core.call(f"pad_fill_{dtype}", 9, 13)
    expected = np.zeros((32, 64), np.uint8)
    expected[:9, :13] = 0x11
    assert np.array_equal(core.get(Tile(dtype, 32, 64), 65536), expected)


def test_padding_with_a_value_of_its_own_and_into_a_larger_tile(core: Core) -> None:
    values = np.random.default_rng(1).standard_normal((32, 64)).astype(np.float32)
    core.put(Tile("f32", 32, 64), 0, values)
    core.call("pad_custom", 10, 11)
    expected = np.full((32, 64), -2.5, np.float32)
    expected[:10, :11] = values[:10, :11]
    assert np.array_equal(core.get(Tile("f32", 32, 64), 65536), expected)
    core.call("pad_expand", 10, 11)
    wide = np.full((40, 128), -np.inf, np.float32)
    wide[:10, :11] = values[:10, :11]
    assert np.array_equal(core.get(Tile("f32", 40, 128), 65536), wide)


def test_a_host_address_inside_a_memory_is_accepted(core: Core) -> None:
    answer = np.zeros(1, np.int64)
    core.call("assign_host", 1, 1, answer.ctypes.data)
    assert answer[0] == 1


def test_rounding_model_agrees_with_exact_arithmetic() -> None:
    halfway = np.array([1 + 2.0**-8, 1 + 3 * 2.0**-8, 1 + 2.0**-8 + 2.0**-40], np.float64)
    assert bf16_round(halfway).tolist() == [0x3F80, 0x3F82, 0x3F81]
