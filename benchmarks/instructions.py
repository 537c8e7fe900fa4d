"""Time of single tile instructions on this machine, against what its memory and arithmetic units can do.

    python -m benchmarks.instructions [--filter TEXT] [--flags "..."]

Each row is one instruction on a tile of the shapes that compiled kernels use: nanoseconds a call, the rate, and its share of
the measured peak. For instructions that move data the peak is the bandwidth of a plain copy within the second-level cache
(bytes read and written); for matrix multiplications it is that of fused multiply-adds on registers, on one core.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tests.runtime.instructions.tile_harness import Cases, Core, Tile, declare, size_of

PEAKS = r"""
typedef float v8 __attribute__((vector_size(32)));
extern "C" void peak_fma(const int64_t *v) {
    v8 a[12], x = v8{} + 0.999f, y = v8{} + 0.001f;
    _Pragma("GCC unroll 12") for (int i = 0; i < 12; ++i) a[i] = v8{} + float(i);
    for (int64_t n = 0; n < v[0]; ++n) {
        _Pragma("GCC unroll 12") for (int i = 0; i < 12; ++i) a[i] = a[i] * x + y;
        __asm__ volatile("" : "+x"(x), "+x"(y));
    }
    v8 sum{};
    _Pragma("GCC unroll 12") for (int i = 0; i < 12; ++i) sum += a[i];
    __builtin_memcpy((void *)v[1], &sum, sizeof(sum));
}
extern "C" void peak_copy(const int64_t *v) {
    const char *from = (const char *)v[1];
    char *to = (char *)v[2];
    for (int64_t n = 0; n < v[0]; ++n) {
        for (int64_t i = 0; i < v[3]; i += 128) {
            v8 r[4];
            __builtin_memcpy(r, from + i, 128);
            __builtin_memcpy(to + i, r, 128);
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
    body: str
    bytes: int = 0
    flops: int = 0


def _elementwise() -> list[Row]:
    rows = []
    for dtype in ("f32", "bf16", "f16", "i32", "i8"):
        for r, c in ((16, 128), (16, 512), (64, 128)):
            if dtype != "f32" and (r, c) != (16, 512):
                continue
            tile = Tile(dtype, r, c)
            tiles = declare(("a", tile, 0, 0), ("b", tile, 65536, 0), ("d", tile, 131072, 0))
            tiles = tiles.replace("v[0], v[1]", f"{r}, {c}")
            size, shape = tile.nbytes, f"{dtype} {r}x{c}"
            rows += [
                Row("TADD", shape, f"{tiles} LOOP TADD(d, a, b);", 3 * size),
                Row("TMULS", shape, f"{tiles} {'a_t::DType s = a_t::DType(1);'} LOOP TMULS(d, a, s);", 2 * size),
                Row("TMAX", shape, f"{tiles} LOOP TMAX(d, a, b);", 3 * size),
            ]
            if dtype == "i8":
                continue
            column, line = Tile(dtype, r, 1, "DN"), Tile(dtype, 1, c)
            extra = declare(("k", column, 196608, 0), ("l", line, 204800, 0))
            extra = extra.replace("k(v[0], v[1])", f"k({r}, 1)").replace("l(v[0], v[1])", f"l(1, {c})")
            rows += [
                Row("TROWSUM", shape, f"{tiles}{extra} LOOP TROWSUM(k, a, b);", size),
                Row("TROWMAX", shape, f"{tiles}{extra} LOOP TROWMAX(k, a, b);", size),
                Row("TCOLSUM", shape, f"{tiles}{extra} LOOP TCOLSUM(l, a);", size),
            ]
            if dtype == "i32":
                continue
            rows += [
                Row("TDIV", shape, f"{tiles} LOOP TDIV(d, a, b);", 3 * size),
                Row("TEXP", shape, f"{tiles} LOOP TEXP(d, a);", 2 * size),
                Row("TLOG", shape, f"{tiles} LOOP TLOG(d, b);", 2 * size),
                Row("TSQRT", shape, f"{tiles} LOOP TSQRT(d, b);", 2 * size),
                Row("TROWEXPANDMUL", shape, f"{tiles}{extra} LOOP TROWEXPANDMUL(d, a, k);", 2 * size),
                Row("TCOLEXPANDMUL", shape, f"{tiles}{extra} LOOP TCOLEXPANDMUL(d, a, l);", 2 * size),
            ]
    return rows


def _conversions() -> list[Row]:
    rows = []
    for source, target, mode in (
        ("f32", "bf16", "ROUND"), ("bf16", "f32", "ROUND"), ("f32", "i32", "RINT"), ("i32", "f32", "ROUND"), ("i32", "f16", "ROUND"),
        ("f16", "i8", "TRUNC"), ("f32", "f16", "RINT"),
    ):  # fmt: skip
        tiles = declare(("s", Tile(source, 16, 512), 0, 0), ("d", Tile(target, 16, 512), 65536, 0)).replace("v[0], v[1]", "16, 512")
        size = 16 * 512 * (size_of(source) + size_of(target))
        rows.append(Row("TCVT", f"{source}->{target} {mode} 16x512", f"{tiles} LOOP TCVT(d, s, RoundMode::CAST_{mode});", size))
    return rows


def _moves() -> list[Row]:
    rows = []
    view = (
        "using G = GlobalTensor<{t}, Shape<1, 1, 1, {r}, {c}>, Stride<{n}, {n}, {n}, {c}, 1>>; "
        "G g(({t} *)v[1], Shape<1, 1, 1, {r}, {c}>(), Stride<{n}, {n}, {n}, {c}, 1>());"
    )
    for dtype, cpp in (("f32", "float"), ("bf16", "bfloat16_t"), ("i8", "int8_t")):
        r, c = 64, 256
        g = view.format(t=cpp, r=r, c=c, n=r * c)
        size, shape = 2 * r * c * size_of(dtype), f"{dtype} {r}x{c}"
        vector, mat = Tile(dtype, r, c), Tile(dtype, r, c, "NZ", "Mat")
        transposed = Tile(dtype, c, r, "ZN", "Mat")
        left, right = Tile(dtype, r, c, "ZZ", "Left"), Tile(dtype, r, c, "ZN", "Right")
        fix = lambda text: text.replace("v[0], v[1]", f"{r}, {c}")  # noqa: E731
        rows += [
            Row("TLOAD to Vec", shape, f"{g}{fix(declare(('t', vector, 0, 0)))} LOOP TLOAD(t, g);", size),
            Row("TSTORE of Vec", shape, f"{g}{fix(declare(('t', vector, 0, 0)))} LOOP TSTORE(g, t);", size),
            Row("TLOAD to Mat NZ", shape, f"{g}{fix(declare(('t', mat, 0, 0)))} LOOP TLOAD(t, g);", size),
            Row("TEXTRACT NZ to Left", shape, f"{fix(declare(('t', mat, 0, 0), ('l', left, 0, 0)))} LOOP TEXTRACT(l, t, 0, 0);", size),
            Row("TEXTRACT NZ to Right", shape, f"{fix(declare(('t', mat, 0, 0), ('l', right, 0, 0)))} LOOP TEXTRACT(l, t, 0, 0);", size),
            Row("TEXTRACT ZN to Right", shape, f"{declare(('t', transposed, 0, 0), ('l', Tile(dtype, c, r, 'ZN', 'Right'), 0, 0)).replace('v[0], v[1]', f'{c}, {r}')} LOOP TEXTRACT(l, t, 0, 0);", size),
            Row("TTRANS", shape, f"{declare(('t', vector, 0, 0), ('l', Tile(dtype, c, r), 65536, 0)).replace('v[0], v[1]', f'{r}, {c}')} LOOP TTRANS(l, t, t);", size),
        ]  # fmt: skip
    acc = Tile("f32", 64, 256, "NZ", "Acc", 1024)
    for dtype, cpp in (("f32", "float"), ("bf16", "bfloat16_t")):
        g = view.format(t=cpp, r=64, c=256, n=64 * 256)
        size = 64 * 256 * (4 + size_of(dtype))
        rows.append(Row("TSTORE of Acc", f"f32->{dtype} 64x256", f"{g}{declare(('t', acc, 0, 0)).replace('v[0], v[1]', '64, 256')} LOOP TSTORE(g, t);", size))
    return rows


def _matmuls() -> list[Row]:
    rows = []
    for m, k, n in ((64, 64, 64), (128, 128, 256), (16, 128, 128), (16, 16, 1024), (128, 64, 128), (1, 128, 128)):
        for dtype in ("f32", "bf16", "f16", "i8"):
            if m * k * size_of(dtype) > 65536 or k * n * size_of(dtype) > 131072 or (dtype == "i8" and k < 32):
                continue
            left = Tile(dtype, max(m, 16), k, "ZZ", "Left")
            right, acc = Tile(dtype, k, n, "ZN", "Right"), Tile("i32" if dtype == "i8" else "f32", max(m, 16), n, "NZ", "Acc", 1024)
            tiles = declare(("a", left, 0, 0), ("b", right, 0, 0), ("c", acc, 0, 0))
            for name, extent in (("a", f"{m}, {k}"), ("b", f"{k}, {n}"), ("c", f"{m}, {n}")):
                tiles = tiles.replace(f"{name}(v[0], v[1])", f"{name}({extent})")
            rows.append(Row("TMATMUL_ACC", f"{dtype} {m}x{k}x{n}", f"{tiles} LOOP TMATMUL_ACC(c, c, a, b);", flops=2 * m * k * n))
    return rows


def _time(core: Core, name: str, *arguments: int) -> float:
    """Seconds a call, the best of several runs of about ten milliseconds."""
    count, best = 1, 0.0
    while True:
        start = time.perf_counter()
        core.call(name, count, *arguments)
        spent = time.perf_counter() - start
        if spent > 0.004:
            break
        count *= 4 if spent < 0.001 else 2
    for _ in range(15):
        start = time.perf_counter()
        core.call(name, count, *arguments)
        spent = (time.perf_counter() - start) / count
        best = spent if best == 0 or spent < best else best
    return best


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--filter", default="", help="only rows that contain this text")
    parser.add_argument("--flags", default="", help="more compiler flags, such as -march=native")
    options = parser.parse_args()
    rows = [r for r in _elementwise() + _conversions() + _moves() + _matmuls() if options.filter in f"{r.name} {r.shape}"]
    cases = Cases(prelude=PEAKS + "#define LOOP for (int64_t n = 0; n < v[0]; ++n)\n", flags=options.flags.split())
    for i, row in enumerate(rows):
        cases.add(f"row_{i}", row.body)
    with tempfile.TemporaryDirectory() as directory:
        core = cases.build(Path(directory))
    memory = np.zeros(1 << 20, np.uint8)
    copied = 96 << 10  # source and destination together lie in a second-level cache of 256 KiB, and start in different sets
    bandwidth = 2 * copied / _time(core, "peak_copy", memory.ctypes.data, memory.ctypes.data + copied + 4096 + 192, copied) / 1e9
    peak = 12 * 16 / _time(core, "peak_fma", memory.ctypes.data) / 1e9
    print(f"copy within the second-level cache {bandwidth:.1f} GB/s, fused multiply-adds {peak:.1f} GFLOP/s, one core")
    print(f"{'instruction':22} {'tile':26} {'ns':>9} {'rate':>13} {'share':>6}")
    for i, row in enumerate(rows):
        seconds = _time(core, f"row_{i}", memory.ctypes.data)
        rate, unit, top = (row.flops, "GFLOP/s", peak) if row.flops else (row.bytes, "GB/s", bandwidth)
        rate = rate / seconds / 1e9
        print(f"{row.name:22} {row.shape:26} {seconds * 1e9:9.0f} {rate:7.1f} {unit:7} {rate / top:5.0%}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
