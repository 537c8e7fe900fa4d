"""A program of many instructions: free of undefined behaviour and of accesses outside the memories, and with the same
results on another kind of processor.

The tiles that are written end where their memory ends, so that a byte too far is found. What a run on small positive
numbers leaves in the memories is printed as a checksum for each case. Products and sums are not fused, which compilers
do where they like. With an argument the program runs each case on arbitrary bytes too, which are every kind of number.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.runtime.instructions.tile_harness import INCLUDE, SPACE_BYTES, SPACES, Cases, Tile, declare, size_of

REGIONS = ((16, 64), (7, 33), (0, 5), (5, 0))
ROWS, COLS = 16, 64
END = dict(zip(SPACES, SPACE_BYTES, strict=True))
FLAGS = [
    "-std=c++17",
    "-ffp-contract=off",
    "-fno-strict-aliasing",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-D__CPU_SIM",
    f"-I{INCLUDE}",
]
AARCH64 = "aarch64-linux-gnu-g++"

MAIN = r"""
#include <cstdio>
#include <cstdlib>
namespace {
PyptoCoreContext context;
bool arbitrary;
void fill_memories(bool with_any_byte) { // else small positive numbers in every floating-point type
    uint32_t state = 1;
    for (PyptoMemory &memory : context.memory)
        for (uint64_t i = 0; i < memory.size; ++i) {
            state = state * 1664525u + 1013904223u;
            memory.base[i] = uint8_t(with_any_byte ? state >> 24 : 0x3c + (state >> 30));
        }
}
uint64_t checksum() {
    uint64_t sum = 1469598103934665603u;
    for (const PyptoMemory &memory : context.memory)
        for (uint64_t i = 0; i < memory.size; i += 8)
            sum = (sum ^ *(const uint64_t *)(memory.base + i)) * 1099511628211u;
    return sum;
}
void run(const char *name, void (*body)(const int64_t *), int64_t rows, int64_t cols) {
    const int64_t arguments[] = {rows, cols};
    fill_memories(false);
    body(arguments);
    std::printf("%s %d %d %016llx\n", name, int(rows), int(cols), (unsigned long long)checksum());
    if (!arbitrary)
        return;
    fill_memories(true);
    body(arguments);
}
} // namespace
int main(int count, char **) {
    arbitrary = count > 1;
    for (int i = 0; i < PYPTO_SPACE_COUNT; ++i)
        context.memory[i] = {(uint8_t *)std::aligned_alloc(128, sizes[i]), sizes[i]};
    context.abi = 1, context.is_vector = 1, context.sub_block_dim = 1, context.block_num = 1;
    pypto_bind_core(&context);
"""


def _vector_cases(cases: Cases) -> None:
    def at_end(name: str, tile: Tile) -> tuple[str, Tile, int, int]:
        return (name, tile, END["Vec"] - tile.nbytes, 0)

    def add(label: str, dtype: str, layout: str, call: str) -> None:
        tile = Tile(dtype, ROWS, COLS, layout)
        narrow = Tile(dtype, ROWS, 1, "DN") if size_of(dtype) > 1 else Tile(dtype, 32, 1, "DN")
        tiles = declare(at_end("d", tile), ("a", tile, 0, 0), ("b", tile, 16384, 0), ("n", narrow, 32768, 0))
        tiles += f"n.SetValidShape(v[0], 1); const {tile.cpp().split(', ')[1]} s = d_t::DType(2); (void)s;"
        cases.add(f"{label}_{dtype}_{layout}", tiles + call)

    for dtype in ("f32", "f16", "bf16", "i8", "i32"):
        for layout in ("ND", "NZ") if dtype in ("f32", "i8") else ("DN",):
            add("binary", dtype, layout, "TADD(d, a, b); TMUL(d, d, a); TSUB(d, d, b); TMAX(d, d, b); TDIV(d, d, a);")
            add("scalar", dtype, layout, "TADDS(d, a, s); TMULS(d, d, s); TEXPANDS(d, s); TMINS(d, a, s);")
        add("rows", dtype, "ND", "TROWSUM(n, a, b); TROWEXPANDADD(d, a, n); TROWMAX(n, d, b); TROWEXPAND(d, n);")
        add("cols", dtype, "ND", "TCOLSUM(d, a); TCOLEXPANDSUB(b, a, d); TCOLMAX(d, b); TCOLEXPAND(a, d);")
    for dtype in ("f32", "f16", "bf16"):
        add("unary", dtype, "ND", "TEXP(d, a); TLOG(b, a); TSQRT(d, b); TRECIP(d, d); TNEG(d, d); TABS(d, d);")
    for dtype in ("u16", "i32"):
        add("bits", dtype, "ND", "TAND(d, a, b); TOR(d, d, a); TNOT(d, d); TSHLS(d, d, s); TSHR(d, d, b);")
    for source, target in (
        ("f32", "bf16"),
        ("bf16", "f32"),
        ("f32", "i32"),
        ("i32", "f16"),
        ("f16", "i8"),
        ("f32", "f16"),
        ("f32", "e4m3"),
        ("e5m2", "f32"),
        ("f32", "hif8"),
        ("hif8", "f32"),
    ):
        tiles = declare(at_end("d", Tile(target, ROWS, COLS)), ("a", Tile(source, ROWS, COLS), 0, 0))
        modes = "".join(f"TCVT(d, a, RoundMode::CAST_{m});" for m in ("ROUND", "RINT", "FLOOR", "CEIL", "TRUNC", "ODD"))
        cases.add(
            f"convert_{source}_{target}", f"{tiles} {modes} TCVT(d, a, RoundMode::CAST_ROUND, SaturationMode::ON);"
        )
    packed = f"Tile<TileType::Vec, float4_e2m1x2_t, {ROWS}, {COLS}, BLayout::RowMajor, -1, -1> p(v[0], v[1]);"
    packed += f"TASSIGN(p, {END['Vec'] - ROWS * COLS // 2}); TCVT(p, a, RoundMode::CAST_RINT); TCVT(a, p, RoundMode::CAST_NONE);"
    cases.add("four_bits", declare(("a", Tile("bf16", ROWS, COLS), 0, 0)) + packed)
    operands = (("a", Tile("f16", ROWS, COLS), 0, 0), ("b", Tile("f16", ROWS, COLS), 16384, 0))
    tiles = declare(at_end("d", Tile("i8", ROWS, COLS)), *operands)
    cases.add("fused", f"{tiles} TADDRELUCONV(d, a, b); TSUBRELUCONV(d, a, b);")
    key = "TRandomKey key = {1, 2}; TRandomCounter counter = {~0u, 3, 4, 5};"
    cases.add("random_words", declare(at_end("d", Tile("u32", ROWS, COLS))) + key + "TRANDOM(d, key, counter);")
    wide, mask = Tile("f32", ROWS, COLS), Tile("u8", ROWS, 32)
    tiles = declare(at_end("d", wide), ("a", wide, 0, 0), ("b", wide, 16384, 0), ("m", mask, 32768, 0))
    cases.add("choice", f"{tiles} TCMP(m, a, b, CmpMode::GT); TSEL(d, m, a, b, a); TCMPS(m, d, 0.5f, CmpMode::LE);")
    turned = Tile("f32", COLS, ROWS)
    cases.add("transpose", declare(at_end("d", turned), ("a", wide, 0, 0)) + "TTRANS(d, a, a);")
    index = Tile("i32", ROWS, COLS)
    tiles = declare(at_end("d", wide), ("a", wide, 0, 0), ("i", index, 16384, 0))
    cases.add("gather", f"{tiles} TEXPANDS(i, 1023); TGATHER(d, a, i); TSCATTER(a, d, i);")
    cases.add("arg", f"{tiles} TROWARGMAX(i, a, d); TCOLARGMIN(i, a, d);")
    pairs, order = Tile("f32", ROWS, 2 * COLS), Tile("u32", ROWS, COLS)
    tiles = declare(at_end("d", pairs), ("a", wide, 0, 0), ("i", order, 16384, 0))
    cases.add("sorting", f"{tiles} d.SetValidShape(v[0], 2 * v[1]); if (v[1] % 32 == 0) TSORT32(d, a, i);")
    padded = Tile("bf16", ROWS, COLS, pad="Min")
    tiles = declare(at_end("d", padded), ("a", Tile("bf16", ROWS, COLS), 0, 0))
    cases.add("padding", f"{tiles} TFILLPAD(d, a);")


def _matrix_cases(cases: Cases) -> None:
    for dtype in ("f32", "bf16", "i8"):
        memory, m, k, n = 65536, 32, 64, 32
        types = {"q": (dtype, m, k, "NZ", "Mat"), "a": (dtype, m, k, "ZZ", "Left"), "b": (dtype, k, n, "ZN", "Right")}
        tiles = {name: Tile(*words) for name, words in types.items()}
        acc = Tile("i32" if dtype == "i8" else "f32", m, n, "NZ", "Acc", 1024)
        right = Tile(dtype, k, n, "NZ", "Mat")
        placed = [(name, tile, END[tile.space] - tile.nbytes, 0) for name, tile in tiles.items()]
        text = declare(*placed, ("r", right, 0, 0), ("c", acc, END["Acc"] - acc.nbytes, 0))
        text += "a.SetValidShape(v[0], v[1]); b.SetValidShape(v[1], v[0]); c.SetValidShape(v[0], v[0]);"
        text += f"static uint8_t global[{memory}]; GlobalTensor<a_t::DType, pto::Shape<1, 1, 1, -1, -1>, "
        text += f"pto::Stride<1, 1, 1, {k}, 1>> g((a_t::DType *)global, pto::Shape<1, 1, 1, -1, -1>(v[0], v[1]));"
        element = "int32_t" if dtype == "i8" else "float"
        text += f"GlobalTensor<{element}, pto::Shape<1, 1, 1, -1, -1>, pto::Stride<1, 1, 1, {n}, 1>> "
        text += f"o(({element} *)global, pto::Shape<1, 1, 1, -1, -1>(v[0], v[0]));"
        cases.add(
            f"product_{dtype}",
            f"{text} std::memset(global, 0x3d, sizeof global); TLOAD(q, g); TEXTRACT(a, q, 0, 0); TEXTRACT(b, r, 0, 0); "
            "TMATMUL(c, a, b); TMATMUL_ACC(c, c, a, b); TSTORE(o, c); TLOAD(q, g); TSTORE(g, q);",
        )


def _program() -> str:
    cases = Cases()
    _vector_cases(cases)
    _matrix_cases(cases)
    sizes = f"const uint64_t sizes[] = {{{', '.join(map(str, SPACE_BYTES))}}};\n"
    calls = [f'    run("{name}", {name}, {r}, {c});' for name in cases.bodies for r, c in REGIONS]
    return cases.source() + sizes + MAIN + "\n".join(calls) + "\n}\n"


def _run(
    compiler: str, directory: Path, *flags: str, emulator: tuple[str, ...] = (), arguments: tuple[str, ...] = ()
) -> str:
    """Return the program's output; fails with the messages of the compiler or the program."""
    source, program = directory / "program.cpp", directory / "program"
    source.write_text(_program())
    words = [compiler, *FLAGS, *flags, str(source), "-o", str(program)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[:4000]
    done = subprocess.run([*emulator, str(program), *arguments], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr[:4000]) == (0, "")
    return done.stdout


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> str:
    return _run("g++", tmp_path_factory.mktemp("plain"), "-O1", "-march=x86-64-v3")


def test_no_undefined_behaviour(plain: str, tmp_path: Path) -> None:
    flags = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-O1", "-march=x86-64-v3")
    assert _run("g++", tmp_path, *flags, arguments=("arbitrary",)) == plain


@pytest.mark.skipif(not (shutil.which(AARCH64) and shutil.which("qemu-aarch64")), reason="no other processor at hand")
def test_another_processor_computes_the_same(plain: str, tmp_path: Path) -> None:
    assert _run(AARCH64, tmp_path, "-O1", "-static", emulator=("qemu-aarch64",)) == plain
