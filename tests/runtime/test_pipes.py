"""Several pipes between the members of a group, on the runtime: split both ways, several tiles popped before one is
freed, and frees in another order than the pops."""

from __future__ import annotations

import numpy as np
import pytest

from tests.runtime.rig import Rig, entry, parameter

ROUNDS = 7  # more than three times round the rings

# C2V takes the upper and lower halves to the vector cores, C2V_2 the left and right ones; V2C and V2C_2 take them back.
HEAD = """
#include <cstdint>
#include <pto/pto-inst.hpp>
#include "tensor.h"
using namespace pto;
constexpr auto rows = TileSplitAxis::TILE_UP_DOWN, cols = TileSplitAxis::TILE_LEFT_RIGHT;
template <int flag, int way> using Ring = TPipe<flag, way, 8192, 2, 2, false>;
using C2V = Ring<{0}>; using C2V_2 = Ring<{1}>; using V2C = Ring<{2}>; using V2C_2 = Ring<{3}>;
extern "C" __attribute__((visibility("default"))) void kernel_entry(int64_t *args) {{
    [[maybe_unused]] const auto memory = [&](int i) {{ return reinterpret_cast<ChipTensor *>(args[i])->data_as<float>(); }};
"""
CUBE = """
    using M = Tile<TileType::Mat, float, 32, 64, BLayout::ColMajor, 32, 64, SLayout::RowMajor>;
    using G = GlobalTensor<float, Shape<1, 1, 1, 32, 64>, Stride<2048, 2048, 2048, 64, 1>>;
    C2V to(nullptr, 0, 0); C2V_2 to2(nullptr, 0, 0); V2C from(nullptr, 0, 0); V2C_2 from2(nullptr, 0, 16384);
    M sent, back, back2; TASSIGN(sent, 65536);
    for (int i = 0; i <= ROUNDS; ++i) {
        if (i < ROUNDS) {
            G x(memory(0) + i * 2048);
            TLOAD(sent, x);
            TPUSH<C2V, M, rows>(to, sent);
            TPUSH<C2V_2, M, cols>(to2, sent);
        }
        if (i == 0)
            continue;
        G y(memory(1) + (i - 1) * 2048), z(memory(2) + (i - 1) * 2048);
        TPOP<V2C_2, M, cols>(from2, back2);
        TPOP<V2C, M, rows>(from, back);
        TSTORE(y, back);
        TSTORE(z, back2);
        TFREE<V2C, rows>(from);
        TFREE<V2C_2, cols>(from2);
    }
}
"""
VECTOR = """
    using Upper = Tile<TileType::Vec, float, 16, 64>; using Left = Tile<TileType::Vec, float, 32, 32>;
    C2V from(nullptr, 0, 0); C2V_2 from2(nullptr, 16384, 0); V2C to(nullptr, 0, 0); V2C_2 to2(nullptr, 0, 0);
    Upper upper, more; Left left, less; TASSIGN(more, 65536); TASSIGN(less, 98304);
    for (int i = 0; i < ROUNDS; ++i) {
        TPOP<C2V, Upper, rows>(from, upper);
        TPOP<C2V_2, Left, cols>(from2, left);
        if (i > 0) { // those of the round before
            TFREE<C2V_2, cols>(from2);
            TFREE<C2V, rows>(from);
        }
        TADDS(more, upper, float(1 + get_subblockid()));
        TADDS(less, left, float(10 * (1 + get_subblockid())));
        TPUSH<V2C_2, Left, cols>(to2, less);
        TPUSH<V2C, Upper, rows>(to, more);
    }
    TFREE<C2V, rows>(from);
    TFREE<C2V_2, cols>(from2);
}
"""
ORCHESTRATION = entry("""
    const ChipTensor& x = orch_args.tensor(0).ref();
    const ChipTensor& y = orch_args.tensor(1).ref();
    const ChipTensor& z = orch_args.tensor(2).ref();
    CoreTaskArgs p; p.add_input(x); p.add_output(y); p.add_output(z);
    rt_submit_task({0, 1, 1}, p);
""")
# Flag and direction of the four pipes.
FORMS = {
    "four pipes": ("0, DIR_C2V", "1, DIR_C2V", "2, DIR_V2C", "3, DIR_V2C"),
    "two pipes both ways": ("0, DIR_BOTH", "1, DIR_BOTH", "0, DIR_BOTH", "1, DIR_BOTH"),
    "through global memory": ("0, DIR_C2V_GM", "1, DIR_BOTH_GM", "2, DIR_V2C_GM", "1, DIR_BOTH_GM"),
    "control": ("0, DIR_C2V", "1, DIR_C2V", "2, DIR_V2C_CTRL", "3, DIR_V2C"),
}


@pytest.mark.parametrize(
    ("platform", "form"),
    [("a2a3sim", "four pipes"), ("a2a3sim", "two pipes both ways"), ("a5sim", "two pipes both ways"),
     ("a5sim", "through global memory"), ("a5sim", "control")],
)  # fmt: skip
def test_pipes_of_a_group_are_apart(rig: Rig, platform: str, form: str) -> None:
    runtime = rig.module.Runtime(platform, 2)
    flags = [
        "-DPYPTO_ARCH=5" if platform == "a5sim" else "-DPYPTO_ARCH=2",
        f"-DROUNDS={ROUNDS}",
        "-fno-strict-aliasing",
        "-march=x86-64-v3",
    ]
    for number, (name, core, body) in enumerate((("cube", "aic", CUBE), ("vector", "aiv", VECTOR))):
        defined = "__DAV_CUBE__" if core == "aic" else "__DAV_VEC__"
        text = HEAD.format(*FORMS[form]) + body
        runtime.load_kernel(number, name, core, str(rig.compile(text, [*flags, f"-D{defined}"])), None)
    runtime.load_orchestration(str(rig.compile(ORCHESTRATION)))
    x = np.random.default_rng(1).standard_normal((ROUNDS, 32, 64)).astype(np.float32)
    y, z = np.zeros_like(x), np.zeros_like(x)
    runtime.run([parameter(x, "IN"), parameter(y, "OUT"), parameter(z, "OUT")], [], {})
    lower, right = np.arange(32) >= 16, np.arange(64) >= 32
    np.testing.assert_array_equal(y, x + (1 + lower).astype(np.float32)[:, None])
    np.testing.assert_array_equal(z, x + (10 * (1 + right)).astype(np.float32))
