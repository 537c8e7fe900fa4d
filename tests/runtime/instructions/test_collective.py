"""Collectives, asynchronous transfers, prefetches, and indices in global memory, against numpy."""

from __future__ import annotations

import numpy as np
import pytest

from tests.rows import every
from tests.runtime.instructions.tile_harness import CPP, NUMPY, Array, Cases, Core, Tile, decode, random_elements

RANKS, ROWS, COLS = 3, 5, 12
DTYPES = ("f32", "f16", "bf16", "i32", "i8")

# v: the ranks' tensors (one below the other, 16 columns apart), and another tensor of this rank (24 columns apart).
_GROUP = """
using T = {cpp};
using part_t = GlobalTensor<T, Shape<1, 1, 1, {rows}, {cols}>, Stride<1, 1, 1, 16, 1>>;
using whole_t = GlobalTensor<T, Shape<1, 1, 1, {all_rows}, {cols}>, Stride<1, 1, 1, 24, 1>>;
part_t parts[{ranks}];
for (int r = 0; r < {ranks}; ++r)
    parts[r] = part_t((T *)v[0] + r * {rows} * 16);
comm::ParallelGroup<part_t> group = comm::ParallelGroup<part_t>::Create(parts, {ranks}, 0);
[[maybe_unused]] whole_t whole((T *)v[1]);
using one_t = GlobalTensor<T, Shape<1, 1, 1, {rows}, {cols}>, Stride<1, 1, 1, 24, 1>>;
[[maybe_unused]] one_t one((T *)v[1]);
Tile<TileType::Vec, T, 8, 32> tile, other;
"""
_CALLS = {
    "broadcast": "TBROADCAST(group, one, tile);",
    "broadcast_two": "comm::TBROADCAST(group, one, tile, other);",
    "gather": "TGATHER(group, whole, tile);",
    "gather_two": "comm::TGATHER(group, whole, tile, other);",
    "scatter": "TSCATTER(group, whole, tile);",
    "sum": "TREDUCE(group, one, tile, other, comm::ReduceOp::Sum);",
    "max": "TREDUCE(group, one, tile, other, comm::ReduceOp::Max);",
    "min": "comm::TREDUCE(group, one, tile, other, other, comm::ReduceOp::Min);",
}
_ASYNC = """
using to_t = GlobalTensor<float, Shape<1, 1, 1, 4, 8>, Stride<1, 1, 1, 16, 1>>;
using from_t = GlobalTensor<float, Shape<1, 1, 1, 4, 8>, Stride<1, 1, 1, 8, 1>>;
to_t to((float *)v[0]); from_t from((float *)v[1]);
Tile<TileType::Vec, uint8_t, 1, comm::sdma::UB_ALIGN_SIZE> scratch; comm::AsyncSession session;
if (!comm::BuildAsyncSession<comm::DmaEngine::SDMA>(scratch, (uint8_t *)nullptr, session)) return;
"""


@pytest.fixture(scope="module")
def core() -> Core:
    cases = Cases()
    for dtype in DTYPES:
        group = _GROUP.format(cpp=CPP[dtype], rows=ROWS, all_rows=RANKS * ROWS, cols=COLS, ranks=RANKS)
        for name, call in _CALLS.items():
            cases.add(f"{name}_{dtype}", group + call)
    cases.add("put", _ASYNC + "comm::AsyncEvent e = comm::TPUT_ASYNC(to, from, session); e.Wait(session);")
    cases.add("get", _ASYNC + "if (!comm::TGET_ASYNC(to, from, session, 1u).Test(session)) *(float *)v[0] = 0;")
    cases.add(
        "warm",
        _ASYNC + "PrefetchAsyncContext c((uint8_t *)nullptr, session); TPREFETCH_ASYNC(from, c).Wait(c.GetSession());",
    )
    tile = Tile("f32", 8, 16)
    cases.add(
        "prefetch",
        f"using t_t = {tile.cpp()}; t_t t(v[1], v[2]); TASSIGN(t, 0);"
        "auto shape = pto::Shape(1, 1, 1, int(v[1]), int(v[2])); auto stride = pto::Stride(1, 1, 1, 24, 1);"
        "GlobalTensor<float, decltype(shape), decltype(stride)> g((float *)v[0], shape, stride); TPREFETCH(t, g);",
    )
    table = "GlobalTensor<float, Shape<1, 1, 1, 10, 16>, Stride<1, 1, 1, 16, 1>> table((float *)v[0]);"
    view = "GlobalTensor<int32_t, Shape<1, 1, 1, {}, {}>, Stride<1, 1, 1, {}, 1>> index((int32_t *)v[1]);"
    target = f"using t_t = {tile.cpp()}; t_t t(8, 16); TASSIGN(t, 0);"
    cases.add("rows_by_line", f"{table}{view.format(1, 8, 8)}{target} MGATHER<Coalesce::Row>(t, table, index);")
    cases.add("rows_by_column", f"{table}{view.format(8, 1, 1)}{target} MGATHER<Coalesce::Row>(t, table, index);")
    cases.add("elements", f"{table}{view.format(8, 16, 16)}{target} MGATHER<Coalesce::Elem>(t, table, index);")
    return cases.build()


