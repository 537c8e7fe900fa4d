"""Reads the report buffer: the activity of a run when its process died or was stopped.

The runtime writes the buffer (shared memory given as option ``report``) while it runs. `facts/layouts.py` defines the
layout. Reading never fails: kernels can write to the buffer, so any part of it may be stale or wrong.
"""

from __future__ import annotations

import ctypes
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import TypeVar

import msgspec

from pypto_build.facts import layouts
from pypto_build.facts.faults import Escaped, Nearness
from pypto_build.facts.places import HEADERS, INSTRUCTIONS
from pypto_build.runtime.faults import FaultRecord, decode, kind_exists, printable
from pypto_build.runtime.waits import ADDRESS_TEXTS, Occupancy, occupancy_line

Kind = TypeVar("Kind", bound=IntEnum)

_LOOK_UP_S = 10.0  # for all frames together
#: module, offset -> shared object with line numbers, offset
Elsewhere = Callable[[str, int], tuple[Path, int] | None]

_INCLUDE_DIR = Path(__file__).resolve().parent / "include"
_ROLES = ("AIC", "AIV0", "AIV1")


@dataclass(frozen=True)
class Running:
    """A kernel that a thread was executing, as ``role`` of its group. ``start_ns`` is CLOCK_MONOTONIC.

    ``core`` is the thread's number; ``waits`` tells that the kernel waited for another member, or at a barrier.
    """

    task: int
    func_id: int
    block: int
    kernel: str
    start_ns: int
    core: int = 0
    role: str = "AIV0"
    waits: bool = False


@dataclass(frozen=True)
class Frame:
    """One stack frame: ``offset`` in ``module``, and its name and source line if known.

    For an inlined instruction, ``line`` is its line in the header, and ``code`` the line of the kernel or orchestration
    that calls it.
    """

    module: str
    offset: int
    symbol: str
    line: str = ""
    code: str = ""

    def __str__(self) -> str:
        position = self.code or self.line or f"{Path(self.module).name}+0x{self.offset:x}"
        return f"{self.symbol or '?'} ({position})"


@dataclass(frozen=True)
class Address:
    """Position of the address that crashed a kernel: ``distance`` bytes in or from a memory of ``size`` bytes.

    For a missing argument, ``distance`` is its number and ``size`` the number of the task's arguments.
    """

    nearness: Nearness = Nearness.UNKNOWN
    distance: int = 0
    size: int = 0
    name: str = ""

    def __str__(self) -> str:
        return ADDRESS_TEXTS.get(self.nearness, "").format(**vars(self))


@dataclass(frozen=True)
class Crash:
    """A signal in a kernel, in the orchestration (``task`` is None), or in another thread (``kernel`` is empty too).

    ``exception`` is the text of the uncaught exception, or the name of its type, as ``escaped`` says. ``data_bytes`` is
    the memory in use.
    """

    signal: str
    address: int
    task: int | None
    func_id: int
    block: int
    kernel: str
    nearest: Address
    arguments: tuple[str, ...]
    frames: tuple[Frame, ...]
    exception: str = ""
    data_bytes: int = 0
    escaped: Escaped = Escaped.NOTHING

    def summary(self) -> str:
        """Return one line: signal, position, address and its nearest memory."""
        where = "the orchestration" if self.task is None else f"kernel {self.kernel} (task {self.task})"
        if self.nearest.nearness is Nearness.UNKNOWN:
            return f"{self.signal} in {where}"
        return f"{self.signal} in {where} at address 0x{self.address:x}, {self.nearest}"


@dataclass(frozen=True)
class Sample:
    """Position of a kernel's thread at the moment when the run got stuck or was stopped.

    Of `looks` observed accesses to memory of tensors, the last `polls` were at the same `address`. The four bytes there
    held `value` as an integer.
    """

    running: Running
    frames: tuple[Frame, ...]
    looks: int = 0
    polls: int = 0
    address: int = 0
    value: int = 0
    nearest: Address = Address()


