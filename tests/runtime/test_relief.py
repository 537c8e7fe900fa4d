"""Kernels that wait for each other in memory end on fewer threads than they need at once: the chip has a core for each."""

from __future__ import annotations

import numpy as np
import pytest

from tests.runtime.rig import Kernel, Rig, entry

# A block says that it is there, and goes on when all are.
MEETS = Kernel(
    "meets",
    """
    float *arrived = data(args, 0);
    const int blocks = get_block_num(args);
    __atomic_add_fetch(reinterpret_cast<int *>(arrived), 1, __ATOMIC_ACQ_REL);
    while (__atomic_load_n(reinterpret_cast<int *>(arrived), __ATOMIC_ACQUIRE) < blocks) {}
    arrived[1 + get_block_idx(args)] = 1;
    """,
)
QUICK = Kernel("quick", "data(args, 0)[0] = 0;")
TASK = "const ChipTensor& y = orch_args.tensor(0).ref(); CoreTaskArgs p; p.add_inout(y); "
LAUNCH = TASK + "p.launch_spec.set_block_num({blocks}); rt_submit_aiv_task(0, p); "


@pytest.mark.parametrize("blocks", [2, 11, 48])
def test_blocks_that_wait_for_each_other(rig: Rig, blocks: int) -> None:
    y = np.zeros(1 + blocks, np.float32)
    rig.run([MEETS], entry(LAUNCH.format(blocks=blocks)), [(y, "INOUT")], threads=2)
    assert y[1:].tolist() == [1] * blocks


def test_an_orchestration_that_waits_for_all_blocks(rig: Rig) -> None:
    wait = "const int *arrived = reinterpret_cast<const int *>(y.data_as<float>()); "
    wait += "while (__atomic_load_n(arrived, __ATOMIC_ACQUIRE) < 9) {}"
    y = np.zeros(10, np.float32)
    rig.run([MEETS], entry(LAUNCH.format(blocks=9) + wait), [(y, "INOUT")], threads=2)
    assert y[1:].tolist() == [1] * 9


def test_blocks_after_tasks_that_no_thread_was_worth_waking_for(rig: Rig) -> None:
    body = "const ChipTensor& z = orch_args.tensor(1).ref(); for (int i = 0; i < 200; ++i) {{ CoreTaskArgs q; "
    body += "q.add_inout(z); rt_submit_aiv_task(1, q); }} uint32_t at[1] = {{0}}; get_tensor_data<float>(z, 1, at); "
    y, z = np.zeros(3, np.float32), np.ones(1, np.float32)
    rig.run([MEETS, QUICK], entry((body + LAUNCH).format(blocks=2)), [(y, "INOUT"), (z, "INOUT")], threads=2)
    assert y[1:].tolist() == [1, 1] and z[0] == 0


# A block that waits for the others for 20 ms only, then says that it is over.
HOLDS = Kernel(
    "holds",
    """
    int *counts = reinterpret_cast<int *>(data(args, 0));
    const int blocks = get_block_num(args);
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(20);
    __atomic_add_fetch(counts, 1, __ATOMIC_ACQ_REL);
    while (std::chrono::steady_clock::now() < end) {
        if (__atomic_load_n(counts, __ATOMIC_ACQUIRE) == blocks) __atomic_store_n(counts + 1, 1, __ATOMIC_RELEASE);
    }
    __atomic_sub_fetch(counts, 1, __ATOMIC_ACQ_REL);
    __atomic_add_fetch(counts + 2, 1, __ATOMIC_ACQ_REL);
    """,
    prelude="#include <chrono>\n",
)


def test_blocks_that_hold_for_a_moment_run_at_once_if_the_orchestration_waits_in_memory(rig: Rig) -> None:
    """None holds for as long as the scheduler is patient. A busy machine may miss the moment, but not each time."""
    body = "int *counts = reinterpret_cast<int *>(orch_args.tensor(0).ref().data_as<float>()); "
    body += "for (int i = 1; i < 50 && !__atomic_load_n(counts + 1, __ATOMIC_ACQUIRE); ++i) {{ " + LAUNCH.format(
        blocks=6
    )
    body += "while (!rt_is_fatal() && __atomic_load_n(counts + 2, __ATOMIC_ACQUIRE) < 6 * i) {{}} }}"
    y = np.zeros(3, np.int32)
    rig.run([HOLDS], entry(body.replace("{{", "{").replace("}}", "}")), [(y, "INOUT")], threads=2)
    assert y[1] == 1
