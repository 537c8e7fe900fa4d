"""Reads the flight recorder: the last events of the orchestration and of every core of a run.

The runtime writes them while it runs, into shared memory given as option ``flight``. `facts/layouts.py` defines the
layout. Reading never fails: kernels can write there, too, so any bytes are accepted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from ctypes import sizeof

import msgspec

from pypto_build.facts import layouts
from pypto_build.facts.comparisons import COMPARISONS
from pypto_build.facts.layouts import FlightEvent
from pypto_build.runtime.printable import printable

_NO_TASK = (1 << 32) - 1
_ROLES = ("AIC", "AIV0", "AIV1")
_TO_VECTOR, _PRODUCING = 1, 2
_WAYS = ("vector to cube", "cube to vector")
_CORES = ("the vector cores", "the cube cores", "all cores")
_ROOM = ("", "task slots", "bytes of heap", "dependency edges")
_HEAD_BYTES, _TRACK_BYTES = sizeof(layouts.FlightHead), sizeof(layouts.FlightTrack)
_WAITS = frozenset(what for what in FlightEvent if what.name.startswith("WAITS_"))


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
    what: FlightEvent

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


_WORDS: dict[FlightEvent, Callable[[Event], str]] = {
    FlightEvent.NONE: lambda event: "?",
    FlightEvent.RUN_BEGINS: lambda event: "the run begins",
    FlightEvent.RUN_ENDS: lambda event: "the run ends",
    FlightEvent.SUBMITS: lambda event: (
        f"submits task {event.task} {event.kernel}".rstrip()
        + (f" ({event.value} producer{'s' * (event.value > 1)})" if event.value > 0 else "")
    ),
    FlightEvent.KERNEL_BEGINS: lambda event: f"begins {_kernel(event)}",
    FlightEvent.KERNEL_RETURNS: lambda event: f"returns from {_kernel(event)}",
    FlightEvent.WAITS_FOR_SLOT: lambda event: f"{_kernel(event)} waits to {_verb(event, 'push', 'pop')} {_slot(event)}",
    FlightEvent.PASSES_SLOT: lambda event: f"{_kernel(event)} {_verb(event, 'pushes', 'frees')} {_slot(event)}",
    FlightEvent.WAITS_AT_BARRIER: lambda event: f"{_kernel(event)} waits at SYNCALL of {_one(_CORES, event.detail)}",
    FlightEvent.WAITS_FOR_VALUE: lambda event: (
        f"{_kernel(event)} waits for the signal at 0x{event.object:x} {_one(COMPARISONS, event.detail)} {event.value}"
    ),
    FlightEvent.SETS_VALUE: lambda event: f"{_kernel(event)} sets the signal at 0x{event.object:x} to {event.value}",
    FlightEvent.ADDS_VALUE: lambda event: f"{_kernel(event)} adds {event.value} to the signal at 0x{event.object:x}",
    FlightEvent.WAITS_FOR_COUNTER: lambda event: (
        f"{_kernel(event)} waits for the completion counter at 0x{event.object:x} >= {event.value}"
    ),
    FlightEvent.WAITS_FOR_ROOM: lambda event: (
        f"waits for {_one(_ROOM, event.detail)} of ring {event.value}"
        + (f", {event.object} bytes are asked for" if event.object else "")
    ),
    FlightEvent.WAITS_FOR_TASKS: lambda event: (
        f"waits for {event.value} tasks that write {'or read ' if event.detail else ''}a tensor"
    ),
    FlightEvent.WAITS_FOR_END: lambda event: "waits for the end of all tasks",
    FlightEvent.GOES_ON: lambda event: f"{_kernel(event)} goes on" if event.task is not None else "goes on",
    FlightEvent.FAULT: lambda event: "the run ends with a fault",
}


def read_flight(buffer: memoryview | bytes) -> list[Event]:
    """The events of the last run in the memory, the earliest first; none if nothing was recorded."""
    view = memoryview(buffer).cast("B")
    if len(view) < _HEAD_BYTES:
        return []
    head = layouts.FlightHead.from_buffer_copy(view)
    if head.magic != layouts.FLIGHT_MAGIC or head.version != layouts.FLIGHT_VERSION:
        return []
    names = ["", *(printable(name.value.decode("utf-8", "replace")) for name in head.names)]
    events = [
        event
        for track in range(min(head.tracks, (len(view) - _HEAD_BYTES) // _TRACK_BYTES))
        for event in _track(view, track, names)
    ]
    begun = max((event.ns for event in events if event.what is FlightEvent.RUN_BEGINS), default=0)
    return sorted((event for event in events if event.ns >= begun), key=lambda event: event.ns)


def _track(view: memoryview, number: int, names: Sequence[str]) -> Iterable[Event]:
    track = layouts.FlightTrack.from_buffer_copy(view, _HEAD_BYTES + number * _TRACK_BYTES)
    first = max(track.count - layouts.FLIGHT_RECORDS, 0)
    for position in range(first, min(track.count, first + layouts.FLIGHT_RECORDS)):
        record = track.records[position % layouts.FLIGHT_RECORDS]
        if 0 < record.event < len(FlightEvent):
            yield Event(
                record.ns,
                number - 1,
                FlightEvent(record.event),
                kernel=names[record.name] if record.name < len(names) else "",
                task=None if record.task == _NO_TASK else record.task,
                role=_one(_ROLES, record.member) if number else "",
                block=record.block,
                value=record.value,
                detail=record.detail,
                object=record.object,
            )
