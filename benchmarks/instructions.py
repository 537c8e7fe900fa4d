"""Time of single tile instructions on this machine, against what its memory and arithmetic units can do.

    python -m benchmarks.instructions [--filter TEXT] [--flags "..."] [--pto-isa CHECKOUT [--peer-compiler CXX]]

Each row is one instruction, or the instructions of a small kernel, on tiles of the shapes that compiled kernels use. It
shows nanoseconds a call, the rate, and its share of the measured peak. For instructions that move data the peak is the
bandwidth of a plain copy within the second-level cache (bytes read and written). For matrix multiplications it is the
rate of fused multiply-adds on registers, on one core. Times are of the processor and the best of many, so that a
machine shared with others does not falsify them. A checkout of pto-isa (``--pto-isa``, or ``PTO_ISA`` in the
environment) is a peer. The same calls are compiled with its headers, as its own simulator compiles kernels, and timed
beside ours.
"""

from __future__ import annotations

import argparse
import ctypes
import math
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.peer import CORE_MACRO, PEER_FLAGS, PEER_MEMORY
from tests.runtime.instructions.tile_harness import CPP, Cases, Tile, size_of

_LOOP = "for (int64_t n = 0; n < v[0]; ++n)"
_PEER_FLAGS = (*PEER_FLAGS, "-shared", *CORE_MACRO.values())

PEAKS = r"""
typedef float v8 __attribute__((vector_size(32)));
typedef float v8_anywhere __attribute__((vector_size(32), aligned(4)));
extern "C" void peak_fma(const int64_t *v) {
    v8 a[12], x = v8{} + 0.999f, y = v8{} + 0.001f;
    _Pragma("GCC unroll 12") for (int i = 0; i < 12; ++i) a[i] = v8{} + float(i);
    for (int64_t n = 0; n < v[0]; ++n) {
        _Pragma("GCC unroll 12") for (int i = 0; i < 12; ++i) a[i] = pto::detail::fma(a[i], x, y);
        __asm__ volatile("" : "+x"(x), "+x"(y));
    }
    v8 sum{};
    _Pragma("GCC unroll 12") for (int i = 0; i < 12; ++i) sum += a[i];
    __builtin_memcpy((void *)v[1], &sum, sizeof(sum));
}
extern "C" void peak_copy(const int64_t *v) {
    const v8_anywhere *from = (const v8_anywhere *)v[1];
    v8_anywhere *to = (v8_anywhere *)v[2];
    for (int64_t n = 0; n < v[0]; ++n) {
        for (int64_t i = 0; i < v[3] / 32; i += 4) { // by whole registers: an array of them would go through the stack
            const v8 a = from[i], b = from[i + 1], c = from[i + 2], d = from[i + 3];
            to[i] = a, to[i + 1] = b, to[i + 2] = c, to[i + 3] = d;
        }
        __asm__ volatile("" ::: "memory");
    }
}
"""


@dataclass(frozen=True)
class Row:
    """One benchmark: its case and what a call of it does."""

    name: str
    shape: str
    declarations: str
    call: str
    bytes: int = 0
    flops: int = 0

    @property
    def body(self) -> str:
        """The case: the call, as often as the first argument says."""
        return f"{self.declarations} {_LOOP} {self.call}"


def _place(name: str, tile: Tile, address: int, rows: int = 0, cols: int = 0) -> str:
    """The declaration of a tile at an address, by default valid as a whole."""
    extent = f"{rows or tile.rows}, {cols or tile.cols}"
    return f"using {name}_t = {tile.cpp()}; {name}_t {name}({extent}); TASSIGN({name}, (uint64_t){address});"


def _view(dtype: str, rows: int, cols: int) -> str:
    shape, stride = f"Shape<1, 1, 1, {rows}, {cols}>", f"Stride<{rows * cols}, {rows * cols}, {rows * cols}, {cols}, 1>"
    return f"GlobalTensor<{CPP[dtype]}, pto::{shape}, pto::{stride}> g(({CPP[dtype]} *)v[1]);"


def _elementwise() -> Iterator[Row]:
    for dtype in ("f32", "bf16", "f16", "i32", "i8"):
        for rows, cols in ((16, 128), (16, 512), (64, 128)):
            if dtype == "f32" or (rows, cols) == (16, 512):
                yield from _elementwise_rows(dtype, rows, cols)


