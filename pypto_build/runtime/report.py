"""Reads the report buffer: what a run was doing when its process died or was stopped.

The runtime writes the buffer (shared memory given as option ``report``) while it runs; the layout is that of
``src/report.h``. Reading never fails on a live or half-written buffer: fields are simply what they were.
"""

from __future__ import annotations

import shutil
import signal
import struct
import subprocess
from dataclasses import dataclass
from pathlib import Path

REPORT_BYTES = 1 << 16

_MAGIC = 0x54524F5045525050
_VERSION = 2
_NO_TASK = (1 << 64) - 1
_HEADER = struct.Struct("<QIIII")
_SLOT = struct.Struct("<Qiiq64s")
_SLOT_COUNT = 256
_CRASH = struct.Struct("<IiiiQQiI64s256s2048s")
_FRAME = struct.Struct("<QQ176s64s")
_CRASH_OFFSET = _HEADER.size + _SLOT_COUNT * _SLOT.size
_FRAME_OFFSET = _CRASH_OFFSET + _CRASH.size
_MAX_FRAMES = 48


@dataclass(frozen=True)
class Running:
    """A kernel that a thread was executing. ``start_ns`` is CLOCK_MONOTONIC."""

    task: int
    func_id: int
    block: int
    kernel: str
    start_ns: int


@dataclass(frozen=True)
class Frame:
    """One stack frame: ``offset`` in ``module``, and its name and source line where known."""

    module: str
    offset: int
    symbol: str
    line: str = ""

    def __str__(self) -> str:
        place = self.line or f"{Path(self.module).name}+0x{self.offset:x}"
        return f"{self.symbol or '?'} ({place})"


@dataclass(frozen=True)
class Crash:
    """A signal in a kernel (or the orchestration, then ``task`` is None)."""

    signal: str
    address: int
    task: int | None
    func_id: int
    block: int
    kernel: str
    nearest: str
    arguments: tuple[str, ...]
    frames: tuple[Frame, ...]

    def summary(self) -> str:
        """One line: signal, place, address and what it is nearest to."""
        where = "the orchestration" if self.task is None else f"kernel {self.kernel} (task {self.task})"
        if not self.nearest:
            return f"{self.signal} in {where}"
        return f"{self.signal} in {where} at address 0x{self.address:x}, {self.nearest}"


@dataclass(frozen=True)
class Report:
    """What the buffer holds. ``running`` lists kernels that had started and not returned, longest first;
    ``orchestrating`` tells whether the orchestration's function had started and not returned."""

    running: tuple[Running, ...]
    crash: Crash | None
    orchestrating: bool = False


def _text(raw: bytes) -> str:
    return raw.split(b"\0", 1)[0].decode("utf-8", "replace")


def _running(buffer: memoryview, threads: int) -> tuple[Running, ...]:
    slots = []
    for index in range(min(threads, _SLOT_COUNT)):
        task, func_id, block, start_ns, kernel = _SLOT.unpack_from(buffer, _HEADER.size + index * _SLOT.size)
        if task != _NO_TASK:
            slots.append(Running(task, func_id, block, _text(kernel), start_ns))
    return tuple(sorted(slots, key=lambda slot: slot.start_ns))


def _crash(buffer: memoryview) -> Crash | None:
    state, number, _, func_id, address, task, block, frame_count, kernel, nearest, arguments = _CRASH.unpack_from(
        buffer, _CRASH_OFFSET
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
        arguments=tuple(_text(arguments).splitlines()),
        frames=tuple(frames),
    )


def read_report(buffer: memoryview | bytes) -> Report | None:
    """What the run left in its report buffer; None if it never got as far as starting.

    Raises:
        ValueError: the buffer is too small to be one.
    """
    view = memoryview(buffer).cast("B")
    if len(view) < _FRAME_OFFSET + _MAX_FRAMES * _FRAME.size:
        raise ValueError(f"report buffer: {len(view)} bytes; make it {REPORT_BYTES}")
    magic, version, threads, orchestrating, _ = _HEADER.unpack_from(view, 0)
    if magic != _MAGIC or version != _VERSION:
        return None
    return Report(_running(view, threads), _crash(view), orchestrating == 1)


def symbolise(frames: tuple[Frame, ...], limit: int = 16) -> tuple[Frame, ...]:
    """The frames below the signal handler, with function names and lines from ``addr2line`` where it is installed."""
    start = next((index + 1 for index, frame in enumerate(frames) if frame.symbol == "__restore_rt"), 0)
    if start == 0:  # the C library hides its signal trampoline: the handler's own frames are in the runtime's module
        own = frames[0].module if frames else ""
        start = next((index + 1 for index, frame in enumerate(frames) if frame.module != own), 0)
    chosen = frames[start : start + limit]
    tool = shutil.which("addr2line")
    if tool is None:
        return chosen
    # The first frame holds the address that faulted; the others hold return addresses, which point behind the call, so
    # that one byte back is inside it.
    return tuple(_resolve(tool, frame, frame.offset - (number > 0)) for number, frame in enumerate(chosen))


def _resolve(tool: str, frame: Frame, offset: int) -> Frame:
    if not frame.module:
        return frame
    command = [tool, "-C", "-f", "-e", frame.module, hex(max(offset, 0))]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return frame
    lines = done.stdout.splitlines()
    if done.returncode != 0 or len(lines) < 2:
        return frame
    symbol = lines[0] if lines[0] != "??" else frame.symbol
    line = "" if lines[1].startswith("??") else lines[1]
    return Frame(frame.module, frame.offset, symbol, line)
