# ruff: noqa: E501  (messages stand as they are printed)
"""One artifact with every cause that keeps a run from ending well; a scalar selects the cause.

`python -m tests.replay.hang_cases > docs/lookup/hangs.md` writes the table of the results.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from pypto_build.replay.verdict import Verdict
from tests.replay.builder import Replayed, build_artifact, replay
from tests.replay.tiny import Tiny

_HEAD = """#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <stdexcept>
#include <unistd.h>

#include "intrinsic.h"
#include "pto_async_kernel_api.h"
#include "pypto/core_context.h"
#include "tensor.h"

static thread_local PyptoCoreContext *core;
extern "C" __attribute__((visibility("default"))) void pypto_bind_core(PyptoCoreContext *context) { core = context; }
static float *data_of(int64_t *args, int i) { return reinterpret_cast<ChipTensor *>(args[i])->data_as<float>(); }
static const PyptoPipeSpec kSpec = {0, 256, 2, 3, 0, 1};
static void push(int to_vector) {
    PyptoPipe *pipe = core->pipe_open(core, &kSpec);
    core->pipe_acquire(core, pipe, to_vector);
    core->pipe_commit(core, pipe, to_vector);
}
static void pop(int to_vector) { core->pipe_front(core, core->pipe_open(core, &kSpec), to_vector); }
static void release(int to_vector) { core->pipe_release(core, core->pipe_open(core, &kSpec), to_vector); }
[[maybe_unused]] static int deep(volatile int *x) {
    volatile int local[1024];
    local[0] = *x;
    return deep(local) + local[0];
}
"""
_KERNEL = """
extern "C" __attribute__((visibility("default"))) void kernel_entry(int64_t *args) {{
    [[maybe_unused]] volatile float *y = data_of(args, 1);
    [[maybe_unused]] volatile int zero = 0;
    switch (args[2]) {{
{cases}
    default:
        break;
    }}
}}
"""
_MANIFEST_ROW = (
    '\t{"func_id": 1, "name": "cube", "source": str(_ROOT_DIR / "kernels" / "aic" / "cube.cpp"), "core_type": "aic"},\n'
)
_ONE = "submit(0, ext_x, ext_y, mode);"
_GROUP = """CoreTaskArgs p; p.add_input(ext_x); p.add_output(ext_y); p.add_scalar(mode);
        rt_submit_task(MixedKernels{1, 0, -1}, p);"""


@dataclass(frozen=True)
class Case:
    """One cause: the code of kernels and orchestration, and the expected report of the replay.

    `message` and `detail` may contain `…` in place of addresses or numbers of this machine.
    """

    cause: str
    status: str
    kind: str
    message: str
    hint: str
    orchestration: str = _ONE
    vector: str = ""
    cube: str = ""
    environment: dict[str, str] = field(default_factory=dict)
    timeout: str = "20"
    detail: str = ""  # a line of the details
    memory: str = "400"


def _blocks(blocks: int, together: bool) -> str:
    return f"""CoreTaskArgs p; p.add_input(ext_x); p.add_output(ext_y); p.add_scalar(mode);
        p.launch_spec.set_block_num({blocks}); p.launch_spec.set_require_sync_start({str(together).lower()});
        rt_submit_aiv_task(0, p);"""


_ONE_TASK = "; sub_class=S1:running-stalled completed=0/1 running=1 ready=0 waiting=0 orch_done=…"
_PIPE_HINT = "make pushes, pops and frees of the members match"
_NOTIFY_HINT = "look at who notifies: the same signal, often enough, and in a task that runs at the same time or before"
_SYNC_HINT = "call SYNCALL equally often in every block, and not while others wait for a pipe"

CASES: tuple[Case, ...] = (
    Case(
        "producer never submitted",
        "hang",
        "hang",
        "task 0 step waits for task id 7 of ring 1, which was never submitted, and the orchestration has returned; "
        "nothing else can run, 1 task left; sub_class=S4:dependency-deadlock completed=0/1 running=0 ready=0 waiting=1 orch_done=1",
        "a dependency names a task that was never submitted: check where the task id comes from",
        """CoreTaskArgs p; p.add_output(ext_y); PTO2TaskId ids[1] = {PTO2TaskId::make(1, 7)}; p.set_dependencies(ids, 1);
        rt_submit_aiv_task(0, p);""",
    ),
    Case(
        "cycle of explicit dependencies",
        "hang",
        "hang",
        "task 0 step waits for task 1 step; task 1 step waits for task 0 step; nothing else can run, 2 tasks left; "
        "sub_class=S4:dependency-deadlock completed=0/2 running=0 ready=0 waiting=2 orch_done=1",
        "explicit dependencies form a cycle: a task cannot wait for one submitted after it",
        """for (uint32_t i = 0; i < 2; i += 1) {
            CoreTaskArgs p; p.add_output(ext_y); PTO2TaskId ids[1] = {PTO2TaskId::make(1, 1 - i)};
            p.set_dependencies(ids, 1); rt_submit_aiv_task(0, p);
        }""",
    ),
    Case(
        "get_tensor_data of a tensor whose writer cannot run",
        "hang",
        "hang",
        "get_tensor_data waits for a task that cannot finish: task 0 step waits for task id 7 of ring 1, which was never "
        "submitted, and the orchestration waits itself; nothing else can run, 1 task left; sub_class=S4:dependency-deadlock completed=0/1 running=0 ready=0 waiting=1 orch_done=0",
        "a dependency names a task that was never submitted: check where the task id comes from",
        """CoreTaskArgs p; p.add_output(ext_y); PTO2TaskId ids[1] = {PTO2TaskId::make(1, 7)}; p.set_dependencies(ids, 1);
        rt_submit_aiv_task(0, p); uint32_t at[2] = {0, 0}; get_tensor_data<float>(ext_y, 2, at);""",
    ),
    Case(
        "pop without push",
        "hang",
        "hang",
        "likely pop without push: the other side never filled a slot in this direction; AIC cube has returned; AIV0 "
        "step waits to pop slot 0 of pipe 0 (cube to vector), which only AIC (returned … before) pushes; pipe 0 cube to "
        "vector: 2 slots of 256 bytes, 0 pushed, 0 popped, 0 freed; pipe 0 vector to cube: 2 slots of 256 bytes, 0 pushed, 0 popped, 0 freed"
        + _ONE_TASK,
        _PIPE_HINT,
        _GROUP,
        vector="pop(1);",
    ),
    Case(
        "ring smaller than the pipeline is deep",
        "hang",
        "hang",
        "likely push without pop, or the ring has fewer slots than the pipeline is deep: raise the slot number; AIC "
        "cube waits to push slot 2 of pipe 0 (cube to vector), which only AIV0 (waits itself) frees; AIV0 step waits to "
        "pop slot 0 of pipe 0 (vector to cube), which only AIV0 itself pushes; pipe 0 cube to vector: 2 slots of 256 "
        "bytes, 2 pushed (last by AIC … before), 0 popped, 0 freed; pipe 0 vector to cube: 2 "
        "slots of 256 bytes, 0 pushed, 0 popped, 0 freed" + _ONE_TASK,
        _PIPE_HINT,
        _GROUP,
        vector="pop(0); pop(1);",
        cube="push(1); push(1); push(1); push(0);",
    ),
    Case(
        "missing free",
        "hang",
        "hang",
        "likely missing free: slots are popped and never freed (TFREE); AIC cube waits to push slot 2 of pipe 0 "
        "(cube to vector), which only AIV0 (returned … before) frees; AIV0 step has returned; pipe 0 cube to vector: 2 "
        "slots of 256 bytes, 2 pushed (last by AIC … before), 2 popped, "
        "0 freed; pipe 0 vector to cube: 2 slots of 256 bytes, 0 pushed, 0 popped, 0 freed" + _ONE_TASK,
        _PIPE_HINT,
        _GROUP,
        vector="pop(1); pop(1);",
        cube="push(1); push(1); push(1);",
    ),
    Case(
        "free of a slot that was not popped",
        "runtime_error",
        "runtime_error",
        "pipe 0: a slot is freed that was not popped",
        "free each popped slot once",
        _GROUP,
        vector="release(1);",
    ),
    Case(
        "SYNCALL that one block misses",
        "hang",
        "hang",
        "SYNCALL waits for a block that has returned without calling it: …block 2 (AIV0 step) has returned after 0, the "
        "last … before…" + _ONE_TASK,
        _SYNC_HINT,
        _blocks(4, True),
        vector="if (get_block_idx(args) != 2) core->sync_all(core, 0);",
    ),
    Case(
        "SYNCALL of blocks that need not start together",
        "runtime_error",
        "runtime_error",
        "SYNCALL waits for all 4 blocks, which need not run at the same time",
        "launch them together with launch_spec.set_require_sync_start(true)",
        _blocks(4, False),
        vector="core->sync_all(core, 0);",
    ),
    Case(
        "SYNCALL on one core, a pipe on the other",
        "hang",
        "hang",
        "likely pop without push: the other side never filled a slot in this direction; AIC cube waits at SYNCALL; "
        "AIV0 step waits to pop slot 0 of pipe 0 (cube to vector), which only AIC (waits itself) pushes; pipe 0 cube to "
        "vector: 2 slots of 256 bytes, 0 "
        "pushed, 0 popped, 0 freed; pipe 0 vector to cube: 2 slots of 256 bytes, 0 pushed, 0 popped, 0 freed"
        + _ONE_TASK,
        _SYNC_HINT,
        _GROUP,
        vector="pop(1);",
        cube="core->sync_all(core, 2); push(1);",
    ),
    Case(
        "more blocks that start together than cores",
        "runtime_error",
        "runtime_error",
        "task 0 starts 100 blocks together; a2a3 has 48 vector cores",
        "blocks that start together cannot outnumber the cores: lower set_block_num or drop set_require_sync_start",
        _blocks(100, True),
    ),
    Case(
        "kernel that spins",
        "hang",
        "hang",
        "kernel 'step' had not finished at the time limit of 1 s" + _ONE_TASK + " stuck_task=0 stuck_core=…",
        "look for a loop whose end is never reached, or raise the limit with TIMEOUT=",
        vector="for (volatile int i = 0;;) {}",
        timeout="1",
    ),
    Case(
        "kernel that spins while its group waits for it",
        "hang",
        "hang",
        "kernel 'cube' had not finished at the time limit of 1 s" + _ONE_TASK + " stuck_task=0 stuck_core=…",
        "look for a loop whose end is never reached, or raise the limit with TIMEOUT=",
        _GROUP,
        vector="pop(1);",
        cube="for (volatile int i = 0;;) {}",
        timeout="1",
    ),
    Case(
        "kernel that polls a tensor which nobody writes any more",
        "hang",
        "hang",
        "kernel 'step' had not finished at the time limit of 1 s" + _ONE_TASK + " stuck_task=0 stuck_core=…",
        "look for a loop whose end is never reached, or raise the limit with TIMEOUT=",
        vector="while (*(volatile int32_t *)(data_of(args, 0) + 3) != 77) {}",
        timeout="1",
        detail="core … runs task 0 block 0, kernel 'step', since … s: it polls byte 12 of tensor x (128 bytes) at …, "
        "which holds … (int32), and nothing else runs or is ready that could change it",
    ),
    Case(
        "signal that nobody notifies",
        "hang",
        "hang",
        "task 0 step waits for the signal at … (byte 4 of tensor y (128 bytes)) == 1, it is … (no TNOTIFY ever changed "
        "it); nobody is left who could change it" + _ONE_TASK,
        _NOTIFY_HINT,
        vector="core->signal_wait(core, (int32_t *)y + 1, 1, 0);",
    ),
    Case(
        "signal that is notified once too few",
        "hang",
        "hang",
        "task 0 step waits for the signal at … (byte 0 of tensor y (128 bytes)) >= 3, it is 2 (notified 3 times, last by "
        "task 0 step … before: 1 added); nobody is left who could change it" + _ONE_TASK,
        _NOTIFY_HINT,
        vector="""core->signal_notify(core, (int32_t *)y, 0, 1);
        for (int i = 0; i < 2; ++i) core->signal_notify(core, (int32_t *)y, 1, 0);
        core->signal_wait(core, (int32_t *)y, 3, 3);""",
    ),
    Case(
        "two blocks that wait for each other's signal",
        "hang",
        "hang",
        "task 0 step…waits for the signal at …; task 0 step…waits for the signal at …; nobody else is left who could "
        "change one of them" + _ONE_TASK,
        _NOTIFY_HINT,
        _blocks(2, True),
        vector="""core->signal_wait(core, (int32_t *)y + get_block_idx(args), 1, 0);
        core->signal_notify(core, (int32_t *)y + 1 - get_block_idx(args), 1, 1);""",
    ),
    Case(
        "signal that the other member of a group would notify after its pop",
        "hang",
        "hang",
        "task 0 step waits for the signal at … (byte 0 of tensor y (128 bytes)) == 1, it is … (no TNOTIFY ever changed "
        "it); nobody is left who could change it" + _ONE_TASK,
        _NOTIFY_HINT,
        _GROUP,
        vector="core->signal_wait(core, (int32_t *)y, 1, 0); push(0);",
        cube="pop(0); core->signal_notify(core, (int32_t *)data_of(args, 1), 1, 1);",
    ),
    Case(
        "completion counter that nobody raises",
        "hang",
        "hang",
        "task 0 step waits for the completion counter at … (byte 8 of tensor y (128 bytes)) >= 1, it is 0 (no TNOTIFY ever "
        "changed it); nobody is left who could change it" + _ONE_TASK,
        "look at what should complete the operation: it has to add to the counter that the kernel registered",
        vector="""y[2] = 0;
        {
            AsyncCtx context = get_async_ctx(args);
            save_expected_notification_counter(context, y + 2, 1);
        }""",
    ),
    Case(
        "window full of tasks that cannot run",
        "runtime_error",
        "runtime_error",
        "ring 1 (scope at …): all 4 task slots are in use; the oldest of them, task 0 step, has not run",
        "the ring's task window is full and its oldest task cannot be released: raise PTO2_RING_TASK_WINDOW (a power of "
        "two); PTO2_RING_TASK_WINDOW=8 was tried: what ends the run then: …task id 77 of ring 1, which was never submitted…",
        """for (int i = 0; i < 8; i += 1) {
            CoreTaskArgs p; p.add_output(ext_y); PTO2TaskId ids[1] = {PTO2TaskId::make(1, 77)}; p.set_dependencies(ids, 1);
            rt_submit_aiv_task(0, p);
        }""",
        environment={"PTO2_RING_TASK_WINDOW": "4"},
    ),
    Case(
        "orchestration that spins",
        "hang",
        "hang",
        "the orchestration had not finished at the time limit of 1 s; sub_class=S5:orchestrator-starvation "
        "completed=0/0 running=0 ready=0 waiting=0 orch_done=0",
        "look for a loop whose end is never reached, or raise the limit with TIMEOUT=",
        "for (volatile int i = 0;;) {}",
        timeout="1",
    ),
    Case(
        "one scope holds more tasks than the window",
        "runtime_error",
        "runtime_error",
        "one scope holds more tasks than its ring has slots: all 4 of ring 1 (scope at …) are in use, every task in them is "
        "over, and their scope is still open; the oldest of them, task 0 step, is over and held by that scope",
        "the open scope alone holds more tasks than the ring's window: close PTO2_SCOPE inside the loop, or raise "
        "PTO2_RING_TASK_WINDOW (a power of two); PTO2_RING_TASK_WINDOW=8 was tried: with it this run reaches its end",
        f"for (int i = 0; i < 8; i += 1) {{ {_ONE} }}",
        environment={"PTO2_RING_TASK_WINDOW": "4"},
    ),
    Case(
        "tensors of one scope larger than the heap",
        "runtime_error",
        "runtime_error",
        "the heap of ring 1 (scope at …) is full: 1024 bytes are asked for, 4096 of 4096 are held by tasks that cannot be "
        "released; the oldest of them, an allocation, is over and held by that scope",
        "the tensors alive at once need more than the ring's heap: close PTO2_SCOPE earlier, allocate inside the loop's "
        "scope, or raise PTO2_RING_HEAP (bytes), for example PTO2_RING_HEAP=8192; PTO2_RING_HEAP=8192 was tried: with it this run "
        "reaches its end",
        """uint32_t shape[1] = {64}; TensorCreateInfo info(shape, 1);
        for (int i = 0; i < 8; i += 1) alloc_tensors(info);""",
        environment={"PTO2_RING_HEAP": "4096"},
    ),
    Case(
        "null pointer in a kernel",
        "runtime_error",
        "crash",
        "kernel 'step' crashed…: SIGSEGV (Segmentation fault) at address 0x10, no tensor is near",
        "it read or wrote an address that is not mapped; look at its offsets and at its tensors' sizes",
        vector="*(volatile int *)16 = 1;",
    ),
    Case(
        "write far past a tensor",
        "runtime_error",
        "crash",
        "kernel 'step' crashed…: SIGSEGV (Segmentation fault) at address …, … bytes past the end of …",
        "it read or wrote an address that is not mapped; look at its offsets and at its tensors' sizes",
        vector="y[1 << 26] = 1;",
    ),
    Case(
        "write just past a tensor",
        "runtime_error",
        "out_of_bounds",
        "kernel 'step' wrote outside tensor 'y': at byte 128, while it has 128",
        "look for an offset or a valid shape that passes the tensor's end",
        vector="for (int i = 0; i < 33; ++i) y[i] = 0;",
    ),
    Case(
        "write past the unified buffer",
        "runtime_error",
        "crash",
        "kernel 'step' crashed…: SIGSEGV (Segmentation fault) at address …, 1 bytes past the end of UB (196608 bytes)",
        "it read or wrote an address that is not mapped; look at its offsets and at its tensors' sizes",
        vector="((volatile uint8_t *)core->memory[PYPTO_UB].base)[core->memory[PYPTO_UB].size] = 1;",
    ),
    Case(
        "division by zero",
        "runtime_error",
        "crash",
        "kernel 'step' crashed…: SIGFPE (Floating point exception)",
        "it divided an integer by zero or overflowed a division",
        vector="zero = 7 / zero;",
    ),
    Case(
        "stack overflow",
        "runtime_error",
        "crash",
        "kernel 'step' crashed…: SIGSEGV (Segmentation fault) at address …, the stack is used up",
        "look for a recursion without end or a large local array",
        vector="zero = deep(&zero);",
    ),
    Case(
        "abort",
        "runtime_error",
        "crash",
        "kernel 'step' crashed…: SIGABRT (Aborted)",
        "it called abort(); look for a failed assertion or an uncaught exception above",
        vector="abort();",
    ),
    Case(
        "exit",
        "runtime_error",
        "exit",
        "kernel 'step' ended the process with exit status 3 before everything was done",
        "a kernel or the orchestration called exit(); take the call out",
        vector="exit(3);",
    ),
    Case(
        "exception",
        "runtime_error",
        "exception",
        "kernel 'step' throws an exception that nothing catches…: no such row",
        "catch it in the kernel, or take its cause out",
        vector='throw std::runtime_error("no such row");',
    ),
    Case(
        "exception of the orchestration",
        "runtime_error",
        "exception",
        "the orchestration throws an exception that nothing catches…: an object of type int",
        "catch it in the kernel, or take its cause out",
        f"{_ONE} throw 7;",
    ),
    Case(
        "fault where no exception may pass",
        "runtime_error",
        "runtime_error",
        "after 0 tasks: view of [4, 8] reaches outside it: offset 4 + 4 of 4 in dimension 0; clamp its shape to what is left after the offset",
        "correct the orchestration",
        """const auto strict = [](const ChipTensor &x) noexcept { (void)x.view(x.shapes, x.shapes); };
        strict(ext_x);""",
    ),
    Case(
        "signal sent to itself",
        "runtime_error",
        "crash",
        "kernel 'step' crashed…: SIGTERM (Terminated)",
        "something sent it that signal; look for kill() or raise()",
        vector="raise(SIGTERM);",
    ),
    Case(
        "every file closed",
        "runtime_error",
        "exit",
        "the run left no result: what it comes through is closed",
        "a kernel or the orchestration closed files that are not its own; take that out",
        vector="for (int file = 3; file < 1000; ++file) close(file);",
    ),
    Case(
        "null pointer at the memory limit",
        "runtime_error",
        "out_of_memory",
        "kernel 'step' reached the memory limit of 400 MB (SIGSEGV…)",
        "look for an allocation in a loop, or raise the limit with --memory",
        vector="for (volatile char *p;;) { p = (char *)malloc(1 << 20); p[0] = 1; }",
    ),
    Case(
        "allocation without end",
        "runtime_error",
        "out_of_memory",
        "kernel 'step' reached the memory limit of 400 MB (std::bad_alloc…)",
        "look for an allocation in a loop, or raise the limit with --memory",
        vector="for (volatile char *p;;) { p = new char[1 << 24]; p[0] = 1; }",
    ),
    Case(
        "crash of the orchestration",
        "runtime_error",
        "crash",
        "the orchestration crashed…: SIGSEGV (Segmentation fault) at address 0x20, no tensor is near",
        "it read or wrote an address that is not mapped; look at its offsets and at its tensors' sizes",
        "*(volatile int *)32 = 1;",
    ),
    Case(
        "tensor that was never set",
        "runtime_error",
        "runtime_error",
        "task 0: argument 1 has 0 dimensions and element type 0",
        "pass a tensor that is set, of 1 to 5 dimensions and a known type",
        "ChipTensor unset{}; submit(0, ext_x, unset, mode);",
    ),
    Case(
        "reference to no tensor",
        "runtime_error",
        "runtime_error",
        "task 0: argument 1 is a null reference",
        "pass a tensor or a TensorCreateInfo that exists",
        "const ChipTensor *volatile none = nullptr; submit(0, ext_x, *none, mode);",
    ),
    Case(
        "size that wraps around",
        "runtime_error",
        "runtime_error",
        "task 0: argument 0 asks for more memory than any machine has",
        "correct its shape; sizes may have wrapped around",
        "uint32_t huge[4] = {65536, 65536, 65536, 65536}; TensorCreateInfo info(huge, 4); alloc_tensors(info);",
    ),
    Case(
        "task id that was never set",
        "hang",
        "hang",
        "task 0 step waits for 0x900000001, which is not a valid task id; nothing else can run, 1 task left; "
        "sub_class=S4:dependency-deadlock completed=0/1 running=0 ready=0 waiting=1 orch_done=1",
        "a tensor or a task id is used that was never set, or after the scope it is valid in",
        """CoreTaskArgs p; p.add_output(ext_y); PTO2TaskId ids[1] = {PTO2TaskId::make(9, 1)}; p.set_dependencies(ids, 1);
        rt_submit_aiv_task(0, p);""",
    ),
    Case(
        "fatal report of an orchestration that does not stop",
        "runtime_error",
        "runtime_error",
        "no rows left",
        "the orchestration itself reported this",
        'rt_report_fatal(PTO2_ERROR_EXPLICIT_ORCH_FATAL, "no rows left"); for (volatile int i = 0;;) {}',
        timeout="1",
    ),
    Case(
        "fatal report of the orchestration",
        "runtime_error",
        "runtime_error",
        "no rows left",
        "the orchestration itself reported this",
        'rt_report_fatal(PTO2_ERROR_EXPLICIT_ORCH_FATAL, "no rows left");',
    ),
)


def write_artifact(root: Path) -> Tiny:
    """Build the artifact; `mode` n+1 provokes case n."""
    calls = "\n".join(
        f"    if (mode == {n}) {{\n        {case.orchestration}\n    }}" for n, case in enumerate(CASES, 1)
    )
    tiny = Tiny(root, "", calls)
    for side, core in (("vector", "aiv/step"), ("cube", "aic/cube")):
        cases = "\n".join(
            f"    case {n}:\n        {getattr(case, side)}\n        break;"
            for n, case in enumerate(CASES, 1)
            if getattr(case, side)
        )
        path = tiny.artifact / "kernels" / f"{core}.cpp"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(_HEAD + _KERNEL.format(cases=cases))
    entry = tiny.artifact / "orchestration" / "tiny.cpp"
    text = entry.read_text().replace(".expected_arg_count = 2", ".expected_arg_count = 3")
    text = text.replace(
        'extern "C" {',
        """static void submit(int kernel, const ChipTensor &x, const ChipTensor &y, int64_t mode) {
    CoreTaskArgs p;
    p.add_input(x);
    p.add_output(y);
    p.add_scalar(mode);
    rt_submit_aiv_task(kernel, p);
}

