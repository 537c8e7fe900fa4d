"""Reads the flight recorder: the last events of the orchestration and of every core of a run.

The runtime writes them while it runs, into shared memory given as option ``flight``. `src/crash/flight.h` defines the
layout. Reading never fails: kernels can write there, too, so any bytes are accepted.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence
from enum import IntEnum

import msgspec

from pypto_build.facts.comparisons import COMPARISONS
from pypto_build.runtime.printable import printable

RECORDS = 1024
_MAGIC = 0x544847494C465050
_VERSION = 1
_HEAD = struct.Struct("<QII48x")
_NAME_BYTES, _NAMES = 64, 512
_COUNT = struct.Struct("<Q56x")
_RECORD = struct.Struct("<qHHBBHIiQ")
_HEAD_BYTES = _HEAD.size + _NAME_BYTES * _NAMES
_TRACK_BYTES = _COUNT.size + RECORDS * _RECORD.size
_NO_TASK = (1 << 32) - 1
_ROLES = ("AIC", "AIV0", "AIV1")
_TO_VECTOR, _PRODUCING = 1, 2
_WAYS = ("vector to cube", "cube to vector")
_CORES = ("the vector cores", "the cube cores", "all cores")
_ROOM = ("", "task slots", "bytes of heap", "dependency edges")
#: Cores that are recorded; more threads than these run, but are not.
CORES = 128


class What(IntEnum):
    """Kinds of events, in the order of `FlightEvent` in C++."""

    NONE = 0
    RUN_BEGINS = 1
    RUN_ENDS = 2
    SUBMITS = 3
    KERNEL_BEGINS = 4
    KERNEL_RETURNS = 5
    WAITS_FOR_SLOT = 6
    PASSES_SLOT = 7
    WAITS_AT_BARRIER = 8
    WAITS_FOR_VALUE = 9
    SETS_VALUE = 10
    ADDS_VALUE = 11
    WAITS_FOR_COUNTER = 12
    WAITS_FOR_ROOM = 13
    WAITS_FOR_TASKS = 14
    WAITS_FOR_END = 15
    GOES_ON = 16
    FAULT = 17


_WAITS = frozenset(what for what in What if what.name.startswith("WAITS_"))


def flight_bytes(cores: int = CORES) -> int:
    """The size of the shared memory for so many cores and the orchestration."""
    return _HEAD_BYTES + (cores + 1) * _TRACK_BYTES


class About(msgspec.Struct, frozen=True, kw_only=True):
    """The subject of an event; `FlightEvent` says what ``object``, ``value`` and ``detail`` mean for each kind.

    ``task`` is None for an event without a task.
    """

    kernel: str = ""
    task: int | None = None
    role: str = ""
    block: int = 0
    value: int = 0
    detail: int = 0
    object: int = 0


class Event(About, frozen=True):
    """One event. ``core`` is -1 for the orchestration; ``ns`` counts on the clock of the run (CLOCK_MONOTONIC)."""

    ns: int
    core: int
    what: What

    @property
    def is_wait(self) -> bool:
        """Return whether a wait begins."""
        return self.what in _WAITS

    def __str__(self) -> str:
        return _WORDS[self.what](self)

    @property
    def who(self) -> str:
        """Return the actor: `core 1 (AIV0)`, or the orchestration."""
        return "orchestration" if self.core < 0 else f"core {self.core} ({self.role})"


def _kernel(event: Event) -> str:
    block = f" block {event.block}" if event.block else ""
    return f"task {event.task} {event.kernel or '?'}{block}"


def _slot(event: Event) -> str:
    return f"slot {event.value} of pipe {event.object} ({_WAYS[event.detail & _TO_VECTOR]})"


def _verb(event: Event, producing: str, consuming: str) -> str:
    return producing if event.detail & _PRODUCING else consuming


def _one(words: Sequence[str], number: int) -> str:
    return words[number] if number < len(words) else "?"


_WORDS: dict[What, Callable[[Event], str]] = {
    What.NONE: lambda event: "?",
    What.RUN_BEGINS: lambda event: "the run begins",
    What.RUN_ENDS: lambda event: "the run ends",
    What.SUBMITS: lambda event: (
        f"submits task {event.task} {event.kernel}".rstrip()
        + (f" ({event.value} producer{'s' * (event.value > 1)})" if event.value > 0 else "")
    ),
    What.KERNEL_BEGINS: lambda event: f"begins {_kernel(event)}",
    What.KERNEL_RETURNS: lambda event: f"returns from {_kernel(event)}",
    What.WAITS_FOR_SLOT: lambda event: f"{_kernel(event)} waits to {_verb(event, 'push', 'pop')} {_slot(event)}",
    What.PASSES_SLOT: lambda event: f"{_kernel(event)} {_verb(event, 'pushes', 'frees')} {_slot(event)}",
    What.WAITS_AT_BARRIER: lambda event: f"{_kernel(event)} waits at SYNCALL of {_one(_CORES, event.detail)}",
    What.WAITS_FOR_VALUE: lambda event: (
        f"{_kernel(event)} waits for the signal at 0x{event.object:x} {_one(COMPARISONS, event.detail)} {event.value}"
    ),
    What.SETS_VALUE: lambda event: f"{_kernel(event)} sets the signal at 0x{event.object:x} to {event.value}",
    What.ADDS_VALUE: lambda event: f"{_kernel(event)} adds {event.value} to the signal at 0x{event.object:x}",
    What.WAITS_FOR_COUNTER: lambda event: (
        f"{_kernel(event)} waits for the completion counter at 0x{event.object:x} >= {event.value}"
    ),
    What.WAITS_FOR_ROOM: lambda event: (
        f"waits for {_one(_ROOM, event.detail)} of ring {event.value}"
        + (f", {event.object} bytes are asked for" if event.object else "")
    ),
    What.WAITS_FOR_TASKS: lambda event: (
        f"waits for {event.value} tasks that write {'or read ' if event.detail else ''}a tensor"
    ),
    What.WAITS_FOR_END: lambda event: "waits for the end of all tasks",
    What.GOES_ON: lambda event: f"{_kernel(event)} goes on" if event.task is not None else "goes on",
    What.FAULT: lambda event: "the run ends with a fault",
}


def read_flight(buffer: memoryview | bytes) -> list[Event]:
    """The events of the last run in the memory, the earliest first; none if nothing was recorded."""
    view = memoryview(buffer).cast("B")
    if len(view) < _HEAD_BYTES:
        return []
    magic, version, tracks = _HEAD.unpack_from(view, 0)
    if magic != _MAGIC or version != _VERSION:
        return []
    names = _names(view)
    events = [
        event
        for track in range(min(tracks, (len(view) - _HEAD_BYTES) // _TRACK_BYTES))
        for event in _track(view, track, names)
    ]
    begun = max((event.ns for event in events if event.what is What.RUN_BEGINS), default=0)
    return sorted((event for event in events if event.ns >= begun), key=lambda event: event.ns)


def _names(view: memoryview) -> list[str]:
    text = bytes(view[_HEAD.size : _HEAD_BYTES])
    raw = (text[start : start + _NAME_BYTES] for start in range(0, len(text), _NAME_BYTES))
    return ["", *(printable(name.partition(b"\0")[0].decode("utf-8", "replace")) for name in raw)]


def _track(view: memoryview, track: int, names: Sequence[str]) -> Iterable[Event]:
    start = _HEAD_BYTES + track * _TRACK_BYTES
    (count,) = _COUNT.unpack_from(view, start)
    for number in range(max(count - RECORDS, 0), min(count, max(count - RECORDS, 0) + RECORDS)):
        ns, what, name, member, detail, block, task, value, object_ = _RECORD.unpack_from(
            view, start + _COUNT.size + number % RECORDS * _RECORD.size
        )
        if 0 < what < len(What):
            yield Event(
                ns,
                track - 1,
                What(what),
                kernel=names[name] if name < len(names) else "",
                task=None if task == _NO_TASK else task,
                role=_one(_ROLES, member) if track else "",
                block=block,
                value=value,
                detail=detail,
                object=object_,
            )
