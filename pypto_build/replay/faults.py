"""What can go wrong while kernels run, as one exception, and how a dead process is put into words."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass
from typing import Literal

from pypto_build.replay.verdict import ErrorInfo, Status

FaultStatus = Literal["usage_error", "build_error", "runtime_error", "hang"]

#: What usually ends a process with this signal, in a word for the hint.
_SIGNAL_HINTS: dict[str, str] = {
    "SIGSEGV": "it read or wrote an address that is not mapped; look at its offsets, or replay with CHECK=1",
    "SIGBUS": "it used an address that is misaligned or has no memory behind it",
    "SIGFPE": "it divided an integer by zero or overflowed a division",
    "SIGILL": "it ran into an unreachable place, or was compiled for another CPU",
    "SIGABRT": "it called abort(); look for a failed assertion or an uncaught exception above",
    "SIGTRAP": "it ran into trap()",
    "SIGXCPU": "it used more processor time than the time limit allows",
    "SIGKILL": "something outside killed it; when memory is short, the kernel does",
}


class RunFault(Exception):
    """A run that ended without a result: the verdict's `status` and the `error` that goes into it."""

    def __init__(self, status: FaultStatus, error: ErrorInfo) -> None:
        super().__init__(str(error))
        self.status: Status = status
        self.error = error


@dataclass(frozen=True)
class Place:
    """What a core was executing, as the runtime's report buffer says. Both are None when it says nothing."""

    task: str | None = None
    kernel: str | None = None

    def words(self) -> str:
        """A subject for a message: the kernel when it is known."""
        return f"kernel '{self.kernel}'" if self.kernel else "the run"


@dataclass(frozen=True)
class Death:
    """How the child ended: `os.wait4`'s status, its peak memory and limit in bytes, the end of what it printed."""

    status: int
    peak_bytes: int
    limit_bytes: int
    stderr_tail: bytes = b""


def describe_death(death: Death, place: Place) -> ErrorInfo:
    """One line for a child that died before it sent a result."""
    if os.WIFEXITED(death.status):
        status = os.WEXITSTATUS(death.status)
        return ErrorInfo(
            "exit",
            f"{place.words()} ended the process with exit status {status} before everything was done",
            place.task,
            place.kernel,
            "a kernel or the orchestration called exit(); take the call out",
        )
    number = os.WTERMSIG(death.status)
    name = signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"
    if _out_of_memory(death, name):
        return ErrorInfo(
            "out_of_memory",
            f"{place.words()} reached the memory limit of {death.limit_bytes >> 20} MB ({name})",
            place.task,
            place.kernel,
            "look for an allocation in a loop, or raise the limit with --memory",
        )
    return ErrorInfo(
        "crash",
        f"{place.words()} crashed: {name} ({signal.strsignal(number)})",
        place.task,
        place.kernel,
        _SIGNAL_HINTS.get(name, ""),
    )


def _out_of_memory(death: Death, signal_name: str) -> bool:
    """Allocation fails at the limit, and the program falls over that failure: the signal alone does not tell."""
    if signal_name == "SIGABRT" and b"std::bad_alloc" in death.stderr_tail:
        return True
    return signal_name in ("SIGABRT", "SIGSEGV", "SIGBUS") and death.peak_bytes > 0.9 * death.limit_bytes
