"""Instructions that are missing on the CPU end the compilation with a sentence that names them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.runtime.instructions.tile_harness import CXX, FLAGS

TILES = """
using f32_t = Tile<TileType::Vec, float, 8, 64>; using f16_t = Tile<TileType::Vec, half, 8, 64>;
using i32_t = Tile<TileType::Vec, int32_t, 8, 64>; using i8_t = Tile<TileType::Vec, int8_t, 8, 64>;
using f8_t = Tile<TileType::Vec, float8_e4m3_t, 8, 64>; using mat_t = Tile<TileType::Mat, float, 16, 64,
    BLayout::ColMajor, 16, 64, SLayout::RowMajor>;
using g_t = GlobalTensor<int8_t, Shape<1, 1, 1, 8, 64>, Stride<1, 1, 1, 64, 1>>;
GlobalTensor<int8_t, Shape<1, 1, 1, 8, 64>, Stride<1, 1, 1, 64, 1>, Layout::NHWC> image;
comm::ParallelGroup<g_t> group; f32_t f, f2; f16_t h; i32_t i; i8_t b; f8_t e; mat_t m; g_t g;
TileLeft<float, 16, 16> left; TileRight<half, 16, 16> right; TileAcc<float, 16, 16> acc;
"""
CALLS = {
    "TADD(f, f, h);": "element-wise instruction: operands of one element type",
    "TADD(m, m, m);": "element-wise instruction: operands in vector memory (TileType::Vec)",
    "TAND(f, f, f);": "TAND: the element type is an integer",
    "TEXP(i, i);": "TEXP: the element type is a floating-point type",
    "TROWEXPANDEXPDIF(i, i, i);": "TROWEXPANDEXPDIF: the element type is a floating-point type",
    "TCOLEXPANDEXPDIF(b, b, b);": "TCOLEXPANDEXPDIF: the element type is a floating-point type",
    "TAXPY(i, i, 2);": "TAXPY: the element types are floating-point types",
    "TSORT32(i, i, i);": "TSORT32 and TMRGSORT: values are float or half",
    "TCVT(e, h, RoundMode::CAST_RINT);": "TCVT: eight-bit floating-point types convert to and from float only",
    "TFILLPAD(f, f2);": "TFILLPAD: the destination names no pad value (PadValue::Null)",
    "TMATMUL(acc, left, right);": (
        "TMATMUL: element types are f32 from two f32, two f16, two bf16 or two f8, or i32 from two i8"
    ),
    "TSTORE(g, f);": "TSTORE: this conversion of elements needs a scale, or the accumulator as source",
    "TQUANT<QuantType::MXFP8>(b, f, f2);": "TQUANT: only to int8; mx formats are not supported",
    "TDEQUANT(h, b, f, f);": "TDEQUANT: from an integer to a float tile",
    "TGATHER(f, f, h);": "TGATHER: the index is an integer tile",
    "GlobalTensor<float8_e4m3_t, Shape<1, 1, 1, 8, 64>, Stride<1, 1, 1, 64, 1>> g8; "
    "MSCATTER<Coalesce::Row, ScatterAtomicOp::Add>(g8, e, i);": (
        "MSCATTER: elements that are not computed with do not combine atomically"
    ),
    "TSUBVIEW(m, f, 0, 0);": "TSUBVIEW: both tiles are in one memory",
    "TPACK(f, f);": "TPACK: from 32 to 16 or 8 bits, or from 16 to 8",
    "TRANDOM<8>(i, key, counter);": "TRANDOM: seven or ten rounds",
    "m.GetValue(0);": "GetValue: only Vec tiles can be read element by element",
    "TIMG2COL(f, m);": "TIMG2COL: convolution is not supported by the CPU runtime",
    "TMATMUL_MX<AccPhase::Final>(acc, left, left, right, right);": (
        "TMATMUL_MX: microscaled matrix multiplication is not supported by the CPU runtime"
    ),
    "TADDRELUCONV(b, f, f);": ("TADDRELUCONV and TSUBRELUCONV: from float to half, or from half or int16_t to int8_t"),
    "TADDDEQRELU(f, i, i, 1.0f, i);": "TADDDEQRELU: from int32_t tiles to a half tile",
    "SET_QUANT_SCALAR<int8_t>(2.0f);": (
        "SET_QUANT_SCALAR: pipes that convert are not supported by the CPU runtime; use TMOV with a scale"
    ),
    "Tile<TileType::Vec, int4b_t, 8, 64> i4; TCVT(i4, i, RoundMode::CAST_RINT);": (
        "TCVT: four-bit types convert to and from floating-point types only"
    ),
    "Tile<TileType::Mat, float4_e2m1x2_t, 8, 64> m4; GlobalTensor<float4_e2m1x2_t, Shape<1, 1, 1, 8, 64>, "
    "Stride<1, 1, 1, 64, 1>> g4; TLOAD(m4, g4);": (
        "elements of four bits: tiles without fractals in vector memory, row-major if they are integers"
    ),
    "comm::TBROADCAST<comm::CollEngine::CCU>(group, g, b);": (
        "TBROADCAST: only vector cores carry out collectives on the CPU"
    ),
    "Tile<TileType::Vec, float4_e2m1x2_t, 8, 64> four; TMOV(four, four);": (
        "elements of four bits: only TLOAD, TSTORE and TCVT take them on the CPU"
    ),
    "TLOAD(b, image);": "global tensor: layouts of convolution are not supported",
    "TPREFETCH(f, g);": "TPREFETCH: operands of one element type",
}


@pytest.fixture(scope="module")
def errors(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The compiler's messages for all calls, from one compilation."""
    functions = "\n".join(f"void call_{k}() {{ {call} }}" for k, call in enumerate(CALLS))
    source: Path = tmp_path_factory.mktemp("unsupported") / "calls.cpp"
    source.write_text(
        "#include <cstdint>\n#include <pto/pto-inst.hpp>\nusing namespace pto;\n"
        f"TRandomKey key; TRandomCounter counter;\n{TILES}\n{functions}\n"
    )
    done = subprocess.run(
        [CXX, *FLAGS, "-w", "-fsyntax-only", "-ferror-limit=0" if "clang" in CXX else "-fmax-errors=0", str(source)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode != 0
    return done.stderr


@pytest.mark.parametrize("call", CALLS)
def test_the_compiler_says_what_is_not_supported(errors: str, call: str) -> None:
    assert CALLS[call] in errors
