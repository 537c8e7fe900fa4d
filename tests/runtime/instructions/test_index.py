"""Generated patterns, gathers and scatters within vector memory, against indexing in numpy."""

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
    declare,
    decode,
    random_elements,
    size_of,
)

REGIONS = ((8, 32), (5, 13), (1, 1), (0, 7), (7, 0))
PATTERNS = {
    "P0101": (2, 0), "P1010": (2, 1), "P0001": (4, 0), "P0010": (4, 1), "P0100": (4, 2), "P1000": (4, 3),
    "P1111": (1, 0),
}  # fmt: skip
GATHERS = (("f32", "i32"), ("bf16", "u16"), ("f16", "i32"), ("i32", "u32"), ("i8", "i16"))
SRC, INDEX, DST, TMP = 0, 16384, 32768, 65536
SEQUENCES = ("i32", "i16", "u32", "f32")
TRIANGLES = ("f32", "u32", "i16", "f16")


def _tile(dtype: str, rows: int = 8, cols: int = 32) -> Tile:
    return Tile(dtype, rows, cols)


@pytest.fixture(scope="module")
def core() -> Core:
    cases = Cases()
    for dtype in SEQUENCES:
        tile = declare(("d", Tile(dtype, 1, 64), DST, 0))
        for down in (0, 1):
            start = f"{CPP[dtype]} s = {CPP[dtype]}(v[2]);"
            cases.add(f"ci_{dtype}_{down}", f"{tile}\n{start} TCI<d_t, {CPP[dtype]}, {down}>(d, s);")
    for dtype in TRIANGLES:
        for upper in (0, 1):
            tile = declare(("d", _tile(dtype), DST, 0))
            cases.add(f"tri_{dtype}_{upper}", f"{tile}\nTTRI<d_t, {upper}>(d, int32_t(v[2]));")
    for dtype, index in GATHERS:
        tiles = declare(("s", _tile(dtype), SRC, 0), ("i", _tile(index), INDEX, 0), ("d", _tile(dtype), DST, 0))
        cases.add(f"gather_{dtype}", f"{tiles}\nTGATHER(d, s, i, i);")
        cases.add(f"scatter_{dtype}", f"{tiles}\ns.SetValidShape(8, s_t::Cols); TSCATTER(d, s, i);")
    for pattern in PATTERNS:
        tiles = declare(("s", _tile("f32", 8, 64), SRC, 0), ("d", _tile("i32", 8, 64), DST, 0))
        cases.add(f"mask_{pattern}", f"{tiles}\nTGATHER<d_t, s_t, MaskPattern::{pattern}>(d, s);")
        cases.add(f"rows_{pattern}", f"{tiles}\nTGATHER<d_t, s_t, MaskPattern::{pattern}, GatherAxis::COL>(d, s);")
        tiles = declare(("s", _tile("f32", 8, 16), SRC, 0), ("d", _tile("f32", 32, 64), DST, 0))
        for axis in ("ROW", "COL"):
            cases.add(
                f"spread_{pattern}_{axis}",
                f"{tiles}\nTSCATTER<MaskPattern::{pattern}, ScatterAxis::{axis}>(d, s);",
            )
    for dtype in ("f32", "i8"):
        tiles = declare(
            ("s", _tile(dtype, 8, 256), SRC, 0),
            ("i", _tile("u32", 8, 8), INDEX, 0),
            ("d", _tile(dtype, 8, 256), DST, 0),
        )
        cases.add(f"blocks_{dtype}", f"{tiles}\nTGATHERB(d, s, i);")
    for mode in ("GT", "EQ"):
        tiles = declare(
            ("s", _tile("i32"), SRC, 0), ("k", Tile("i32", 8, 1, "DN"), INDEX, 0), ("t", _tile("i32"), TMP, 0),
            ("n", Tile("i32", 8, 1, "DN"), INDEX + 4096, 0), ("d", _tile("i32"), DST, 0),
        )  # fmt: skip
        call = f"TGATHER<d_t, s_t, k_t, n_t, t_t, CmpMode::{mode}>(d, s, k, n, t, uint32_t(v[2]));"
        cases.add(f"where_{mode}", f"{tiles}\n{call}")
    return cases.build()


