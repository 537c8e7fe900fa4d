"""Results of kernels that break a rule of the device: the CPU's with NUMERICS=fast, the chip's with device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pytest

from pypto_build.facts.run_options import DEVICE_RESULTS, FAST
from pypto_build.toolchain.host import kernel_numerics
from tests.rows import every
from tests.runtime.instructions.tile_harness import Cases, Core, Tile, declare

Array = npt.NDArray[np.float32]
ROWS, COLS = 8, 64
X, Y = 0x1000, 0x2000
F, N = Tile("f32", ROWS, COLS), Tile("i32", ROWS, COLS)
FAR = 0x8000  # scratch of the same extents


@dataclass(frozen=True)
class Shared:
    """An instruction whose result lies where an operand lies; `x` and `y` are the operands before it."""

    body: str
    tile: Tile
    fast: str
    device: str


SHARED = {
    "recip": Shared("TRECIP(x, x);", F, "1 / x", "np.ones_like(x)"),
    "scalar_by_tile": Shared("TDIVS(x, 3.0f, x);", F, "np.float32(3) / x", "np.ones_like(x)"),
    "tile_by_scalar": Shared("TDIVS(x, x, 3.0f);", F, "x / np.float32(3)", "x * np.float32(1 / np.float32(3))"),
    "ands": Shared("TANDS(x, x, 6);", N, "x & 6", "np.full_like(x, 6)"),
    "ors": Shared("TORS(x, x, 6);", N, "x | 6", "np.full_like(x, 6)"),
    "xors": Shared("TXORS(x, x, 6, t);", N, "x ^ 6", "~np.full_like(x, 6) & (x | 6)"),
    "xor_first": Shared("TXOR(x, x, y, t);", N, "x ^ y", "~(x & y) & (x | y)"),
    "xor_scratch": Shared("TXOR(x, y, y2, x);", N, "y ^ (y + 1)", "~(y & (y + 1))"),
    "prelu": Shared("TPRELU(x, x, y, t);", F, "np.where(x > 0, x, x * y)", "x * y"),
}


def _cases(numerics: str, arch: int) -> Core:
    cases = Cases(arch=arch, flags=list(kernel_numerics(numerics)))
    for name, shared in SHARED.items():
        tiles = declare(
            ("x", shared.tile, X, 0), ("y", shared.tile, Y, 0), ("y2", shared.tile, Y + 0x1000, 0),
            ("t", shared.tile, FAR, 0),
        )  # fmt: skip
        unused = "(void)y; (void)y2; (void)t;"
        cases.add(f"do_{name}", f"{tiles}\n{unused}\n{shared.body}")
    for name, (rows, cols, scratch, column) in REDUCTIONS.items():
        tiles = declare(
            ("s", Tile("f32", rows, cols), 0, 0), ("t", scratch, 0x10000, 2), ("d", column, 0x20000, 4),
        )  # fmt: skip
        for op in ("MAX", "SUM"):
            cases.add(f"{op.lower()}_{name}", f"{tiles}\nTROW{op}(d, s, t);")
    for name, compact in (("loose", "Null"), ("compact", "Normal")):
        cases.add(f"store_{name}", STORE.replace("COMPACT", compact))
    return cases.build()


COLUMN = Tile("f32", 8, 1, "DN")
REDUCTIONS = {
    "fits": (8, 256, Tile("f32", 8, 128), COLUMN),
    "narrow": (8, 256, Tile("f32", 8, 1, "DN"), COLUMN),
    "short": (8, 256, Tile("f32", 4, 128), COLUMN),
    "between": (8, 96, Tile("f32", 8, 32), COLUMN),
}
ACC = Tile("f32", 64, 32, "NZ", "Acc", 1024)
STORE = """
using acc_t = Tile<TileType::Acc, float, 64, 32, BLayout::ColMajor, -1, -1, SLayout::RowMajor, 1024, PadValue::Null,
                   CompactMode::COMPACT>;
