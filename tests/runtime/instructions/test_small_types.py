"""HiFloat8 and the types of four bits: every code, every rounding mode, packed rows, against tables of their values."""

from __future__ import annotations

import numpy as np
import pytest

from tests.rows import every
from tests.runtime.instructions.test_float8 import MODES, codes, rounded
from tests.runtime.instructions.tile_harness import CPP, Array, Cases, Core, Tile, declare, encode

SRC, DST = 0, 65536
ROWS, COLS = 8, 64
# The C++ type, the magnitudes by code, and the floating-point type that hardware converts it from and to.
FOUR = {
    "e2m1": ("float4_e2m1x2_t", np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6]), "bf16"),
    "e1m2": ("float4_e1m2x2_t", np.arange(8) / 4, "bf16"),
    "int4": ("int4b_t", np.arange(9.0), "f16"),
}
REGIONS = ((ROWS, COLS), (3, 10), (5, 7), (0, 4), (4, 0))


def hif8_value(code: int) -> float:
    """The number of a code without its sign, from the prefix code of the format's definition."""
    bits = format(code, "07b")
    prefix, width = next(x for x in (("11", 4), ("10", 3), ("01", 2), ("001", 1), ("0001", 0), ("0000", -1)) if bits.startswith(x[0]))  # fmt: skip
    rest = bits[len(prefix) :]
    if width < 0:
        return 2.0 ** (int(rest, 2) - 23) if int(rest, 2) else 0.0
    exponent, fraction = rest[:width], rest[width:]
    size = int("1" + exponent[1:], 2) if width else 0
    return 2.0 ** (-size if exponent[:1] == "1" else size) * (1 + int(fraction, 2) / 2 ** len(fraction))


HIF8 = np.array([hif8_value(code) for code in range(128)])  # at 0x6f is infinity


def hif8_codes(values: Array, saturate: bool) -> Array:
    """The codes of float64 numbers: to nearest, ties away from zero."""
    order = np.argsort(HIF8)[:-1]
    position = rounded(values, HIF8[order], "ROUND")
    beyond = 0x6E if saturate else 0x6F
    code = np.where(position < len(order), order[np.minimum(position, len(order) - 1)], beyond)
    code = np.where(np.isnan(values), 0, code)
    return (code | (((np.signbit(values) & (code > 0)) | np.isnan(values)) * 0x80)).astype(np.uint8)


