"""Translates simpler's failures and error codes to errors of a verdict, with a hint for the fix."""

from __future__ import annotations

import re

from pypto_build.facts.platforms import PLATFORMS
from pypto_build.replay.faults import RunFault
from pypto_build.replay.simpler_codes import RUNTIME_CODES
from pypto_build.replay.verdict import ErrorInfo

# Codes of a run that does not end. The last one also means that a kernel took longer than simpler waits.
_TIMEOUT = 100
_HANGS = (1, 2, 3, 8, _TIMEOUT)
_BY_TASK = "replay with RUNTIME=embedded, which names the task"
_SLOW = "; a kernel that is merely slow has more time with SIMPLER_SCHEDULER_TIMEOUT_MS=60000"
_CODE = re.compile(r"failed with code (-?\d+)")


def run_fault(kind: str, message: str, platform: str, device: int) -> RunFault:
    """Return the fault for a message of simpler's process; ``kind`` is the step in which the message came."""
    match kind:
        case "usage_error":
            return RunFault("usage_error", ErrorInfo(kind, message, hint="name another one with SIMPLER="))
        case "device":
            missing = re.search(r"\S+ (?:not found|does not exist)|No such file[^;]*", message)
            hint = "build simpler's runtime for this platform" if missing else "is the device there, and free? -d N"
            place = f"device {device} of {platform}" if not PLATFORMS[platform].simulated else platform
            message = f"{place} cannot be used: {message.rstrip('.')}"
            return RunFault("runtime_error", ErrorInfo("device", message, hint=hint))
    found = _CODE.search(message)
    number = abs(int(found.group(1))) if found else 0  # simpler reports codes negated
    code = RUNTIME_CODES.get(number)
    if code is None:
        return RunFault("runtime_error", ErrorInfo("runtime_error", f"simpler: {message}"))
    text = f"simpler: {code.name} (code {number}): {code.message}"
    if number not in _HANGS:
        return RunFault(
            "runtime_error", ErrorInfo("runtime_error", text, hint=code.hint, detail=[message], code=number)
        )
    hint = _BY_TASK if code.about == "kernel" else code.hint
    hint += _SLOW if number == _TIMEOUT else ""
    return RunFault("hang", ErrorInfo("hang", text, hint=hint, detail=[message], code=number))
