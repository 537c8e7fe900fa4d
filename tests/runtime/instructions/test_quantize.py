"""TQUANT, TDEQUANT, and the scales and relu on the way out of the accumulator, against numpy."""

from __future__ import annotations

import numpy as np
import pytest

from tests.rows import every
from tests.runtime.instructions.tile_harness import CPP, Array, Cases, Core, Tile, declare, decode, encode

ROWS, COLS = 32, 64
REGIONS = ((32, 64), (17, 33), (1, 1), (0, 5), (5, 0))
SRC, SCALE, OFFSET, DST = 0, 16384, 20480, 32768
FLOAT_ACC = Tile("f32", ROWS, COLS, "NZ", "Acc", 1024)
INT_ACC = Tile("i32", ROWS, COLS, "NZ", "Acc", 1024)
SCALES = Tile("u64", 1, COLS, space="Scaling")
TARGETS = (("f32", "i8"), ("f32", "f16"), ("f32", "bf16"), ("i32", "f16"), ("i32", "i8"), ("i32", "u8"))
FACTOR = 0.37


def _view(dtype: str) -> str:
    return (
        "using shape_t = Shape<1, 1, 1, -1, -1>; using stride_t = Stride<1, 1, 1, -1, 1>;\n"
        f"using g_t = GlobalTensor<{CPP[dtype]}, shape_t, stride_t>;\n"
        f"g_t g(({CPP[dtype]} *)v[2], shape_t(v[0], v[1]), stride_t({COLS}));"
    )


@pytest.fixture(scope="module")
def core() -> Core:
    cases = Cases()
    for kind, dtype in (("SYM", "i8"), ("ASYM", "u8")):
        column = Tile("f32", ROWS, 1, "DN")
        tiles = declare(
            ("s", Tile("f32", ROWS, COLS), SRC, 0), ("p", column, SCALE, 2), ("o", column, OFFSET, 2),
            ("d", Tile(dtype, ROWS, COLS), DST, 0), ("t", Tile("f32", ROWS, COLS), 65536, 0),
        )  # fmt: skip
        offset = ", &o" if kind == "ASYM" else ""
        cases.add(f"quant_{kind}", f"{tiles}\nTQUANT<QuantType::INT8_{kind}>(d, s, p{offset});")
        cases.add(f"quant_{kind}_tmp", f"{tiles}\nTQUANT<QuantType::INT8_{kind}>(d, s, p, t{offset});")
    for dtype in ("i8", "i16"):
        column = Tile("f32", ROWS, 1, "DN")
        tiles = declare(
            ("s", Tile(dtype, ROWS, COLS), SRC, 0), ("p", column, SCALE, 2), ("o", column, OFFSET, 2),
            ("d", Tile("f32", ROWS, COLS), DST, 0),
        )  # fmt: skip
        cases.add(f"dequant_{dtype}", f"{tiles}\nTDEQUANT(d, s, p, o);")
    for source, target in TARGETS:
        acc = declare(("s", FLOAT_ACC if source == "f32" else INT_ACC, 0, 0), ("f", SCALES, 0, 3))
        tile = declare(("d", Tile(target, ROWS, COLS), DST, 0))
        name = f"{source}_{target}"
        relu, none = "ReluPreMode::NormalRelu", "AtomicType::AtomicNone"
        cases.add(f"store_{name}", f"{acc}\n{_view(target)}\nTSTORE(g, s, uint64_t(v[5]));")
        cases.add(
            f"store_relu_{name}", f"{acc}\n{_view(target)}\nTSTORE<s_t, g_t, {none}, {relu}>(g, s, uint64_t(v[5]));"
        )
        cases.add(f"store_fp_{name}", f"{acc}\n{_view(target)}\nTSTORE_FP(g, s, f);")
        cases.add(f"move_{name}", f"{acc}\n{tile}\nTMOV<d_t, s_t>(d, s, uint64_t(v[5]));")
        cases.add(f"move_relu_{name}", f"{acc}\n{tile}\nTMOV<d_t, s_t, {relu}>(d, s, uint64_t(v[5]));")
        cases.add(f"move_fp_{name}", f"{acc}\n{tile}\nTMOV_FP<d_t, s_t, f_t>(d, s, f);")
    return cases.build()


