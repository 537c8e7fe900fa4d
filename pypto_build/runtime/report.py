"""Reads the report buffer: what a run was doing when its process died or was stopped.

The runtime writes the buffer (shared memory given as option ``report``) while it runs; the layout is that of
``src/crash/report.h``. Reading never fails, whatever is in the buffer: kernels can write there, so half of it may be
old, and all of it false.
"""

from __future__ import annotations

import shutil
import signal
import struct
import subprocess
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path

from pypto_build.runtime.printable import printable

REPORT_BYTES = 1 << 16

_MAGIC = 0x54524F5045525050
_VERSION = 3
_NO_TASK = (1 << 64) - 1
_HEADER = struct.Struct("<QIIIIQQQ")
_SLOT = struct.Struct("<QiiqiI64s")
_SLOT_COUNT = 256
_CRASH = struct.Struct("<IiiiQQiI64s256s2048s256sQ")
_FRAME = struct.Struct("<QQ176s64s")
_FAULT = struct.Struct("<IiQ16s64s3072s512s")
_CRASH_OFFSET = _HEADER.size + _SLOT_COUNT * _SLOT.size
_FRAME_OFFSET = _CRASH_OFFSET + _CRASH.size
_MAX_FRAMES = 48
_FAULT_OFFSET = _FRAME_OFFSET + _MAX_FRAMES * _FRAME.size
_COMPLETE = 2

_LOOK_UP_S = 10.0  # for all frames together
#: module, offset -> object, section, offset
Elsewhere = Callable[[str, int], tuple[Path, str, int] | None]

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
        place = self.code or self.line or f"{Path(self.module).name}+0x{self.offset:x}"
        return f"{self.symbol or '?'} ({place})"


@dataclass(frozen=True)
class Crash:
    """A signal in a kernel (or the orchestration, then ``task`` is None; in another thread, ``kernel`` is empty too).

    ``exception`` is the text of the exception that nobody caught, ``data_bytes`` the memory that was in use.
    """

    signal: str
    address: int
    task: int | None
    func_id: int
    block: int
    kernel: str
    nearest: str
    arguments: tuple[str, ...]
    frames: tuple[Frame, ...]
    exception: str = ""
    data_bytes: int = 0

    def summary(self) -> str:
        """One line: signal, place, address and what it is nearest to."""
        where = "the orchestration" if self.task is None else f"kernel {self.kernel} (task {self.task})"
        if not self.nearest:
            return f"{self.signal} in {where}"
        return f"{self.signal} in {where} at address 0x{self.address:x}, {self.nearest}"


@dataclass(frozen=True)
class RunFault:
    """The fault that ended the run, though something kept the process from saying so."""

    kind: str
    message: str
    task: int | None
    kernel: str
    hint: str


@dataclass(frozen=True)
class Report:
    """What the buffer holds. ``running`` lists kernels that had started and not returned, longest first;
    ``orchestrating`` tells whether the orchestration's function had started and not returned. ``created``,
    ``completed`` and ``open`` (ready or running) count tasks."""

    running: tuple[Running, ...]
    crash: Crash | None
    orchestrating: bool = False
    created: int = 0
    completed: int = 0
    open: int = 0
    fault: RunFault | None = None

    def occupancy(self) -> str:
        """Where the tasks are, in the form of simpler's scheduler when it gives up."""
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
        line = (
            f"sub_class={name} completed={self.completed}/{self.created} running={running} ready={ready} "
            f"waiting={waiting} orch_done={int(not self.orchestrating)}"
        )
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
    slots = []
    for index in range(min(threads, _SLOT_COUNT)):
        task, func_id, block, start_ns, member, waits, kernel = _SLOT.unpack_from(
            buffer, _HEADER.size + index * _SLOT.size
        )
        if task != _NO_TASK:
            role = _ROLES[member % len(_ROLES)]
            slots.append(Running(task, func_id, block, _text(kernel), start_ns, index, role, waits != 0))
    return tuple(sorted(slots, key=lambda slot: slot.start_ns))


