"""Instructions that belong to no family: reshapes, vectors by matrices, columns' scales with an offset, signals."""

from __future__ import annotations

import ctypes
import threading

import numpy as np
import pytest

from tests.runtime.instructions.tile_harness import CPP, Cases, Core, Tile, declare, encode

ROWS, COLS = 16, 32
SRC, DST = 0, 16384
FULL = Tile("f32", ROWS, COLS)
LEFT, RIGHT = Tile("f32", 16, 16, "ZZ", "Left"), Tile("f32", 16, 16, "ZN", "Right")
ACC, BIAS = Tile("f32", 16, 16, "NZ", "Acc", 1024), Tile("f32", 1, 16, space="Bias")
SCALES = Tile("u64", 1, COLS, space="Scaling")
WIDE_ACC = Tile("f32", 32, COLS, "NZ", "Acc", 1024)
GLOBAL = """
using shape_t = Shape<1, 1, 1, 4, 8>; using wide_t = Stride<1, 1, 1, 16, 1>; using dense_t = Stride<1, 1, 1, 8, 1>;
using to_t = GlobalTensor<float, shape_t, wide_t>; using from_t = GlobalTensor<float, shape_t, dense_t>;
to_t to((float *)v[0]); from_t from((float *)v[1]); Tile<TileType::Vec, float, 4, 8> stage;
"""
SIGNAL = "GlobalTensor<int32_t, Shape<1, 1, 1, 1, 2>, Stride<1, 1, 1, 2, 1>> s((int32_t *)v[0]);"
COMPARISONS = ("EQ", "NE", "GT", "GE", "LT", "LE")


@pytest.fixture(scope="module")
def core() -> Core:
    cases = Cases()
    flat = Tile("i32", 1, ROWS * COLS)
    cases.add("reshape", declare(("s", FULL, SRC, 0), ("d", flat, DST, 2)) + "TRESHAPE(d, s); TADDS(d, d, 1);")
    sync = "Event<Op::TADD, Op::VECTOR> done = TADDS(s, s, 1.0f); TSYNC(done); TSYNC<Op::TADD>(); TSYNC();"
    typed = (
        "TADD<s_t, s_t, s_t>(s, s, s); TADDS<s_t, s_t>(s, s, 2.0f); TDIVS<DivAlgorithm::HIGH_PRECISION>(s, s, 2.0f);"
    )
    typed += "TNEG<s_t, s_t>(s, s); TDIV<DivAlgorithm::DEFAULT, s_t, s_t, s_t>(d, s, s); TROWEXPANDMUL<s_t, s_t, s_t>(d, s, s);"
    typed += "TCOLEXPANDSUB<d_t, d_t, s_t>(d, d, s);"
    cases.add("typed", declare(("s", FULL, SRC, 0), ("d", FULL, DST, 0)) + typed)
    cases.add("sync", declare(("s", FULL, SRC, 0)) + sync + "TMULS(s, s, 2.0f);")
    cases.add("print", declare(("s", FULL, SRC, 0)) + "TPRINT(s);")
    cases.add("print_precisely", declare(("s", FULL, SRC, 0)) + "TPRINT<PrintFormat::Width10_Precision6>(s, s);")
    for dtype in ("i8", "u64"):
        view = f"GlobalTensor<{CPP[dtype]}, Shape<1, 1, 2, 1, 2>, Stride<9, 9, 3, 3, 1>> g(({CPP[dtype]} *)v[0]);"
        cases.add(f"print_global_{dtype}", f"{view} TPRINT(g);")
    for dtype in ("i32", "u16", "i8"):
        tiles = declare(("s", Tile(dtype, ROWS, COLS), SRC, 0), ("d", Tile(dtype, ROWS, COLS), DST, 0))
        for shift in ("TSHLS", "TSHRS"):
            cases.add(f"{shift}_{dtype}", f"{tiles} {shift}(d, s, s_t::DType(v[2]));")
    cases.add("power", declare(("s", FULL, SRC, 0), ("d", FULL, DST, 0)) + "TPOWS(d, s, 1.5f);")
    vector = declare(("a", LEFT, 0, 0), ("b", RIGHT, 0, 2), ("c", ACC, 0, 4), ("e", ACC, 1024, 4), ("f", BIAS, 0, 4))
    for kind, operands in (("", "a, b"), ("_ACC", "e, a, b"), ("_BIAS", "a, b, f")):
        cases.add(f"gemv{kind}", f"{vector} TGEMV{kind}(c, {operands});")
    scaled = declare(("s", WIDE_ACC, 0, 0), ("f", SCALES, 0, 2), ("d", Tile("i8", 32, COLS), DST, 4))
    cases.add("extract_fp", f"{scaled} TEXTRACT_FP<d_t, s_t, f_t>(d, s, f, v[6], v[7]);")
    cases.add("insert_fp", f"{scaled} TINSERT_FP<d_t, s_t, f_t>(d, s, f, v[6], v[7]);")
    cases.add("put", f"{GLOBAL} comm::TPUT(to, from, stage);")
    cases.add("put_add", f"{GLOBAL} comm::TPUT<AtomicType::AtomicAdd>(to, from, stage);")
    cases.add("get", f"{GLOBAL} comm::TGET(to, from, stage);")
    for op in ("Set", "AtomicAdd"):
        cases.add(f"notify_{op}", f"{SIGNAL} comm::TNOTIFY(s, int32_t(v[1]), comm::NotifyOp::{op});")
    for kind in COMPARISONS:
        cases.add(f"test_{kind}", f"{SIGNAL} *(int64_t *)v[2] = comm::TTEST(s, int32_t(v[1]), comm::WaitCmp::{kind});")
    cases.add("one", "comm::Signal s((int32_t *)v[0]); comm::TNOTIFY(s, int32_t(v[1]), comm::NotifyOp::Set);")
    grid = "comm::Signal2D<2, 3> s((int32_t *)v[0], v[1]);"
    cases.add("grid", f"{grid} comm::TNOTIFY(s, 7, comm::NotifyOp::Set);")
    cases.add("wait", f"{SIGNAL} comm::TWAIT(s, int32_t(v[1]), comm::WaitCmp::GE);")
    return cases.build()


