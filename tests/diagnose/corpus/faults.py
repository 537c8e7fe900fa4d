"""Crashes and hangs, which the checked run ends with: statements of a small kernel, and what its orchestration does."""

from __future__ import annotations

from tests.diagnose.corpus import Bug

_KERNEL, _ORCH = "kernels/aiv/step.cpp", "orchestration/tiny.cpp"
#: What the kernel does without a bug.
NOTHING = "for (int i = 0; i < 32; ++i) y[i] = x[i] + 1;"
_ADD = "params_t0.add_output(ext_y);"
_SUBMIT = "rt_submit_aiv_task(0, params_t0);"


def _kernel(name: str, rule: str, statement: str, says: str, at: str = "") -> Bug:
    """The statement stands before the kernel's own; it is the place unless another is given."""
    return Bug(
        name, "_jit_tiny", ((_KERNEL, NOTHING, f"{statement}\n    {NOTHING}"),), f"hazards/{rule}", _KERNEL,
        at or statement, says,
    )  # fmt: skip


def _orchestration(name: str, rule: str, old: str, new: str, at: str, says: str) -> Bug:
    return Bug(name, "_jit_tiny", ((_ORCH, old, new),), f"hazards/{rule}", _ORCH, at, says)


_ENTRY = "void kernel_entry("

# fmt: off
BUGS = (
    _kernel("null pointer in a kernel", "crash", "*(volatile int *)16 = 1;", "crashed: SIGSEGV (Segmentation fault) at address 0x10"),
    _kernel("address far past a tensor", "crash", "y[(1 << 28) - (1 << 20)] = 1;", "bytes past the end of"),
    _kernel("division by zero", "crash", "volatile int zero = 0; zero = 7 / zero;", "crashed: SIGFPE"),
    _kernel("failed assertion", "crash", "abort();", "crashed: SIGABRT (Aborted)"),
    _kernel("exception out of a kernel", "exception", 'throw std::runtime_error("no such row");', "throws an exception that nothing catches: no such row", _ENTRY),
    _kernel("kernel that ends the process", "exit", "exit(3);", "ended the process with exit status 3", _ENTRY),
    _kernel("loop without end in a kernel", "hang", "for (volatile int i = 0;;) {}", "had not finished at the time limit of 1 s"),
    _kernel(
        "loop whose step is missing", "hang", "for (volatile int i = 0; i < 4;) { y[i] = 1; }",
        "had not finished at the time limit of 1 s",
    ),
    _kernel(
        "loop whose step is nothing, over several lines", "hang",
        "for (volatile int i = 0; i < 4; i += 0) {\n        y[i] = 1;\n    }",
        "had not finished at the time limit of 1 s", "for (volatile int i = 0; i < 4; i += 0) {",
    ),
    _kernel(
        "loop that polls a tensor which nobody writes", "hang", "while (*(volatile float *)x != 77) {}",
        "had not finished at the time limit of 1 s",
    ),
    _kernel(
        "one of several loops that does not end", "hang", "volatile int n = 0; while (n < 1) { y[2] = 1; }",
        "had not finished at the time limit of 1 s",
    ),
    _orchestration(
        "dependency on a task that is never submitted", "hang",
        _ADD, f"{_ADD} PTO2TaskId ids[1] = {{PTO2TaskId::make(1, 7)}}; params_t0.set_dependencies(ids, 1);", _SUBMIT,
        "task 0 step waits for task id 7 of ring 1, which was never submitted",
    ),
    _orchestration(
        "more blocks started together than there are cores", "fault",
        _SUBMIT, f"params_t0.launch_spec.set_block_num(100); params_t0.launch_spec.set_require_sync_start(true); {_SUBMIT}",
        "set_require_sync_start(true);",
        "task 0 starts 100 blocks together; a2a3 has 48 vector cores",
    ),
    _orchestration(
        "more tensors in a scope than its heap holds", "fault",
        _SUBMIT, f"{_SUBMIT} uint32_t s[1] = {{1 << 24}}; TensorCreateInfo big(s, 1); for (int i = 0; i < 8; i += 1) alloc_tensors(big);",
        "PTO2_SCOPE() {", "67108864 bytes are asked for, 268435456 of 268435456 are held by tasks that cannot be released",
    ),
    _orchestration(
        "fatal report of the orchestration", "fault",
        _SUBMIT, f'{_SUBMIT} rt_report_fatal(PTO2_ERROR_EXPLICIT_ORCH_FATAL, "no rows left");', "rt_report_fatal(", "no rows left",
    ),
)
# fmt: on
