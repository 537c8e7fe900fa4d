"""The parent's side of one child process: start it, run rounds in it under a time limit, end it for good."""

from __future__ import annotations

import mmap
import os
import signal
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

from pypto_build.replay.child import (
    LEAKED,
    REFERENCE,
    RUN,
    Job,
    LoadingNote,
    Reply,
    TensorBuffer,
    child_main,
    limit_resources,
    serve,
)
from pypto_build.replay.faults import Death, RunFault, describe_death, describe_exception, describe_hang
from pypto_build.replay.listener import Listener
from pypto_build.replay.orphans import end_holders
from pypto_build.replay.verdict import ErrorInfo

if TYPE_CHECKING:
    from pypto_build.runtime.report import Report

#: Size of the runtime's report buffer, whose reader is only loaded when there is something to read.
REPORT_BYTES = 1 << 16
#: Where in it the state of the run's fault is, and what that is when the fault is written down.
FAULT_OFFSET = 39584
FAULT_KNOWN = 2

#: How long PyTorch may take to load, which no time limit counts.
LOADING_S = 300.0

_POLL_S = 0.05
_ATTEMPTS = 8
_LAST_WORDS_S = 0.5
_FAULT_S = 5.0  # how long a run whose fault is known may take to say so


def default_memory_bytes() -> int:
    """Three quarters of this machine's memory."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") * 3 // 4


class Worker:
    """A forked child that executes rounds. Use as a context manager: leaving it kills whatever is left of the child.

    `timeout_s` bounds each round, the first with the loading of the compiled files, but not of PyTorch.
    """

    def __init__(
        self, job: Job, tensors: list[TensorBuffer], *, timeout_s: float, rounds: int, memory_bytes: int
    ) -> None:
        self._timeout_s = timeout_s
        self._memory_bytes = memory_bytes
        self._report = mmap.mmap(-1, REPORT_BYTES)
        self._status: int | None = None
        self._peak_bytes = 0
        command_read, self._commands = os.pipe()
        self._results, result_write = os.pipe()
        self._errors, error_write = os.pipe()
        cpu_s = int((timeout_s + 10) * rounds * (os.cpu_count() or 1))
        sys.stdout.flush()
        sys.stderr.flush()
        self.pid = os.fork()
        if self.pid == 0:

            def body() -> None:
                os.setpgid(0, 0)
                signal.signal(signal.SIGTERM, signal.SIG_DFL)
                signal.signal(signal.SIGINT, signal.SIG_DFL)
                for descriptor in (self._commands, self._results, self._errors):
                    os.close(descriptor)
                os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
                os.dup2(error_write, 2)
                limit_resources(memory_bytes, cpu_s)
                serve(job, tensors, memoryview(self._report), command_read, result_write)

            child_main(body)
        for descriptor in (command_read, result_write, error_write):
            os.close(descriptor)
        with suppress(OSError):  # the child was faster, or is gone already
            os.setpgid(self.pid, self.pid)
        self._said = Listener(self._results, self._errors)

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self._kill()
        self._said.close()
        for descriptor in (self._commands, self._results, self._errors):
            os.close(descriptor)

    def start_round(self) -> None:
        """Tell the child to run; returns at once."""
        self._started = time.monotonic()
        self._deadline = self._started + self._timeout_s
        with suppress(BrokenPipeError):  # the child is gone; finish_round() says how
            os.write(self._commands, RUN)

    def finish_round(self) -> Reply:
        """The child's reply to the round started last.

        Raises `RunFault`: `hang` at the time limit, `runtime_error` for a crash, an exit or a fault of the runtime,
        `build_error` for files that cannot be loaded.
        """
        while not self._said.has_reply:
            if self._loading == str(REFERENCE):
                self._deadline = min(time.monotonic(), self._started + LOADING_S) + self._timeout_s
            remaining = self._deadline - time.monotonic()
            if remaining <= 0:
                raise self._late_fault() if self._fault_known() else self._hang()
            if remaining > _FAULT_S and self._fault_known():
                self._deadline = time.monotonic() + _FAULT_S
                continue
            alive = self._alive()
            self._said.collect(min(remaining, _POLL_S) if alive else 0)
            if not alive and not self._said.has_reply:
                self._said.collect(0)
                raise RunFault("runtime_error", describe_death(self._death(), self._read_report(), self._loading))
        reply = msgspec.json.decode(self._said.reply(), type=Reply)
        if reply.fault:
            self._drain()
            raise self._fault(reply)
        return reply

    def _drain(self) -> None:
        """Wait for the rest of what a finished child prints."""
        while self._alive() and time.monotonic() < self._deadline:
            self._said.collect(_POLL_S)
        self._said.collect(0)

    def _alive(self) -> bool:
        if self._status is None:
            pid, status, usage = os.wait4(self.pid, os.WNOHANG)
            if pid:
                self._status, self._peak_bytes = status, usage.ru_maxrss * 1024
        return self._status is None

    def _kill(self) -> None:
        """End the child and everything it started."""
        with suppress(ProcessLookupError, PermissionError):  # all gone already
            os.killpg(self.pid, signal.SIGKILL)
        if self._status is None:
            _, self._status, _ = os.wait4(self.pid, 0)
        for attempt in range(_ATTEMPTS):
            if not self._said.collect(_POLL_S):
                return
            if attempt > 1:  # it is not just the rest of what was printed
                end_holders(self._errors)

    def _death(self) -> Death:
        assert self._status is not None
        return Death(self._status, self._peak_bytes, self._memory_bytes, self._said.tail)

    def _read_report(self) -> Report | None:
        from pypto_build.runtime.report import read_report

        return read_report(memoryview(self._report))

    @property
    def _loading(self) -> str:
        return LoadingNote(memoryview(self._report)).text

    def _fault_known(self) -> bool:
        """Whether the runtime has written down a fault; its place in the report, so that nothing need be loaded."""
        return self._report[FAULT_OFFSET] == FAULT_KNOWN

    def _late_fault(self) -> RunFault:
        """The fault of a run that goes on all the same: code that never looks at it again."""
        report = self._read_report()
        fault = report.fault if report else None
        assert fault is not None
        self._kill()
        reply = Reply(fault=fault.message, kind=fault.kind, kernel=fault.kernel or None, hint=fault.hint)
        reply.task = None if fault.task is None else str(fault.task)
        return self._fault(reply)

    def _fault(self, reply: Reply) -> RunFault:
        """The reply's fault with the verdict's status; finer kinds of the runtime are runtime errors."""
        if reply.kind == LEAKED:
            error = describe_exception(reply.fault, self._memory_bytes, self._read_report())
            return RunFault("runtime_error", error)
        error = ErrorInfo(reply.kind, reply.fault, reply.task, reply.kernel, reply.hint)
        match reply.kind:
            case "hang" | "build_error" | "usage_error" as status:
                return RunFault(status, error)
            case _:
                return RunFault("runtime_error", error)

    def _hang(self) -> RunFault:
        error = describe_hang(self._timeout_s, self._read_report(), self._loading)
        os.kill(self.pid, signal.SIGTERM)  # what it has printed is let out
        give_up = time.monotonic() + _LAST_WORDS_S
        while self._alive() and time.monotonic() < give_up:
            self._said.collect(_POLL_S)
        self._kill()
        return RunFault("hang", error)
