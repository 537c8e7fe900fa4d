"""The faults of a run as one exception, and the description of a dead process in words."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from pypto_build.artifact.outputs import local_source
from pypto_build.facts.faults import Escaped, FaultKind, Nearness
from pypto_build.facts.faults import Status as FaultStatus
from pypto_build.replay.verdict import ErrorInfo, Status
from pypto_build.runtime.faults import FaultRecord, code_of, hint_of, message_of, printable, status_of

if TYPE_CHECKING:
    from pypto_build.runtime.report import Crash, Frame, Report

_MEMORY_HINT = "look for an allocation in a loop, or raise the limit with --memory"

#: Share of the limit that resident memory reaches when data memory is at the limit: some pages stay untouched.
_NEAR_LIMIT = 0.75

#: The same share for data memory, which the limit counts.
_AT_LIMIT = 0.9

#: The number of stack frames that are looked up and listed for a crash.
_FRAMES = 20
_SHOWN_FRAMES = 8
#: The fields of a fault that are source lines.
_PLACES = ("line_text", "written_at")
_OWN_SYMBOLS = "pypto::runtime::"
_STACK_HINT = "look for a recursion without end or a large local array"

_MISSING_HINT = (
    "pass it where the orchestration submits the task, with an add_...() in the order of the kernel's arguments"
)

_EXIT_HINT = "a kernel or the orchestration called exit(); take the call out"
_LOAD_HINT = "its static objects are made then: look at their constructors; or build it again, if the file is damaged"
_OTHER_SIGNAL_HINT = "something sent it that signal; look for kill() or raise()"

#: The message of the C++ library about a failed allocation, while our handler is not installed.
_OUT_OF_MEMORY = b"std::bad_alloc"

#: Exit status of a child that cannot send its fault.
UNHEARD = 71
#: The usual cause of each signal, for the hint.
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
    """The end of a child: `os.wait4`'s status, its peak memory and limit in bytes, and the end of its error output."""

    status: int
    peak_bytes: int
    limit_bytes: int
    stderr_tail: bytes = b""


def describe_death(death: Death, report: Report | None, loading: str = "", binaries: Collection[str] = ()) -> ErrorInfo:
    """Return the error of a child that died before it sent a result, with details from the runtime's report buffer.

    `loading` is the file that it was loading then. `binaries` are the files whose source lines are looked up for its
    stack.
    """
    crash = report.crash if report else None
    if os.WIFEXITED(death.status):
        status = os.WEXITSTATUS(death.status)
        if status == UNHEARD:
            return _error(
                "exit",
                "{subject} left no result: what it comes through is closed",
                _culprit(report, loading),
                "a kernel or the orchestration closed files that are not its own; take that out",
            )
        return _error(
            "exit",
            "{subject} ended the process with exit status " + f"{status} before everything was done",
            _culprit(report, loading),
            _EXIT_HINT if not loading else _LOAD_HINT,
        )
    number = os.WTERMSIG(death.status)
    name = signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"
    culprit = Culprit(crash.task, crash.kernel) if crash and crash.kernel else _culprit(report, loading)
    frames = _frames(crash, binaries) if crash else []
    detail = [*crash.arguments, *(f"#{index} {frame}" for index, frame in enumerate(frames))] if crash else []
    line = next((frame.code for frame in frames if frame.code), "")
    at = f" at {_readable(line)}" if line else ""
    if _out_of_memory(death, name, crash):
        reason = _exception_text(crash) if crash and crash.exception else name
        return _error("out_of_memory", _limit_reached(death.limit_bytes, reason + at), culprit, _MEMORY_HINT, detail)
    if crash and crash.exception:
        return _escaped(_exception_text(crash), at, culprit, detail)
    nearest = crash.nearest if crash else None
    if nearest and nearest.nearness == Nearness.MISSING_ARGUMENT:
        arguments = "1 argument" if nearest.size == 1 else f"{nearest.size} arguments"
        message = "{subject} uses argument " + f"{nearest.distance}{_escape(at)}, but its task was given {arguments}"
        return _error("missing_argument", message, culprit, _MISSING_HINT, detail)
    address = f", {_escape(str(nearest))}" if nearest and str(nearest) else ""
    address = f" at address 0x{crash.address:x}{address}" if crash and name in ("SIGSEGV", "SIGBUS") else ""
    message = "{subject} crashed" + f"{_escape(at)}: {name} ({signal.strsignal(number)}){address}"
    used_up = nearest is not None and nearest.nearness == Nearness.STACK_USED_UP
    hint = _STACK_HINT if used_up else _SIGNAL_HINTS.get(name, _OTHER_SIGNAL_HINT)
    hint = _LOAD_HINT if loading else hint
    error = _error("crash", message, culprit, hint, detail)
    error.line, error.address = _readable(line), crash.address if crash else None
    return error


def run_fault(record: FaultRecord, binary: Path) -> RunFault:
    """Return the fault that the run itself reported; `binary` belongs to the same artifact."""
    for name in _PLACES:
        if record.fields.get(name):
            record.fields[name] = local_source(str(record.fields[name]), binary)
    error = ErrorInfo(
        status_of(record),
        printable(message_of(record)),
        None if record.task is None else str(record.task),
        printable(record.kernel) if record.kernel else None,
        printable(hint_of(record)),
        fault=record,
        code=code_of(record),
    )
    return RunFault(status_of(record), error)


