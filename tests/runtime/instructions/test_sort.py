"""TSORT32 and TMRGSORT against stable sorts of (value, index) records."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from tests.rows import every
from tests.runtime.instructions.tile_harness import NUMPY, Array, Cases, Core, Tile, declare, random_elements, size_of

DTYPES = ("f32", "f16")
SRC, INDEX, DST, TMP = 0, 16384, 32768, 98304
LENGTHS = ((64, 64, 64, 64), (64, 32, 96), (32, 32), (64, 1, 3, 64))


def _records(values: Array, indices: Array) -> Array:
    """Values and indices as records of eight bytes, seen as pairs of uint32."""
    bits = np.ascontiguousarray(values).view(np.uint32 if values.dtype == np.float32 else np.uint16)
    return np.stack([bits.astype(np.uint32), indices.astype(np.uint32)], axis=-1)


def _sorted(records: Array, dtype: str) -> Array:
    """Descending by value, NaN first; equal values keep their order."""
    values = records[:, 0].astype(NUMPY["u32" if dtype == "f32" else "u16"]).view(NUMPY[dtype]).astype(np.float64)
    numbers = ~np.isnan(values)
    return records[np.lexsort((np.where(numbers, -values, 0.0), numbers))]


def _put(core: Core, records: Array, address: int) -> None:
    core.spaces["Vec"][address : address + records.nbytes] = np.ascontiguousarray(records).view(np.uint8).ravel()


def _get(core: Core, count: int, address: int = DST) -> Array:
    return core.spaces["Vec"][address : address + 8 * count].view(np.uint32).reshape(count, 2)


@pytest.fixture(scope="module")
def core() -> Core:
    cases = Cases()
    for dtype in DTYPES:
        wide = 8 // size_of(dtype)
        tiles = declare(
            ("s", Tile(dtype, 4, 128), SRC, 0), ("i", Tile("u32", 4, 128), INDEX, 0),
            ("d", Tile(dtype, 4, 128 * wide), DST, 0), ("t", Tile(dtype, 4, 128), TMP, 0),
        )  # fmt: skip
        cases.add(f"sort_{dtype}", f"{tiles}\nTSORT32(d, s, i, t);")
        line = Tile(dtype, 1, 512 * wide)
        tiles = declare(("s", line, SRC, 0), ("d", line, DST, 0))
        cases.add(f"blocks_{dtype}", f"{tiles}\nTMRGSORT(d, s, uint32_t(v[2]));")
        for count in (2, 3, 4):
            names = [f"s{k}" for k in range(count)]
            tiles = declare(
                *((name, line, SRC + 4096 * k, 2 * k) for k, name in enumerate(names)),
                ("d", line, DST, 8), ("t", line, TMP, 8),
            )  # fmt: skip
            for exhausted in ("false", "true"):
                types = ", ".join(f"{name}_t" for name in names)
                call = f"TMRGSORT<d_t, t_t, {types}, {exhausted}>(d, n, t, {', '.join(names)});"
                report = "uint16_t *out = (uint16_t *)v[10]; out[0] = n.mrgSortList0; out[1] = n.mrgSortList1;"
                report += " out[2] = n.mrgSortList2; out[3] = n.mrgSortList3;"
                cases.add(
                    f"lists_{dtype}_{count}_{exhausted}", f"{tiles}\nMrgSortExecutedNumList n{{}};\n{call}\n{report}"
                )
    return cases.build()


@every("rows,cols", [(4, 128), (3, 64), (2, 37), (1, 1), (0, 32), (2, 0)])
@every("dtype", DTYPES)
def test_groups_of_32(core: Core, dtype: str, rows: int, cols: int) -> None:
    values = np.round(random_elements(dtype, 1, 4, 128))  # rounded, so that many are equal
    indices = np.random.default_rng(2).integers(0, 1 << 32, (4, 128), np.uint64).astype(np.uint32)
    core.fill("Vec", 0xA5)
    core.put(Tile(dtype, 4, 128), SRC, values)
    core.put(Tile("u32", 4, 128), INDEX, indices)
    expected = _get(core, 4 * 128).copy().reshape(4, 128, 2)
    for r in range(rows):
        for start in range(0, cols, 32):
            group = slice(start, min(start + 32, cols))
            expected[r, group] = _sorted(_records(values[r, group], indices[r, group]), dtype)
    core.call(f"sort_{dtype}", rows, cols)
    assert np.array_equal(_get(core, 4 * 128).reshape(4, 128, 2), expected)


def test_nan_sorts_above_all_numbers_and_zeros_are_equal(core: Core) -> None:
    values = np.array([[-0.0, 0.0, np.inf, np.nan, -np.inf, 1.0]], np.float32)
    core.put(Tile("f32", 4, 128), SRC, values)
    core.put(Tile("u32", 4, 128), INDEX, np.arange(6, dtype=np.uint32).reshape(1, 6))
    core.call("sort_f32", 1, 6)
    assert _get(core, 6)[:, 1].tolist() == [3, 2, 5, 0, 1, 4]


@every("count,block", [(512, 32), (512, 128), (256, 64), (192, 32), (100, 32), (32, 32), (0, 32)])
@every("dtype", DTYPES)
def test_merge_of_consecutive_blocks(core: Core, dtype: str, count: int, block: int) -> None:
    wide = 8 // size_of(dtype)
    values = np.round(random_elements(dtype, 3, 1, 512))[0]
    for step, special in ((17, np.nan), (11, 0.0), (13, -0.0), (29, np.inf), (31, -np.inf)):
        values[::step] = special
    records = _records(values, np.arange(512))
    for start in range(0, 512, block):
        records[start : start + block] = _sorted(records[start : start + block], dtype)
    core.fill("Vec", 0xA5)
    _put(core, records, SRC)
    expected = _get(core, 512).copy()
    for start in range(0, count, 4 * block):
        group = slice(start, min(start + 4 * block, count))
        expected[group] = _sorted(records[group], dtype)
    core.call(f"blocks_{dtype}", 1, count * wide, block * wide)
    assert np.array_equal(_get(core, 512), expected)


@every("exhausted", [False, True])
@every("lengths", LENGTHS)
@every("dtype", DTYPES)
def test_merge_of_lists(core: Core, dtype: str, lengths: tuple[int, ...], exhausted: bool) -> None:
    wide, count = 8 // size_of(dtype), len(lengths)
    bounds = np.cumsum((0, *lengths))
    values = np.round(random_elements(dtype, 4, 1, int(bounds[-1])))[0]
    lists = [
        _sorted(_records(values[a:b], np.arange(a, b)), dtype) for a, b in pairwise(int(bound) for bound in bounds)
    ]
    core.fill("Vec", 0xA5)
    for k, records in enumerate(lists):
        _put(core, records, SRC + 4096 * k)
    merged = _sorted(np.concatenate(lists), dtype)
    owner = np.searchsorted(bounds, merged[:, 1], side="right") - 1
    if exhausted:  # up to the record that uses up a list
        last = min(int(np.flatnonzero(owner == k)[-1]) for k in range(count))
        merged, owner = merged[: last + 1], owner[: last + 1]
    extents = [x for k in range(4) for x in (1, lengths[k] * wide if k < count else 0)]
    executed = np.zeros(4, np.uint16)
    core.call(
        f"lists_{dtype}_{count}_{str(exhausted).lower()}", *extents, 1, int(bounds[-1]) * wide, executed.ctypes.data
    )
    assert np.array_equal(_get(core, len(merged)), merged)
    assert executed.tolist() == [int((owner == k).sum()) for k in range(4)]
