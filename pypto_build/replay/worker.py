"""The parent's side of one child process: starts it, runs rounds in it under a time limit, and ends it."""

from __future__ import annotations

import gc
import itertools
import math
import mmap
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from pypto_build.artifact.below import directory_below
from pypto_build.artifact.outputs import output_of
from pypto_build.facts import layouts
from pypto_build.facts.layouts import COMPLETE, FAULT_TOLD, FLIGHT_BYTES, REPORT_BYTES
from pypto_build.facts.system_calls import call_filter
from pypto_build.replay.child import RUN, Reply, TensorBuffer, define_environment, leave, limit_resources, serve
from pypto_build.replay.faults import (
    Death,
    RunFault,
    add_whereabouts,
    describe_death,
    describe_exception,
    describe_hang,
    run_fault,
)
from pypto_build.replay.listener import Listener, no_reply, read_reply
from pypto_build.replay.loading import LoadingNote, load_embedded
from pypto_build.replay.request import Request
from pypto_build.replay.run_options import SettingValue
from pypto_build.replay.verdict import ErrorInfo
from pypto_build.trace import be_child

if TYPE_CHECKING:
    from pypto_build.runtime.faults import FaultRecord
    from pypto_build.runtime.report import Report

import struct
from collections.abc import Iterator

from pypto_build.facts.layouts import StopCommand

# Ends processes and removes memory that outlive the run which made them, where the system does not do so itself.

_PROCESSES = Path("/proc")
SHARED_MEMORY = Path("/dev/shm")


def end_holders(*descriptors: int) -> None:
    """Kill every process that holds a pipe behind `descriptors` open, except this process and its own children.

    While any process can write to a pipe, its reader sees no end of file.
    """
    pipes = set()
    for descriptor in descriptors:
        with suppress(OSError):  # closed already
            pipes.add(f"pipe:[{os.fstat(descriptor).st_ino}]")
    parents = _parents()
    for pid in parents:
        with suppress(OSError):  # gone, or another user's
            held = any(os.readlink(file) in pipes for file in (_PROCESSES / str(pid) / "fd").iterdir())
            if held and os.getpid() not in _line(pid, parents):
                os.kill(pid, signal.SIGKILL)


def _parents() -> dict[int, int]:
    """Return the parent of every process."""
    return {pid: _parent(pid) for pid in map(int, filter(str.isdecimal, os.listdir(_PROCESSES)))}


def _line(pid: int, parents: dict[int, int]) -> Iterator[int]:
    """Yield a process and its ancestors."""
    while pid > 1:
        yield pid
        pid = parents.get(pid, 0)