def test_a_reshaped_tile_has_the_same_bytes(core: Core) -> None:
    values = np.arange(ROWS * COLS, dtype=np.int32)
    core.elements(FULL.at("i32"), SRC)[:] = values
    core.call("reshape", ROWS, COLS, 1, ROWS * COLS)
    assert np.array_equal(core.elements(FULL.at("i32"), SRC), values + 1)


def test_types_and_algorithms_may_be_written(core: Core) -> None:
    core.put(FULL, SRC, np.full((ROWS, COLS), 3, np.float32))
    core.call("typed", ROWS, COLS)  # -4 in the source: squared, less itself
    assert np.array_equal(core.get(FULL, DST), np.full((ROWS, COLS), 20, np.float32))


def test_what_is_waited_for_is_complete(core: Core) -> None:
    core.put(FULL, SRC, np.full((ROWS, COLS), 3, np.float32))
    core.call("sync", ROWS, COLS)
    assert np.array_equal(core.get(FULL, SRC), np.full((ROWS, COLS), 8, np.float32))


def _printed(core: Core, capfd: pytest.CaptureFixture[str], name: str, *arguments: int) -> str:
    core.call(name, *arguments)
    ctypes.CDLL(None).fflush(None)
    return capfd.readouterr().out


def test_printing_a_row_a_line(core: Core, capfd: pytest.CaptureFixture[str]) -> None:
    core.put(FULL, SRC, np.array([[1, 2.5, -3], [0.125, 4, 1e9]], np.float32))
    assert _printed(core, capfd, "print", 2, 3) == (
        "TPRINT 2x3\n  1.0000   2.5000  -3.0000\n  0.1250   4.0000 1000000000.0000\n"
    )
    assert _printed(core, capfd, "print_precisely", 2, 1) == "TPRINT 2x1\n  1.000000\n  0.125000\n"
    small, large = np.arange(-2, 4, dtype=np.int8), np.uint64(2**64 - 6) + np.arange(6, dtype=np.uint64)
    line = "TPRINT 2x2\n      -2       -1\n       1        2\n"
    assert _printed(core, capfd, "print_global_i8", small.ctypes.data) == line
    numbers = [2**64 - 6, 2**64 - 5, 2**64 - 3, 2**64 - 2]
    line = "TPRINT 2x2\n{} {}\n{} {}\n".format(*numbers)
    assert _printed(core, capfd, "print_global_u64", large.ctypes.data) == line


@pytest.mark.parametrize("dtype,limits", [("i32", (-(2**31), 2**31)), ("u16", (0, 2**16)), ("i8", (-128, 128))])
def test_shifts_by_a_scalar(core: Core, dtype: str, limits: tuple[int, int]) -> None:
    numbers = np.random.default_rng(1).integers(*limits, (ROWS, COLS))
    tile, values = Tile(dtype, ROWS, COLS), encode(numbers, dtype)
    for amount in (0, 1, 5):
        for name, expected in (("TSHLS", values << amount), ("TSHRS", values >> amount)):
            core.fill("Vec", 0)
            core.put(tile, SRC, values)
            core.call(f"{name}_{dtype}", 9, 17, amount)
            memory = np.zeros_like(values)
            memory[:9, :17] = expected.astype(values.dtype)[:9, :17]
            assert np.array_equal(core.get(tile, DST), memory)