def _crash(buffer: memoryview) -> Crash | None:
    state, number, _, func_id, address, task, block, frame_count, kernel, nearest, arguments, exception, data_bytes = (
        _CRASH.unpack_from(buffer, _CRASH_OFFSET)
    )
    if state == 0:
        return None
    frames = []
    for index in range(min(frame_count, _MAX_FRAMES)):
        _, offset, module, symbol = _FRAME.unpack_from(buffer, _FRAME_OFFSET + index * _FRAME.size)
        frames.append(Frame(_text(module), offset, _text(symbol)))
    try:
        name = signal.Signals(number).name
    except ValueError:
        name = f"signal {number}"
    return Crash(
        signal=name,
        address=address,
        task=None if task == _NO_TASK else task,
        func_id=func_id,
        block=block,
        kernel=_text(kernel),
        nearest=_text(nearest),
        arguments=tuple(map(printable, _raw_text(arguments).splitlines())),
        frames=tuple(frames),
        exception=_text(exception),
        data_bytes=data_bytes,
    )


def read_fault(buffer: memoryview) -> RunFault | None:
    """The fault that ended the run, from the moment it is known."""
    state, _, task, kind, kernel, message, hint = _FAULT.unpack_from(buffer, _FAULT_OFFSET)
    if state != _COMPLETE:
        return None
    return RunFault(_text(kind), _text(message), None if task == _NO_TASK else task, _text(kernel), _text(hint))


def read_report(buffer: memoryview | bytes) -> Report | None:
    """What the run left in its report buffer; None if it never got as far as starting.

    Raises:
        ValueError: the buffer is too small to be one.
    """
    view = memoryview(buffer).cast("B")
    if len(view) < _FAULT_OFFSET + _FAULT.size:
        raise ValueError(f"report buffer: {len(view)} bytes; make it {REPORT_BYTES}")
    magic, version, threads, orchestrating, _, created, completed, ready = _HEADER.unpack_from(view, 0)
    if magic != _MAGIC or version != _VERSION:
        return None
    fault = read_fault(view)
    return Report(_running(view, threads), _crash(view), orchestrating == 1, created, completed, ready, fault)


def symbolise(
    frames: tuple[Frame, ...],
    limit: int = 16,
    elsewhere: Elsewhere | None = None,
    modules: Collection[str] | None = None,
) -> tuple[Frame, ...]:
    """The frames below the signal handler, with function names and lines from ``addr2line`` where it is installed.

    ``elsewhere`` tells of an offset in a module without line numbers where else they are: object, section and offset.
    Only what is in ``modules`` is opened, if they are given: the frames name any file.
    """
    start = next((index + 1 for index, frame in enumerate(frames) if frame.symbol == "__restore_rt"), 0)
    if start == 0:  # the C library hides its signal trampoline: the handler's own frames are in the runtime's module
        own = frames[0].module if frames else ""
        start = next((index + 1 for index, frame in enumerate(frames) if frame.module != own), 0)
    chosen = frames[start : start + limit]
    if shutil.which("addr2line") is None:
        return chosen
    # The first frame holds the address that faulted; the others hold return addresses, which point behind the call, so
    # that one byte back is inside it.
    deadline = time.monotonic() + _LOOK_UP_S
    return tuple(
        _resolve(frame, frame.offset - (number > 0), elsewhere)
        if (modules is None or frame.module in modules) and time.monotonic() < deadline
        else frame
        for number, frame in enumerate(chosen)
    )


def _resolve(frame: Frame, offset: int, elsewhere: Elsewhere | None) -> Frame:
    if not frame.module:
        return frame
    functions, places = _look_up("-e", frame.module, hex(max(offset, 0)))
    other = elsewhere(frame.module, offset) if elsewhere and not any(places) else None
    if other:
        functions, places = _look_up("-j", other[1], "-e", str(other[0]), hex(other[2]))
    if not functions:
        return frame
    symbol = functions[-1] if functions[-1] != "??" else frame.symbol
    code = next((place for place in places if place and not _is_library(place)), "")
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


def _is_library(place: str) -> bool:
    """Whether a source line is one of our headers, which kernels are compiled with, or of the system's."""
    return place.startswith((f"{_INCLUDE_DIR}/", "/usr/", "./", "../"))