def _elementwise_rows(dtype: str, rows: int, cols: int) -> Iterator[Row]:
    tile, column, line = Tile(dtype, rows, cols), Tile(dtype, rows, 1, "DN"), Tile(dtype, 1, cols)
    tiles = "".join(_place(name, tile, 65536 * i) for i, name in enumerate("abd"))
    tiles += "TEXPANDS(a, a_t::DType(v[0] > 0 ? 0.75f : 0)); TEXPANDS(b, a_t::DType(v[0] > 0 ? 1.5f : 0));"
    narrow = tiles + _place("k", column, 196608) + _place("l", line, 204800)
    size, shape = tile.nbytes, f"{dtype} {rows}x{cols}"
    yield Row("TADD", shape, tiles, "TADD(d, a, b);", 3 * size)
    yield Row("TMULS", shape, f"{tiles} a_t::DType s = a_t::DType(v[0] > 0 ? 3 : 0);", "TMULS(d, a, s);", 2 * size)
    yield Row("TMAX", shape, tiles, "TMAX(d, a, b);", 3 * size)
    if dtype == "i8":
        return
    yield Row("TROWSUM", shape, narrow, "TROWSUM(k, a, b);", size)
    yield Row("TROWMAX", shape, narrow, "TROWMAX(k, a, b);", size)
    yield Row("TCOLSUM", shape, narrow, "TCOLSUM(l, a, b, false);", size)
    yield Row("TCOLMAX", shape, narrow, "TCOLMAX(l, a);", size)
    if dtype == "i32":
        return
    yield Row("TDIV", shape, tiles, "TDIV(d, a, b);", 3 * size)
    yield Row("TEXP", shape, tiles, "TEXP(d, a);", 2 * size)
    yield Row("TLOG", shape, tiles, "TLOG(d, b);", 2 * size)
    yield Row("TSQRT", shape, tiles, "TSQRT(d, b);", 2 * size)
    yield Row("TROWEXPANDMUL", shape, narrow, "TROWEXPANDMUL(d, a, k);", 2 * size)
    yield Row("TCOLEXPANDMUL", shape, narrow, "TCOLEXPANDMUL(d, a, l);", 2 * size)


def _conversions() -> Iterator[Row]:
    for source, target, mode in (
        ("f32", "bf16", "ROUND"), ("bf16", "f32", "ROUND"), ("f32", "i32", "RINT"), ("i32", "f32", "ROUND"),
        ("i32", "f16", "ROUND"), ("f16", "i8", "TRUNC"), ("f32", "f16", "RINT"),
    ):  # fmt: skip
        tiles = _place("s", Tile(source, 16, 512), 0) + _place("d", Tile(target, 16, 512), 65536)
        size = 16 * 512 * (size_of(source) + size_of(target))
        yield Row(
            "TCVT", f"{source}->{target} {mode} 16x512", tiles, f"TCVT(d, s, RoundMode::CAST_{mode});", size
        )  # fmt: skip


def _moves() -> Iterator[Row]:
    r, c = 64, 256
    for dtype in ("f32", "bf16", "i8"):
        size, shape, view = 2 * r * c * size_of(dtype), f"{dtype} {r}x{c}", _view(dtype, r, c)
        vector, mat = _place("t", Tile(dtype, r, c), 0), _place("t", Tile(dtype, r, c, "NZ", "Mat"), 0)
        left, right = _place("l", Tile(dtype, r, c, "ZZ", "Left"), 0), _place("l", Tile(dtype, r, c, "ZN", "Right"), 0)
        transposed = _place("t", Tile(dtype, c, r, "ZN", "Mat"), 0)
        tall, turned = _place("l", Tile(dtype, c, r, "ZN", "Right"), 0), _place("l", Tile(dtype, c, r), 65536)
        yield Row("TLOAD to Vec", shape, view + vector, "TLOAD(t, g);", size)
        yield Row("TSTORE of Vec", shape, view + vector, "TSTORE(g, t);", size)
        yield Row("TLOAD to Mat NZ", shape, view + mat, "TLOAD(t, g);", size)
        yield Row("TEXTRACT NZ to Left", shape, mat + left, "TEXTRACT(l, t, 0, 0);", size)
        yield Row("TEXTRACT NZ to Right", shape, mat + right, "TEXTRACT(l, t, 0, 0);", size)
        yield Row("TEXTRACT ZN to Right", shape, transposed + tall, "TEXTRACT(l, t, 0, 0);", size)
        yield Row("TTRANS", shape, vector + turned, "TTRANS(l, t, t);", size)
    for dtype in ("f32", "bf16"):
        acc = _view(dtype, r, c) + _place("t", Tile("f32", r, c, "NZ", "Acc", 1024), 0)
        yield Row("TSTORE of Acc", f"f32->{dtype} {r}x{c}", acc, "TSTORE(g, t);", r * c * (4 + size_of(dtype)))


