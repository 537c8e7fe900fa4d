"""The measured kernels as sequences of transfers, products and vector instructions, with the sizes that are stated."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from pypto_build.diagnose.speed.record import (
    FIX,
    INSTRUCTION,
    L0A,
    L0B,
    L0C,
    L1,
    MTE1,
    MTE2,
    MTE3,
    SET_FLAG,
    UB,
    WAIT_FLAG,
    BlockCall,
    EventRow,
    M,
    Recording,
    S,
    TileArea,
    V,
    View,
)
from pypto_build.facts.accesses import READ, WRITE

#: Addresses of matrices in global memory.
_FIRST, _SECOND, _THIRD = 1 << 40, 1 << 41, 1 << 42


@dataclass(frozen=True)
class Case:
    """A recording, how often the measured run has it in a row, and rates that hold for this row alone."""

    recording: Recording
    times: float = 1.0
    rates: Mapping[str, float] = field(default_factory=dict)


def tile(space: int, address: int, rows: int, cols: int, element: int, access: int, step: int = 0) -> TileArea:
    """Return a tile without fractals, or with fractals where `step` is the number of blocks from one to the next."""
    fractals = int(bool(step) or space in (L1, L0A, L0B, L0C))
    return TileArea(
        address, space, access, fractals, 0, 1, 1, element, step or rows, cols, rows, cols, 0, 0, rows, cols
    )  # fmt: skip


def view(rows: int, cols: int, element: int, step: int, access: int) -> View:
    """Return a matrix in global memory; `step` is the distance of its rows in elements."""
    return View(access, 0, element, (1, 1, 1, rows, cols), (0, 0, 0, step, 1), rows, cols)


class Writer:
    """Writes the streams of cores: equal rows are kept once."""

    def __init__(self) -> None:
        self.rows: dict[EventRow, int] = {}
        self.streams: list[np.ndarray] = []
        self.calls: list[BlockCall] = []
        self.bases: list[int] = []
        self._stream: list[int] = []
        self._begin = 0

    def row(self, row: EventRow, *bases: int) -> None:
        """Append an event."""
        self._stream.append(self.rows.setdefault(row, len(self.rows)))
        self.bases += bases

    def set(self, pipe: int, to: int, flag: int = 0) -> None:
        """Append set_flag."""
        self.row(EventRow(SET_FLAG, "", pipe, to, flag))

    def wait(self, pipe: int, to: int, flag: int = 0) -> None:
        """Append wait_flag."""
        self.row(EventRow(WAIT_FLAG, "", pipe, to, flag))

    def load(self, to: TileArea, rows: int, cols: int, element: int, step: int, base: int) -> None:
        """Append a load of a matrix."""
        self.row(
            EventRow(INSTRUCTION, "TLOAD", MTE2, tiles=(to,), views=(view(rows, cols, element, step, READ),)), base
        )  # fmt: skip

    def store(self, of: TileArea, rows: int, cols: int, element: int, step: int, base: int, pipe: int = MTE3) -> None:
        """Append a store of a matrix."""
        self.row(
            EventRow(INSTRUCTION, "TSTORE", pipe, tiles=(of,), views=(view(rows, cols, element, step, WRITE),)), base
        )  # fmt: skip

    def vector(self, name: str, *tiles: TileArea) -> None:
        """Append a vector instruction."""
        self.row(EventRow(INSTRUCTION, name, V, tiles=tiles))

    def end(self, block: int, member: int) -> None:
        """End the stream of a core."""
        self.streams.append(np.array(self._stream, np.uint32))
        self.calls.append(BlockCall(0, block, member, 0, len(self.streams) - 1, slice(self._begin, len(self.bases))))
        self._stream, self._begin = [], len(self.bases)

    def recording(self) -> Recording:
        """Return all cores as blocks of one task, equal streams kept once."""
        numbers: dict[bytes, int] = {}
        streams: list[np.ndarray] = []
        calls = []
        for call in self.calls:
            data = self.streams[call.stream].tobytes()
            if data not in numbers:
                numbers[data] = len(streams)
                streams.append(self.streams[call.stream])
            calls.append(BlockCall(0, call.block, call.member, 0, numbers[data], call.bases))
        return Recording(list(self.rows), streams, calls, np.array(self.bases, np.uint64))


_NO_RATES: Mapping[str, float] = {}

# -- vectors and copies --


def add(cores: int, size: int, depth: int, apart: int, cut: int = 1, rates: Mapping[str, float] = _NO_RATES) -> Case:
    """Return an addition of two matrices of 8192 x 8192 halves in tiles of `size` bytes; `apart` are bytes between."""
    writer = Writer()
    elements = size // 2
    tiles = 8192 * 8192 // elements // cores // cut
    for core in range(cores):
        for number in range(tiles):
            slot = number % depth
            base = (core * tiles + number) * size
            at = slot * 3 * apart
            x = tile(UB, at, 1, elements, 2, WRITE)
            y = tile(UB, at + apart, 1, elements, 2, WRITE)
            z = tile(UB, at + 2 * apart + (0 if apart % 512 == 0 else apart % 512), 1, elements, 2, WRITE)
            if number >= depth:
                writer.wait(V, MTE2, slot)
            writer.load(x, 1, elements, 2, elements, _FIRST + base)
            writer.load(y, 1, elements, 2, elements, _SECOND + base)
            writer.set(MTE2, V, slot)
            writer.wait(MTE2, V, slot)
            if number >= depth:
                writer.wait(MTE3, V, slot)
            writer.vector("TADD", _as(x, READ), _as(y, READ), z)
            writer.set(V, MTE2, slot)
            writer.set(V, MTE3, slot)
            writer.wait(V, MTE3, slot)
            writer.store(_as(z, READ), 1, elements, 2, elements, _THIRD + base)
            writer.set(MTE3, V, slot)
        writer.end(core, 1)
    return Case(writer.recording(), cut, rates)


def _as(of: TileArea, access: int) -> TileArea:
    return TileArea(of.address, of.space, access, *(getattr(of, name) for name in TileArea.__struct_fields__[3:]))


def scalar_add(cut: int) -> Case:
    """Return the addition one element at a time on one core."""
    writer = Writer()
    one = tile(UB, 0, 1, 1, 2, READ)
    for _ in range(8192 * 8192 // cut):
        for name in ("GetValue", "GetValue", "SetValue"):
            writer.row(EventRow(INSTRUCTION, name, S, tiles=(one,)))
    writer.end(0, 1)
    return Case(writer.recording(), cut)


def read(core: str, cores: int, rows: int, length: int, step: int, rounds: int = 1, quarter: int = 1) -> Case:
    """Return a read of 302 MB in calls of `rows` of `length` bytes, `step` apart, `rounds` times, in parts or not."""
    writer = Writer()
    cols = length // 2
    total = 302 * 10**6 // cores
    calls = max(1, total // (rows * length))
    space, member = (UB, 1) if core == "aiv" else (L1, 0)
    target = tile(space, 0, rows, cols, 2, WRITE)
    for number in range(cores):
        own = calls // quarter
        for part in range(quarter):
            for _ in range(rounds):
                for call in range(own):
                    base = _FIRST + ((number * calls + part * own + call) * rows) * step
                    writer.load(target, rows, cols, 2, step // 2, base)
        writer.end(number, member)
    return Case(writer.recording())


def read_same(core: str, cores: int, staggered: bool) -> Case:
    """Return a read of the same 6.3 MB by all cores, each beginning elsewhere where they are staggered."""
    writer = Writer()
    space, member = (UB, 1) if core == "aiv" else (L1, 0)
    rows, cols = 64, 256
    calls = 6_300_000 // (rows * cols * 2)
    target = tile(space, 0, rows, cols, 2, WRITE)
    for number in range(cores):
        for call in range(calls):
            at = (call + number * calls // cores) % calls if staggered else call
            writer.load(target, rows, cols, 2, cols, _FIRST + at * rows * cols * 2)
        writer.end(number, member)
    return Case(writer.recording())


def to_nz(cores: int, step: int) -> Case:
    """Return a conversion of 8192 x 8192 halves to fractals in UB: tiles of 128 rows, blocks `step` blocks apart."""
    writer = Writer()
    rows, cols = 128, 128
    tiles = 8192 * 8192 // (rows * cols) // cores
    source = tile(UB, 0, rows, cols, 2, WRITE)
    target = tile(UB, 1 << 16, rows, cols, 2, WRITE, step)
    for core in range(cores):
        for number in range(tiles):
            slot = number % 2
            base = (core * tiles + number) * rows * cols * 2
            if number >= 2:
                writer.wait(V, MTE2, slot)
            writer.load(source, rows, cols, 2, cols, _FIRST + base)
            writer.set(MTE2, V, slot)
            writer.wait(MTE2, V, slot)
            if number >= 2:
                writer.wait(MTE3, V, slot)
            writer.vector("TMOV", _as(source, READ), target)
            writer.set(V, MTE2, slot)
            writer.set(V, MTE3, slot)
            writer.wait(V, MTE3, slot)
            writer.store(_as(target, READ), rows, cols, 2, cols, _SECOND + base)
            writer.set(MTE3, V, slot)
        writer.end(core, 1)
    return Case(writer.recording())


def gelu(cores: int) -> Case:
    """Return GELU of 8192 x 8192 floats: six linear instructions, an exponential and a division a tile."""
    writer = Writer()
    elements = 8192
    tiles = 8192 * 8192 // elements // cores
    for core in range(cores):
        for number in range(tiles):
            slot = number % 2
            x = tile(UB, slot * 0x18000, 1, elements, 4, WRITE)
            y = tile(UB, slot * 0x18000 + 0x8000, 1, elements, 4, WRITE)
            base = (core * tiles + number) * elements * 4
            if number >= 2:
                writer.wait(V, MTE2, slot)
            writer.load(x, 1, elements, 4, elements, _FIRST + base)
            writer.set(MTE2, V, slot)
            writer.wait(MTE2, V, slot)
            if number >= 2:
                writer.wait(MTE3, V, slot)
            for name in ("TMULS", "TMULS", "TADDS", "TMULS", "TADDS", "TMULS", "TEXP", "TDIV"):
                writer.vector(name, _as(x, READ), y)
                writer.row(EventRow(2, "", V, V))
            writer.set(V, MTE2, slot)
            writer.set(V, MTE3, slot)
            writer.wait(V, MTE3, slot)
            writer.store(_as(y, READ), 1, elements, 4, elements, _SECOND + base)
            writer.set(MTE3, V, slot)
        writer.end(core, 1)
    return Case(writer.recording())


# -- matrices --


@dataclass(frozen=True)
class Blocking:
    """Sizes of a product: those of a core's step, steps of k that one load to L1 has, and buffers in L1 and L0."""

    m: int
    n: int
    k: int
    steps: int = 1
    buffers: int = 2
    l0_buffers: int = 2


