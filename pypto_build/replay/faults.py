"""What can go wrong while kernels run, as one exception, and how a dead process is put into words."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from pypto_build.replay.verdict import ErrorInfo, Status

if TYPE_CHECKING:
    from pypto_build.runtime.report import Crash, Report

_LIMIT_REACHED = "{{subject}} reached the memory limit of {} MB ({})"
_MEMORY_HINT = "look for an allocation in a loop, or raise the limit with --memory"

#: Share of the limit that resident memory reaches when data memory is at it: stacks and small blocks stay untouched.
_NEAR_LIMIT = 0.75

#: Stack frames listed for a crash.
_SHOWN_FRAMES = 8
_OWN_SYMBOLS = "pypto::runtime::"

FaultStatus = Literal["usage_error", "build_error", "runtime_error", "hang"]

#: What usually ends a process with this signal, in a word for the hint.
_SIGNAL_HINTS: dict[str, str] = {
    "SIGSEGV": "it read or wrote an address that is not mapped; look at its offsets and at its tensors' sizes",
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
class Death:
    """How the child ended: `os.wait4`'s status, its peak memory and limit in bytes, the end of what it printed."""

    status: int
    peak_bytes: int
    limit_bytes: int
    stderr_tail: bytes = b""


def describe_death(death: Death, report: Report | None) -> ErrorInfo:
    """A child that died before it sent a result, with what the runtime's report buffer knows about it."""
    crash = report.crash if report else None
    if os.WIFEXITED(death.status):
        status = os.WEXITSTATUS(death.status)
        return _error(
            "exit",
            "{subject} ended the process with exit status " + f"{status} before everything was done",
            _culprit(report),
            "a kernel or the orchestration called exit(); take the call out",
        )
    number = os.WTERMSIG(death.status)
    name = signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"
    culprit = Culprit(crash.task, crash.kernel) if crash else _culprit(report)
    detail = _crash_detail(crash) if crash else []
    if _out_of_memory(death, name):
        message = _LIMIT_REACHED.format(death.limit_bytes >> 20, name)
        return _error("out_of_memory", message, culprit, _MEMORY_HINT, detail)
    place = f", {crash.nearest}" if crash and crash.nearest else ""
    place = f" at address 0x{crash.address:x}{place}" if crash and name in ("SIGSEGV", "SIGBUS") else ""
    message = "{subject} crashed: " + f"{name} ({signal.strsignal(number)}){place}"
    return _error("crash", message, culprit, _SIGNAL_HINTS.get(name, ""), detail)


def describe_exception(text: str, limit_bytes: int, report: Report | None) -> ErrorInfo:
    """A C++ exception that a kernel or the orchestration let escape."""
    if "std::bad_alloc" in text:
        return _error("out_of_memory", _LIMIT_REACHED.format(limit_bytes >> 20, text), _culprit(report), _MEMORY_HINT)
    message = "{subject} let an exception escape: " + text.replace("{", "{{").replace("}", "}}")
    return _error("exception", message, _culprit(report), "catch it in the kernel, or take its cause out")


def describe_hang(timeout_s: float, report: Report | None) -> ErrorInfo:
    """A run that had not finished at the time limit."""
    running = report.running if report else ()
    others = [f"also running: task {item.task}, kernel '{item.kernel}'" for item in running[1:]]
    return _error(
        "hang",
        "{subject} had not finished at the time limit of " + f"{timeout_s:g} s",
        _culprit(report),
        "look for a loop whose end is never reached, or raise the limit with TIMEOUT=",
        others,
    )


@dataclass(frozen=True)
class Culprit:
    """What was executing: a task with its kernel, the orchestration (no task), or nobody knows (no kernel)."""

    task: int | None = None
    kernel: str = ""

    @property
    def subject(self) -> str:
        """The first words of a message."""
        if self.task is None:
            return "the orchestration" if self.kernel else "the run"
        return f"kernel '{self.kernel}'"


def _culprit(report: Report | None) -> Culprit:
    """The kernel that has been running for longest, else the orchestration while it runs."""
    if report and report.running:
        return Culprit(report.running[0].task, report.running[0].kernel)
    return Culprit(None, "orchestration" if report and report.orchestrating else "")


def _error(kind: str, message: str, culprit: Culprit, hint: str, detail: list[str] | None = None) -> ErrorInfo:
    known = culprit.task is not None
    return ErrorInfo(
        kind,
        message.format(subject=culprit.subject),
        str(culprit.task) if known else None,
        culprit.kernel if known else None,
        hint,
        detail or [],
    )


def _crash_detail(crash: Crash) -> list[str]:
    """Arguments and stack, a line each, up to the runtime that called the kernel."""
    from pypto_build.runtime.report import symbolise

    frames = symbolise(crash.frames, _SHOWN_FRAMES)
    ours = next((number for number, frame in enumerate(frames) if frame.symbol.startswith(_OWN_SYMBOLS)), len(frames))
    shown = frames[:ours] or frames
    return [*crash.arguments, *(f"#{number} {frame}" for number, frame in enumerate(shown))]


def _out_of_memory(death: Death, signal_name: str) -> bool:
    """Allocation fails at the limit, and the program falls over that failure: the signal alone does not tell."""
    if signal_name == "SIGABRT" and b"std::bad_alloc" in death.stderr_tail:
        return True
    return signal_name in ("SIGABRT", "SIGSEGV", "SIGBUS") and death.peak_bytes > _NEAR_LIMIT * death.limit_bytes
