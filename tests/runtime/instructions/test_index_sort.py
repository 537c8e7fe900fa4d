"""Gathers, scatters, masks, sorts and generators against numpy."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.runtime.instructions.tile_harness import CPP, NUMPY, Array, Cases, Core, Tile, declare, encode, size_of

A, B, C, D = 0, 65536, 131072, 196608
MODES = {"EQ": np.equal, "NE": np.not_equal, "LT": np.less, "LE": np.less_equal, "GT": np.greater, "GE": np.greater_equal}
PATTERNS = {"P0101": (2, 0), "P1010": (2, 1), "P0001": (4, 0), "P0010": (4, 1), "P0100": (4, 2), "P1000": (4, 3), "P1111": (1, 0)}
COMPARED = ("f32", "f16", "bf16", "i32", "i16", "u8")
TABLE = (40, 24)


def _table(dtype: str) -> str:
    rows, cols = TABLE
    return (
        f"using shape_t = Shape<1, 1, 1, {rows}, {cols}>; using stride_t = Stride<{rows * cols}, {rows * cols}, {rows * cols}, {cols}, 1>;\n"
        f"GlobalTensor<{CPP[dtype]}, shape_t, stride_t> g(({CPP[dtype]} *)v[2], shape_t(), stride_t());"
    )


def _cases(arch: int) -> Cases:
    cases = Cases(arch=arch)
    for dtype in COMPARED:
        full = Tile(dtype, 16, 64)
        mask = Tile("u8", 16, 32)
        tiles = declare(("a", full, A, 0), ("b", full, B, 0), ("d", full, C, 0), ("m", mask, D, 0))
        for mode in MODES:
            cases.add(f"TCMP_{dtype}_{mode}", f"{tiles}\nTCMP(m, a, b, CmpMode::{mode});")
            cases.add(f"TCMPS_{dtype}_{mode}", f"{tiles}\na_t::DType s = a_t::DType(3); TCMPS(m, a, s, CmpMode::{mode});")
        cases.add(f"TSEL_{dtype}", f"{tiles}\nTSEL(d, m, a, b, d);")
        cases.add(f"TSELS_{dtype}", f"{tiles}\na_t::DType s = a_t::DType(3); TSELS(d, m, a, d, s);")
    for dtype in ("f32", "bf16", "i8"):
        full, index = Tile(dtype, 16, 64), Tile("i32", 16, 64)
        tiles = declare(("s", full, A, 0), ("i", index, B, 0), ("d", full, C, 0))
        cases.add(f"TGATHER_{dtype}", f"{tiles}\nTGATHER(d, s, i, s);")
        cases.add(f"TSCATTER_{dtype}", f"{tiles}\nTSCATTER(d, s, i);")
        for pattern in PATTERNS:
            cases.add(f"TGATHER_{pattern}_{dtype}", f"{tiles}\nTGATHER<d_t, s_t, MaskPattern::{pattern}>(d, s);")
            wide = declare(("s", Tile(dtype, 16, 64), A, 0), ("w", Tile(dtype, 16, 256), C, 0), ("t", Tile(dtype, 64, 64), C, 0))
            cases.add(f"TSCATTER_{pattern}_{dtype}", f"{wide}\nif (v[2]) TSCATTER<MaskPattern::{pattern}, ScatterAxis::COL>(t, s); else TSCATTER<MaskPattern::{pattern}>(w, s);")
        offset = Tile("u32", 16, 8)
        cases.add(f"TGATHERB_{dtype}", declare(("s", full, A, 0), ("o", offset, B, 2), ("d", full, C, 0)) + "TGATHERB(d, s, o);")
        for coalesce in ("Row", "Elem"):
            rows = declare(("d", Tile(dtype, 16, 32), A, 0), ("i", Tile("i32", 1, 16) if coalesce == "Row" else Tile("i32", 16, 32), B, 3))
            for oob in ("Undefined", "Clamp", "Wrap", "Zero"):
                cases.add(f"MGATHER_{coalesce}_{oob}_{dtype}", f"{rows}\n{_table(dtype)}\nMGATHER<Coalesce::{coalesce}, GatherOOB::{oob}>(d, g, i);")
            for oob in ("Undefined", "Skip", "Clamp", "Wrap"):
                cases.add(f"MSCATTER_{coalesce}_{oob}_{dtype}", f"{rows}\n{_table(dtype)}\nMSCATTER<Coalesce::{coalesce}, ScatterAtomicOp::None, ScatterOOB::{oob}>(g, d, i);")
            for atomic in ("Add", "Max", "Min"):
                cases.add(f"MSCATTER_{coalesce}_{atomic}_{dtype}", f"{rows}\n{_table(dtype)}\nMSCATTER<Coalesce::{coalesce}, ScatterAtomicOp::{atomic}>(g, d, i);")
    counted = declare(("s", Tile("f32", 16, 64), A, 0), ("k", Tile("i32", 1, 16), B, 2), ("c", Tile("i32", 1, 16), C, 2), ("d", Tile("i32", 16, 64), D, 0))
    for mode in ("GT", "EQ"):
        cases.add(f"TGATHER_{mode}", f"{counted}\nTGATHER<d_t, s_t, k_t, c_t, s_t, CmpMode::{mode}>(d, s, k, c, s, 7u);")
    for dtype, per in (("f32", 2), ("f16", 4)):
        tiles = declare(("s", Tile(dtype, 4, 128), A, 0), ("i", Tile("u32", 4, 128), B, 0), ("d", Tile(dtype, 4, 128 * per), C, 2))
        cases.add(f"TSORT32_{dtype}", f"{tiles}\nTSORT32(d, s, i);")
        one = declare(("s", Tile(dtype, 4, 128), A, 0), ("i", Tile("u32", 1, 128), B, 0), ("d", Tile(dtype, 4, 128 * per), C, 2))
        cases.add(f"TSORT32_shared_{dtype}", f"{one}\nTSORT32(d, s, i, s);")
        line = Tile(dtype, 1, 512 * per)
        cases.add(f"TMRGSORT_{dtype}", declare(("s", line, A, 0), ("d", line, B, 0)) + "TMRGSORT(d, s, v[2]);")
        short = Tile(dtype, 1, 128 * per)
        lists = declare(("a", short, A, 0), ("b", short, A + 4096, 2), ("c", short, A + 8192, 4), ("e", short, A + 12288, 6), ("t", line, B, 8), ("d", line, C, 8))
        for exhausted in ("false", "true"):
            out = "int64_t *n = (int64_t *)v[10]; n[0] = x.mrgSortList0; n[1] = x.mrgSortList1; n[2] = x.mrgSortList2; n[3] = x.mrgSortList3;"
            for count, names in ((2, "a, b"), (3, "a, b, c"), (4, "a, b, c, e")):
                types = ", ".join(f"{n.strip()}_t" for n in names.split(","))
                cases.add(f"TMRGSORT_{count}_{exhausted}_{dtype}", f"{lists}\nMrgSortExecutedNumList x; TMRGSORT<d_t, t_t, {types}, {exhausted}>(d, x, t, {names}); {out}")
    for dtype in ("i32", "u32", "i16"):
        tiles = declare(("d", Tile(dtype, 1, 64), A, 0))
        t = CPP[dtype]
        cases.add(f"TCI_{dtype}_0", f"{tiles}\n{t} s = {t}(v[2]); TCI<d_t, {t}, 0>(d, s);")
        cases.add(f"TCI_{dtype}_1", f"{tiles}\n{t} s = {t}(v[2]); TCI<d_t, {t}, 1>(d, s);")
    for dtype in ("f32", "i32", "bf16"):
        for upper in (0, 1):
            cases.add(f"TTRI_{dtype}_{upper}", declare(("d", Tile(dtype, 16, 32), A, 0)) + f"TTRI<d_t, {upper}>(d, v[2]);")
    for rounds in (7, 10):
        cases.add(f"TRANDOM_{rounds}", declare(("d", Tile("u32", 16, 64), A, 0)) + f"TRandomKey k = {{0x1111, 0x2222}}; TRandomCounter n = {{0xffffffff, 6, 7, 8}}; TRANDOM<{rounds}>(d, k, n);")
    return cases


@pytest.fixture(scope="module")
def core(build_directory: Path) -> Core:
    return _cases(arch=5).build(build_directory)


def _values(dtype: str, shape: tuple[int, int], seed: int = 1) -> Array:
    return encode(np.random.default_rng(seed).integers(0, 8, shape), dtype)


def _unpack(bits: Array, cols: int) -> Array:
    return np.unpackbits(bits, axis=1, bitorder="little")[:, :cols].astype(bool)


@pytest.mark.parametrize("region", [(16, 64), (5, 33), (1, 3), (0, 8), (16, 8)], ids=str)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dtype", COMPARED)
def test_comparisons_write_packed_rows(core: Core, dtype: str, mode: str, region: tuple[int, int]) -> None:
    rows, cols = region
    a, b = _values(dtype, (16, 64), 1), _values(dtype, (16, 64), 2)
    mask = Tile("u8", 16, 32)
    for name, expected in ((f"TCMP_{dtype}_{mode}", MODES[mode](a, b)), (f"TCMPS_{dtype}_{mode}", MODES[mode](a, encode(np.array(3), dtype)))):
        core.fill("Vec", 0xEE)
        core.put(Tile(dtype, 16, 64), A, a)
        core.put(Tile(dtype, 16, 64), B, b)
        core.call(name, rows, cols)
        packed = core.get(mask, D)
        used = (cols + 7) // 8
        assert np.array_equal(_unpack(packed[:rows], cols), expected[:rows, :cols])
        assert (packed[:, used:] == 0xEE).all() and (packed[rows:] == 0xEE).all()
        assert not np.unpackbits(packed[:rows, :used], axis=1, bitorder="little")[:, cols:].any()


def test_comparisons_with_nan(core: Core) -> None:
    a = np.full((16, 64), np.nan, np.float32)
    core.put(Tile("f32", 16, 64), A, a)
    core.put(Tile("f32", 16, 64), B, a)
    for mode in MODES:
        core.call(f"TCMP_f32_{mode}", 16, 64)
        assert _unpack(core.get(Tile("u8", 16, 32), D), 64).all() == (mode == "NE")


def test_int32_comparison_of_a2a3_is_always_equality(build_directory: Path) -> None:
    core = _cases(arch=2).build(build_directory)
    a, b = _values("i32", (16, 64), 1), _values("i32", (16, 64), 2)
    core.put(Tile("i32", 16, 64), A, a)
    core.put(Tile("i32", 16, 64), B, b)
    for mode in MODES:
        core.call(f"TCMP_i32_{mode}", 16, 64)
        assert np.array_equal(_unpack(core.get(Tile("u8", 16, 32), D), 64), a == b)
        core.call(f"TCMPS_i32_{mode}", 16, 64)
        assert np.array_equal(_unpack(core.get(Tile("u8", 16, 32), D), 64), MODES[mode](a, 3))


@pytest.mark.parametrize("region", [(16, 64), (5, 33), (1, 3), (0, 8)], ids=str)
@pytest.mark.parametrize("dtype", COMPARED)
def test_selections(core: Core, dtype: str, region: tuple[int, int]) -> None:
    rows, cols = region
    a, b = _values(dtype, (16, 64), 1), _values(dtype, (16, 64), 2)
    bits = np.random.default_rng(3).integers(0, 256, (16, 32), dtype=np.uint8)
    chosen = _unpack(bits, 64)
    full = Tile(dtype, 16, 64)
    for name, other in ((f"TSEL_{dtype}", b), (f"TSELS_{dtype}", np.full_like(a, encode(np.array(3), dtype)))):
        core.fill("Vec", 0)
        core.put(full, A, a)
        core.put(full, B, b)
        core.put(Tile("u8", 16, 32), D, bits)
        core.call(name, rows, cols)
        expected = np.zeros_like(a)
        expected[:rows, :cols] = np.where(chosen, a, other)[:rows, :cols]
        assert np.array_equal(core.get(full, C), expected)


@pytest.mark.parametrize("region", [(16, 64), (5, 33), (0, 8)], ids=str)
@pytest.mark.parametrize("dtype", ["f32", "bf16", "i8"])
def test_gather_and_scatter(core: Core, dtype: str, region: tuple[int, int]) -> None:
    rows, cols = region
    rng = np.random.default_rng(2)
    values, index = _values(dtype, (16, 64)), rng.permutation(16 * 64).reshape(16, 64).astype(np.int32)
    full = Tile(dtype, 16, 64)
    core.fill("Vec", 0)
    core.put(full, A, values)
    core.put(Tile("i32", 16, 64), B, index)
    core.call(f"TGATHER_{dtype}", rows, cols)
    assert np.array_equal(core.get(full, C)[:rows, :cols], values.reshape(-1)[index][:rows, :cols])
    core.put(full, C, np.zeros_like(values))
    core.call(f"TSCATTER_{dtype}", rows, cols)
    expected = np.zeros(16 * 64, values.dtype)
    expected[index[:rows, :cols].reshape(-1)] = values[:rows, :cols].reshape(-1)
    assert np.array_equal(core.get(full, C).reshape(-1), expected)


def test_gather_beyond_the_memory_gives_zero(core: Core) -> None:
    core.fill("Vec", 0x7F)
    core.put(Tile("i32", 16, 64), B, np.full((16, 64), 1 << 30, np.int32))
    core.call("TGATHER_f32", 16, 64)
    assert (core.get(Tile("f32", 16, 64), C) == 0).all()


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("dtype", ["f32", "bf16", "i8"])
def test_mask_patterns(core: Core, dtype: str, pattern: str) -> None:
    period, first = PATTERNS[pattern]
    values, full = _values(dtype, (16, 64)), Tile(dtype, 16, 64)
    for rows, cols in ((16, 64), (3, 35), (1, 1)):
        core.fill("Vec", 0)
        core.put(full, A, values)
        core.call(f"TGATHER_{pattern}_{dtype}", rows, cols)
        selected = values[:rows, first:cols:period]
        assert np.array_equal(core.get(full, C)[:rows, : selected.shape[1]], selected)
        for by_row in (0, 1):
            tile = Tile(dtype, 64, 64) if by_row else Tile(dtype, 16, 256)
            core.put(tile, C, encode(np.full((tile.rows, tile.cols), 9), dtype))
            core.call(f"TSCATTER_{pattern}_{dtype}", rows, cols, by_row)
            spread = np.zeros((rows * period, cols) if by_row else (rows, cols * period), values.dtype)
            if by_row:
                spread[first::period] = values[:rows, :cols]
            else:
                spread[:, first::period] = values[:rows, :cols]
            assert np.array_equal(core.get(tile, C)[: spread.shape[0], : spread.shape[1]], spread)


@pytest.mark.parametrize("dtype", ["f32", "bf16", "i8"])
def test_gather_of_blocks(core: Core, dtype: str) -> None:
    values = _values(dtype, (16, 64))
    block = 32 // size_of(dtype)
    count = 64 // block
    order = np.random.default_rng(1).permutation(16 * count).reshape(16, count).astype(np.uint32)
    core.put(Tile(dtype, 16, 64), A, values)
    core.put(Tile("u32", 16, 8), B, order * 32)
    core.call(f"TGATHERB_{dtype}", 16, 64, 16, count)
    expected = values.reshape(-1, block)[order].reshape(16, 64)
    assert np.array_equal(core.get(Tile(dtype, 16, 64), C), expected)


@pytest.mark.parametrize("mode", ["GT", "EQ"])
def test_gather_by_comparison(core: Core, mode: str) -> None:
    values = _values("f32", (16, 64))
    limits = np.arange(16, dtype=np.float32) % 8
    core.put(Tile("f32", 16, 64), A, values)
    core.put(Tile("i32", 1, 16), B, limits.view(np.int32)[None])
    core.call(f"TGATHER_{mode}", 16, 64, 1, 16)
    counts, found = core.get(Tile("i32", 1, 16), C)[0], core.get(Tile("i32", 16, 64), D)
    for r in range(16):
        expected = np.flatnonzero(MODES[mode](values[r], limits[r])) + 7
        assert counts[r] == len(expected)
        assert np.array_equal(found[r, : len(expected)], expected)


def _position(index: Array, capacity: int, oob: str) -> Array:
    if oob == "Clamp":
        return np.where(index < 0, 0, np.minimum(index, capacity - 1))
    return index % capacity if oob == "Wrap" else index


@pytest.mark.parametrize("oob", ["Undefined", "Clamp", "Wrap", "Zero", "Skip"])
@pytest.mark.parametrize("coalesce", ["Row", "Elem"])
@pytest.mark.parametrize("dtype", ["f32", "bf16", "i8"])
def test_indexed_global_memory(core: Core, dtype: str, coalesce: str, oob: str) -> None:
    rng = np.random.default_rng(4)
    table = _values(dtype, TABLE, 5)
    by_row = coalesce == "Row"
    capacity = TABLE[0] if by_row else TABLE[0] * TABLE[1]
    beyond = 0 if oob == "Undefined" else 20
    shape = (1, 16) if by_row else (16, 32)
    index = rng.integers(0, capacity + beyond, shape).astype(np.int32)
    index_tile, tile = Tile("i32", *shape), Tile(dtype, 16, 32)
    cols = TABLE[1] if by_row else 32
    arguments = (16, cols, table.ctypes.data, *shape)
    core.put(index_tile, B, index)
    inside = index < capacity
    where = _position(index, capacity, oob)
    safe = np.where(where < capacity, where, 0)
    if oob != "Skip":
        core.fill("Vec", 0x77)
        core.put(index_tile, B, index)
        core.call(f"MGATHER_{coalesce}_{oob}_{dtype}", *arguments)
        expected = table[safe[0]] if by_row else table.reshape(-1)[safe]
        if oob == "Zero":
            expected = np.where(inside[0][:, None] if by_row else inside, expected, 0)
        assert np.array_equal(core.get(tile, A)[:, :cols], expected)
    if oob != "Zero":
        values = _values(dtype, (16, 32), 6)
        core.put(tile, A, values)
        expected = table.copy()
        for r in range(16):
            for c in range(1 if by_row else 32):
                i = index[0, r] if by_row else index[r, c]
                if oob == "Skip" and i >= capacity:
                    continue
                if by_row:
                    expected[where[0, r]] = values[r, :cols]
                else:
                    expected.reshape(-1)[where[r, c]] = values[r, c]
        core.call(f"MSCATTER_{coalesce}_{oob}_{dtype}", *arguments)
        assert np.array_equal(table, expected)


@pytest.mark.parametrize("op", ["Add", "Max", "Min"])
@pytest.mark.parametrize("coalesce", ["Row", "Elem"])
@pytest.mark.parametrize("dtype", ["f32", "i8"])
def test_accumulating_scatter(core: Core, dtype: str, coalesce: str, op: str) -> None:
    by_row = coalesce == "Row"
    table, values = _values(dtype, TABLE, 5), _values(dtype, (16, 32), 6)
    shape = (1, 16) if by_row else (16, 32)
    index = np.random.default_rng(4).integers(0, 10, shape).astype(np.int32)
    core.put(Tile("i32", *shape), B, index)
    core.put(Tile(dtype, 16, 32), A, values)
    cols = TABLE[1] if by_row else 32
    expected = table.copy()
    function = {"Add": np.add, "Max": np.maximum, "Min": np.minimum}[op]
    if by_row:
        function.at(expected, index[0], values[:, :cols])
    else:
        function.at(expected.reshape(-1), index.reshape(-1), values.reshape(-1))
    core.call(f"MSCATTER_{coalesce}_{op}_{dtype}", 16, cols, table.ctypes.data, *shape)
    assert np.array_equal(table, expected)


def _records(values: Array, index: Array) -> Array:
    """(value, index) records as the 32-bit words they are stored in."""
    words = np.zeros((len(values), 2), np.uint32)
    words[:, 0] = values.view(np.uint32) if values.dtype == np.float32 else values.view(np.uint16)
    words[:, 1] = index
    return words


def _sorted(values: Array, index: Array) -> tuple[Array, Array]:
    order = np.argsort(-values.astype(np.float64), kind="stable")
    return values[order], index[order]


@pytest.mark.parametrize("cols", [128, 64, 50, 7])
@pytest.mark.parametrize("dtype", ["f32", "f16"])
def test_sort_of_groups(core: Core, dtype: str, cols: int) -> None:
    rng = np.random.default_rng(8)
    values = (rng.integers(-20, 20, (4, 128)) / 2).astype(NUMPY[dtype])
    index = rng.integers(0, 1 << 32, (4, 128), dtype=np.uint64).astype(np.uint32)
    per = 2 if dtype == "f32" else 4
    for name, shared in ((f"TSORT32_{dtype}", False), (f"TSORT32_shared_{dtype}", True)):
        core.put(Tile(dtype, 4, 128), A, values)
        core.put(Tile("u32", 1 if shared else 4, 128), B, index[:1] if shared else index)
        core.call(name, 4, cols, 4, cols * per)
        words = core.get(Tile(dtype, 4, 128 * per), C).view(np.uint32).reshape(4, 128, 2)
        for r in range(4):
            for c in range(0, cols, 32):
                end = min(c + 32, cols)
                expected = _records(*_sorted(values[r, c:end], index[0 if shared else r, c:end]))
                assert np.array_equal(words[r, c:end], expected)


def _list(dtype: str, length: int, seed: int) -> tuple[Array, Array]:
    rng = np.random.default_rng(seed)
    return _sorted((rng.integers(-40, 40, length) / 2).astype(NUMPY[dtype]), rng.integers(0, 1 << 20, length).astype(np.uint32))


def _put_records(core: Core, dtype: str, address: int, words: Array) -> None:
    core.spaces["Vec"][address : address + words.nbytes] = words.view(np.uint8).reshape(-1)


@pytest.mark.parametrize("blocks", [4, 8, 3, 6])
@pytest.mark.parametrize("dtype", ["f32", "f16"])
def test_merge_of_blocks(core: Core, dtype: str, blocks: int) -> None:
    per = 2 if dtype == "f32" else 4
    lists = [_list(dtype, 32, s) for s in range(blocks)]
    _put_records(core, dtype, A, np.concatenate([_records(*x) for x in lists]))
    core.call(f"TMRGSORT_{dtype}", 1, blocks * 32 * per, 32 * per)
    words = core.spaces["Vec"][B : B + blocks * 32 * 8].view(np.uint32).reshape(-1, 2)
    for start in range(0, blocks, 4):
        group = lists[start : start + 4]
        merged = _records(*_sorted(np.concatenate([v for v, _ in group]), np.concatenate([i for _, i in group])))
        assert np.array_equal(words[start * 32 : start * 32 + len(merged)], merged)


@pytest.mark.parametrize("exhausted", ["false", "true"])
@pytest.mark.parametrize("count", [2, 3, 4])
@pytest.mark.parametrize("dtype", ["f32", "f16"])
def test_merge_of_lists(core: Core, dtype: str, count: int, exhausted: str) -> None:
    per = 2 if dtype == "f32" else 4
    lengths = (100, 64, 31, 80)
    lists = [_list(dtype, n, s) for s, n in enumerate(lengths)]
    for k, (values, index) in enumerate(lists):
        _put_records(core, dtype, A + 4096 * k, _records(values, index))
    executed = np.zeros(4, np.int64)
    total = sum(lengths[:count])
    arguments = [x for n in lengths for x in (1, n * per)]
    core.call(f"TMRGSORT_{count}_{exhausted}_{dtype}", *arguments, 1, total * per, executed.ctypes.data)
    source = np.concatenate([np.full(n, k) for k, n in enumerate(lengths[:count])])
    values, index = (np.concatenate(x) for x in zip(*lists[:count], strict=True))
    order = np.argsort(-values.astype(np.float64), kind="stable")
    if exhausted == "true":
        taken = np.array([np.cumsum(source[order] == k) for k in range(count)])
        first = min(int(np.argmax(taken[k] == lengths[k])) for k in range(count))
        order = order[: first + 1]
    assert executed[:count].tolist() == [int((source[order] == k).sum()) for k in range(count)]
    words = core.spaces["Vec"][C : C + len(order) * 8].view(np.uint32).reshape(-1, 2)
    assert np.array_equal(words, _records(values[order], index[order]))


@pytest.mark.parametrize("dtype", ["i32", "u32", "i16"])
def test_sequences(core: Core, dtype: str) -> None:
    for descending in (0, 1):
        for start in (0, 5, 100):
            core.fill("Vec", 0)
            core.call(f"TCI_{dtype}_{descending}", 1, 50, start)
            steps = np.arange(50)
            expected = encode(start - steps if descending else start + steps, dtype)
            actual = core.get(Tile(dtype, 1, 64), A)[0]
            assert np.array_equal(actual[:50], expected) and not actual[50:].any()


@pytest.mark.parametrize("diagonal", [0, 3, -2, 40, -40])
@pytest.mark.parametrize("dtype", ["f32", "i32", "bf16"])
def test_triangles(core: Core, dtype: str, diagonal: int) -> None:
    for upper, function in ((0, np.tril), (1, np.triu)):
        core.call(f"TTRI_{dtype}_{upper}", 9, 21, diagonal)
        assert np.array_equal(core.get(Tile(dtype, 16, 32), A)[:9, :21], encode(function(np.ones((9, 21)), diagonal), dtype))


def _philox(counter: int, key: tuple[int, int], rounds: int) -> list[int]:
    x = [(counter >> (32 * k)) & 0xFFFFFFFF for k in range(4)]
    k0, k1 = key
    for _ in range(rounds):
        a, b = 0xD2511F53 * x[0], 0xCD9E8D57 * x[2]
        x = [(b >> 32) ^ x[1] ^ k0, b & 0xFFFFFFFF, (a >> 32) ^ x[3] ^ k1, a & 0xFFFFFFFF]
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return x


def test_philox_model_reproduces_the_published_vectors() -> None:
    assert _philox(0, (0, 0), 10) == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]
    ones = (1 << 128) - 1
    assert _philox(ones, (0xFFFFFFFF, 0xFFFFFFFF), 10) == [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]


@pytest.mark.parametrize("rounds", [7, 10])
def test_random_numbers(core: Core, rounds: int) -> None:
    core.call(f"TRANDOM_{rounds}", 5, 33)
    counter = 0xFFFFFFFF | 6 << 32 | 7 << 64 | 8 << 96
    stream = [w for i in range(42) for w in _philox(counter + i, (0x1111, 0x2222), rounds)]
    assert core.get(Tile("u32", 16, 64), A)[:5, :33].reshape(-1).tolist() == stream[: 5 * 33]
