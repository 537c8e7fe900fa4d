"""Keeps the flight recorder's events of a failed run as `dfx_outputs/flight.json`, and shows the last of them."""

from __future__ import annotations

import mmap
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from pypto_build.artifact.errors import ArtifactError
from pypto_build.artifact.files import read_record, write_bytes
from pypto_build.facts.layouts import FlightEvent
from pypto_build.replay.verdict import ErrorInfo
from pypto_build.runtime.faults import FaultRecord, is_known
from pypto_build.runtime.flight import About, Event, read_flight

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
        """Return the event as a line for people."""
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
    if flight.fault and not is_known(flight.fault):
        raise ArtifactError(path, f"fault: kind {flight.fault.kind} is unknown", "replay again")
    return flight
