"""The records of a run of several ranks in `dfx_outputs/`: `ranks.json` for the run. Each dispatch has `messages.json`
if there is a timeline, and `windows.json` if window accesses are checked."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from pypto_build.artifact.files import write_bytes
from pypto_build.replay.chips.board import Board
from pypto_build.replay.chips.dispatches import Dispatch, Plan
from pypto_build.replay.chips.memory import Domain, Windows

#: The rank of a host callable.
HOST = -1


class DispatchRow(msgspec.Struct, frozen=True):
    """A dispatch: `index` counts on its rank (`HOST`: a host callable), `line` is the driver's. Times are in seconds
    from the beginning of the run. `ended_s` is None if the run ended first. `domains` are those whose windows or
    contexts it uses, `shapes` its tensors as `float32[1, 256]`."""

    number: int
    program: str
    rank: int
    index: int
    line: int
    producers: list[int]
    begun_s: float
    ended_s: float | None
    domains: list[str] = []
    shapes: list[str] = []

    @property
    def place(self) -> str:
        """Return `rank0/d1`, which is also the directory of its records."""
        return f"host/d{self.index}" if self.rank == HOST else f"rank{self.rank}/d{self.index}"


class NoteRow(msgspec.Struct, frozen=True):
    """The sum of a rank's notifications of a signal."""

    rank: int
    kernel: str
    count: int
    sets: int


class SignalRow(msgspec.Struct, frozen=True):
    """A signal at byte `offset` of the window of `owner`, and the ranks that notified it."""

    label: str = msgspec.field(name="place")
    domain: str
    owner: int
    offset: int
    notes: list[NoteRow]


class WaitRow(msgspec.Struct, frozen=True):
    """A kernel that waited at the end of the run, until a signal compares (by the number `comparison`) with
    `expected`."""

    rank: int
    kernel: str
    address: int
    expected: int
    comparison: int
    value: int


class RanksRecord(msgspec.Struct, frozen=True):
    """`ranks.json`. `origin_ns` is the beginning of the run in the machine's monotonic clock. `devices` are those of
    the ranks, `world` is the number of ranks."""

    world: int
    dispatches: list[DispatchRow]
    domains: list[Domain]
    signals: list[SignalRow]
    origin_ns: int = 0
    waiting: list[WaitRow] = []
    pending: list[DispatchRow] = []  # submitted, and never begun
    devices: list[int] = []
    schema: int = 1


class MessagesRecord(msgspec.Struct, frozen=True):
    """`messages.json`: notifications as (ns, address, value, set, value afterwards, task, kernel), waits as (ns
    from, ns to, address, expected, comparison, held, task, kernel). Tasks are ids, kernels places in `kernels`; the
    timeline of the dispatch counts from `origin_ns`.
    """

    origin_ns: int
    kernels: list[str]
    notifications: list[tuple[int, int, int, bool, int, int, int]]
    waits: list[tuple[int, int, int, int, int, bool, int, int]]


class WindowsRecord(msgspec.Struct, frozen=True):
    """`windows.json`: `sites` are code locations as (kernel, instruction, position), `clocks` vector clocks. `accesses`
    are (address, stride, bytes, rows, kind, site, clock, clock from which it is visible or -1, task)."""

    sites: list[tuple[str, str, str]]
    clocks: list[tuple[int, ...]]
    accesses: list[tuple[int, int, int, int, int, int, int, int, int]]


class Times:
    """The begin and end of dispatches, by number, in seconds from the beginning of the run."""

    def __init__(self) -> None:
        self.origin_ns = time.monotonic_ns()
        self.begun: dict[int, float] = {}
        self.ended: dict[int, float] = {}

    @property
    def now(self) -> float:
        """Return the seconds since the beginning."""
        return (time.monotonic_ns() - self.origin_ns) / 1e9


def write_ranks(directory: Path, devices: Sequence[int], plan: Plan, board: Board, times: Times) -> None:
    """Write `ranks.json`."""
    dispatches, domains = plan.dispatches, plan.domains
    rows = [_row(item, domains, times) for item in dispatches if item.number in times.begun]
    pending = [_row(item, domains, times) for item in dispatches if item.number not in times.begun]
    listed = [windows.domain for windows in domains]
    running = [row.rank for row in rows if row.ended_s is None and row.rank != HOST]
    waiting = [
        WaitRow(wait.rank, wait.kernel, wait.address, wait.expected, wait.comparison, wait.value)
        for rank in running
        for wait in board.waits(rank)
    ]
    signals = list(_signals(board, domains))
    record = RanksRecord(len(devices), rows, listed, signals, times.origin_ns, waiting, pending, list(devices))
    directory.mkdir(parents=True, exist_ok=True)
    write_bytes(directory / "ranks.json", msgspec.json.encode(record) + b"\n")


def _row(item: Dispatch, domains: Sequence[Windows], times: Times) -> DispatchRow:
    return DispatchRow(
        item.number,
        item.program,
        HOST if item.rank is None else item.rank,
        item.index,
        item.line,
        sorted(item.producers),
        times.begun.get(item.number, 0.0),
        times.ended.get(item.number),
        _domains_of(item, domains),
        [f"{one.tensor.dtype}[{', '.join(map(str, one.tensor.shape))}]" for one in item.tensors],
    )


def _domains_of(item: Dispatch, domains: Sequence[Windows]) -> list[str]:
    """Return the domains in which a dispatch communicates."""
    windowed = [one.tensor.address for one in item.tensors if one.windowed]
    return [
        windows.name
        for windows in domains
        if any(windows.place(address) is not None for address in windowed) or set(windows.contexts) & set(item.scalars)
    ]


def _signals(board: Board, domains: Sequence[Windows]) -> Iterator[SignalRow]:
    for address in sorted(board.signals()):
        for windows in domains:
            if (position := windows.place(address)) is not None:
                owner, offset = position
                notes = [NoteRow(note.rank, note.kernel, note.count, note.sets) for note in board.notes(address)]
                name = f"{windows.label(offset)} of rank {owner}"
                yield SignalRow(name, windows.name, owner, offset, sorted(notes, key=lambda note: note.rank))
