"""Indexed global memory (MGATHER, MSCATTER) and random numbers (TRANDOM) against numpy."""

from __future__ import annotations

import numpy as np
import pytest

from tests.rows import every
from tests.runtime.instructions.tile_harness import CPP, Array, Cases, Core, Tile, declare, encode

A, B = 0, 65536
TABLE = (40, 24)


def _table(dtype: str) -> str:
    rows, cols = TABLE
    size = rows * cols
    return (
        f"using shape_t = Shape<1, 1, 1, {rows}, {cols}>; using stride_t = Stride<{size}, {size}, {size}, {cols}, 1>;\n"
        f"GlobalTensor<{CPP[dtype]}, shape_t, stride_t> g(({CPP[dtype]} *)v[2], shape_t(), stride_t());"
    )


RANDOM = Tile("u32", 5, 512)


@pytest.fixture(scope="module")
def core() -> Core:
    cases = Cases(arch=5)
    for dtype in ("f32", "bf16", "i8"):
        for coalesce in ("Row", "Elem"):
            index = Tile("i32", 1, 16) if coalesce == "Row" else Tile("i32", 16, 32)
            head = declare(("d", Tile(dtype, 16, 32), A, 0), ("i", index, B, 3)) + "\n" + _table(dtype) + "\n"
            form = f"Coalesce::{coalesce}"
            for oob in ("Undefined", "Clamp", "Wrap", "Zero"):
                cases.add(f"MGATHER_{coalesce}_{oob}_{dtype}", f"{head}MGATHER<{form}, GatherOOB::{oob}>(d, g, i);")
            for oob in ("Undefined", "Skip", "Clamp", "Wrap"):
                arguments = f"{form}, ScatterAtomicOp::None, ScatterOOB::{oob}"
                cases.add(f"MSCATTER_{coalesce}_{oob}_{dtype}", f"{head}MSCATTER<{arguments}>(g, d, i);")
            for op in ("Add", "Max", "Min"):
                arguments = f"{form}, ScatterAtomicOp::{op}"
                cases.add(f"MSCATTER_{coalesce}_{op}_{dtype}", f"{head}MSCATTER<{arguments}>(g, d, i);")
    for rounds in (7, 10):
        seed = "TRandomKey k = {0x1111, 0x2222}; TRandomCounter n = {0xffffffff, 6, 7, 8};"
        cases.add(f"TRANDOM_{rounds}", declare(("d", RANDOM, A, 0)) + f"{seed} TRANDOM<{rounds}>(d, k, n);")
    return cases.build()


def _values(dtype: str, shape: tuple[int, int], seed: int) -> Array:
    return encode(np.random.default_rng(seed).integers(0, 8, shape), dtype)


def _position(index: Array, capacity: int, oob: str) -> Array:
    if oob == "Clamp":
        return np.where(index < 0, 0, np.minimum(index, capacity - 1))
    return index % capacity if oob == "Wrap" else index


@every("oob", ["Undefined", "Clamp", "Wrap", "Zero", "Skip"])
@every("coalesce", ["Row", "Elem"])
@every("dtype", ["f32", "bf16", "i8"])
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


@every("op", ["Add", "Max", "Min"])
@every("coalesce", ["Row", "Elem"])
@every("dtype", ["f32", "i8"])
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


@every("rows, cols", [(5, 33), (4, 512), (3, 300), (2, 100), (0, 5), (5, 0)])
@every("rounds", [7, 10])
def test_random_numbers(core: Core, rounds: int, rows: int, cols: int) -> None:
    """A register has 64 columns, the four words of its blocks four of them.

    256 columns of a row count on from the previous columns by a quarter of the tile's columns, as does the next row.
    """
    core.fill("Vec", 0)
    core.call(f"TRANDOM_{rounds}", rows, cols)
    counter = 0xFFFFFFFF | 6 << 32 | 7 << 64 | 8 << 96
    expected = np.zeros((RANDOM.rows, RANDOM.cols), np.uint32)
    groups = -(-cols // 256)
    for r, c in np.ndindex(rows, cols):
        block = (r * groups + c // 256) * (RANDOM.cols // 4) + c % 64
        expected[r, c] = _philox(counter + block, (0x1111, 0x2222), rounds)[c % 256 // 64]
    assert np.array_equal(core.get(RANDOM, A), expected)