@pytest.fixture(scope="module")
def core() -> Core:
    cases = Cases(arch=5)
    code = Tile("hif8", 32, 128)
    for source in ("f32", "f16"):
        tiles = declare(("s", Tile(source, 32, 128), SRC, 0), ("d", code, DST, 0), ("n", code, SRC, 0))
        for saturation in ("ON", "OFF"):
            call = f"TCVT(d, s, RoundMode::CAST_ROUND, SaturationMode::{saturation});"
            cases.add(f"hif8_from_{source}_{saturation}", tiles + call)
        cases.add(f"hif8_in_place_{source}", tiles + "TCVT(n, s, RoundMode::CAST_ROUND);")
    for to, name in ((DST, "d"), (SRC, "in_place")):
        tiles = declare(("s", code, SRC, 0), ("d", Tile("f32", 32, 128), to, 0))
        cases.add(f"hif8_to_{name}", tiles + "TCVT(d, s, RoundMode::CAST_NONE);")
    operands = declare(
        ("a", Tile("hif8", 32, 64, "NZ", "Left"), 0, 0), ("b", Tile("hif8", 64, 32, "ZN", "Right"), 0, 2),
        ("c", Tile("f32", 32, 32, "NZ", "Acc", 1024), 0, 4),
    )  # fmt: skip
    cases.add("multiply", operands + "TMATMUL(c, a, b);")
    acc = declare(("c", Tile("f32", 32, 32, "NZ", "Acc", 1024), 0, 0))
    for dtype in ("hif8", "e4m3"):
        view = f"GlobalTensor<{CPP[dtype]}, Shape<1, 1, 1, 32, 32>, Stride<1, 1, 1, 32, 1>> g(({CPP[dtype]} *)v[2]);"
        cases.add(f"out_{dtype}", f"{acc}{view} TSTORE(g, c, uint64_t(v[3]));")
    for name, (cpp, _, wide) in FOUR.items():
        for dtype in {wide, "f32"}:
            packed = (
                f"using p_t = Tile<TileType::Vec, {cpp}, {ROWS}, {COLS}, BLayout::RowMajor, -1, -1>; p_t p(v[0], v[1]);"
            )
            tiles = declare(("s", Tile(dtype, ROWS, COLS), SRC, 0), ("d", Tile(dtype, ROWS, COLS), DST, 0)) + packed
            cases.add(f"pack_{name}_{dtype}", tiles + f"TASSIGN(p, {DST}); TCVT(p, s, RoundMode(v[2]));")
            cases.add(f"unpack_{name}_{dtype}", tiles + f"TASSIGN(p, {SRC}); TCVT(d, p, RoundMode::CAST_NONE);")
            cases.add(f"both_{name}_{dtype}", tiles + f"TASSIGN(p, {SRC}); TCVT(p, s, RoundMode::CAST_RINT); TCVT(s, p, RoundMode::CAST_NONE);")  # fmt: skip
        if name != "int4":
            view = f"GlobalTensor<{cpp}, Shape<1, 1, 1, {ROWS}, {COLS - 16}>, Stride<1, 1, 1, {COLS}, 1>> g(({cpp} *)v[2]);"
            padded = packed.replace("-1, -1>", "-1, -1, SLayout::NoneBox, 512, PadValue::Max>")
            cases.add(f"load_{name}", f"{view}{padded} TASSIGN(p, {DST}); TLOAD(p, g);")
            column = padded.replace("BLayout::RowMajor", "BLayout::ColMajor").replace(
                f"{ROWS}, {COLS}", f"{COLS}, {ROWS}"
            )
            turned = f"GlobalTensor<{cpp}, Shape<1, 1, 1, {COLS - 16}, {ROWS}>, Stride<1, 1, 1, 1, {COLS}>, Layout::DN> g(({cpp} *)v[2]);"
            cases.add(f"load_columns_{name}", f"{turned}{column} TASSIGN(p, {DST}); TLOAD(p, g);")
            cases.add(f"store_columns_{name}", f"{turned}{column} TASSIGN(p, {DST}); TSTORE(g, p);")
            cases.add(f"store_{name}", f"{view}{packed} TASSIGN(p, {DST}); TSTORE(g, p);")
    return cases.build()


def near(table: Array) -> Array:
    """The numbers of a table, the middles between them, and what lies next to these; of both signs."""
    finite = np.sort(table[np.isfinite(table)]).astype(np.float32)
    halves = (finite[1:] + finite[:-1]) / 2
    beside = [np.nextafter(halves, np.float32(x)) for x in (0, 1e9)]
    beyond = np.array(
        [finite[-1] * x for x in (1.01, 1.1, 1.25, 1.5, 1.7, 3, np.inf)] + [1e-30, 1e-45, 0.0], np.float32
    )
    values = np.concatenate([finite, halves, *beside, beyond])
    return np.concatenate([values, -values]).astype(np.float32)


@pytest.mark.parametrize("saturation", ["ON", "OFF"])
@pytest.mark.parametrize("source", ["f32", "f16"])
def test_hif8_is_the_nearest(core: Core, source: str, saturation: str) -> None:
    values = encode(np.resize(np.append(near(HIF8[HIF8 < 40000]), np.float32(np.nan)), (32, 128)), source)
    core.put(Tile(source, 32, 128), SRC, values)
    core.call(f"hif8_from_{source}_{saturation}", 32, 128)
    expected = hif8_codes(values.astype(np.float64), saturation == "ON")
    assert np.array_equal(core.get(Tile("hif8", 32, 128), DST), expected)
    if saturation == "OFF":
        core.call(f"hif8_in_place_{source}", 32, 128)
        assert np.array_equal(core.get(Tile("hif8", 32, 128), SRC), expected)


