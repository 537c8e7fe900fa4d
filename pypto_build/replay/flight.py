"""Keeps the flight recorder's events of a failed run as `dfx_outputs/flight.json`, and shows the last of them."""

from __future__ import annotations

import mmap
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from ctypes import sizeof
from pathlib import Path

import msgspec

from pypto_build.artifact.errors import ArtifactError
from pypto_build.artifact.files import read_record, write_bytes
from pypto_build.facts import layouts
from pypto_build.facts.comparisons import COMPARISONS
from pypto_build.facts.layouts import FlightEvent
from pypto_build.replay.verdict import ErrorInfo
from pypto_build.runtime.faults import FaultRecord, kind_exists, printable

# Reads the flight recorder: the last events of the orchestration and of every core of a run.
# The runtime writes them while it runs, into shared memory given as option ``flight``. `facts/layouts.py` defines
# the layout. Reading never fails: kernels can write there, too, so any bytes are accepted.

_NO_TASK = (1 << 32) - 1
_ROLES = ("AIC", "AIV0", "AIV1")
_TO_VECTOR, _PRODUCING = 1, 2
_WAYS = ("vector to cube", "cube to vector")
_CORES = ("the vector cores", "the cube cores", "all cores")
_ROOM = ("", "task slots", "bytes of heap", "dependency edges")
_HEAD_BYTES, _TRACK_BYTES = sizeof(layouts.FlightHead), sizeof(layouts.FlightTrack)


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
    """Return the events of the last run in the memory, the earliest first; empty if nothing was recorded."""
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


FLIGHT = "flight.json"
SCHEMA = 1

_SHOWN = 8
_RETURNED = FlightEvent.KERNEL_RETURNS.name.lower()


class Kept(About, frozen=True):
    """An event of a rank in words. ``ms`` counts from the end of the run, so it is 0 or less."""

    ms: float
    rank: int
    core: int
    what: str
    text: str

    def line(self, ranks: bool) -> str:
        """Return the event as a line for users."""
        source = "orchestration" if self.core < 0 else f"core {self.core}" + (f" ({self.role})" if self.role else "")
        return f"{self.ms:+10.3f} ms  {f'rank {self.rank} ' if ranks else ''}{source}: {self.text}"


class Flight(msgspec.Struct, frozen=True):
    """The last events of the orchestration (core -1) and of every core, earliest first. `fault` is the one that the run
    noticed itself; `line` is the source line that crashed or hung."""

    schema: int
    ranks: int
    events: list[Kept]
    fault: FaultRecord | None = None
    line: str = ""

    def last_of_each(self) -> dict[tuple[int, int], int]:
        """Return the number of the last event of the orchestration (core -1) and of every core, by rank and core."""
        return {(event.rank, event.core): number for number, event in enumerate(self.events)}

    def lines(self, count: int) -> list[str]:
        """Return the last events, one a line. They include the last event of every rank, and the work that cores had
        not finished."""
        last = {event.rank: number for number, event in enumerate(self.events)}
        of_cores = [number for (_, core), number in self.last_of_each().items() if core >= 0]
        at_work = (number for number in of_cores if self.events[number].what != _RETURNED)
        latest = range(len(self.events) - 1, -1, -1)
        first = dict.fromkeys([*last.values(), *sorted(at_work, reverse=True), *latest])
        return self.shown(sorted([*first][: max(count, len(last))]))

    def shown(self, numbers: Iterable[int]) -> list[str]:
        """Return the events with these numbers, one a line."""
        return [self.events[number].line(self.ranks > 1) for number in numbers]


def keep_flight(error: ErrorInfo, memory: mmap.mmap, size: int, directory: Path | None, stopped_ns: int = 0) -> None:
    """Write the events of a run that ended with `error`, and add the last of them to `error`.

    `memory` has `size` bytes a rank. `stopped_ns` is the time at which the run was stopped (CLOCK_MONOTONIC), 0 if it
    ended by itself.
    """
    ranks = [read_flight(memory[start : start + size]) for start in range(0, len(memory), size)]
    flight = collect(ranks, stopped_ns, error.fault, error.line)
    if not flight.events:
        return
    if directory is not None:
        with suppress(OSError):  # blocked by a kernel's file, or no space: the shown events suffice
            write_bytes(directory / FLIGHT, msgspec.json.encode(flight) + b"\n")
    shown = flight.lines(_SHOWN)
    error.events = [f"the last {len(shown)} of {len(flight.events)} events (dfx_outputs/{FLIGHT}):", *shown]


def collect(
    ranks: Sequence[Sequence[Event]], stopped_ns: int = 0, fault: FaultRecord | None = None, line: str = ""
) -> Flight:
    """Return the events of all ranks in time order. `stopped_ns` is as for `keep_flight`, the others as in `Flight`."""
    events = sorted(
        ((event, rank) for rank, events in enumerate(ranks) for event in events), key=lambda pair: pair[0].ns
    )
    faults = [event.ns for event, _ in events if event.what is FlightEvent.FAULT]
    end = max(faults) if faults else stopped_ns or (events[-1][0].ns if events else 0)
    kept = [_kept(event, rank, end) for event, rank in events if event.what is not FlightEvent.FAULT]
    return Flight(SCHEMA, len(ranks), kept, fault, line)


def _kept(event: Event, rank: int, last: int) -> Kept:
    return Kept(
        (event.ns - last) / 1e6,
        rank,
        event.core,
        event.what.name.lower(),
        str(event),
        **{name: getattr(event, name) for name in About.__struct_fields__},
    )


def read_kept(path: Path) -> Flight:
    """Return the events in `path`. Raises `ArtifactError` if the file is missing or invalid."""
    flight = read_record(path, Flight, "holds no events", "replay again", schema=SCHEMA)
    if flight.fault and not kind_exists(flight.fault):
        raise ArtifactError(path, f"the recorded fault has the unknown kind {flight.fault.kind}", "replay again")
    return flight
