"""Finds a sufficient ring size for a run that ended because a ring was too small, by trying larger ones."""

from __future__ import annotations

import time
from collections.abc import Callable

from pypto_build.facts.faults import FaultKind
from pypto_build.replay.faults import RunFault
from pypto_build.replay.verdict import ErrorInfo
from pypto_build.runtime.faults import FaultRecord

#: For each kind of fault, the runtime's option and the variable that sets it.
_OPTIONS = {
    FaultKind.HEAP_FULL: ("ring_heap", "PTO2_RING_HEAP"),
    FaultKind.DEPENDENCY_POOL_FULL: ("ring_dep_pool", "PTO2_RING_DEP_POOL"),
    FaultKind.WINDOW_FULL: ("ring_task_window", "PTO2_RING_TASK_WINDOW"),
    FaultKind.SCOPE_FILLS_WINDOW: ("ring_task_window", "PTO2_RING_TASK_WINDOW"),
}
#: The largest rings of the device.
_MOST = {"ring_heap": 1 << 36, "ring_dep_pool": 1 << 20, "ring_task_window": 1 << 20}
_LONGEST_S = 5.0


def is_about_a_size(record: FaultRecord | None) -> bool:
    """Return whether a larger ring might help."""
    return record is not None and record.kind in _OPTIONS


def advise(error: ErrorInfo, run: Callable[[dict[str, int]], None]) -> None:
    """Add a sufficient size to the hint. `run` takes options of the runtime and raises `RunFault`."""
    assert error.fault is not None
    option, variable = _OPTIONS[error.fault.kind]
    give_up = time.monotonic() + _LONGEST_S
    size = _first(error.fault)
    while size <= _MOST[option] and time.monotonic() < give_up:
        ended = _ended(run, {option: size})
        if ended is None or ended.error.fault is None or ended.error.fault.kind != error.fault.kind:
            after = "with it this run reaches its end" if ended is None else f"what ends the run then: {ended.error}"
            error.hint += f"; {variable}={size} was tried: {after}"
            return
        size = max(size * 2, _first(ended.error.fault))
    error.hint += f"; up to {variable}={size // 2} none that was tried is enough"


def _first(record: FaultRecord) -> int:
    """Return the power of two above the size that the run needed when it ended."""
    numbers = {name: value for name, value in record.fields.items() if isinstance(value, int)}
    needed = numbers.get("enough", 0) - 1 if "enough" in numbers else numbers.get("limit", 1)
    needed = max(needed, numbers.get("used", 0) + numbers.get("count", 0) - 1)
    return 1 << max(needed, 1).bit_length()


def _ended(run: Callable[[dict[str, int]], None], options: dict[str, int]) -> RunFault | None:
    try:
        run(options)
    except RunFault as fault:
        return fault
    return None