@pytest.mark.parametrize("name, at", [("d", DST), ("in_place", SRC)])
def test_every_hif8_code_widens_exactly(core: Core, name: str, at: int) -> None:
    table = HIF8.copy()
    table[0x6F] = np.inf
    values = np.concatenate([table, -table])
    values[0x80] = np.nan
    core.put(Tile("hif8", 32, 128), SRC, np.resize(np.arange(256, dtype=np.uint8), (32, 128)))
    core.call(f"hif8_to_{name}", 32, 128)
    assert np.array_equal(core.get(Tile("f32", 32, 128), at), np.resize(values, (32, 128)), equal_nan=True)


def test_hif8_products_of_the_cube_core(core: Core) -> None:
    rng = np.random.default_rng(2)
    a, b = rng.integers(-7, 8, (19, 50)).astype(np.float64), rng.integers(-7, 8, (50, 23)).astype(np.float64)
    core.put(Tile("hif8", 32, 64, "NZ", "Left"), 0, hif8_codes(a, False))
    core.put(Tile("hif8", 64, 32, "ZN", "Right"), 0, hif8_codes(b, False))
    core.call("multiply", 19, 50, 50, 23, 19, 23)
    assert np.array_equal(core.get(Tile("f32", 32, 32, "NZ", "Acc", 1024), 0)[:19, :23], a @ b)


@pytest.mark.parametrize("dtype", ["hif8", "e4m3"])
def test_the_accumulator_is_scaled_to_eight_bits(core: Core, dtype: str) -> None:
    values = np.random.default_rng(8).standard_normal((32, 32)).astype(np.float32) * np.float32(100)
    core.put(Tile("f32", 32, 32, "NZ", "Acc", 1024), 0, values)
    out = np.zeros((32, 32), np.uint8)
    core.call(f"out_{dtype}", 21, 17, out.ctypes.data, int(np.float32(0.75).view(np.uint32)))
    scaled = (values * np.float32(0.75)).astype(np.float64)
    expected = hif8_codes(scaled, False) if dtype == "hif8" else codes(scaled, dtype, "RINT", False)
    expected[21:], expected[:, 17:] = 0, 0
    assert np.array_equal(out, expected)


def four_bit_codes(values: Array, name: str, mode: str) -> Array:
    """The codes of four bits of float64 numbers, saturated."""
    table = FOUR[name][1]
    if name == "int4":
        whole = rounded(values, table, "TRUNC" if mode == "NONE" else mode)
        signed = np.clip(np.where(np.signbit(values), -whole, whole), -8, 7)
        return np.where(np.isnan(values), 0, signed).astype(np.int64) & 15
    code = np.minimum(rounded(values, table, mode), 7)
    return np.where(np.isnan(values), 0, code | (np.signbit(values) * 8)).astype(np.int64)


def row_bytes(name: str) -> int:
    """The bytes from one row of a packed tile to the next."""
    return COLS if name == "int4" else COLS // 2


def test_an_empty_exponent_rounds_to_itself() -> None:
    assert four_bit_codes(np.array([0.5, -6.0, 7.0]), "e2m1", "RINT").tolist() == [1, 15, 7]
    assert HIF8[[0x01, 0x07, 0x08, 0x6E]].tolist() == [2.0**-22, 2.0**-16, 1.0, 2.0**15]


