"""Interleaved rows, packed elements, sums of neighbours and histograms of bytes, against numpy."""

from __future__ import annotations

import numpy as np
import pytest

from tests.rows import every
from tests.runtime.instructions.tile_harness import Cases, Core, Tile, declare, decode, encode, random_elements

DTYPES = ("f32", "bf16", "i8")
REGIONS = ((8, 64), (5, 34), (1, 2), (0, 4), (4, 0))
PACKED = (("u32", "u16"), ("i32", "i8"), ("u16", "u8"))
S0, S1, D0, D1, INDEX = 0, 16384, 32768, 49152, 65536
#: For each row, or for each column, the more significant bytes of the elements that count.
HISTOGRAM_INDEX = {"u16": Tile("u8", 32, 1, "DN"), "u32": Tile("u8", 4, 256)}


@pytest.fixture(scope="module")
def core() -> Core:
    cases = Cases()
    for dtype in DTYPES:
        tile = Tile(dtype, 8, 64)
        halves = declare(("s0", tile, S0, 0), ("s1", tile, S1, 0), ("d0", tile, D0, 0), ("d1", tile, D1, 0))
        cases.add(f"interleave_{dtype}", f"{halves}\nTINTERLEAVE(d1, d0, s1, s0);")
        cases.add(f"deinterleave_{dtype}", f"{halves}\nTDEINTERLEAVE(d1, d0, s1, s0);")
        cases.add(f"in_place_{dtype}", f"{halves}\nTINTERLEAVE(s1, s0, s1, s0);")
        whole = declare(("s", tile, S0, 0), ("d0", tile, D0, 2), ("d1", tile, D1, 2))
        cases.add(f"split_{dtype}", f"{whole}\nTDEINTERLEAVE(d1, d0, s);")
        cases.add(f"pairs_{dtype}", f"{halves}\nTPAIRREDUCESUM(d0, s0);")
    for wide, narrow in PACKED:
        tiles = declare(("s", Tile(wide, 8, 64), S0, 0), ("d", Tile(narrow, 8, 64), D0, 0))
        cases.add(f"pack_{wide}_{narrow}", f"{tiles}\nTPACK(d, s);")
    for dtype, count in (("u16", 2), ("u32", 4)):
        tiles = declare(
            ("s", Tile(dtype, 4, 256), S0, 0),
            ("i", HISTOGRAM_INDEX[dtype], INDEX, 2),
            ("d", Tile("u32", 4, 256), D0, 0),
        )
        for byte in range(count):
            cases.add(f"histogram_{dtype}_{byte}", f"{tiles}\nTHISTOGRAM<HistByte::BYTE_{byte}>(d, s, i);")
    return cases.build()


@every("region", REGIONS)
@every("dtype", DTYPES)
def test_interleave_and_back(core: Core, dtype: str, region: tuple[int, int]) -> None:
    rows, cols = region
    tile, first, second = Tile(dtype, 8, 64), random_elements(dtype, 1, 8, 64), random_elements(dtype, 2, 8, 64)
    line = np.stack([first[:rows, :cols], second[:rows, :cols]], axis=-1).reshape(rows, 2 * cols)
    for name, at in (("interleave", (D0, D1)), ("in_place", (S0, S1))):
        core.fill("Vec", 0xA5)
        core.put(tile, S0, first)
        core.put(tile, S1, second)
        expected = [core.get(tile, address).copy() for address in at]
        for half in (0, 1):
            expected[half][:rows, :cols] = line[:, half * cols : (half + 1) * cols]
        core.call(f"{name}_{dtype}", rows, cols)
        assert [core.get(tile, address).tobytes() for address in at] == [x.tobytes() for x in expected]
    core.call(f"deinterleave_{dtype}", rows, cols)
    assert core.get(tile, D0)[:rows, :cols].tobytes() == first[:rows, :cols].tobytes()
    assert core.get(tile, D1)[:rows, :cols].tobytes() == second[:rows, :cols].tobytes()