def _memory(dtype: str) -> tuple[Array, Array]:
    return random_elements(dtype, 1, RANKS * ROWS, 16), random_elements(dtype, 2, RANKS * ROWS, 24)


def _call(core: Core, name: str, parts: Array, local: Array) -> None:
    core.call(name, parts.ctypes.data, local.ctypes.data)


@pytest.mark.parametrize("dtype", DTYPES)
def test_broadcast_gather_and_scatter(core: Core, dtype: str) -> None:
    for name in ("broadcast", "broadcast_two", "gather", "gather_two", "scatter"):
        parts, local = _memory(dtype)
        expected_parts, expected_local = parts.copy(), local.copy()
        for rank in range(RANKS):
            mine = slice(rank * ROWS, (rank + 1) * ROWS)
            if name.startswith("broadcast"):
                expected_parts[mine, :COLS] = local[:ROWS, :COLS]
            elif name.startswith("gather"):
                expected_local[mine, :COLS] = parts[mine, :COLS]
            else:
                expected_parts[mine, :COLS] = local[mine, :COLS]
        _call(core, f"{name}_{dtype}", parts, local)
        assert np.array_equal(parts, expected_parts), name
        assert np.array_equal(local, expected_local), name


@every("dtype", DTYPES)
@every("op", ["max", "min"])
def test_extremes_over_ranks(core: Core, op: str, dtype: str) -> None:
    parts, local = _memory(dtype)
    numbers = decode(parts, dtype).reshape(RANKS, ROWS, 16)[:, :, :COLS]
    expected = decode(local, dtype)
    expected[:ROWS, :COLS] = numbers.max(0) if op == "max" else numbers.min(0)
    _call(core, f"{op}_{dtype}", parts, local)
    assert np.array_equal(decode(local, dtype), expected)


@pytest.mark.parametrize("dtype", ["f32", "f16", "i32", "i8"])
def test_sums_over_ranks_round_and_wrap_at_each_step(core: Core, dtype: str) -> None:
    parts, local = _memory(dtype)
    ranks = parts.reshape(RANKS, ROWS, 16)[:, :, :COLS]
    expected = local.copy()
    with np.errstate(over="ignore"):
        expected[:ROWS, :COLS] = ((ranks[0] + ranks[1]).astype(NUMPY[dtype]) + ranks[2]).astype(NUMPY[dtype])
    _call(core, f"sum_{dtype}", parts, local)
    assert np.array_equal(local, expected)


@pytest.mark.parametrize("name", ["put", "get", "warm"])
def test_asynchronous_transfers_are_complete_at_once(core: Core, name: str) -> None:
    to, source = np.zeros((4, 16), np.float32), random_elements("f32", 3, 4, 8)
    core.call(name, to.ctypes.data, source.ctypes.data, 1)
    expected = np.zeros((4, 16), np.float32)
    if name != "warm":
        expected[:, :8] = source
    assert np.array_equal(to, expected)


@pytest.mark.parametrize("region", [(8, 16), (3, 5), (0, 4), (4, 0)])
def test_prefetch_brings_the_valid_region_and_leaves_the_rest(core: Core, region: tuple[int, int]) -> None:
    tile, source = Tile("f32", 8, 16), random_elements("f32", 4, 8, 24)
    before = random_elements("f32", 5, 8, 16)
    core.put(tile, 0, before)
    core.call("prefetch", source.ctypes.data, *region)
    expected = before.copy()
    expected[: region[0], : region[1]] = source[: region[0], : region[1]]
    assert np.array_equal(core.get(tile, 0), expected)


def test_gathers_by_indices_in_global_memory(core: Core) -> None:
    tile, table = Tile("f32", 8, 16), random_elements("f32", 6, 10, 16)
    rows = np.random.default_rng(7).integers(0, 10, 8, dtype=np.int32)
    for name in ("rows_by_line", "rows_by_column"):
        core.call(name, table.ctypes.data, rows.ctypes.data)
        assert np.array_equal(core.get(tile, 0), table[rows]), name
    elements = np.random.default_rng(8).integers(0, 160, (8, 16), dtype=np.int32)
    core.call("elements", table.ctypes.data, elements.ctypes.data)
    assert np.array_equal(core.get(tile, 0), table.ravel()[elements])
