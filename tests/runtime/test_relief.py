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


def test_an_orchestration_that_asks_whether_the_run_failed_while_it_waits(rig: Rig) -> None:
    """One block, not worth a thread: the orchestration waits for it in memory, and submits nothing more."""
    many = "const ChipTensor& z = orch_args.tensor(1).ref(); for (int i = 0; i < 200; ++i) { CoreTaskArgs q; "
    many += "q.add_inout(z); rt_submit_aiv_task(1, q); } uint32_t at[1] = {0}; get_tensor_data<float>(z, 1, at); "
    wait = "const int *arrived = reinterpret_cast<const int *>(y.data_as<float>()); "
    wait += "while (!rt_is_fatal() && __atomic_load_n(arrived, __ATOMIC_ACQUIRE) < 1) {}"
    y, z = np.zeros(2, np.float32), np.ones(1, np.float32)
    body = entry(many + LAUNCH.format(blocks=1) + wait)
    rig.run([MEETS, QUICK], body, [(y, "INOUT"), (z, "INOUT")], threads=2)
    assert y[1] == 1