def describe_exception(
    record: FaultRecord, limit_bytes: int, read_report: Callable[[], Report | None]
) -> ErrorInfo | None:
    """Return the error of an exception in a kernel stand-in or in code that runs before the orchestration; else
    None."""
    if record.kind == FaultKind.OUT_OF_MEMORY:
        reached = _limit_reached(limit_bytes, printable(message_of(record)))
        return _error("out_of_memory", reached, _culprit(read_report()), _MEMORY_HINT)
    if record.kind == FaultKind.ESCAPED_EXCEPTION:
        return _escaped(printable(message_of(record)), "", _culprit(read_report()), [])
    return None


def _limit_reached(limit_bytes: int, reason: str) -> str:
    return "{subject} reached the memory limit of " + f"{limit_bytes >> 20} MB ({_escape(reason)})"


def _exception_text(crash: Crash) -> str:
    return f"an object of type {crash.exception}" if crash.escaped == Escaped.TYPE_NAME else crash.exception


def _escaped(text: str, at: str, culprit: Culprit, detail: list[str]) -> ErrorInfo:
    message = "{subject} throws an exception that nothing catches" + _escape(f"{at}: {text}")
    return _error("exception", message, culprit, "catch it in the kernel, or take its cause out", detail)


def _escape(text: str) -> str:
    """Escape text for use in a message that is formatted later."""
    return text.replace("{", "{{").replace("}", "}}")


def _readable(line: str) -> str:
    """Return a source line with a path relative to the current directory, if it is below that."""
    return line.removeprefix(f"{os.getcwd()}/")


def describe_hang(timeout_s: float, report: Report | None, loading: str = "") -> ErrorInfo:
    """Return the error of a run that had not finished at the time limit; `loading` is the file it was loading, if
    any."""
    occupancy = f"; {report.occupancy()}" if report else ""
    return _error(
        "hang",
        "{subject} had not finished at the time limit of " + f"{timeout_s:g} s{occupancy}",
        _culprit(report, loading),
        "look for a loop whose end is never reached, or raise the limit with TIMEOUT=",
    )


def add_whereabouts(error: ErrorInfo, reports: Mapping[str, Report], binaries: Collection[str]) -> None:
    """Add the state of every core to a hang; the keys of `reports` say which rank each report is of. The line of the
    error becomes that of the reported kernel."""
    from pypto_build.replay.lines import whereabouts

    for rank, report in reports.items():
        items = whereabouts(report, binaries, len(reports))
        error.detail += [f"{rank}{item}" for item in items]
        named = [item for item in items if item.running.kernel == error.kernel and str(item.running.task) == error.task]
        stuck = report.stuck
        chosen = next((item for item in named if stuck and item.running.core == stuck.core), next(iter(named), None))
        error.line = error.line or (chosen.line if chosen else "")


@dataclass(frozen=True)
class Culprit:
    """The code that was executing: a task with its kernel, the orchestration (no task), or unknown code (no kernel).

    A file that is being loaded runs code of its own; it takes precedence over all others.
    """

    task: int | None = None
    kernel: str = ""
    loading: str = ""

    @property
    def subject(self) -> str:
        """Return the first words of a message: the task, kernel or orchestration."""
        if self.loading:
            return f"loading {_readable(self.loading)}"
        if self.task is None:
            return "the orchestration" if self.kernel else "the run"
        return f"kernel '{self.kernel}'"


def _culprit(report: Report | None, loading: str = "") -> Culprit:
    """Return the kernel that has run for longest, else the orchestration while it runs."""
    if loading:
        return Culprit(loading=loading)
    if report and report.stuck:
        return Culprit(report.stuck.task, report.stuck.kernel)
    return Culprit(None, "orchestration" if report and report.orchestrating else "")


def _error(kind: str, message: str, culprit: Culprit, hint: str, detail: list[str] | None = None) -> ErrorInfo:
    is_task = culprit.task is not None
    return ErrorInfo(
        kind,
        message.format(subject=culprit.subject),
        str(culprit.task) if is_task else None,
        culprit.kernel if is_task else None,
        hint,
        detail or [],
    )


def _frames(crash: Crash, binaries: Collection[str]) -> list[Frame]:
    """Return the stack from the kernel's or orchestration's call up to the runtime that called it.

    An abort is several calls deep in the C library, and the orchestration may be inside a runtime function.
    """
    from pypto_build.replay.lines import Recompiled, of_this_machine
    from pypto_build.runtime.report import symbolise

    with TemporaryDirectory(prefix="pypto-lines-") as directory:
        symbolised = symbolise(crash.frames, _FRAMES, Recompiled(Path(directory)).place, binaries)
    frames = list(map(of_this_machine, symbolised))
    skipped = (lambda frame: not frame.code) if crash.signal == "SIGABRT" else _is_own
    first = next((index for index, frame in enumerate(frames) if not skipped(frame)), 0)
    last = next((index for index, frame in enumerate(frames) if index > first and _is_own(frame)), len(frames))
    return frames[first:last][:_SHOWN_FRAMES]


def _is_own(frame: Frame) -> bool:
    return _OWN_SYMBOLS in frame.symbol


def _out_of_memory(death: Death, signal_name: str, crash: Crash | None) -> bool:
    """Return whether the child ran out of memory. The signal alone does not show that, as a failed allocation crashes
    in many ways."""
    if signal_name == "SIGABRT" and (
        _OUT_OF_MEMORY in death.stderr_tail or (crash is not None and crash.escaped == Escaped.NO_MEMORY)
    ):
        return True
    at_limit = crash is not None and crash.data_bytes > _AT_LIMIT * death.limit_bytes
    near_limit = death.peak_bytes > _NEAR_LIMIT * death.limit_bytes
    return signal_name in ("SIGABRT", "SIGSEGV", "SIGBUS") and (at_limit or near_limit)