def test_powers_of_a_scalar(core: Core) -> None:
    values = np.random.default_rng(2).uniform(0, 4, (ROWS, COLS)).astype(np.float32)
    core.put(FULL, SRC, values)
    core.call("power", ROWS, COLS)
    assert np.allclose(core.get(FULL, DST), values.astype(np.float64) ** 1.5, rtol=1e-6, atol=0)


def test_a_vector_by_a_matrix(core: Core) -> None:
    rng = np.random.default_rng(3)
    a, b, start, bias = (
        rng.standard_normal(shape).astype(np.float32) for shape in ((1, 16), (16, 16), (1, 16), (1, 16))
    )
    for kind, base in (("", 0), ("_ACC", start), ("_BIAS", bias)):
        core.put(LEFT, 0, a)
        core.put(RIGHT, 0, b)
        core.put(ACC, 1024, start)
        core.put(BIAS, 0, bias)
        core.call(f"gemv{kind}", 1, 16, 16, 16, 1, 16)
        assert np.allclose(core.get(ACC, 0)[:1], a.astype(np.float64) @ b + base, rtol=1e-5, atol=1e-6)


def test_scales_of_columns_on_a_part(core: Core) -> None:
    rng = np.random.default_rng(4)
    values = rng.uniform(-50, 50, (32, COLS)).astype(np.float32)
    scales = rng.uniform(0.5, 2, COLS).astype(np.float32)
    core.put(WIDE_ACC, 0, values)
    core.put(SCALES, 0, scales.view(np.uint32).astype(np.uint64).reshape(1, COLS))
    exact = np.clip(np.rint(values * scales), -128, 127).astype(np.int8)
    core.fill("Vec", 0)
    core.call("extract_fp", 32, COLS, 1, COLS, 16, COLS, 16, 0)
    assert np.array_equal(core.get(Tile("i8", 32, COLS), DST)[:16], exact[16:])
    core.fill("Vec", 0)
    core.call("insert_fp", 16, COLS, 1, COLS, 32, COLS, 8, 0)
    assert np.array_equal(core.get(Tile("i8", 32, COLS), DST)[8:24], exact[:16])


@pytest.mark.parametrize("name", ["put", "put_add", "get"])
def test_copies_between_ranks(core: Core, name: str) -> None:
    rng = np.random.default_rng(5)
    to, source = (rng.standard_normal(shape).astype(np.float32) for shape in ((4, 16), (4, 8)))
    before = to.copy()
    core.call(name, to.ctypes.data, source.ctypes.data)
    assert np.array_equal(to[:, :8], source + (before[:, :8] if name == "put_add" else 0))
    assert np.array_equal(to[:, 8:], before[:, 8:])


def test_signals(core: Core) -> None:
    signal, answer = np.array([3, 3, 9], np.int32), np.zeros(1, np.int64)
    core.call("notify_AtomicAdd", signal.ctypes.data, 2)
    assert signal.tolist() == [5, 5, 9]
    core.call("notify_Set", signal.ctypes.data, 4)
    assert signal.tolist() == [4, 4, 9]
    for value in (3, 4, 5):
        values = []
        for kind in COMPARISONS:
            core.call(f"test_{kind}", signal.ctypes.data, value, answer.ctypes.data)
            values.append(bool(answer[0]))
        assert values == [value == 4, value != 4, value < 4, value <= 4, value > 4, value >= 4]
    core.call("one", signal.ctypes.data, 4)
    assert signal.tolist() == [4, 4, 9]
    signal[1] = 9  # a condition has to hold for every signal of the view
    core.call("test_EQ", signal.ctypes.data, 4, answer.ctypes.data)
    assert not answer[0]


def test_a_matrix_of_signals(core: Core) -> None:
    for stride in (3, 5):
        signals = np.zeros((2, stride), np.int32)
        core.call("grid", signals.ctypes.data, stride)
        assert signals.tolist() == [[7] * 3 + [0] * (stride - 3)] * 2


def test_waiting_ends_with_the_notification(core: Core) -> None:
    signal = np.zeros(2, np.int32)

    def wait() -> None:
        core.bind()
        core.call("wait", signal.ctypes.data, 2)

    waiting = threading.Thread(target=wait)
    waiting.start()
    core.call("notify_AtomicAdd", signal.ctypes.data, 1)
    core.call("notify_AtomicAdd", signal.ctypes.data, 1)
    waiting.join()
    assert signal.tolist() == [2, 2]
