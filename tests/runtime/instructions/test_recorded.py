"""Reports of the checked build's hooks: the regions of global memory of transfers, collectives and gathers."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from tests.rows import every
from tests.runtime.instructions.tile_harness import Cases, Core

READ, WRITE, ATOMIC = 1, 2, 4


class _Global(ctypes.Structure):
    _fields_ = [
        ("base", ctypes.c_void_p), ("access", ctypes.c_uint8), ("layout", ctypes.c_uint8), ("element", ctypes.c_uint32),
        ("shape", ctypes.c_int64 * 5), ("stride", ctypes.c_int64 * 5), ("rows", ctypes.c_int64), ("cols", ctypes.c_int64),
    ]  # fmt: skip


_TILES = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_uint32, ctypes.c_void_p, ctypes.c_uint32)
_GLOBAL = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_uint32, ctypes.POINTER(_Global))
_ORDER = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_uint32, ctypes.c_uint32, ctypes.c_uint32, ctypes.c_uint32)
_CLEAN = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)


class _Check(ctypes.Structure):
    _fields_ = [
        ("tiles", _TILES), ("global", _GLOBAL), ("order", _ORDER), ("variable", ctypes.c_void_p), ("clean", _CLEAN),
        ("plain", ctypes.c_void_p),
    ]  # fmt: skip


_VIEWS = """
using wide_t = GlobalTensor<float, Shape<1, 1, 1, 4, 8>, Stride<1, 1, 1, 16, 1>>;
using dense_t = GlobalTensor<float, Shape<1, 1, 1, 4, 8>, Stride<1, 1, 1, 8, 1>>;
using all_t = GlobalTensor<float, Shape<1, 1, 1, 8, 8>, Stride<1, 1, 1, 8, 1>>;
[[maybe_unused]] wide_t wide((float *)v[0]); [[maybe_unused]] dense_t dense((float *)v[1]);
[[maybe_unused]] all_t all_rows((float *)v[1]);
Tile<TileType::Vec, float, 8, 8, BLayout::RowMajor, -1, -1> t(3, 5), s(4, 8); TASSIGN(t, 0); TASSIGN(s, 4096);
wide_t parts[2] = {wide_t((float *)v[0]), wide_t((float *)v[0] + 64)};
[[maybe_unused]] auto group = comm::ParallelGroup<wide_t>::Create(parts, 2, 0);
[[maybe_unused]] comm::AsyncSession session;
[[maybe_unused]] GlobalTensor<int32_t, Shape<1, 1, 1, 1, 3>, Stride<3, 3, 3, 3, 1>> index((int32_t *)v[2]);
"""
# Each call, and what it touches: which memory (wide, dense, index), from which byte, how it is accessed, and how many
# elements lie in the region.
_WIDE_READ, _WIDE_WRITE = (
    [("wide", 0, READ, 32), ("wide", 256, READ, 32)],
    [("wide", 0, WRITE, 32), ("wide", 256, WRITE, 32)],
)
CALLS = {
    "TLOAD": ("TLOAD(t, wide);", [("wide", 0, READ, 15)]),
    "TPREFETCH": ("TPREFETCH(t, wide);", [("wide", 0, READ, 15)]),
    "TSTORE": ("TSTORE(wide, t);", [("wide", 0, WRITE, 15)]),
    "TSTORE_add": (
        "TSTORE<decltype(t), wide_t, AtomicType::AtomicAdd>(wide, t);", [("wide", 0, WRITE | ATOMIC, 15)],
    ),
    "MGATHER": ("MGATHER<Coalesce::Row>(t, dense, index);", [("index", 0, READ, 3), *[("dense", 32, READ, 5)] * 3]),
    "TPUT": ("comm::TPUT(wide, dense, s);", [("dense", 0, READ, 32), ("wide", 0, WRITE, 32)]),
    "TPUT_add": (
        "comm::TPUT<AtomicType::AtomicAdd>(wide, dense, s);", [("dense", 0, READ, 32), ("wide", 0, WRITE | ATOMIC, 32)],
    ),
    "TGET": ("comm::TGET(dense, wide, s);", [("wide", 0, READ, 32), ("dense", 0, WRITE, 32)]),
    "TPUT_ASYNC": ("comm::TPUT_ASYNC(wide, dense, session);", [("dense", 0, READ, 32), ("wide", 0, WRITE, 32)]),
    "TGET_ASYNC": ("comm::TGET_ASYNC(dense, wide, session);", [("wide", 0, READ, 32), ("dense", 0, WRITE, 32)]),
    "TBROADCAST": ("comm::TBROADCAST(group, dense, s);", [*[("dense", 0, READ, 32)] * 2, *_WIDE_WRITE]),
    "TGATHER": ("comm::TGATHER(group, all_rows, s);", [*_WIDE_READ, *[("dense", 128 * r, WRITE, 32) for r in (0, 1)]]),
    "TSCATTER": ("comm::TSCATTER(group, all_rows, s);", [*[("dense", 128 * r, READ, 32) for r in (0, 1)], *_WIDE_WRITE]),
    "TREDUCE": ("comm::TREDUCE(group, dense, s, s, comm::ReduceOp::Sum);", [*_WIDE_READ, ("dense", 0, WRITE, 32)]),
}  # fmt: skip


@pytest.fixture(scope="module")
def core() -> Core:
    cases = Cases(flags=["-DPYPTO_CHECK"])
    for name, (call, _) in CALLS.items():
        cases.add(name, _VIEWS + call)
    cases.add("signals", "GlobalTensor<int32_t, Shape<1, 1, 1, 1, 1>, Stride<1, 1, 1, 1, 1>> g((int32_t *)v[0]);"
              "comm::TNOTIFY(g, 1, comm::NotifyOp::Set); comm::TWAIT(g, 1, comm::WaitCmp::EQ);")  # fmt: skip
    return cases.build()


def _record(
    core: Core, name: str, *arrays: np.ndarray[tuple[int, ...], np.dtype[np.generic]]
) -> tuple[list[tuple[str, int, int, int]], list[int]]:
    regions: list[tuple[str, int, int, int]] = []
    orders: list[int] = []
    names = ("wide", "dense", "index")

    def touched(_: int, instruction: bytes, pipe: int, access: ctypes._Pointer[_Global]) -> None:
        assert instruction.decode() == name.split("_add")[0]
        region = access.contents
        shape = [min(n, most) for n, most in zip(region.shape, (1, 1, 1, region.rows, region.cols), strict=True)]
        which = max((a.ctypes.data, n) for a, n in zip(arrays, names, strict=False) if a.ctypes.data <= region.base)
        regions.append((which[1], region.base - which[0], region.access, int(np.prod(shape))))

    order = _ORDER(lambda _, kind, *__: orders.append(kind))
    check = _Check(_TILES(lambda *_: None), _GLOBAL(touched), order, None, _CLEAN(lambda *_: None), None)
    core.context.check = ctypes.addressof(check)
    try:
        core.call(name, *(a.ctypes.data for a in arrays))
    finally:
        core.context.check = None
    return regions, orders


@every("name", CALLS)
def test_regions_of_global_memory(core: Core, name: str) -> None:
    wide, dense = np.zeros(256, np.float32), np.zeros(128, np.float32)
    regions, _ = _record(core, name, wide, dense, np.ones(3, np.int32))
    assert sorted(regions) == sorted(CALLS[name][1])


def test_signals_order_what_is_around_them(core: Core) -> None:
    _, orders = _record(core, "signals", np.zeros(1, np.int32))
    notify, fence, barrier, wait = 4, 5, 2, 3
    assert orders == [notify, fence, barrier, wait]
