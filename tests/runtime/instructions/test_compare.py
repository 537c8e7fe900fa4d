"""Comparisons to packed masks and selections by them, against numpy."""

from __future__ import annotations

import operator
from collections.abc import Callable

import numpy as np
import pytest

from tests.rows import every
from tests.runtime.instructions.tile_harness import (
    CPP,
    FLOATS,
    NUMPY,
    Array,
    Cases,
    Core,
    Tile,
    declare,
    decode,
    encode,
    random_elements,
)

MODES: dict[str, Callable[[Array, Array], Array]] = {
    "EQ": operator.eq, "NE": operator.ne, "LT": operator.lt, "LE": operator.le, "GT": operator.gt, "GE": operator.ge,
}  # fmt: skip
DTYPES = ("f32", "f16", "bf16", "i32", "i16", "u8", "i8", "u32", "i64", "u64")
REGIONS = ((8, 64), (5, 33), (1, 1), (3, 7), (8, 8), (0, 5), (5, 0))
LEFT, RIGHT, MASK, DST = 0, 16384, 32768, 65536
# The mask's element type on each target; its rows are wider than they need to be.
MASKS = {2: Tile("u8", 8, 32), 5: Tile("u32", 8, 8)}


def _tile(dtype: str) -> Tile:
    return Tile(dtype, 8, 64)


@pytest.fixture(scope="module", params=[2, 5], ids=["a2a3", "a5"])
def target(request: pytest.FixtureRequest) -> tuple[int, Core]:
    cases = Cases(arch=request.param)
    mask = ("m", MASKS[request.param], MASK, 0)
    for dtype in DTYPES:
        tile = _tile(dtype)
        tiles = declare(("a", tile, LEFT, 0), ("b", tile, RIGHT, 0), ("d", tile, DST, 0), mask)
        cases.add(f"cmp_{dtype}", f"{tiles}\nTCMP(m, a, b, CmpMode(v[2]));")
        scalar = f"{CPP[dtype]} s = {CPP[dtype]}(3);"
        cases.add(f"cmps_{dtype}", f"{tiles}\n{scalar} TCMPS(m, a, s, CmpMode(v[2]));")
        cases.add(f"sel_{dtype}", f"{tiles}\nTSEL(d, m, a, b, d);")
        cases.add(f"sels_{dtype}", f"{tiles}\n{scalar} TSELS(d, m, a, b, s);")
        cases.add(f"sel_in_place_{dtype}", f"{tiles}\nTSEL(b, m, a, b, d);")
    return request.param, cases.build()


def _operands(dtype: str) -> tuple[Array, Array]:
    rng = np.random.default_rng(1)
    a, b = (encode(rng.integers(0, 6, (8, 64)), dtype) for _ in range(2))
    if dtype in FLOATS:
        a[0, 0] = a[2, 3] = encode(np.array(np.nan), dtype)
    return a, b


def _packed(flags: Array, before: Array) -> Array:
    """The mask's bytes: eight elements a byte, the least significant bit first, a new row of the mask each row."""
    result = before.copy()
    bits = np.packbits(flags, axis=1, bitorder="little")
    result[: len(flags), : bits.shape[1]] = bits
    return result


@every("mode", MODES)
@every("dtype", DTYPES)
def test_compare(target: tuple[int, Core], dtype: str, mode: str) -> None:
    arch, core = target
    a, b = _operands(dtype)
    for rows, cols in REGIONS:
        core.fill("Vec", 0xA5)
        core.put(_tile(dtype), LEFT, a)
        core.put(_tile(dtype), RIGHT, b)
        mask = core.spaces["Vec"][MASK : MASK + 256].reshape(8, 32)
        before, x, y = mask.copy(), decode(a, dtype)[:rows, :cols], decode(b, dtype)[:rows, :cols]
        core.call(f"cmp_{dtype}", rows, cols, list(MODES).index(mode))
        # The vector unit of a2a3 compares int32 for equality only.
        function = operator.eq if arch == 2 and dtype == "i32" else MODES[mode]
        assert np.array_equal(mask, _packed(function(x, y), before))
        mask[:] = 0xA5
        core.call(f"cmps_{dtype}", rows, cols, list(MODES).index(mode))
        assert np.array_equal(mask, _packed(function(x, np.full_like(x, 3)), before))


@every("dtype", DTYPES)
def test_select(target: tuple[int, Core], dtype: str) -> None:
    core = target[1]
    tile, a, b = _tile(dtype), random_elements(dtype, 2, 8, 64), random_elements(dtype, 3, 8, 64)
    bits = np.random.default_rng(4).integers(0, 2, (8, 256)).astype(bool)
    three = encode(np.full((8, 64), 3), dtype)
    for rows, cols in REGIONS:
        for name, other, at in (("sel", b, DST), ("sels", three, DST), ("sel_in_place", b, RIGHT)):
            core.fill("Vec", 0xA5)
            core.put(tile, LEFT, a)
            core.put(tile, RIGHT, b)
            core.spaces["Vec"][MASK : MASK + 256] = np.packbits(bits, axis=1, bitorder="little").ravel()
            expected = core.get(tile, at).copy()
            expected[:rows, :cols] = np.where(bits[:rows, :cols], a[:rows, :cols], other[:rows, :cols])
            core.call(f"{name}_{dtype}", rows, cols)
            assert core.get(tile, at).astype(NUMPY[dtype]).tobytes() == expected.tobytes(), name