def _round(values: Array, dtype: str) -> Array:
    info = np.iinfo(encode(np.zeros(1), dtype).dtype)
    return np.clip(np.round(values), info.min, info.max)


@every("region", REGIONS)
@every("kind,dtype", [("SYM", "i8"), ("ASYM", "u8")])
def test_quantization_by_rows(core: Core, kind: str, dtype: str, region: tuple[int, int]) -> None:
    rows, cols = region
    rng = np.random.default_rng(1)
    source = (rng.standard_normal((ROWS, COLS)) * 90).astype(np.float32)
    scale = rng.uniform(0.5, 2, (ROWS, 1)).astype(np.float32)
    offset = rng.integers(0, 100, (ROWS, 1)).astype(np.float32)
    expected = source * scale + (offset if kind == "ASYM" else 0)
    for name in (f"quant_{kind}", f"quant_{kind}_tmp"):
        core.fill("Vec", 0xA5)
        core.put(Tile("f32", ROWS, COLS), SRC, source)
        core.put(Tile("f32", ROWS, 1, "DN"), SCALE, scale)
        core.put(Tile("f32", ROWS, 1, "DN"), OFFSET, offset)
        memory = core.get(Tile(dtype, ROWS, COLS), DST).copy()
        memory[:rows, :cols] = _round(expected, dtype)[:rows, :cols]
        core.call(name, rows, cols, ROWS, 1)
        assert np.array_equal(core.get(Tile(dtype, ROWS, COLS), DST), memory)


@pytest.mark.parametrize("dtype", ["i8", "i16"])
def test_dequantization_by_rows(core: Core, dtype: str) -> None:
    rng = np.random.default_rng(2)
    source = encode(rng.integers(-128, 128, (ROWS, COLS)), dtype)
    scale, offset = (rng.uniform(0.5, 2, (ROWS, 1)).astype(np.float32) for _ in range(2))
    for rows, cols in REGIONS:
        core.fill("Vec", 0)
        core.put(Tile(dtype, ROWS, COLS), SRC, source)
        core.put(Tile("f32", ROWS, 1, "DN"), SCALE, scale)
        core.put(Tile("f32", ROWS, 1, "DN"), OFFSET, offset)
        core.call(f"dequant_{dtype}", rows, cols, ROWS, 1)
        expected = np.zeros((ROWS, COLS), np.float32)
        expected[:rows, :cols] = ((source.astype(np.float32) - offset) * scale)[:rows, :cols]
        assert np.array_equal(core.get(Tile("f32", ROWS, COLS), DST), expected)


@every("form", ["store", "store_relu", "store_fp", "move", "move_relu", "move_fp"])
@every("source,target", TARGETS)
def test_scales_on_the_way_out_of_the_accumulator(core: Core, source: str, target: str, form: str) -> None:
    rng = np.random.default_rng(3)
    numbers = rng.integers(-600, 600, (ROWS, COLS))
    values = encode(numbers + (0 if source == "i32" else 0.25), source)
    factors = rng.uniform(0.1, 1.5, COLS).astype(np.float32)
    factor = int(np.float32(FACTOR).view(np.uint32))
    core.put(FLOAT_ACC if source == "f32" else INT_ACC, 0, values)
    core.put(SCALES, 0, factors.view(np.uint32).astype(np.uint64).reshape(1, COLS))
    exact = values.astype(np.float32) * (factors if form.endswith("_fp") else np.float32(FACTOR))
    if form.endswith("_relu"):
        exact = np.maximum(exact, 0)
    expected = encode(_round(exact, target) if target in ("i8", "u8") else exact, target)
    for rows, cols in REGIONS:
        out = np.zeros((ROWS, COLS), expected.dtype)
        core.fill("Vec", 0)
        core.call(f"{form}_{source}_{target}", rows, cols, out.ctypes.data, 1, COLS, factor)
        actual = out if form.startswith("store") else core.get(Tile(target, ROWS, COLS), DST)
        memory = np.zeros_like(out)
        memory[:rows, :cols] = expected[:rows, :cols]
        assert np.array_equal(decode(actual, target), decode(memory, target))