def product(
    grid: tuple[int, int], size: tuple[int, int, int], by: Blocking, element: int = 2, cut: int = 1, waves: int = 0
) -> Case:
    """Return a product of matrices on a grid of cores, each with a block of the result; `cut` shortens each core."""
    m, n, k = size
    writer = Writer()
    rows = _split(m, grid[0], by.m)
    cols = _split(n, grid[1], by.n)
    block = 0
    for row, height in rows:
        for col, width in cols:
            tiles = [(i, j) for i in range(row, row + height, by.m) for j in range(col, col + width, by.n)]
            for number, (i, j) in enumerate(tiles[: max(1, len(tiles) // cut)] if cut > 1 else tiles):
                _tile_product(writer, (m, n, k), by, element, i, j, number)
            writer.end(block, 0)
            block += 1
    share = max(1, len(tiles) // cut) if cut > 1 else len(tiles)
    return Case(writer.recording(), len(tiles) / share)


def _split(extent: int, parts: int, unit: int) -> list[tuple[int, int]]:
    """Return the parts of an extent, in whole units as far as it goes: the last one may be smaller."""
    each = -(-extent // parts // unit) * unit
    starts = range(0, extent, each)
    return [(start, min(each, extent - start)) for start in starts]


def _tile_product(
    writer: Writer, size: tuple[int, int, int], by: Blocking, element: int, i: int, j: int, number: int
) -> None:
    """Append one tile of the result: loads to L1, moves to L0, products, and the drain."""
    _, n, k = size
    depth = by.k * by.steps
    out = tile(L0C, 0, by.m, by.n, 4, WRITE)
    for load in range(0, k, depth):
        part = load // depth
        slot = part % by.buffers
        first = number == 0 and part < by.buffers
        left = tile(L1, 0x80000 * slot, by.m, depth, element, WRITE)
        right = tile(L1, 0x80000 * slot + 0x40000, depth, by.n, element, WRITE)
        if not first:
            writer.wait(MTE1, MTE2, slot)
        writer.load(left, by.m, depth, element, k, _FIRST + (i * k + load) * element)
        writer.load(right, depth, by.n, element, n, _SECOND + (load * n + j) * element)
        writer.set(MTE2, MTE1, slot)
        writer.wait(MTE2, MTE1, slot)
        for step in range(by.steps):
            at = part * by.steps + step
            l0 = at % by.l0_buffers
            if not (number == 0 and at < by.l0_buffers):
                writer.wait(M, MTE1, 4 + l0)
            a = tile(L0A, 0x8000 * l0, by.m, by.k, element, WRITE)
            b = tile(L0B, 0x8000 * l0, by.k, by.n, element, WRITE)
            writer.row(EventRow(INSTRUCTION, "TEXTRACT", MTE1, tiles=(_as(left, READ), a)))
            writer.row(EventRow(INSTRUCTION, "TEXTRACT", MTE1, tiles=(_as(right, READ), b)))
            writer.set(MTE1, M, l0)
            writer.wait(MTE1, M, l0)
            if at == 0 and number > 0:
                writer.wait(FIX, M, 6)
            writer.row(EventRow(INSTRUCTION, "TMATMUL_ACC", M, tiles=(_as(a, READ), _as(b, READ), out)))
            writer.set(M, MTE1, 4 + l0)
        writer.set(MTE1, MTE2, slot)
    writer.set(M, FIX, 7)
    writer.wait(M, FIX, 7)
    writer.store(_as(out, READ), by.m, by.n, 2, n, _THIRD + (i * n + j) * 2, FIX)
    writer.set(FIX, M, 6)


_SQUARE = (8192, 8192, 8192)
_A2, _A5 = Blocking(128, 256, 64), Blocking(256, 256, 64)


def _blocking(of: Blocking, steps: int, buffers: int, l0_buffers: int = 2) -> Blocking:
    return Blocking(of.m, of.n, of.k, steps, buffers, l0_buffers)


def _square(grid: tuple[int, int], of: Blocking) -> dict[str, Callable[[], Case]]:
    """Return the variants of the product of 8192 x 8192 x 8192, of which one eighth is simulated."""
    naive, large, full = _blocking(of, 1, 1, 1), _blocking(of, 4, 1), _blocking(of, 4, 2)
    names = ("L1 full", "constants", "unit flag", "static tensors", "static tensors, L2 split")
    return {
        "naive": partial(product, grid, _SQUARE, naive, cut=8),
        "large packets": partial(product, grid, _SQUARE, large, cut=8),
        **{name: partial(product, grid, _SQUARE, full, cut=8) for name in names},
        "2 x 12 cores": partial(product, (2, 12), _SQUARE, full, cut=8),
    }


_BYPASS = {"hbm": 2180.0, "hbm.read": 2180.0}

CASES: Mapping[str, Mapping[str, Callable[[], Case]]] = {
    "matmul 8192 fp16 a2": _square((4, 6), _A2),
    "matmul 8192 fp16 a5": _square((4, 8), _A5),
    "matmul 8192 fp16 one core a2": {
        "base 64 x 64 x 64": partial(product, (1, 1), _SQUARE, Blocking(64, 64, 64, 1, 1, 1), cut=4096),
        "base 128 x 256 x 64": partial(product, (1, 1), _SQUARE, Blocking(128, 256, 64, 1, 1, 1), cut=256),
    },
    "matmul 8192 fp16 one core a5": {
        "base 64 x 64 x 64": partial(product, (1, 1), _SQUARE, Blocking(64, 64, 64, 1, 1, 1), cut=4096),
        "base 128 x 256 x 64": partial(product, (1, 1), _SQUARE, Blocking(128, 256, 64, 1, 1, 1), cut=256),
    },
    "GEMM fp16 a3": {
        str(size): partial(product, (4, 6), (size, size, size), Blocking(128, 256, 64, 4), cut=cut)
        for size, cut in ((1536, 1), (3072, 1), (6144, 4), (7680, 4))
    },
    "GEMM fp8 a5": {
        str(size): partial(product, (4, 8), (size, size, size), Blocking(256, 256, 128, 4), 1, cut)
        for size, cut in ((2048, 1), (4096, 1), (6144, 2), (8192, 4))
    },
    "mmad 1024 fp16 a5": {
        "single buffer": partial(product, (8, 8), (1024, 1024, 1024), Blocking(128, 128, 64, 1, 1, 1)),
        "double buffer": partial(product, (8, 8), (1024, 1024, 1024), Blocking(128, 128, 64, 1, 2, 1)),
    },
    "add 8192 x 8192 fp16 a2": {
        "one core": partial(add, 1, 8192, 1, 0x4000, 16),
        "8 KB": partial(add, 48, 8192, 1, 0x4000),
        "32 KB": partial(add, 48, 32768, 1, 0x8000),
        "double buffer": partial(add, 48, 32768, 2, 0x8000),
        "L2 bypass": lambda: add(48, 32768, 2, 0x8000, rates=_BYPASS),
        "no bank conflict": lambda: add(48, 32512, 2, 0x8100, rates=_BYPASS),
        "scalar loop": partial(scalar_add, 4096),
    },
    "add 8192 x 8192 fp16 a5": {
        "one core": partial(add, 1, 8192, 1, 0x4000, 16),
        "8 KB": partial(add, 64, 8192, 1, 0x4000),
        "32 KB": partial(add, 64, 43520, 1, 0xAA00),
        "double buffer": partial(add, 64, 43520, 2, 0xAA00),
        "L2 bypass": lambda: add(64, 43520, 2, 0xAA00, rates=_BYPASS),
    },
    **{
        f"read 302 MB to UB {arch}": {
            "calls of 128 B": partial(read, "aiv", cores, 1, 128, 128),
            "64 x 128 B": partial(read, "aiv", cores, 64, 128, 512),
            "64 x 2 KB": partial(read, "aiv", cores, 64, 2048, 4096),
            "unaligned": partial(read, "aiv", cores, 64, 2048, 4128),
        }
        for arch, cores in (("a2", 48), ("a5", 64))
    },
    **{
        f"read 302 MB to L1 {arch}": {
            "64 x 128 B": partial(read, "aic", cores, 64, 128, 512),
            "64 x 512 B": partial(read, "aic", cores, 64, 512, 1024),
            "unaligned": partial(read, "aic", cores, 64, 512, 1056),
        }
        for arch, cores in (("a2", 24), ("a5", 32))
    },
    **{
        f"read four times to {space} {arch}": {
            "whole": partial(read, core, cores, 64, 512, 1024, 4),
            "in quarters": partial(read, core, cores, 64, 512, 1024, 4, 4),
        }
        for arch, space, core, cores in (
            ("a2", "UB", "aiv", 48),
            ("a5", "UB", "aiv", 64),
            ("a2", "L1", "aic", 24),
            ("a5", "L1", "aic", 32),
        )
    },
    **{
        f"all read 6.3 MB to {space} {arch}": {
            "same order": partial(read_same, core, cores, False),
            "staggered": partial(read_same, core, cores, True),
        }
        for arch, space, core, cores in (
            ("a2", "UB", "aiv", 48),
            ("a5", "UB", "aiv", 64),
            ("a2", "L1", "aic", 24),
            ("a5", "L1", "aic", 32),
        )
    },
    "ND to NZ 8192 x 8192 a2": {f"stride {step}": partial(to_nz, 48, step) for step in (144, 145)},
    "ND to NZ 8192 x 8192 a5": {f"stride {step}": partial(to_nz, 64, step) for step in (144, 145)},
    "GELU 8192 x 8192 fp32 a5": {"unfused": partial(gelu, 64)},
}