def _parent(pid: int) -> int:
    """Return the parent of a process; 0 if there is none."""
    try:
        text = (_PROCESSES / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return 0
    return int(text.rpartition(")")[2].split()[1])


class SharedMemory:
    """The contents of shared memory before a run, so that new objects can be removed after it."""

    def __init__(self, runtime: Any) -> None:
        self._runtime = runtime
        self._before, self._since = _names(), int(time.time())

    def remove(self, creator: int) -> None:
        """Remove the System V segments of a process, and new files of this user that no process has open."""
        self._runtime.remove_segments(creator, self._since)
        new = _names() - self._before
        used = _in_use() if new else set()
        for path in (SHARED_MEMORY / name for name in new):
            with suppress(OSError):
                status = path.lstat()
                if status.st_uid == os.getuid() and status.st_ino not in used and not path.is_dir():
                    path.unlink()


def _names() -> set[str]:
    try:
        return set(os.listdir(SHARED_MEMORY))
    except OSError:
        return set()


def _in_use() -> set[int]:
    """Return the inodes of shared memory files that a process has mapped or open. File names would not do: `sem_open`
    maps a file before the file gets its final name."""
    used = set()
    for process in _PROCESSES.glob("[0-9]*"):
        with suppress(OSError):
            for line in (process / "maps").read_text(encoding="utf-8", errors="replace").splitlines():
                used |= {int(line.split(None, 5)[4])} if f"{SHARED_MEMORY}/" in line else set()
        with suppress(OSError):
            for file in (process / "fd").iterdir():
                with suppress(OSError):  # closed meanwhile
                    used |= {file.stat().st_ino} if os.readlink(file).startswith(f"{SHARED_MEMORY}/") else set()
    return used


# Asks a run that is stopped at the time limit for the position of its threads, and the memory that spinning ones
# read.
# The parent writes a command to the report buffer and sends SIGTERM; see `runtime/src/crash/samples.h`. A run that
# does not answer in time gets no more commands.

#: Offset of the command in a report; the answer follows it.
_COMMAND_OFFSET = layouts.Report.command.offset
_WORDS = struct.Struct("<II")
_MAGIC = b"PPREPORT"

#: The number of samples with closed memory; a polling thread is at the same address each time.
_LOOKS = 8
_CLOSED_S = 0.012
_ANSWER_S = 0.25
_ALL_S = 0.5


class Questions:
    """Sends commands to runs, through their reports, which begin at `starts`. `send` delivers a signal; `wait` reads
    output for some seconds.
    """

    def __init__(
        self, report: mmap.mmap, starts: Sequence[int], send: Callable[[], None], wait: Callable[[float], object]
    ) -> None:
        self._report, self._send, self._wait = report, send, wait
        self._starts = [start for start in starts if report[start : start + len(_MAGIC)] == _MAGIC]
        self._number = 0

    def ask(self) -> None:
        """Ask all runs for the positions of their threads and the memory that they read."""
        give_up = time.monotonic() + _ALL_S
        if not self._starts or not self._command(StopCommand.ASK):
            return
        for _ in range(_LOOKS):
            if time.monotonic() > give_up or not self._command(StopCommand.CLOSE):
                break
            self._wait(_CLOSED_S)
            if not self._command(StopCommand.OPEN):
                break

    def end(self) -> None:
        """Ask all runs to end."""
        self._command(StopCommand.END, answers=False)

    def _command(self, what: int, answers: bool = True) -> bool:
        """Give a command; return False if a run has not executed it in time."""
        self._number += 1
        word = self._number << 8 | what
        for start in self._starts:
            _WORDS.pack_into(self._report, start + _COMMAND_OFFSET, word, self._answered(start))
        self._send()
        give_up = time.monotonic() + _ANSWER_S
        while answers and any(self._answered(start) != word for start in self._starts):
            if time.monotonic() > give_up:
                return False
            self._wait(0.001)
        return True

    def _answered(self, start: int) -> int:
        return int(_WORDS.unpack_from(self._report, start + _COMMAND_OFFSET)[1])


#: The limit for loading PyTorch, in seconds; no other time limit includes it.
LOADING_S = 300.0

_POLL_S = 0.05
_HELD_S = 3.0  # limit for reading pipes that another process holds open
_LAST_WORDS_S = 0.5
_LAST_WORDS = b"T"  # asks for them
_FAULT_S = 5.0  # limit for a run to report a fault that is recorded already
_GONE_S = 30.0  # limit for the end of a process, which must free its memory

_NUMBERS = itertools.count(1)  # numbers of the children of this process


def default_memory_bytes() -> int:
    """Return three quarters of this machine's memory."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") * 3 // 4


@dataclass(frozen=True)
class Bounds:
    """Bounds of a child: seconds of each round, the number of rounds, bytes of memory. With `keeps`, events before a
    fault are written to disk."""

    timeout_s: float
    rounds: int = 1
    memory_bytes: int = field(default_factory=default_memory_bytes)
    keeps: bool = True


def bounds_of(request: Request) -> Bounds:
    """Return the bounds that a request sets."""
    memory = default_memory_bytes() if request.memory_mb is None else request.memory_mb << 20
    return Bounds(request.timeout_s, request.rounds + request.warms_up, memory)


class AnyJob(Protocol):
    """The part of a child's job that the parent uses."""

    @property
    def embedded(self) -> Path: ...
    @property
    def binaries(self) -> Sequence[Path]: ...
    @property
    def place(self) -> Path: ...
    @property
    def reference(self) -> object: ...
    @property
    def options(self) -> Mapping[str, SettingValue]: ...


class Worker:
    """A forked child that executes rounds. As a context manager, it ends the child and its processes on exit.

    The first round includes loading the compiled files, but not loading PyTorch. After the last round the child has
    ended, so the tensors no longer change. The child is not trusted: its messages may explain an error or end it
    sooner. They never extend its time or make a run pass. `ranks` is the number of processes that the child starts.
    """

    def __init__(
        self,
        job: AnyJob,
        tensors: list[TensorBuffer],
        bounds: Bounds,
        body: Callable[..., None] = serve,
        ranks: int = 0,
    ) -> None:
        self._job, self._tensors, self._keeps = job, tensors, bounds.keeps
        self._timeout_s, self._rounds, self._memory_bytes = bounds.timeout_s, bounds.rounds, bounds.memory_bytes
        self.round_s = 0.0
        self._binaries = frozenset(map(str, job.binaries))
        self._body = body
        self._sizes = [math.prod(shape) for _, shape, *_ in tensors]
        self._report = mmap.mmap(-1, REPORT_BYTES * (ranks + 2 if ranks else 1))
        self._flight = mmap.mmap(-1, FLIGHT_BYTES * (ranks or 1), mmap.MAP_SHARED | getattr(mmap, "MAP_NORESERVE", 0))
        self._loads = job.reference is not None
        self._status: int | None = None
        self._peak_bytes = 0
        self._over = self._gone = False
        self._stopped_ns = 0  # the time of the stop at the time limit
        self._child, self._hidden = 0, False
        try:
            runtime = load_embedded(job.embedded)
        except (ImportError, OSError) as error:
            message = f"{job.embedded}: cannot be loaded: {error}"
            raise RunFault("build_error", ErrorInfo("build_error", message, hint="build it again")) from None
        self._memory = SharedMemory(runtime)
        pipes = {name: os.pipe() for name in ("commands", "control", "results", "output", "errors", "news")}
        ours = {name: pipe[name in ("commands", "control")] for name, pipe in pipes.items()}
        theirs = {name: pipe[name not in ("commands", "control")] for name, pipe in pipes.items()}
        self._commands, self._control, self._errors = ours["commands"], ours["control"], ours["errors"]
        self._ours = list(ours.values())
        sys.stdout.flush()
        sys.stderr.flush()
        parent, count = os.getpid(), next(_NUMBERS)
        self._guard = runtime.fork_guarded(
            **theirs, **self._limits(), hide_memory=self._may_hide_memory(), terminal=os.isatty(1), filter=call_filter()
        )
        if self._guard == 0:
            be_child(parent, count)
            leave(lambda: self._serve(runtime))
        for descriptor in theirs.values():
            os.close(descriptor)
        with suppress(OSError):  # the process has done so itself, or has ended
            os.setpgid(self._guard, self._guard)
        self._said = Listener(ours["results"], ours["errors"], ours["output"], ours["news"])

    def _serve(self, runtime: Any) -> None:
        """Run the child's work. Descriptors of the parent's objects are already closed here, and must not be closed
        again."""
        gc.freeze()
        define_environment()
        cpu_s = int((self._timeout_s + 10) * self._rounds * (os.cpu_count() or 1))
        limit_resources(self._memory_bytes, cpu_s, self._job.place)
        self._body(runtime, self._job, self._tensors, memoryview(self._report), memoryview(self._flight))

    def _limits(self) -> dict[str, Any]:
        """Return the protected output directory, and the directories in it that this run may write to."""
        output = output_of(self._job.place)
        if output is None:
            return {"protect": "", "writable": []}
        records = Path(str(self._job.options.get("output_dir") or output / "none"))
        places = {str(records.parent), os.environ.get("TMPDIR", "")}
        inside = [path for path in places if path.startswith(f"{output}/")]
        for path in inside:  # a directory made later would be write-protected
            with directory_below(output, os.path.relpath(path, output)):
                pass
        return {"protect": str(output), "writable": inside}

    def _may_hide_memory(self) -> bool:
        """Return whether the child can run without access to /dev/shm: no file or directory that it needs is there."""
        job = self._job
        places = (os.getcwd(), sys.prefix, job.embedded, job.place, job.options.get("output_dir", ""))
        return not any(os.path.realpath(str(path)).startswith(f"{SHARED_MEMORY}/") for path in places)

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()
        for descriptor in self._ours:
            with suppress(OSError):  # the control pipe is closed already
                os.close(descriptor)

    def start_round(self) -> None:
        """Tell the child to run, and return at once."""
        self._deadline = time.monotonic() + self._timeout_s
        with suppress(BrokenPipeError):  # the child is gone; finish_round() says how
            os.write(self._commands, RUN)

    def finish_round(self) -> Reply:
        """Return the child's reply to the round started last.

        Raises `RunFault`: `hang` at the time limit, `runtime_error` for a crash, an exit or a fault of the runtime,
        `build_error` for files that cannot be loaded. The recorded events are then in `dfx_outputs/flight.json`.
        """
        try:
            return self._finish_round()
        except RunFault as fault:
            if self._keeps:
                self._keep_flight(fault.error)
            raise

    def _finish_round(self) -> Reply:
        if self._loads:
            self._deadline += LOADING_S
            reply = self._reply()
            self._loads, self._deadline = False, time.monotonic() + self._timeout_s
            if not reply.loaded:
                raise self._fault(reply)
        reply = self._reply()
        if reply.fault or reply.loaded or reply.origin:
            self._drain()
            raise self._fault(reply)
        self.round_s = time.monotonic() - self._deadline + self._timeout_s
        self._rounds -= 1
        if self._rounds == 0:
            self.end()
        return reply

    def _reply(self) -> Reply:
        """Return the next reply, if it comes in time."""
        while not self._said.has_reply:
            if self._said.replies.flooded:
                raise no_reply()
            remaining = self._deadline - time.monotonic()
            if remaining <= 0:
                raise self._late_fault() or self._hang()
            if remaining > _FAULT_S and self._has_fault():
                self._deadline = time.monotonic() + _FAULT_S
                continue
            if self._alive:
                self._collect(min(remaining, _POLL_S))
            elif not self._said.find_reply():
                raise self._death()
        return read_reply(self._said.reply(), self._sizes)

    def _collect(self, timeout_s: float) -> bool:
        """Read the output of the child and of its guard process; return False once all of it has ended."""
        more = self._said.collect(timeout_s)
        while self._said.news is not None and (line := self._said.news.line()) is not None:
            word, *numbers = line.decode().split()
            if word == "child":
                self._child, self._hidden = int(numbers[0]), numbers[1] == "1"
            elif word == "ended":
                self._status, self._peak_bytes = int(numbers[0]), int(numbers[1]) * 1024
            else:
                self._gone = True
        return more

    @property
    def is_usable(self) -> bool:
        """Return whether the child runs and has sent no reply yet."""
        self._collect(0)
        return self._alive and not self._said.has_reply

    @property
    def _alive(self) -> bool:
        return self._status is None and not self._unwatched

    @property
    def _unwatched(self) -> bool:
        """Return whether the guard process ended too early."""
        return self._said.news is not None and self._said.news.ended and not self._gone

    def _drain(self) -> None:
        """Wait for the remaining output of a finished child."""
        while self._alive and time.monotonic() < self._deadline:
            self._collect(_POLL_S)
        self._collect(0)

    def end(self) -> None:
        """End the child and all its processes, and read the rest of their output."""
        if self._over:
            return
        self._over = True
        os.close(self._control)
        give_up = time.monotonic() + _GONE_S
        while not (self._gone or self._unwatched) and time.monotonic() < give_up:
            self._collect(_POLL_S)
        if not self._gone:
            for pid in filter(None, (self._guard, self._child)):
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
        quiet_since = time.monotonic()
        while self._collect(_POLL_S):
            quiet_s = time.monotonic() - quiet_since
            if self._said.blocked:  # our output is blocked at the moment
                quiet_since = time.monotonic()
            elif quiet_s > _HELD_S:
                break
            elif quiet_s > _LAST_WORDS_S:  # another process holds the pipes open
                end_holders(*self._ours)
        os.waitpid(self._guard, 0)
        if not self._hidden:
            self._memory.remove(self._child)

    def _death(self) -> RunFault:
        """Return the fault for the death of the child, or of its guard process."""
        if self._status is None:
            message = "the process that supervises the run was killed"
            hint = "check whether a kernel, the orchestration or another program kills processes"
            return RunFault("runtime_error", ErrorInfo("crash", message, hint=hint))
        if os.WIFEXITED(self._status) and os.WEXITSTATUS(self._status) == FAULT_TOLD and (fault := self._late_fault()):
            return fault
        death = Death(self._status, self._peak_bytes, self._memory_bytes, self._said.tail)
        return RunFault("runtime_error", describe_death(death, self._read_report(), self._loading, self._binaries))

    @property
    def _starts(self) -> Sequence[int]:
        """Return the offsets of the reports of all processes that run kernels."""
        return (0,)

    def _reports(self) -> Mapping[str, Report]:
        """Return these reports, by words that name their process."""
        report = self._read_report()
        return {"": report} if report else {}

    def _read_report(self) -> Report | None:
        from pypto_build.runtime.report import read_report

        return read_report(self._report[:REPORT_BYTES])

    @property
    def _loading(self) -> str:
        return LoadingNote(memoryview(self._report)[:REPORT_BYTES]).text

    def _has_fault(self) -> bool:
        """Return whether the runtime has recorded a fault. It reads a byte of the report, so that nothing need be
        imported."""
        return self._report[layouts.Report.fault.offset] == COMPLETE

    def _keep_flight(self, error: ErrorInfo) -> None:
        """Write the events before a fault, and add the last of them to the error."""
        from pypto_build.replay.flight import keep_flight

        directory = self._job.options.get("output_dir")
        if directory and os.path.islink(str(directory)):  # a kernel put it there
            os.unlink(str(directory))
        keep_flight(error, self._flight, FLIGHT_BYTES, Path(str(directory)) if directory else None, self._stopped_ns)

    def _ask(self) -> None:
        with suppress(BrokenPipeError):
            os.write(self._control, _LAST_WORDS)

    def _late_fault(self) -> RunFault | None:
        """Return the recorded fault of a run that continued anyway, because its code did not check for the fault."""
        report = self._read_report()
        if report is None or report.fault is None:
            return None
        self.end()
        return self._reported_fault(report.fault, self._job.binaries[-1])

    def _binary_of(self, reply: Reply) -> Path:
        """Return a binary of the artifact that a fault belongs to."""
        return self._job.binaries[-1]

    def _reported_fault(self, record: FaultRecord, binary: Path) -> RunFault:
        """Return the fault of a record; ``binary`` belongs to the same artifact. A hang gets the state of every
        core."""
        fault = run_fault(record, binary)
        if fault.status == "hang":
            add_whereabouts(fault.error, self._reports(), self._binaries)
        elif record.frames:
            from pypto_build.replay.lines import add_call_line

            add_call_line(fault.error, record, self._binaries)
        return fault

    def _fault(self, reply: Reply) -> RunFault:
        if reply.fault is None:
            return no_reply()
        error = describe_exception(reply.fault, self._memory_bytes, self._read_report)
        return RunFault("runtime_error", error) if error else self._reported_fault(reply.fault, self._binary_of(reply))

    def _hang(self) -> RunFault:
        self._stopped_ns = time.monotonic_ns()
        error = describe_hang(self._timeout_s, self._read_report(), self._loading)
        stopped = self._reports()
        questions = Questions(self._report, self._starts, self._ask, self._collect)
        questions.ask()
        by_rank = self._reports()
        samples = {rank: by_rank[rank].samples if rank in by_rank else () for rank in stopped}
        reports = {rank: replace(report, samples=samples[rank]) for rank, report in stopped.items()}
        add_whereabouts(error, reports, self._binaries)
        questions.end()  # the run prints its buffered output
        give_up = time.monotonic() + _LAST_WORDS_S
        while self._alive and time.monotonic() < give_up:
            self._collect(_POLL_S)
        self.end()
        return RunFault("hang", error)
