"""simpler's runtime error codes, its timeout classes and the CANN codes that hide them, in words."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Code:
    """One code: its name, its meaning, the remedy, and the place of the cause: orchestration, kernel, runtime or
    size.
    """

    name: str
    message: str
    hint: str
    about: str = "orchestration"


#: Latched by the orchestration (1 to 11) or the scheduler (from 100); a simulator's exit code is the negative.
RUNTIME_CODES: dict[int, Code] = {
    1: Code(
        "SCOPE_DEADLOCK",
        "one open scope holds more tasks than the ring's task window, so none can be released",
        "close PTO2_SCOPE inside the loop, or raise PTO2_RING_TASK_WINDOW (a power of two)",
    ),
    2: Code(
        "HEAP_RING_DEADLOCK",
        "the tensors that are alive at once need more than the ring's heap",
        "close scopes earlier or allocate inside the loop's scope, or raise PTO2_RING_HEAP",
        "size",
    ),
    3: Code(
        "FLOW_CONTROL_DEADLOCK",
        "the ring's task window is full and its oldest task cannot be released",
        "find out why the oldest task does not end, or raise PTO2_RING_TASK_WINDOW",
    ),
    4: Code(
        "DEP_POOL_OVERFLOW",
        "there are more dependency edges than the ring's pool has room for",
        "join dependencies with rt_submit_dummy_task, or raise PTO2_RING_DEP_POOL",
        "size",
    ),
    5: Code(
        "INVALID_ARGS",
        "a submission was refused: its arguments are too many or in the wrong order, or a scope is nested wrongly",
        "add tensors before scalars, call set_dependencies once, keep automatic scopes out of manual ones: scons lint",
    ),
    7: Code(
        "REQUIRE_SYNC_START_INVALID",
        "a task asks for more blocks to start together than there are cores",
        "use at most rt_available_cluster_count() blocks (twice that on vector cores); a simulator has 8 clusters",
    ),
    8: Code(
        "TENSOR_WAIT_TIMEOUT",
        "get_tensor_data or set_tensor_data waited too long for the task that writes the tensor",
        "look for the kernel that writes it: it hangs or is slow",
        "kernel",
    ),
    9: Code("EXPLICIT_ORCH_FATAL", "the orchestration reported a fatal error itself", "read its message above"),
    10: Code(
        "SCOPE_TASKS_OVERFLOW", "a scope's list of tasks overflowed", "report it with deps.json and the log", "runtime"
    ),
    11: Code(
        "TENSORMAP_OVERFLOW",
        "more tensor regions were written than the runtime can keep (65536)",
        "use fewer views in one scope, or close scopes earlier",
        "size",
    ),
    100: Code(
        "SCHEDULER_TIMEOUT",
        "nothing finished within the scheduler's time limit",
        "see its class below; to rule out a slow kernel, run with SIMPLER_SCHEDULER_TIMEOUT_MS=60000",
        "kernel",
    ),
    101: Code(
        "ASYNC_COMPLETION_INVALID",
        "a kernel completed an asynchronous operation that it had not announced",
        "look at the kernel's use of the asynchronous API",
        "kernel",
    ),
    102: Code(
        "ASYNC_WAIT_OVERFLOW",
        "a kernel announced more asynchronous operations than the list has room for",
        "wait for some of them earlier",
        "kernel",
    ),
    103: Code("ASYNC_REGISTRATION_FAILED", "an asynchronous operation could not be registered", "report it", "runtime"),
    104: Code(
        "READY_QUEUE_OVERFLOW", "more tasks were ready than the queue has room for", "submit in more scopes", "size"
    ),
}

#: Classes of a scheduler timeout.
TIMEOUT_CLASSES: dict[str, Code] = {
    "S1": Code(
        "running-stalled",
        "a kernel is running and does not end",
        "look in it for a loop whose end is never reached, or a flag that is waited for and never set: scons lint",
        "kernel",
    ),
    "S3": Code(
        "ready-idle",
        "tasks are ready, all cores are idle, nothing is dispatched",
        "look for require_sync_start with more blocks than cores",
    ),
    "S4": Code(
        "dependency-deadlock",
        "tasks wait for tasks that will never run",
        "look for an explicit dependency on a task that was never submitted, or on one submitted later",
    ),
    "S5": Code(
        "orchestrator-starvation",
        "all submitted tasks are done and the orchestration submits no more",
        "look in the orchestration for a loop, or a wait for data that no task writes",
    ),
    "unknown": Code(
        "unknown", "the scheduler could not tell why nothing finishes", "report it with the log", "runtime"
    ),
}

#: CANN codes at the host: what they hide.
CANN_CODES: dict[int, Code] = {
    107022: Code(
        "fallout", "the device was lost after an earlier fault", "read the first error, not this one", "runtime"
    ),
    207001: Code(
        "out of memory", "device memory could not be allocated", "free the device or use a smaller case", "size"
    ),
    507000: Code("runtime", "CANN's runtime failed internally", "read the device log", "runtime"),
    507014: Code(
        "aicore timeout", "a kernel ran longer than the device's time limit", "find the running task", "kernel"
    ),
    507015: Code(
        "aicore exception", "a kernel faulted on its core", "read the fault's address in the device log", "kernel"
    ),
    507017: Code(
        "aicpu timeout", "the scheduler ran longer than the device's time limit", "find the running task", "kernel"
    ),
    507018: Code(
        "aicpu exception",
        "the device ended the run; it hides what the runtime latched",
        "read sched_error_code and sub_class in the host log, then the device log",
        "kernel",
    ),
    507046: Code("stream timeout", "the stream did not finish in time", "find the running task", "kernel"),
    507899: Code(
        "fallout", "the device was lost after an earlier fault", "read the first error, not this one", "runtime"
    ),
}