@every("region", REGIONS)
@every("dtype", DTYPES)
def test_even_and_odd_columns(core: Core, dtype: str, region: tuple[int, int]) -> None:
    rows, cols = region
    tile, source = Tile(dtype, 8, 64), random_elements(dtype, 3, 8, 64)
    core.put(tile, S0, source)
    core.call(f"split_{dtype}", rows, cols, rows, cols // 2)
    for odd, at in enumerate((D0, D1)):
        expected = source[:rows, odd:cols:2]
        assert core.get(tile, at)[:rows, : cols // 2].tobytes() == expected.tobytes()


@pytest.mark.parametrize("dtype", DTYPES)
def test_sums_of_neighbours(core: Core, dtype: str) -> None:
    tile, source = Tile(dtype, 8, 64), random_elements(dtype, 4, 8, 64)
    for rows, cols in ((8, 64), (3, 17), (1, 1), (0, 4)):
        core.put(tile, S0, source)
        core.call(f"pairs_{dtype}", rows, cols)
        numbers = np.pad(decode(source, dtype)[:rows, :cols], ((0, 0), (0, cols % 2)))
        sums = encode(numbers.reshape(rows, (cols + 1) // 2, 2).sum(axis=2), dtype)
        actual = core.get(tile, D0)[:rows, :cols]
        assert np.array_equal(decode(actual[:, : sums.shape[1]], dtype), decode(sums, dtype))
        assert (decode(actual[:, sums.shape[1] :], dtype) == 0).all()


@every("region", REGIONS)
@every("wide,narrow", PACKED)
def test_pack_keeps_the_low_bits(core: Core, wide: str, narrow: str, region: tuple[int, int]) -> None:
    rows, cols = region
    source = random_elements(wide, 6, 8, 64)
    core.fill("Vec", 0xA5)
    core.put(Tile(wide, 8, 64), S0, source)
    expected = core.get(Tile(narrow, 8, 64), D0).copy()
    expected[:rows, :cols] = encode(source, narrow)[:rows, :cols]
    core.call(f"pack_{wide}_{narrow}", rows, cols)
    assert np.array_equal(core.get(Tile(narrow, 8, 64), D0), expected)


@pytest.mark.parametrize("dtype,byte", [("u16", 0), ("u16", 1), ("u32", 0), ("u32", 1), ("u32", 2), ("u32", 3)])
def test_histogram(core: Core, dtype: str, byte: int) -> None:
    bytes_ = 2 if dtype == "u16" else 4
    rng = np.random.default_rng(5)
    # Two values for each of the more significant bytes, so that a good part of the elements has the asked ones.
    parts = [rng.integers(0, 256 if k == byte else 2, (4, 256)).astype(np.uint32) << (8 * k) for k in range(bytes_)]
    values = np.bitwise_or.reduce(parts)
    higher = rng.integers(0, 2, (4, 4)).astype(np.uint8)  # of each row, the most significant byte first
    if dtype == "u32":
        higher[:] = higher[0]  # the same for all rows
    core.put(Tile(dtype, 4, 256), S0, values.astype(np.uint16 if dtype == "u16" else np.uint32))
    index = np.repeat(higher[0, :, None], 256, axis=1) if dtype == "u32" else np.resize(higher[:, :1], (32, 1))
    core.put(HISTOGRAM_INDEX[dtype], INDEX, index)
    for rows, cols in ((4, 256), (3, 100), (1, 0)):
        core.call(f"histogram_{dtype}_{byte}", rows, cols, *((3, cols) if dtype == "u32" else (rows, 1)))
        for r in range(rows):
            counted = np.ones(cols, bool)
            for k in range(byte + 1, bytes_):
                counted &= ((values[r, :cols] >> (8 * k)) & 255) == higher[r, bytes_ - 1 - k]
            chosen = ((values[r, :cols] >> (8 * byte)) & 255)[counted]
            expected = np.cumsum(np.bincount(chosen, minlength=256))
            assert np.array_equal(core.get(Tile("u32", 4, 256), D0)[r], expected)