@dataclass(frozen=True)
class Report:
    """Content of the buffer.

    ``running`` lists kernels that had started and not returned, longest first. ``orchestrating`` says that the
    orchestration's function had started and not returned. ``created``, ``completed`` and ``open`` (ready or running)
    count tasks.
    """

    running: tuple[Running, ...]
    crash: Crash | None
    orchestrating: bool = False
    created: int = 0
    completed: int = 0
    open: int = 0
    fault: FaultRecord | None = None
    samples: tuple[Sample, ...] = ()

    def occupancy(self) -> str:
        """Return the state of the tasks, in the format of simpler's scheduler when it gives up."""
        running = len({slot.task for slot in self.running})
        ready = max(self.open - running, 0)
        waiting = max(self.created - self.completed - running - ready, 0)
        classes = (  # an orchestration at work may just be submitting the task that seems to wait
            (running, "S1:running-stalled"),
            (ready, "S3:ready-but-all-idle"),
            (self.orchestrating, "S5:orchestrator-starvation"),
            (waiting, "S4:dependency-deadlock"),
        )
        name = next((name for count, name in classes if count), "unknown:accounting/corruption")
        tasks = Occupancy(self.created, running, ready, waiting, not self.orchestrating)
        line = occupancy_line(name, self.completed, tasks)
        stuck = self.stuck
        return f"{line} stuck_task={stuck.task} stuck_core={stuck.core}" if stuck else line

    @property
    def stuck(self) -> Running | None:
        """Return the kernel that has run longest without waiting for another kernel."""
        return next((slot for slot in self.running if not slot.waits), self.running[0] if self.running else None)


def _text(raw: bytes) -> str:
    return printable(raw.decode("utf-8", "replace"))


def _slot(slot: layouts.RunningSlot, core: int) -> Running | None:
    """Return the kernel that a thread was executing; None if it was idle."""
    if slot.task == layouts.NO_TASK:
        return None
    role = _ROLES[slot.member % len(_ROLES)]
    name, waits = _text(slot.kernel), slot.waits != 0
    return Running(slot.task, slot.func_id, slot.block, name, slot.start_ns, core, role, waits)


def _crash(crash: layouts.CrashRecord) -> Crash | None:
    if crash.state == 0:
        return None
    try:
        signal_name = signal.Signals(crash.signal).name
    except ValueError:
        signal_name = f"signal {crash.signal}"
    return Crash(
        signal=signal_name,
        address=crash.address,
        task=None if crash.task == layouts.NO_TASK else crash.task,
        func_id=crash.func_id,
        block=crash.block,
        kernel=_text(crash.kernel),
        nearest=_address(crash),
        arguments=tuple(map(printable, crash.arguments.decode("utf-8", "replace").splitlines())),
        frames=_frames(crash),
        exception=_text(crash.exception),
        data_bytes=crash.data_bytes,
        escaped=_one_of(Escaped, crash.escaped),
    )


def _address(record: layouts.CrashRecord | layouts.HangSample) -> Address:
    return Address(_one_of(Nearness, record.nearness), record.distance, record.bytes, _text(record.nearest))


def _frames(record: layouts.CrashRecord | layouts.HangSample) -> tuple[Frame, ...]:
    return tuple(Frame(_text(raw.module), raw.offset, _text(raw.symbol)) for raw in record.frames[: record.frame_count])


def _one_of(kinds: type[Kind], number: int) -> Kind:
    """Return the kind with this number; the first, which means unknown, for an invalid number."""
    return kinds(number) if number < len(kinds) else kinds(0)


def _fault(fault: layouts.FaultRecord) -> FaultRecord | None:
    """Return the fault that ends the run; it is recorded as soon as it is detected."""
    if fault.state != layouts.COMPLETE:
        return None
    try:
        record = decode(fault.json[: fault.bytes])
    except (msgspec.MsgspecError, RecursionError):
        return None
    return record if kind_exists(record) else None