def _blank(core: Core, tile: Tile) -> Array:
    """Fills the destination with a pattern that the test can tell from results."""
    core.fill("Vec", 0xA5)
    return core.get(tile, DST).copy()


@every("down", [0, 1])
@every("dtype", SEQUENCES)
def test_sequence(core: Core, dtype: str, down: int) -> None:
    tile = Tile(dtype, 1, 64)
    for cols in (64, 13, 1, 0):
        expected = _blank(core, tile)
        expected[0, :cols] = (100 + np.arange(cols) * (-1 if down else 1)).astype(NUMPY[dtype])
        core.call(f"ci_{dtype}_{down}", 1, cols, 100)
        assert np.array_equal(core.get(tile, DST), expected, equal_nan=dtype == "f32")


@every("diagonal", [0, 3, -2, 40, -40])
@every("upper", [0, 1])
@every("dtype", TRIANGLES)
def test_triangle(core: Core, dtype: str, upper: int, diagonal: int) -> None:
    tile = _tile(dtype)
    for rows, cols in REGIONS:
        expected = decode(_blank(core, tile), dtype)
        r, c = np.mgrid[:rows, :cols]
        expected[:rows, :cols] = (c - r >= diagonal) if upper else (c - r <= diagonal)
        core.call(f"tri_{dtype}_{upper}", rows, cols, diagonal)
        assert np.array_equal(decode(core.get(tile, DST), dtype), expected, equal_nan=True)


@every("region", REGIONS)
@every("dtype,index", GATHERS)
def test_gather(core: Core, dtype: str, index: str, region: tuple[int, int]) -> None:
    rows, cols = region
    source = random_elements(dtype, 1, 8, 32)
    positions = np.random.default_rng(2).integers(0, 8 * 32, (8, 32)).astype(NUMPY[index])
    expected = _blank(core, _tile(dtype))
    expected[:rows, :cols] = source.ravel()[positions[:rows, :cols].astype(int)]
    core.put(_tile(dtype), SRC, source)
    core.put(_tile(index), INDEX, positions)
    core.call(f"gather_{dtype}", rows, cols)
    assert np.array_equal(core.get(_tile(dtype), DST), expected, equal_nan=True)


def test_gather_beyond_the_memory_gives_zero(core: Core) -> None:
    positions = np.full((8, 32), 1 << 24, np.int32)
    positions[0, 0] = -1
    _blank(core, _tile("f32"))
    core.put(_tile("i32"), INDEX, positions)
    core.call("gather_f32", 8, 32)
    assert (core.get(_tile("f32"), DST) == 0).all()


@every("region", REGIONS)
@every("dtype,index", GATHERS)
def test_scatter(core: Core, dtype: str, index: str, region: tuple[int, int]) -> None:
    rows, cols = region
    source = random_elements(dtype, 3, 8, 32)
    positions = np.random.default_rng(4).integers(0, 8 * 32, (8, 32)).astype(NUMPY[index])
    expected = _blank(core, _tile(dtype)).ravel()
    for at, value in zip(positions[:rows, :cols].ravel(), source[:rows, :cols].ravel(), strict=True):
        expected[int(at)] = value  # of equal positions the last one stays
    core.put(_tile(dtype), SRC, source)
    core.put(_tile(index), INDEX, positions)
    core.call(f"scatter_{dtype}", rows, cols)
    assert np.array_equal(core.get(_tile(dtype), DST).ravel(), expected, equal_nan=True)


