"""Reads the report buffer: what a run was doing when its process died or was stopped.

The runtime writes the buffer (shared memory given as option ``report``) while it runs. `src/crash/report.h` defines the
layout. Reading never fails: kernels can write there, so half of it may be old, and all of it false.
"""

from __future__ import annotations

import shutil
import signal
import struct
import subprocess
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import TypeVar

import msgspec

from pypto_build.facts.faults import Escaped, Nearness
from pypto_build.facts.places import HEADERS, INSTRUCTIONS
from pypto_build.runtime.faults import FaultRecord, decode, is_known
from pypto_build.runtime.printable import printable
from pypto_build.runtime.waits import ADDRESS_TEXTS, Occupancy, occupancy_line

Kind = TypeVar("Kind", bound=IntEnum)

REPORT_BYTES = 1 << 17

_MAGIC = 0x54524F5045525050
_VERSION = 5
_NO_TASK = (1 << 64) - 1
_HEADER = struct.Struct("<QIIIIQQQII")
_SLOT = struct.Struct("<QiiqiI64s")
_SLOT_COUNT = 256
_CRASH = struct.Struct("<IiiiQQiI64sIIQQ96s2048s256sQ")
_FRAME = struct.Struct("<QQ176s64s")
_FAULT = struct.Struct("<II16384s")
_CRASH_OFFSET = _HEADER.size + _SLOT_COUNT * _SLOT.size
_FRAME_OFFSET = _CRASH_OFFSET + _CRASH.size
_MAX_FRAMES = 48
_COMPLETE = 2
_SAMPLE = struct.Struct("<Ii")
_TOUCHED = struct.Struct("<IIIIQQiIQQ96s")
_SAMPLES, _SAMPLE_FRAMES = 16, 8
#: Offset of the state of the run's fault.
FAULT_OFFSET = _FRAME_OFFSET + _MAX_FRAMES * _FRAME.size
FAULT_KNOWN = 2
_SAMPLES_OFFSET = FAULT_OFFSET + _FAULT.size
_TOUCHED_OFFSET = _SAMPLE.size + _SLOT.size
_SAMPLE_BYTES = _TOUCHED_OFFSET + _TOUCHED.size + _SAMPLE_FRAMES * _FRAME.size

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
    """One stack frame: ``offset`` in ``module``, and its name and source line where known.

    ``code`` is the line of the kernel or orchestration: where that called the inlined instruction of ``line``.
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
        """The kernel that has run for longest without waiting for another."""
        return next((slot for slot in self.running if not slot.waits), self.running[0] if self.running else None)


def _text(raw: bytes) -> str:
    return printable(_raw_text(raw))


def _raw_text(raw: bytes) -> str:
    return raw.split(b"\0", 1)[0].decode("utf-8", "replace")


def _running(buffer: memoryview, threads: int) -> tuple[Running, ...]:
    slots = (_slot(buffer, _HEADER.size + core * _SLOT.size, core) for core in range(min(threads, _SLOT_COUNT)))
    return tuple(sorted(filter(None, slots), key=lambda slot: slot.start_ns))


def _slot(buffer: memoryview, start: int, core: int) -> Running | None:
    """Return the kernel that a thread was executing; None if it was idle."""
    task, func_id, block, start_ns, member, waits, kernel = _SLOT.unpack_from(buffer, start)
    role = _ROLES[member % len(_ROLES)]
    return Running(task, func_id, block, _text(kernel), start_ns, core, role, waits != 0) if task != _NO_TASK else None


def _crash(buffer: memoryview) -> Crash | None:
    (
        state,
        number,
        _,
        func_id,
        address,
        task,
        block,
        frame_count,
        kernel,
        *position,
        arguments,
        exception,
        data_bytes,
    ) = _CRASH.unpack_from(buffer, _CRASH_OFFSET)
    nearness, escaped, distance, size, name = position
    if state == 0:
        return None
    try:
        signal_name = signal.Signals(number).name
    except ValueError:
        signal_name = f"signal {number}"
    return Crash(
        signal=signal_name,
        address=address,
        task=None if task == _NO_TASK else task,
        func_id=func_id,
        block=block,
        kernel=_text(kernel),
        nearest=Address(_one_of(Nearness, nearness), distance, size, _text(name)),
        arguments=tuple(map(printable, _raw_text(arguments).splitlines())),
        frames=_frames(buffer, _FRAME_OFFSET, min(frame_count, _MAX_FRAMES)),
        exception=_text(exception),
        data_bytes=data_bytes,
        escaped=_one_of(Escaped, escaped),
    )


def _one_of(kinds: type[Kind], number: int) -> Kind:
    """Return the kind with this number; the first, which means unknown, for an invalid number."""
    return kinds(number) if number < len(kinds) else kinds(0)


def read_fault(buffer: memoryview) -> FaultRecord | None:
    """The fault that ended the run, from the moment it is known."""
    state, size, text = _FAULT.unpack_from(buffer, FAULT_OFFSET)
    if state != FAULT_KNOWN:
        return None
    try:
        record = decode(text[:size])
    except (msgspec.MsgspecError, RecursionError):
        return None
    return record if is_known(record) else None


def read_report(buffer: memoryview | bytes) -> Report | None:
    """Return the run's report; None if the run never started.

    Raises:
        ValueError: the buffer is too small to be one.
    """
    view = memoryview(buffer).cast("B")
    if len(view) < _SAMPLES_OFFSET + _SAMPLES * _SAMPLE_BYTES:
        raise ValueError(f"report buffer: {len(view)} bytes; make it {REPORT_BYTES}")
    magic, version, threads, orchestrating, _, created, completed, ready, *_ = _HEADER.unpack_from(view, 0)
    if magic != _MAGIC or version != _VERSION:
        return None
    fault = read_fault(view)
    orchestrates, samples = orchestrating == 1, _samples(view)
    return Report(_running(view, threads), _crash(view), orchestrates, created, completed, ready, fault, samples)


def _samples(buffer: memoryview) -> tuple[Sample, ...]:
    samples = []
    for start in range(_SAMPLES_OFFSET, _SAMPLES_OFFSET + _SAMPLES * _SAMPLE_BYTES, _SAMPLE_BYTES):
        state, core = _SAMPLE.unpack_from(buffer, start)
        running = _slot(buffer, start + _SAMPLE.size, core)
        if state != _COMPLETE or running is None:
            continue
        touched = start + _TOUCHED_OFFSET
        count, _, looks, polls, address, _, value, near, distance, size, name = _TOUCHED.unpack_from(buffer, touched)
        nearest = Address(_one_of(Nearness, near), distance, size, _text(name))
        frames = _frames(buffer, touched + _TOUCHED.size, min(count, _SAMPLE_FRAMES))
        samples.append(Sample(running, frames, looks, polls, address, value, nearest))
    return tuple(samples)


def _frames(buffer: memoryview, start: int, count: int) -> tuple[Frame, ...]:
    raw = (_FRAME.unpack_from(buffer, start + index * _FRAME.size) for index in range(count))
    return tuple(Frame(_text(module), offset, _text(symbol)) for _, offset, module, symbol in raw)


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
    """Frames with the names and lines of these offsets in their modules; arguments as of `symbolise`."""
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
    """Functions and source lines of an address, from the innermost inlined call out; a line is empty if not known."""
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
    """Return whether a source line is in our headers or the system's."""
    return position.startswith((f"{_INCLUDE_DIR}/", f"{HEADERS}/", f"{INSTRUCTIONS}/", "/usr/", "./", "../"))