def _matmuls() -> Iterator[Row]:
    for m, k, n in ((64, 64, 64), (128, 128, 256), (16, 128, 128), (16, 16, 1024), (128, 64, 128), (1, 128, 128)):
        for dtype in ("f32", "bf16", "f16", "i8"):
            if dtype == "i8" and k < 32:
                continue
            acc = Tile("i32" if dtype == "i8" else "f32", max(m, 16), n, "NZ", "Acc", 1024)
            tiles = (
                _place("a", Tile(dtype, max(m, 16), k, "ZZ", "Left"), 0, m, k)
                + _place("b", Tile(dtype, k, n, "ZN", "Right"), 0)
                + _place("c", acc, 0, m, n)
            )
            yield Row("TMATMUL_ACC", f"{dtype} {m}x{k}x{n}", tiles, "TMATMUL_ACC(c, c, a, b);", flops=2 * m * k * n)


def _kernels() -> Iterator[Row]:
    """Bodies of kernels: what is timed is their instructions together, with loads and stores."""
    for rows, cols in ((16, 128), (16, 512)):
        wide, column, line = Tile("f32", rows, cols), Tile("f32", rows, 1, "DN"), Tile("f32", 1, cols)
        tiles = "".join(_place(name, wide, 65536 * i) for i, name in enumerate("xyt"))
        tiles += _place("k", column, 196608) + _place("l", line, 200704) + _view("f32", rows, cols)
        tiles += "for (int64_t i = 0; i < g.GetShape(3) * g.GetShape(4); ++i) g.data()[i] = float(i % 7) / 8;"
        tiles += "TEXPANDS(l, 0.5f);"
        moved = 2 * wide.nbytes
        yield Row(
            "softmax of rows", f"f32 {rows}x{cols}", tiles,
            "{ TLOAD(x, g); TROWMAX(k, x, t); TROWEXPANDSUB(y, x, k); TEXP(y, y); TROWSUM(k, y, t); "
            "TROWEXPANDDIV(y, y, k); TSTORE(g, y); }", moved,
        )  # fmt: skip
        yield Row(
            "RMS norm of rows", f"f32 {rows}x{cols}", tiles,
            "{ TLOAD(x, g); TMUL(y, x, x); TROWSUM(k, y, t); TMULS(k, k, 0.01f); TADDS(k, k, 1e-6f); TSQRT(k, k); "
            "TROWEXPANDDIV(y, x, k); TCOLEXPANDMUL(y, y, l); TSTORE(g, y); }", moved,
        )  # fmt: skip
        yield Row(
            "SiLU", f"f32 {rows}x{cols}", tiles,
            "{ TLOAD(x, g); TNEG(y, x); TEXP(y, y); TADDS(y, y, 1.0f); TRECIP(y, y); TMUL(y, x, y); TSTORE(g, y); }",
            moved,
        )  # fmt: skip
    m, k, n = 64, 128, 128
    for dtype in ("f32", "bf16"):
        parts = (
            _view(dtype, max(m, k), max(k, n)) + _place("p", Tile(dtype, m, k, "NZ", "Mat"), 0)
            + _place("q", Tile(dtype, k, n, "NZ", "Mat"), 131072) + _place("a", Tile(dtype, m, k, "ZZ", "Left"), 0)
            + _place("b", Tile(dtype, k, n, "ZN", "Right"), 0)
            + _place("c", Tile("f32", m, n, "NZ", "Acc", 1024), 0)
        )  # fmt: skip
        yield Row(
            "matrix product", f"{dtype} {m}x{k}x{n}", parts,
            "{ TLOAD(p, g); TLOAD(q, g); TEXTRACT(a, p, 0, 0); TEXTRACT(b, q, 0, 0); TMATMUL(c, a, b); TSTORE(g, c); }",
            flops=2 * m * k * n,
        )  # fmt: skip


