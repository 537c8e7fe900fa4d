"""Runs on simpler that hung, faulted or were refused, as the log lines they leave."""

from __future__ import annotations

from tests.diagnose.corpus import Bug

_DAG, _ORCH = "_jit_vector_dag", "orchestration/vector_dag.cpp"
_ADD, _SHIFT, _MUL = (f"kernels/aiv/kernel_{name}.cpp" for name in ("add", "shift", "mul"))
_HOST = "[ERROR] validate_runtime: [runtime_maker.cpp:300] PTO2 runtime failed:"


def _log(name: str, rule: str, file: str, at: str, says: str, *lines: str) -> Bug:
    """The edit writes the log; file and line are those of the artifact that ran."""
    return Bug(name, _DAG, (("log", "", "\n".join(lines) + "\n"),), f"hang/{rule}", file, at, says, tool="hang")


def _stopped(code: int) -> str:
    orch, sched = (code, 0) if code < 100 else (0, code)
    return f"{_HOST} orch_error_code={orch} sched_error_code={sched} runtime_status=-{code}"


def _timeout(name: str, counts: str, where: str = "") -> str:
    return f"[ERROR] PTO2 scheduler timeout sub_class={name} (detail=1) {counts} orch_done=1{where}"


def _stall(local: int, state: str, fanin: str, kernel: int, more: str = "") -> str:
    lanes = f"kernels=[aic:-1 aiv0:{kernel} aiv1:-1]"
    return f"[STALL thread=0 idle_iterations=900] TASK ring=1 task_id={local} state={state} fanin_refcount={fanin} {lanes}{more}"


_MUL_ID = (1 << 32) + 4

# fmt: off
BUGS = (
    _log(
        "kernel that never ends", "running-stalled", _MUL, "static __aicore__ void kernel_mul(",
        "S1 running-stalled: a kernel is running and does not end: task 1:4 kernel_mul on core 8",
        _timeout("S1:running-stalled", "completed=4/6 running=1 ready=0 waiting=1", f" stuck_task_id={_MUL_ID} stuck_core=8"),
        _stopped(100),
    ),
    _log(
        "kernel that never ends, told by the scheduler's picture", "running-stalled", _SHIFT,
        "static __aicore__ void kernel_shift(", "task 1:3 kernel_shift on core=9(AIV1)",
        _stall(3, "RUNNING", "1/1", 1, " running_on=[owner_thread=0 cores=[core=9(AIV1)]]"),
        _stall(4, "WAIT   ", "1/2", 2, " missing_deps=1"),
        _timeout("S1:running-stalled", "completed=3/6 running=1 ready=0 waiting=2"),
        _stopped(100),
    ),
    _log(
        "kernel that never ends, as told in April 2026", "running-stalled", _SHIFT,
        "static __aicore__ void kernel_shift(", "S1 running-stalled: a kernel is running and does not end: task 0:3 kernel_shift on core=9",
        "[WARN] Thread 0: PTO2 400000 idle iterations, 3/6 completed",
        "  STUCK-WAIT   ring=0 task_id=4 kernel_id=2 refcount=1 fanin=2 state=0",
        "    core=9 cond=0x1(state=1,id=3) exec_id=3 kernel=1",
        "[ERROR] Thread 0: PTO2 timeout after 800001 idle iterations",
    ),
    _log(
        "task that waits for nobody, as told in April 2026", "dependency-deadlock", _ORCH, "rt_submit_aiv_task(0, params_t4);",
        "S4 dependency-deadlock: tasks wait for tasks that will never run: task 0:5 kernel_add",
        "  STUCK-WAIT   ring=0 task_id=5 kernel_id=0 refcount=1 fanin=2 state=0",
        "[WARN] Thread 0: PTO2 400000 idle iterations, 5/6 completed",
        "[ERROR] Thread 0: PTO2 timeout after 800001 idle iterations",
    ),
    _log(
        "ready tasks on idle cores", "ready-idle", _ORCH, "rt_submit_aiv_task(2, params_t3);",
        "S3 ready-idle: tasks are ready, all cores are idle, nothing is dispatched: task 1:4 kernel_mul",
        _stall(4, "READY  ", "2/2", 2),
        _timeout("S3:ready-idle", "completed=4/6 running=0 ready=1 waiting=1"),
    ),
    _log(
        "task that waits for nobody", "dependency-deadlock", _ORCH, "rt_submit_aiv_task(0, params_t4);",
        "S4 dependency-deadlock: tasks wait for tasks that will never run: task 1:5 kernel_add",
        _stall(5, "WAIT   ", "1/2", 0, " missing_deps=1"),
        _timeout("S4:dependency-deadlock", "completed=5/6 running=0 ready=0 waiting=1"),
    ),
    _log(
        "too many tasks in a scope", "scope_deadlock", _ORCH, "",
        "SCOPE_DEADLOCK (1): one open scope holds more tasks than the ring's task window", _stopped(1),
    ),
    _log("heap too small", "heap_ring_deadlock", "", "", "HEAP_RING_DEADLOCK (2)", _stopped(2)),
    _log("refused submission", "invalid_args", _ORCH, "", "INVALID_ARGS (5): a submission was refused", _stopped(5)),
    _log(
        "too many blocks together", "require_sync_start_invalid", _ORCH, "", "REQUIRE_SYNC_START_INVALID (7)", _stopped(7),
    ),
    _log(
        "exit code of a simulator", "tensor_wait_timeout", "", "", "TENSOR_WAIT_TIMEOUT (8)",
        "RuntimeError: run failed with code -8",
    ),
    _log(
        "address outside the unified buffer", "core-fault", _MUL, "static __aicore__ void kernel_mul(",
        "VEC instruction error: the ub address out of bounds (core 15, block 1, errcode 0x4000000000000000)",
        "[ERROR] VEC instruction error: the ub address out of bounds",
        "  core id 15, blk:1, errcode 0x4000000000000000",
        _timeout("S1:running-stalled", "completed=4/6 running=1 ready=0 waiting=1", f" stuck_task_id={_MUL_ID} stuck_core=15"),
    ),
    _log(
        "masked by CANN", "cann", "", "", "CANN 507018 (aicpu exception): the device ended the run",
        "RuntimeError: simpler_run failed with code 507018",
    ),
)
# fmt: on
