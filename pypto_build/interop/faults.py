"""What simpler's failures mean: its error codes, with the way out, as errors of a verdict."""

from __future__ import annotations

import re

from pypto_build.replay.faults import RunFault
from pypto_build.replay.verdict import ErrorInfo

_RINGS = "give the rings more room with PTO2_RING_TASK_WINDOW, PTO2_RING_HEAP or PTO2_RING_DEP_POOL"
_SUBMITS = "look at what the orchestration submits"

#: code -> name, what it means, the way out. simpler reports them negated.
CODES: dict[int, tuple[str, str, str]] = {
    1: ("SCOPE_DEADLOCK", "a scope holds more tasks than a ring has room for", _RINGS),
    2: ("HEAP_RING_DEADLOCK", "the outputs that are alive do not fit the heap of their ring", _RINGS),
    3: ("FLOW_CONTROL_DEADLOCK", "the task window is full and nothing in it can finish", _RINGS),
    4: ("DEP_POOL_OVERFLOW", "there are more dependencies than the pool has room for", _RINGS),
    5: ("INVALID_ARGS", "a task was submitted with arguments that do not fit", _SUBMITS),
    7: ("REQUIRE_SYNC_START_INVALID", "more blocks have to start together than there are cores", "use fewer blocks"),
    8: ("TENSOR_WAIT_TIMEOUT", "nobody wrote a tensor that the orchestration waits for", _SUBMITS),
    9: ("EXPLICIT_ORCH_FATAL", "the orchestration reported a fatal error", "read its message above"),
    10: ("SCOPE_TASKS_OVERFLOW", "a scope has too many tasks", _RINGS),
    11: ("TENSORMAP_OVERFLOW", "too many tensors are alive", "close scopes earlier"),
    100: ("SCHEDULER_TIMEOUT", "no task finished for too long", "replay with RUNTIME=embedded, which names the task"),
    101: ("ASYNC_COMPLETION_INVALID", "an asynchronous operation completed that nobody started", _SUBMITS),
    102: ("ASYNC_WAIT_OVERFLOW", "too many asynchronous operations wait", _SUBMITS),
    103: ("ASYNC_REGISTRATION_FAILED", "an asynchronous operation could not be registered", _SUBMITS),
    104: ("READY_QUEUE_OVERFLOW", "more tasks are ready than the queue has room for", _SUBMITS),
}
_HANGS = (1, 2, 3, 8, 100)
_CODE = re.compile(r"failed with code (-?\d+)")


def run_fault(kind: str, message: str, platform: str, device: int) -> RunFault:
    """The fault behind what simpler's process said; ``kind`` tells in which step it said so."""
    match kind:
        case "usage_error":
            return RunFault("usage_error", ErrorInfo(kind, message, hint="name another one with SIMPLER="))
        case "device":
            missing = re.search(r"\S+ (?:not found|does not exist)|No such file[^;]*", message)
            hint = "build simpler's runtime for this platform" if missing else "is the device there, and free? -d N"
            place = f"device {device} of {platform}" if not platform.endswith("sim") else platform
            return RunFault("runtime_error", ErrorInfo("device", f"{place} cannot be used: {message}", hint=hint))
    found = _CODE.search(message)
    code = abs(int(found.group(1))) if found else 0
    if code not in CODES:
        return RunFault("runtime_error", ErrorInfo("runtime_error", f"simpler: {message}"))
    name, meaning, hint = CODES[code]
    status = "hang" if code in _HANGS else "runtime_error"
    return RunFault(status, ErrorInfo(status, f"simpler: {name} (code {code}): {meaning}", hint=hint, detail=[message]))  # type: ignore[arg-type]
