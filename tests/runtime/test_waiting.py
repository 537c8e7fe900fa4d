"""Waiting threads sleep: the processor time of runs in which everything waits for one kernel that sleeps."""

from __future__ import annotations

import resource
from typing import Any

import numpy as np
import pytest

from tests.runtime.rig import Kernel, Rig, entry

SLEEP_S = 0.4
HEAD = '#include <time.h>\n#include "pypto/core_context.h"\nstatic const PyptoPipeSpec kSpec = {0, 64, 2, 3, 0, 1};\n'
SLEEP = f"struct timespec pause = {{0, {int(SLEEP_S * 1e9)}}}; nanosleep(&pause, nullptr);"
TASK = "const ChipTensor& y = orch_args.tensor(0).ref(); CoreTaskArgs p; p.add_inout(y); "
ONE = "tensor(args, 0).data_as<float>()[0] += 1;"
PUSH = "core->pipe_acquire(core, core->pipe_open(core, &kSpec), 1); core->pipe_commit(core, core->pipe_open(core, &kSpec), 1);"
POP = "core->pipe_front(core, core->pipe_open(core, &kSpec), 1);"
BARRIER = f"if (get_block_idx(args) == 0) {{ {SLEEP} {ONE} }} core->sync_all(core, 0);"
SLEEPER = Kernel("sleeper", SLEEP + ONE, "aiv", HEAD)

WAITS: dict[str, tuple[list[Kernel], str]] = {
    "the end of the run": ([SLEEPER], TASK + "rt_submit_aiv_task(0, p);"),
    "a producer": (
        [SLEEPER],
        TASK + "rt_submit_aiv_task(0, p); CoreTaskArgs q; q.add_inout(y); rt_submit_aiv_task(0, q);",
    ),
    "an element": (
        [SLEEPER],
        TASK + "rt_submit_aiv_task(0, p); uint32_t at[1] = {0}; get_tensor_data<float>(y, 1, at);",
    ),
    "a full slot of a pipe": (
        [Kernel("cube", SLEEP + PUSH + ONE, "aic", HEAD), Kernel("vector", POP, "aiv", HEAD)],
        TASK + "rt_submit_task({0, 1, 1}, p);",
    ),
    "a barrier": (
        [Kernel("meets", BARRIER, "aiv", HEAD)],
        TASK + "p.launch_spec.set_block_num(8); p.launch_spec.set_require_sync_start(true); rt_submit_aiv_task(0, p);",
    ),
    "room in the window": (
        [SLEEPER, Kernel("nothing", "")],
        TASK + "rt_submit_aiv_task(0, p);"
        "for (int i = 0; i < 40; ++i) { PTO2_SCOPE() { CoreTaskArgs q; q.add_input(y); rt_submit_aiv_task(1, q); } }",
    ),
}


@pytest.mark.parametrize("what", WAITS)
@pytest.mark.parametrize("threads", [1, 4])
def test_waiting_takes_no_processor_time(rig: Rig, what: str, threads: int) -> None:
    kernels, body = WAITS[what]
    y = np.zeros(1, np.float32)
    options: dict[str, Any] = {"ring_task_window": 4} if "window" in what else {}
    runtime = rig.runtime(kernels, entry(body), threads=threads)
    before = resource.getrusage(resource.RUSAGE_SELF)
    runtime.run([(y, (1,), "float32", "INOUT")], [], options)
    after = resource.getrusage(resource.RUSAGE_SELF)
    assert y[0] == (2 if what == "a producer" else 1)
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < SLEEP_S / 4


#: What generated kernels look at before they let their task wait, field by field.
_DEFERS = """
AsyncCtx context = get_async_ctx(args);
const bool usable = async_ctx_is_deferred(context) && context.task_token.raw != PTO2TaskId::invalid().raw &&
                    context.completion_entries != nullptr && *context.completion_count == 0 &&
                    context.completion_capacity == static_cast<uint32_t>(MAX_COMPLETIONS_PER_TASK);
*context.completion_error_code = usable ? 0 : PTO2_ERROR_ASYNC_COMPLETION_INVALID;
AsyncCtx copy = context;
copy.task_token.raw = PTO2TaskId::invalid().raw;
save_expected_notification_counter(copy, data(args, 0), 1000);  // of no task: nothing waits for it
save_expected_notification_counter(context, data(args, 0), 1);
"""


def test_what_a_kernel_finds_to_let_its_task_wait(rig: Rig) -> None:
    kernel = Kernel("defers", _DEFERS, "aiv", '#include <stdint.h>\n#include "pto_async_kernel_api.h"\n')
    counter = np.ones(1, np.int32)
    runtime = rig.runtime([kernel], entry(TASK + "rt_submit_aiv_task(0, p);"))
    assert runtime.run([(counter, (1,), "int32", "INOUT")], [], {}).tasks == 1