def read_report(buffer: memoryview | bytes) -> Report | None:
    """Return the run's report; None if the run never started.

    Raises:
        ValueError: the buffer is too small to be one.
    """
    view = memoryview(buffer).cast("B")
    if len(view) < ctypes.sizeof(layouts.Report):
        raise ValueError(f"report buffer: {len(view)} bytes; make it {layouts.REPORT_BYTES}")
    report = layouts.Report.from_buffer_copy(view)
    if report.magic != layouts.REPORT_MAGIC or report.version != layouts.REPORT_VERSION:
        return None
    slots = (_slot(slot, core) for core, slot in enumerate(report.threads[: report.thread_count]))
    return Report(
        tuple(sorted(filter(None, slots), key=lambda slot: slot.start_ns)),
        _crash(report.crash),
        report.orchestrating == 1,
        report.created,
        report.completed,
        report.open,
        _fault(report.fault),
        tuple(filter(None, map(_sample, report.samples))),
    )


def _sample(sample: layouts.HangSample) -> Sample | None:
    running = _slot(sample.running, sample.core)
    if sample.state != layouts.COMPLETE or running is None:
        return None
    touched = sample.looks, sample.polls, sample.address, sample.value
    return Sample(running, _frames(sample), *touched, _address(sample))


def symbolise(
    frames: tuple[Frame, ...],
    limit: int = 16,
    elsewhere: Elsewhere | None = None,
    modules: Collection[str] | None = None,
) -> tuple[Frame, ...]:
    """Return the frames below the signal handler, with function names and lines from ``addr2line`` where it is
    installed.

    ``elsewhere`` maps an offset in a module without line numbers to the object and offset that have them. Only files in
    ``modules`` are opened, if given: frames may name any file.
    """
    start = next((index + 1 for index, frame in enumerate(frames) if frame.symbol == "__restore_rt"), 0)
    if start == 0:  # the C library hides its signal trampoline: the handler's own frames are in the runtime's module
        own = frames[0].module if frames else ""
        start = next((index + 1 for index, frame in enumerate(frames) if frame.module != own), 0)
    # The first frame holds the address that faulted; the others hold return addresses, which point behind the call, so
    # that one byte back is inside it.
    return look_up(
        [(frame, frame.offset - (number > 0)) for number, frame in enumerate(frames[start : start + limit])],
        elsewhere,
        modules,
    )


def look_up(
    places: Sequence[tuple[Frame, int]], elsewhere: Elsewhere | None, modules: Collection[str] | None
) -> tuple[Frame, ...]:
    """Return the frames for these offsets in their modules, with names and lines; the parameters are those of
    `symbolise`.
    """
    if shutil.which("addr2line") is None:
        return tuple(frame for frame, _ in places)
    deadline = time.monotonic() + _LOOK_UP_S
    return tuple(
        _resolve(frame, offset, elsewhere)
        if (modules is None or frame.module in modules) and time.monotonic() < deadline
        else frame
        for frame, offset in places
    )


def _resolve(frame: Frame, offset: int, elsewhere: Elsewhere | None) -> Frame:
    if not frame.module:
        return frame
    functions, places = _look_up("-e", frame.module, hex(max(offset, 0)))
    other = elsewhere(frame.module, offset) if elsewhere and not any(places) else None
    if other:
        functions, places = _look_up("-e", str(other[0]), hex(other[1]))
    if not functions:
        return frame
    symbol = functions[-1] if functions[-1] != "??" else frame.symbol
    code = next((position for position in places if position and not _is_library(position)), "")
    return Frame(frame.module, frame.offset, symbol, places[0], code)


def _look_up(*words: str) -> tuple[list[str], list[str]]:
    """Return functions and source lines of an address, from the innermost inlined call outwards; an unknown line is
    empty.
    """
    try:
        done = subprocess.run(
            ["addr2line", "-C", "-f", "-i", *words], capture_output=True, text=True, timeout=_LOOK_UP_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return [], []
    lines = done.stdout.splitlines() if done.returncode == 0 else []
    places = ["" if "?" in line else line.partition(" (")[0] for line in lines[1::2]]
    return lines[: 2 * len(places) : 2], places


def _is_library(position: str) -> bool:
    """Return whether a source line is in a header of this package or the system."""
    return position.startswith((f"{_INCLUDE_DIR}/", f"{HEADERS}/", f"{INSTRUCTIONS}/", "/usr/", "./", "../"))