@every("region", [(8, 64), (5, 30), (8, 4), (0, 8)])
@every("pattern", PATTERNS)
def test_gather_by_mask(core: Core, pattern: str, region: tuple[int, int]) -> None:
    rows, cols = region
    period, first = PATTERNS[pattern]
    source = random_elements("f32", 5, 8, 64)
    chosen = source.view(np.int32)[:rows, first:cols:period]
    expected = _blank(core, _tile("i32", 8, 64))
    expected.reshape(-1)[: chosen.size] = chosen.reshape(-1)  # row after row, without gaps
    core.put(_tile("f32", 8, 64), SRC, source)
    core.call(f"mask_{pattern}", rows, cols)
    assert np.array_equal(core.get(_tile("i32", 8, 64), DST), expected)
    chosen = source.view(np.int32)[first:rows:period, :cols]
    expected = _blank(core, _tile("i32", 8, 64))
    expected[: chosen.shape[0], :cols] = chosen
    core.put(_tile("f32", 8, 64), SRC, source)
    core.call(f"rows_{pattern}", rows, cols)
    assert np.array_equal(core.get(_tile("i32", 8, 64), DST), expected)


@every("axis", ["ROW", "COL"])
@every("pattern", PATTERNS)
def test_scatter_by_mask(core: Core, pattern: str, axis: str) -> None:
    rows, cols = 5, 11
    period, first = PATTERNS[pattern]
    source = random_elements("f32", 6, 8, 16)
    target = _tile("f32", 32, 64)
    expected = _blank(core, target)
    if period > 1:
        expected[:] = 0
    if axis == "ROW":
        expected[:rows, first : cols * period : period] = source[:rows, :cols]
    else:
        expected[first : rows * period : period, :cols] = source[:rows, :cols]
    core.put(_tile("f32", 8, 16), SRC, source)
    core.call(f"spread_{pattern}_{axis}", rows, cols)
    assert np.array_equal(core.get(target, DST), expected, equal_nan=True)


@pytest.mark.parametrize("dtype", ["f32", "i8"])
def test_gather_of_blocks(core: Core, dtype: str) -> None:
    tile, block = _tile(dtype, 8, 256), 32 // size_of(dtype)
    source = random_elements(dtype, 7, 8, 256)
    blocks = np.random.default_rng(8).integers(0, tile.nbytes // 32, (8, 8)).astype(np.uint32)
    for rows, cols in ((8, 8 * block), (3, 3 * block), (2, block + 1), (0, block)):
        expected = _blank(core, tile)
        for r in range(rows):
            line = source.reshape(-1, block)[blocks[r]].ravel()
            expected[r, :cols] = line[:cols]
        core.put(tile, SRC, source)
        core.put(_tile("u32", 8, 8), INDEX, blocks * 32)
        core.call(f"blocks_{dtype}", rows, cols)
        assert np.array_equal(core.get(tile, DST), expected, equal_nan=True)


@pytest.mark.parametrize("mode", ["GT", "EQ"])
def test_gather_of_positions_that_compare(core: Core, mode: str) -> None:
    rows, cols = 6, 29
    source = np.random.default_rng(9).integers(0, 4, (8, 32)).astype(np.int32)
    threshold = np.arange(8, dtype=np.int32).reshape(8, 1) % 4
    expected = _blank(core, _tile("i32"))
    core.put(_tile("i32"), SRC, source)
    core.put(Tile("i32", 8, 1, "DN"), INDEX, threshold)
    core.call(f"where_{mode}", rows, cols, 100)
    counts = core.get(Tile("i32", 8, 1, "DN"), INDEX + 4096)
    for r in range(rows):
        chosen = source[r, :cols] > threshold[r] if mode == "GT" else source[r, :cols] == threshold[r]
        positions = np.flatnonzero(chosen)
        expected[r, : len(positions)] = positions + 100 + r * source.shape[1]
        assert counts[r, 0] == len(positions)
    assert np.array_equal(core.get(_tile("i32"), DST), expected)
