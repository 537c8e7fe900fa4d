"""Explicit flags between the cores of a group: set and awaited both ways, on each platform; a flag that nobody sets."""

from __future__ import annotations

import numpy as np
import pytest

from tests.runtime.rig import Rig, entry, parameter

ROUNDS = 40  # more than a flag counts
HEAD = """
#include <cstdint>
#include <pto/pto-inst.hpp>
#include "tensor.h"
using namespace pto;
extern "C" __attribute__((visibility("default"))) void kernel_entry(int64_t *args) {
    float *const sent = reinterpret_cast<ChipTensor *>(args[0])->data_as<float>();
    float *const back = reinterpret_cast<ChipTensor *>(args[1])->data_as<float>();
"""
CUBE = """
    for (int i = 0; i < ROUNDS; ++i) {
        sent[i] = float(i);
        SET(PIPE_FIX, 3); SET_MORE(PIPE_FIX, 19);
        AWAIT(PIPE_MTE1, 4); AWAIT_MORE(PIPE_MTE1, 20);
        sent[i] += back[2 * i] + back[2 * i + 1];
    }
}
"""
VECTOR = """
    for (int i = 0; i < ROUNDS; ++i) {
        AWAIT(PIPE_V, 3);
        back[2 * i + get_subblockid()] = sent[i] * float(2 + get_subblockid());
        SET(PIPE_MTE3, 4);
    }
}
"""
CALLS = {
    "a2a3sim": "\n#define SET(pipe, id) ffts_cross_core_sync(pipe, getFFTSMsg(FFTS_MODE_VAL, id))\n"
    "#define AWAIT(pipe, id) wait_flag_dev(id)\n#define SET_MORE(...)\n#define AWAIT_MORE(...)\n",
    "a5sim": "\n#define SET set_intra_block\n#define AWAIT wait_intra_block\n"
    "#define SET_MORE set_intra_block\n#define AWAIT_MORE wait_intra_block\n",
}
ORCHESTRATION = entry("""
    CoreTaskArgs p; p.add_output(orch_args.tensor(0).ref()); p.add_output(orch_args.tensor(1).ref());
    rt_submit_task({0, 1, 1}, p);
""")


def run(rig: Rig, platform: str, vector: str) -> np.ndarray:
    """Run the group, and return what the cube core computed of both vector cores' results."""
    runtime = rig.module.Runtime(platform, 2)
    flags = [f"-DPYPTO_ARCH={5 if platform == 'a5sim' else 2}", f"-DROUNDS={ROUNDS}", "-march=x86-64-v3"]
    for number, (name, core, body) in enumerate((("cube", "aic", CUBE), ("vector", "aiv", vector))):
        defined = "__DAV_CUBE__" if core == "aic" else "__DAV_VEC__"
        text = CALLS[platform] + HEAD + body
        runtime.load_kernel(number, name, core, str(rig.compile(text, [*flags, f"-D{defined}"])), None)
    runtime.load_orchestration(str(rig.compile(ORCHESTRATION)))
    sent, back = np.zeros(ROUNDS, np.float32), np.zeros(2 * ROUNDS, np.float32)
    runtime.run([parameter(sent, "OUT"), parameter(back, "OUT")], [], {})
    return sent


@pytest.mark.parametrize("platform", CALLS)
def test_cores_of_a_group_take_turns(rig: Rig, platform: str) -> None:
    np.testing.assert_array_equal(run(rig, platform, VECTOR), np.arange(ROUNDS, dtype=np.float32) * 6)


def test_a_flag_that_nobody_sets(rig: Rig) -> None:
    with pytest.raises(rig.module.RuntimeFault) as raised:
        run(rig, "a2a3sim", VECTOR.replace("SET(PIPE_MTE3, 4);", ""))
    assert "AIC cube waits to pop slot 0 of flag 4 (vector to cube)" in str(raised.value)