extern "C" {""",
        1,
    )
    text = text.replace(
        "    (void)ext_x;\n", "    int64_t mode = from_u64<int64_t>(orch_args.scalar(0));\n    (void)ext_x;\n"
    )
    entry.write_text(text)
    manifest = tiny.artifact / "kernel_config.py"
    manifest.write_text(manifest.read_text().replace("]\n", f"{_MANIFEST_ROW}]\n"))
    (tiny.artifact / "compiled_meta.json").unlink()
    build_artifact(tiny.artifact, tiny.out)
    return tiny


def provoke(tiny: Tiny, number: int) -> Replayed:
    """Replay case `number`; its environment must be set."""
    case = CASES[number]
    options = ["--timeout", case.timeout, "--memory", case.memory, "--scalar", f"mode={number + 1}"]
    return replay(tiny.artifact, tiny.out, *options)


def matches(pattern: str, text: str) -> bool:
    """Return whether a text matches the case's pattern; `…` matches anything."""
    return re.fullmatch(".*".join(map(re.escape, pattern.split("…"))), text) is not None


def table() -> str:
    """Return the text of docs/lookup/hangs.md."""
    rows = "".join(
        f"| {case.cause} | {case.status} | {case.message.replace('|', chr(92) + '|')} | {case.hint} |\n"
        for case in CASES
    )
    return f"""# Hangs and crashes

A run that cannot go on ends at once. Only code that spins runs until `TIMEOUT=`. Whatever a kernel or the orchestration
does, the replay itself goes on, and the verdict names the task, the kernel and the cause.

- **A crash** is shown with its line, its stack and the arguments of the kernel.
- **A wait** is shown with what it waits for, the value it needs, the value there is, the last change, and what could still change it.
- **A hang** shows the line of every core.
- **A loop that polls memory** is shown with the tensor that it reads, and whether anything could still change that.
- **A ring that is too small** is shown with the oldest task that holds the room. Larger rings are tried, and the hint says
  which size is enough.

The last 1,000 events of the orchestration and of every core are always recorded: submissions, kernels, slots, signals and
waits. A run that hangs or crashes writes them to `dfx_outputs/flight.json`. The last of them stand below the verdict, and
`scons hang JIT=x` shows more. Times are counted back from the end of the run.

The tests provoke each row of this table (`tests/replay/hang_cases.py` writes it). `…` stands for an address or a number.

| cause | verdict | report | way out |
|---|---|---|---|
{rows}"""


def _show(verdict: Verdict) -> str:
    error = verdict.error
    return f"{verdict.status} {error.kind} {error.message} ; {error.hint}" if error else verdict.status


def main() -> int:
    """Print the table; with `--run`, provoke all cases and print the differences."""
    if "--run" not in sys.argv:
        print(table(), end="")
        return 0
    with tempfile.TemporaryDirectory() as directory:
        tiny = write_artifact(Path(directory))
        for number, case in enumerate(CASES):
            os.environ.update(case.environment)
            run = provoke(tiny, number)
            for name in case.environment:
                del os.environ[name]
            error = run.verdict.error
            if not (error and matches(case.message, error.message) and matches(case.hint, error.hint)):
                print(f"{case.cause}: {_show(run.verdict)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