class Peer:
    """The cases compiled with another directory of headers, but for those that it does not take."""

    def __init__(self, rows: list[Row], include: str, compiler: str, directory: Path) -> None:
        self.refused: set[int] = set()
        library = directory / "peer.so"
        while errors := self._compile(rows, [compiler, *_PEER_FLAGS, f"-I{include}"], library):
            if errors <= self.refused:
                sys.exit(f"{include}: the peer's headers do not compile with {compiler}")
            self.refused |= errors
        os.environ.update(PEER_MEMORY)
        self.library = ctypes.CDLL(str(library), mode=os.RTLD_NOW | os.RTLD_LOCAL)

    def _compile(self, rows: list[Row], command: list[str], library: Path) -> set[int]:
        """The rows that end the compilation; -1 stands for what lies in none."""
        cases = Cases()
        for i, row in enumerate(rows):
            if i not in self.refused:
                cases.add(f"row_{i}", row.body)
        source = library.with_suffix(".cpp")
        source.write_text(cases.source(), encoding="utf-8")
        done = subprocess.run([*command, str(source), "-o", str(library)], capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return set()
        lines = cases.source().splitlines()
        missing = {-1}
        for line in re.findall(rf"{source.name}:(\d+):", done.stderr):
            missing.update(int(n) for n in re.findall(r"void row_(\d+)\(", lines[int(line) - 2]))
        return missing

    def call(self, name: str, *arguments: int) -> None:
        getattr(self.library, name)((ctypes.c_int64 * len(arguments))(*arguments))


def _time(call: Callable[..., None], name: str, *arguments: int) -> float:
    """Seconds of the processor a call, the best of several runs of some milliseconds."""
    count, spent = 1, 0.0
    while (spent := _spent(call, name, count, *arguments)) < 0.003:
        count *= 4 if spent < 0.001 else 2
    repeat = 15 if spent < 0.1 else 2
    return min(_spent(call, name, count, *arguments) for _ in range(repeat)) / count


def _spent(call: Callable[..., None], name: str, *arguments: int) -> float:
    start = time.thread_time()
    call(name, *arguments)
    return time.thread_time() - start


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--filter", default="", help="only rows that contain this text")
    parser.add_argument("--flags", default="", help="more compiler flags, such as -march=native")
    parser.add_argument(
        "--pto-isa", default=os.environ.get("PTO_ISA", ""), metavar="CHECKOUT", help="timed beside ours"
    )
    parser.add_argument("--peer-compiler", default="g++", metavar="CXX")
    options = parser.parse_args()
    rows = [*_elementwise(), *_conversions(), *_moves(), *_matmuls(), *_kernels()]
    rows = [row for row in rows if options.filter in f"{row.name} {row.shape}"]
    cases = Cases(prelude=PEAKS, flags=options.flags.split())
    for i, row in enumerate(rows):
        cases.add(f"row_{i}", row.body)
    core = cases.build()
    with tempfile.TemporaryDirectory() as directory:
        include = f"{options.pto_isa}/include"
        peer = Peer(rows, include, options.peer_compiler, Path(directory)) if options.pto_isa else None
    memory = np.zeros(1 << 20, np.uint8)
    base = memory.ctypes.data
    copied = 96 << 10  # both copies lie in a second-level cache of 256 KiB; they start in different sets
    bandwidth = 2 * copied / _time(core.call, "peak_copy", base, base + copied + 4096 + 192, copied) / 1e9
    peak = 12 * 16 / _time(core.call, "peak_fma", base) / 1e9
    print(f"copy within the second-level cache {bandwidth:.1f} GB/s, fused multiply-adds {peak:.1f} GFLOP/s, one core")
    print(f"{'instruction':22} {'tile':22} {'ns':>9} {'rate':>13} {'share':>6}" + "   peer ns  times" * bool(peer))
    times: list[float] = []
    for i, row in enumerate(rows):
        seconds = _time(core.call, f"row_{i}", base)
        unit, top = ("GFLOP/s", peak) if row.flops else ("GB/s", bandwidth)
        rate = (row.flops or row.bytes) / seconds / 1e9
        beside = ""
        if peer and i not in peer.refused:
            other = _time(peer.call, f"row_{i}", base)
            beside = f" {other * 1e9:9.0f} {other / seconds:6.1f}"
            times.append(other / seconds)
        print(
            f"{row.name:22} {row.shape:22} {seconds * 1e9:9.0f} {rate:7.1f} {unit:7} {rate / top:5.0%}{beside}",
            flush=True,
        )
    if times:
        print(
            f"beside the peer, {len(times)} rows: {math.exp(sum(map(math.log, times)) / len(times)):.1f} times as fast "
            f"in the geometric mean, {sum(factor >= 10 for factor in times)} at least 10 times, least {min(times):.1f}"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
