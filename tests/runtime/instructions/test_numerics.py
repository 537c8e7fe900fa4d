"""Differences between the device and upstream's simulator: kernels compiled for either (NUMERICS=) follow it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest

from pypto_build.facts.run_options import NUMERICS, SIMULATOR
from pypto_build.toolchain.host import kernel_numerics
from tests.rows import every
from tests.runtime.instructions.tile_harness import Cases, Core, Tile, declare, encode

Array = npt.NDArray[np.float32]

A, B, ACC = (
    Tile("f32", 16, 64, "ZZ", "Left"),
    Tile("f32", 64, 16, "ZN", "Right"),
    Tile("f32", 16, 16, "NZ", "Acc", 1024),
)
# K beyond one block of the implementation, and M: valid extents of m, k, n in tiles of these sizes.
LARGE = {"deep": ((45, 300, 70), (48, 320, 80)), "tall": ((150, 60, 70), (160, 64, 80))}
BIAS = Tile("f32", 1, 80, "ND", "Bias")
X, Y, HALF, BF = (Tile(kind, 8, 64) for kind in ("f32", "f32", "f16", "bf16"))
WORD, MASK, SUMS, LINE = Tile("i32", 8, 64), Tile("u8", 8, 32), Tile("f32", 8, 1, "DN"), Tile("f16", 1, 64)
ROW, HALF_SUMS = Tile("f32", 8, 448), Tile("f16", 16, 1, "DN")
AT = {name: number << 12 for number, name in enumerate(("x", "y", "z", "h", "b", "w", "v", "m", "s", "l", "t", "r"))}
TILES = declare(
    ("x", X, AT["x"], 0), ("y", X, AT["y"], 0), ("z", X, AT["z"], 0), ("h", HALF, AT["h"], 0), ("b", BF, AT["b"], 0),
    ("w", WORD, AT["w"], 0), ("v", WORD, AT["v"], 0), ("m", MASK, AT["m"], 2), ("s", SUMS, AT["s"], 4),
    ("l", LINE, AT["l"], 6), ("t", HALF, AT["t"], 0), ("hs", HALF_SUMS, AT["s"], 4),
)  # fmt: skip


def _large(name: str) -> tuple[Tile, Tile, Tile]:
    m, k, n = LARGE[name][1]
    return (
        Tile("f32", m, k, "ZZ", "Left"), Tile("f32", k, n, "ZN", "Right"), Tile("f32", m, n, "NZ", "Acc", 1024)
    )  # fmt: skip


@pytest.fixture(scope="module", params=NUMERICS)
def core(request: pytest.FixtureRequest) -> Core:
    cases = Cases(flags=list(kernel_numerics(request.param)))
    matrices = declare(("a", A, 0, 0), ("b", B, 0, 1), ("c", ACC, 0, 3))
    cases.add("acc", f"{matrices}\nTMATMUL_ACC(c, a, b);")
    other = declare(("e", ACC, ACC.nbytes, 3))
    cases.add("acc_other", f"{matrices}\n{other}\nTMATMUL_ACC(e, c, a, b);")
    long = declare(("r", ROW, AT["r"], 0), ("s", SUMS, AT["s"], 2))
    cases.add("do_longsum", f"{long}\nTROWSUM(s, r, r);")
    for name in LARGE:
        a, b, c = _large(name)
        large = declare(("a", a, 0, 0), ("b", b, 0, 1), ("c", c, 0, 3), ("d", BIAS, 0, 5))
        cases.add(f"acc_{name}", f"{large}\nTMATMUL_ACC(c, a, b);")
        cases.add(f"bias_{name}", f"{large}\nTMATMUL_BIAS(c, a, b, d);")
    for name, body in {
        "max": "TMAX(z, x, y);", "min": "TMIN(z, x, y);", "relu": "TRELU(z, x);", "exp": "TEXP(z, x);",
        "rsqrt": "TRSQRT(z, x);", "rowsum": "TROWSUM(s, x, z);", "rowmax": "TROWMAX(s, x, z);",
        "colsum": "TCOLSUM(l, h);", "pairsum": "TCOLSUM(l, h, t, true);", "rowprod": "TROWPROD(s, x, z);",
        "halfsum": "TROWSUM(hs, h, t);", "half": "TCVT(h, x, RoundMode(v[8]));", "bf16": "TCVT(b, x, RoundMode(v[8]));",
        "word": "TCVT(w, x, RoundMode(v[8]));", "whole": "TCVT(z, x, RoundMode(v[8]));",
        "from_word": "TCVT(z, w, RoundMode(v[8]));",
        "equal": "TCMPS(m, x, 1e-10f, CmpMode::EQ);", "less": "TCMP(m, w, v_, CmpMode::LT);",
        "select": "TSEL(z, m, x, y, z);",
    }.items():  # fmt: skip
        cases.add(f"do_{name}", f"{TILES.replace('v_t v(', 'v_t v_(').replace('TASSIGN(v,', 'TASSIGN(v_,')}\n{body}")
    core = cases.build()
    core.numerics = request.param  # type: ignore[attr-defined]
    return core


def _numerics(core: Core) -> str:
    return str(core.numerics)  # type: ignore[attr-defined]


def _is_simulator(core: Core) -> bool:
    return _numerics(core) == SIMULATOR


def _is_device(core: Core) -> bool:
    return _numerics(core) == "device"


def _call(core: Core, name: str, mode: int = 0, rows: int = 8, cols: int = 64) -> None:
    core.call(f"do_{name}", rows, cols, rows, (cols + 7) // 8, rows, 1, 1, cols, mode)


def _in_steps(start: Array, a: Array, b: Array) -> Array:
    """start + a b, fused steps in the order of k: products of float32 are exact in longdouble."""
    total = start.astype(np.longdouble)
    for k in range(a.shape[1]):
        step = a[:, k : k + 1].astype(np.longdouble) * b[k : k + 1].astype(np.longdouble)
        total = (total + step).astype(np.float32).astype(np.longdouble)
    return total.astype(np.float32)


def test_a_product_accumulates_from_c_or_is_added_at_the_end(core: Core) -> None:
    core.put(A, 0, np.ones((16, 64), np.float32))
    core.put(B, 0, np.ones((64, 16), np.float32))
    core.put(ACC, 0, np.full((16, 16), 2.0**24, np.float32))
    core.call("acc", 16, 64, 16, 16, 16)
    assert np.array_equal(core.get(ACC, 0), np.full((16, 16), 2.0**24 + 64 * _is_simulator(core), np.float32))


def test_the_device_reads_the_accumulator_that_it_writes(core: Core) -> None:
    core.put(A, 0, np.ones((16, 64), np.float32))
    core.put(B, 0, np.ones((64, 16), np.float32))
    for at, value in ((0, 1), (ACC.nbytes, 2)):
        core.put(ACC, at, np.full((16, 16), value, np.float32))
    core.call("acc_other", 16, 64, 16, 16, 16)
    assert (core.get(ACC, ACC.nbytes) == 64 + (2 if _is_device(core) else 1)).all()


@every("name", LARGE)
@every("variant", ["acc", "bias"])
def test_products_beyond_a_block_are_one_sequence(core: Core, variant: str, name: str) -> None:
    m, k, n = LARGE[name][0]
    tiles, rng = (*_large(name), BIAS), np.random.default_rng(3)
    a, b, c, bias = (rng.standard_normal((tile.rows, tile.cols)).astype(np.float32) for tile in tiles)
    for tile, elements in zip(tiles, (a, b, 1000 * c, 1000 * bias), strict=True):
        core.put(tile, 0, elements)
    core.call(f"{variant}_{name}", m, k, n, m, n, 1, n)
    start = 1000 * c[:m, :n] if variant == "acc" else np.broadcast_to(1000 * bias[:, :n], (m, n))
    product = (a[:m, :k], b[:k, :n])
    expected = start + _in_steps(np.zeros_like(start), *product) if _is_simulator(core) else _in_steps(start, *product)
    assert np.array_equal(core.get(tiles[2], 0)[:m, :n], expected)


@pytest.mark.parametrize("name", ["max", "min"])
def test_which_nan_counts(core: Core, name: str) -> None:
    x, y = np.full((8, 64), 1, np.float32), np.full((8, 64), 2, np.float32)
    x[:, ::4], y[:, 1::4] = np.nan, np.nan
    core.put(X, AT["x"], x)
    core.put(X, AT["y"], y)
    _call(core, name)
    lone = np.float32(1) if _is_simulator(core) else np.float32(np.nan)
    number = np.float32(2 if name == "max" else 1)
    assert np.array_equal(core.get(X, AT["z"])[:, :4], np.tile([np.nan, lone, number, number], (8, 1)), equal_nan=True)


def test_relu_of_minus_zero(core: Core) -> None:
    core.put(X, AT["x"], np.full((8, 64), -0.0, np.float32))
    _call(core, "relu")
    assert np.array_equal(np.signbit(core.get(X, AT["z"])), np.full((8, 64), _is_simulator(core)))


@pytest.mark.parametrize("name,function", [("exp", np.exp), ("rsqrt", lambda x: 1 / np.sqrt(x))])
def test_elementary_functions(core: Core, name: str, function: Callable[[Array], Array]) -> None:
    x = np.random.default_rng(5).uniform(0.01, 80, (8, 64)).astype(np.float32)
    core.put(X, AT["x"], x)
    _call(core, name)
    exact = function(x.astype(np.float64)).astype(np.float32)
    ulps = np.abs(core.get(X, AT["z"]).view(np.int32) - exact.view(np.int32))
    assert ulps.max() == 0 if _is_simulator(core) else ulps.max() == 1


def test_sums_of_rows(core: Core) -> None:
    x = np.full((8, 64), 2.0**-24, np.float32)
    x[:, 0] = 1
    core.put(X, AT["x"], x)
    _call(core, "rowsum")
    # One after the other, nothing is ever added to 1; side by side, what belongs together is.
    assert (core.get(SUMS, AT["s"]) == 1).all() == _is_simulator(core)


@pytest.mark.parametrize("core", ["device"], indirect=True)
@pytest.mark.parametrize("cols", [1, 37, 64, 100, 128, 191, 320, 448])
def test_sums_of_rows_in_the_order_of_the_device(core: Core, cols: int) -> None:
    rng = np.random.default_rng(cols)
    x = np.ldexp(rng.uniform(-1, 1, (8, 448)), rng.integers(-9, 10, (8, 448))).astype(np.float32)
    core.put(ROW, AT["r"], x)
    core.call("do_longsum", 8, cols, 8, 1)
    whole = cols // 64
    pieces = [x[:, 64 * i : 64 * i + 64] for i in range(whole)]
    rest = np.pad(x[:, 64 * whole : cols], ((0, 0), (0, 64 - cols % 64)))
    sums = [a + b for a, b in zip(pieces[::2], pieces[1::2], strict=False)] or pieces or [rest]
    if whole > 1 and whole % 2:
        sums[0] = sums[0] + pieces[-1]
    if whole and cols % 64:
        sums[0] = sums[0] + rest
    while len(sums) > 1:
        pairs = [a + b for a, b in zip(sums[::2], sums[1::2], strict=False)]
        if len(sums) % 2:
            pairs[-1] = pairs[-1] + sums[-1]
        sums = pairs
    total = sums[0]
    while total.shape[1] > 1:
        total = total[:, ::2] + total[:, 1::2]
    assert np.array_equal(core.get(SUMS, AT["s"]), total)


def test_sums_of_halves_end_at_the_largest_on_the_device(core: Core) -> None:
    x = np.zeros((8, 64), np.float16)
    x[:, :4] = 60000, 60000, -30000, 100
    core.put(HALF, AT["h"], x)
    _call(core, "halfsum")
    # 65504 - 29904 is between two halves; in float the sum is 90100.
    assert core.get(HALF_SUMS, AT["s"])[0, 0] == np.float16(35584 if _is_device(core) else np.inf)


def test_max_of_a_row_with_nan(core: Core) -> None:
    x = np.tile(np.arange(64, dtype=np.float32), (8, 1))
    x[:4, 0], x[4:, 7] = np.nan, np.nan
    core.put(X, AT["x"], x)
    _call(core, "rowmax")
    expected = np.array([[np.nan]] * 4 + [[63 if _is_simulator(core) else np.nan]] * 4, np.float32)
    assert np.array_equal(core.get(SUMS, AT["s"]), expected, equal_nan=True)


def test_sums_of_nothing(core: Core) -> None:
    core.put(SUMS, AT["s"], np.full((8, 1), 7, np.float32))
    _call(core, "rowsum", cols=0)
    assert (core.get(SUMS, AT["s"]) == (0 if _is_simulator(core) else 7)).all()


def test_sums_of_columns_of_halves(core: Core) -> None:
    x = np.ones((8, 64), np.float16)
    x[0] = 2048
    core.put(HALF, AT["h"], x)
    _call(core, "colsum")
    rounded_each = _is_simulator(core) or _is_device(core)
    assert (core.get(LINE, AT["l"]) == (2048 if rounded_each else 2056)).all()  # 2055 has no half
    _call(core, "pairsum")
    assert (core.get(LINE, AT["l"]) == {"fast": 2056, "device": 2054, "simulator": 2048}[_numerics(core)]).all()


def test_products_of_rows(core: Core) -> None:
    x = np.tile(np.linspace(0.9, 1.1, 64, dtype=np.float32), (8, 1))
    core.put(X, AT["x"], x)
    _call(core, "rowprod")
    lanes = np.ones((8, 8), np.float32)
    for at in range(0, 64, 8):
        lanes = lanes * x[:, at : at + 8]
    in_sequence = x if _is_simulator(core) else lanes
    product = in_sequence[:, :1]
    for column in range(1, in_sequence.shape[1]):
        product = product * in_sequence[:, column : column + 1]
    if _numerics(core) != "fast":
        assert np.array_equal(core.get(SUMS, AT["s"]), product)
    np.testing.assert_allclose(core.get(SUMS, AT["s"]), product, rtol=1e-5)


@pytest.mark.parametrize("name,tile", [("half", HALF), ("bf16", BF)])
def test_rounding_to_halves(core: Core, name: str, tile: Tile) -> None:
    spacing = 2.0**-10 if name == "half" else 2.0**-7
    core.put(X, AT["x"], np.full((8, 64), 1 + spacing / 2, np.float32))  # a tie
    actual = {}
    for mode in range(7):
        _call(core, name, mode)
        actual[mode] = core.get(tile, AT["h" if name == "half" else "b"])[0, 0]
    low, high = encode(np.array([1, 1 + spacing]), tile.dtype)
    up = (2, 4, 6)  # ROUND, CEIL, ODD
    assert actual == {mode: high if mode in up and not _is_simulator(core) else low for mode in range(7)}


def test_rounding_to_integers_is_the_same(core: Core) -> None:
    core.put(X, AT["x"], np.full((8, 64), 2.5, np.float32))
    actual = []
    for mode in range(6):
        _call(core, "word", mode)
        actual.append(int(core.get(WORD, AT["w"])[0, 0]))
    assert actual == [2, 2, 3, 2, 3, 2]


def test_rounding_float_to_whole_floats(core: Core) -> None:
    core.put(X, AT["x"], np.full((8, 64), 2.5, np.float32))
    _call(core, "whole", 3)
    assert core.get(X, AT["z"])[0, 0] == (2.5 if _is_simulator(core) else 2)


def test_rounding_of_words_to_floats(core: Core) -> None:
    core.put(WORD, AT["w"], np.full((8, 64), 2**24 + 3, np.int32))
    _call(core, "from_word", 3)
    assert core.get(X, AT["z"])[0, 0] == 2**24 + (4 if _is_simulator(core) else 2)


def test_what_is_equal_to_a_scalar(core: Core) -> None:
    x = np.zeros((8, 64), np.float32)
    x[:, 1], x[:, 2] = 1e-10, 1
    core.put(X, AT["x"], x)
    _call(core, "equal")
    mask = 0b11111011 if _is_simulator(core) else 0b00000010
    assert core.get(MASK, AT["m"])[0, 0] == mask


def test_words_are_compared_for_equality_on_the_device(core: Core) -> None:
    core.put(WORD, AT["w"], np.tile(np.arange(64, dtype=np.int32), (8, 1)))
    core.put(WORD, AT["v"], np.full((8, 64), 3, np.int32))
    _call(core, "less")
    assert core.get(MASK, AT["m"])[0, 0] == (0b111 if _is_simulator(core) else 0b1000)


def test_rows_of_masks(core: Core) -> None:
    core.put(X, AT["x"], np.ones((8, 64), np.float32))
    core.put(X, AT["y"], np.zeros((8, 64), np.float32))
    masks = np.zeros((8, 32), np.uint8)
    masks[0], masks[1] = 0xFF, 0x0F
    core.put(MASK, AT["m"], masks)
    _call(core, "select", rows=2, cols=12)  # two bytes a row
    chosen = core.get(X, AT["z"])[:2, :12]
    # The simulator's row 1 goes on after the twelve bits of row 0, and then in row 1 of the mask.
    second = [1] * 8 + [0] * 4 if _is_simulator(core) else [1] * 4 + [0] * 4 + [1] * 4
    assert chosen.tolist() == [[1.0] * 12, [float(bit) for bit in second]]
