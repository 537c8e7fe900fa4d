"""Validates the child's replies: kernels can overwrite them, so a reply with impossible values is rejected."""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

from pypto_build.replay.child import Reply
from pypto_build.replay.faults import RunFault
from pypto_build.replay.verdict import ErrorInfo
from pypto_build.runtime.faults import is_known
from pypto_build.runtime.printable import printable

_LIMIT = 1 << 63


def read_reply(line: bytes, sizes: Sequence[int]) -> Reply:
    """Return the reply in a line; `sizes` are the element counts of the run's tensors. Raises `RunFault`."""
    try:
        reply = msgspec.json.decode(line, type=Reply)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise no_reply() from None
    if not _possible(reply, sizes):
        raise no_reply()
    for write in reply.input_writes:
        write.task, write.kernel = _name(write.task), _name(write.kernel)
    return reply


def no_reply() -> RunFault:
    """Return the fault of a run with an invalid reply."""
    return RunFault(
        "runtime_error",
        ErrorInfo(
            "reply",
            "the run left no result: something else was written where it comes through",
            hint="a kernel or the orchestration writes to files that are not its own; take that out",
        ),
    )


def _name(text: str | None) -> str | None:
    return None if text is None else printable(text)


def _possible(reply: Reply, sizes: Sequence[int]) -> bool:
    """Return whether the numbers of a reply are within possible bounds."""
    if reply.fault is not None and not is_known(reply.fault):
        return False
    if not (0 <= reply.tasks < _LIMIT and math.isfinite(reply.run_s) and reply.run_s >= 0):
        return False
    for item in reply.unwritten:
        if not (0 <= item.tensor < len(sizes) and 0 <= item.count <= sizes[item.tensor]):
            return False
        if not all(0 <= index < sizes[item.tensor] for index in item.first):
            return False
    if reply.origin is not None:
        reply.origin.program = printable(reply.origin.program)
    return all(0 <= item.tensor < len(sizes) and abs(item.offset) < _LIMIT for item in reply.input_writes)