acc_t c(v[0], v[1]);
TASSIGN(c, (uint64_t)0);
using shape_t = Shape<1, 1, 1, -1, -1>;
using stride_t = Stride<1, 1, 1, 32, 1>;
GlobalTensor<float, shape_t, stride_t> out((float *)v[2], shape_t(v[0], v[1]), stride_t());
TSTORE(out, c);
"""


@pytest.fixture(scope="module")
def fast() -> Core:
    return _cases(FAST, 2)


@pytest.fixture(scope="module")
def device() -> Core:
    return _cases(DEVICE_RESULTS, 2)


def _operands(tile: Tile) -> Sequence[npt.NDArray[np.generic]]:
    rng = np.random.default_rng(5)
    if tile is F:
        return [rng.standard_normal((ROWS, COLS)).astype(np.float32) for _ in range(2)]
    return [rng.integers(-100, 100, (ROWS, COLS)).astype(np.int32) for _ in range(2)]


def _shared(core: Core, name: str) -> npt.NDArray[np.generic]:
    core.bind()
    x, y = _operands(SHARED[name].tile)
    core.put(SHARED[name].tile, X, x)
    core.put(SHARED[name].tile, Y, y)
    core.put(SHARED[name].tile, Y + 0x1000, y + np.asarray(1, y.dtype))
    core.call(f"do_{name}", ROWS, COLS)
    return core.get(SHARED[name].tile, X)


@every("name", SHARED)
def test_operands_in_the_same_bytes(fast: Core, device: Core, name: str) -> None:
    x, y = _operands(SHARED[name].tile)
    names = {"np": np, "x": x, "y": y}
    assert np.array_equal(_shared(fast, name), eval(SHARED[name].fast, names))
    assert np.array_equal(_shared(device, name), eval(SHARED[name].device, names))


def _reduced(core: Core, op: str, name: str) -> tuple[Array, Array]:
    """The result, and what lies behind the scratch tile."""
    core.bind()
    rows, cols, scratch, column = REDUCTIONS[name]
    core.fill("Vec", 0)
    core.put(Tile("f32", rows, cols), 0, _matrix(rows, cols))
    core.call(f"{op}_{name}", rows, cols, scratch.rows, scratch.cols, rows, 1)
    behind = core.elements(Tile("f32", 1, 1024), 0x10000 + scratch.nbytes)
    return core.get(column, 0x20000)[:, 0], behind.copy()


def _matrix(rows: int, cols: int) -> Array:
    """Whole numbers, so that sums are exact in any order."""
    return np.random.default_rng(rows * cols).integers(-1000, 1000, (rows, cols)).astype(np.float32)


@every("name", REDUCTIONS)
@every("op", ["max", "sum"])
def test_rows_in_a_scratch_tile_that_is_too_small(fast: Core, device: Core, op: str, name: str) -> None:
    rows, cols, _, _ = REDUCTIONS[name]
    x = _matrix(rows, cols)
    right = getattr(x, op)(axis=1)
    result, behind = _reduced(fast, op, name)
    assert np.array_equal(result, right)
    assert not behind.any()
    result, behind = _reduced(device, op, name)
    repeats = x.reshape(rows, -1, 64) if cols % 64 == 0 else np.zeros((rows, 1, 64), np.float32)
    if name == "narrow" and op == "max":  # rows lie on each other, and each joins the last one
        expected = np.full(rows, max(repeats[-1, :2].max(), repeats[:, 2:].max()))
    elif name == "narrow":  # the sum of the second pair of repeats is added once a row
        expected = np.full(rows, repeats[-1, :2].sum() + rows * repeats[-1, 2:].sum())
    else:
        expected = np.zeros(rows) if name == "between" else right
    assert np.array_equal(result, expected)
    assert behind.any() == (name in ("narrow", "short"))


@pytest.mark.parametrize("compact", [False, True])
@pytest.mark.parametrize("rows", [20, 50, 64])
def test_an_accumulator_that_is_not_compact(fast: Core, device: Core, rows: int, compact: bool) -> None:
    x = np.arange(64 * 32, dtype=np.float32).reshape(64, 32)
    results = []
    for core in (fast, device):
        core.bind()
        core.put(ACC, 0, x)
        out = np.zeros((64, 32), np.float32)
        core.call("store_compact" if compact else "store_loose", rows, 32, out.ctypes.data)
        results.append(out[:rows])
    assert np.array_equal(results[0], x[:rows])
    broken = rows == 20 and not compact
    assert np.array_equal(results[1][:, :16], x[:rows, :16])
    assert np.array_equal(results[1][:, 16:], x[:rows, 16:], equal_nan=True) != broken
    assert np.isnan(results[1][:, 16:]).all() == broken


def test_the_other_platform_is_not_known_to_take_these_steps() -> None:
    core = _cases(DEVICE_RESULTS, 5)
    for name in SHARED:
        x, y = _operands(SHARED[name].tile)
        assert np.array_equal(_shared(core, name), eval(SHARED[name].fast, {"np": np, "x": x, "y": y}))