@every("mode", MODES)
@every("name, dtype", [(name, dtype) for name in FOUR for dtype in (FOUR[name][2], "f32")])
def test_numbers_of_four_bits_are_packed(core: Core, name: str, dtype: str, mode: str) -> None:
    values = encode(np.resize(np.append(near(FOUR[name][1]), np.float32(np.nan)), (ROWS, COLS)), dtype)
    numbers = (values.astype(np.uint32) << 16).view(np.float32) if dtype == "bf16" else values
    codes = four_bit_codes(numbers.astype(np.float64), name, mode)
    core.put(Tile(dtype, ROWS, COLS), SRC, values)
    target = Tile("u8", ROWS, row_bytes(name))
    for rows, cols in REGIONS:
        core.fill("Vec", 0xA5)
        core.put(Tile(dtype, ROWS, COLS), SRC, values)
        core.call(f"pack_{name}_{dtype}", rows, cols, MODES.index(mode))
        expected = np.full((ROWS, row_bytes(name)), 0xA5)
        pairs = codes[:rows, : cols // 2 * 2].reshape(rows, cols // 2, 2)
        expected[:rows, : cols // 2] = pairs[..., 0] | pairs[..., 1] << 4
        assert np.array_equal(core.get(target, DST), expected), (rows, cols)


@pytest.mark.parametrize("name, dtype", [(name, dtype) for name in FOUR for dtype in (FOUR[name][2], "f32")])
def test_numbers_of_four_bits_are_unpacked(core: Core, name: str, dtype: str) -> None:
    table = FOUR[name][1]
    by_code = np.concatenate([table[:8], table[:8] - 8 if name == "int4" else -table])
    codes = np.random.default_rng(5).integers(0, 16, (ROWS, row_bytes(name) * 2))
    values = encode(by_code[codes], dtype)
    for rows, cols in REGIONS:
        core.fill("Vec", 0xA5)
        core.put(Tile("u8", ROWS, row_bytes(name)), SRC, (codes[:, ::2] | codes[:, 1::2] << 4).astype(np.uint8))
        expected = core.get(Tile(dtype, ROWS, COLS), DST).copy()
        core.call(f"unpack_{name}_{dtype}", rows, cols)
        expected[:rows, :cols] = values[:rows, :cols]
        actual = core.get(Tile(dtype, ROWS, COLS), DST)
        assert np.array_equal(actual.view(np.uint8), expected.view(np.uint8)), (rows, cols)


@pytest.mark.parametrize("name", FOUR)
def test_numbers_of_four_bits_in_place(core: Core, name: str) -> None:
    numbers = np.random.default_rng(6).choice(FOUR[name][1][:8], (ROWS, COLS))
    for dtype in (FOUR[name][2], "f32"):
        core.put(Tile(dtype, ROWS, COLS), SRC, encode(numbers, dtype))
        core.call(f"both_{name}_{dtype}", ROWS, COLS)
        assert np.array_equal(core.get(Tile(dtype, ROWS, COLS), SRC), encode(numbers, dtype))


@pytest.mark.parametrize("name", ["e2m1", "e1m2"])
@pytest.mark.parametrize("columns", [False, True])
def test_numbers_of_four_bits_are_loaded_and_stored(core: Core, name: str, columns: bool) -> None:
    """Around what is loaded is zero, whatever the pad value. A column-major tile is the same bytes seen sideways."""
    kind = f"columns_{name}" if columns else name
    memory = np.random.default_rng(7).integers(0, 256, (ROWS, COLS // 2), np.uint8)
    core.fill("Vec", 0xA5)
    core.call(f"load_{kind}", *((20, 6) if columns else (6, 20)), memory.ctypes.data)
    expected = np.zeros((ROWS, COLS // 2), np.uint8)
    expected[:6, :10] = memory[:6, :10]
    assert np.array_equal(core.get(Tile("u8", ROWS, COLS // 2), DST), expected)
    out = np.zeros_like(memory)
    core.call(f"store_{kind}", *((18, 5) if columns else (5, 18)), out.ctypes.data)
    expected[5:], expected[:, 9:] = 0, 0
    assert np.array_equal(out, expected)
