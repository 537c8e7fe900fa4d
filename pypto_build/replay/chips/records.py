"""What a run of several ranks leaves in `dfx_outputs/`: `ranks.json`, and `windows.json` of each checked dispatch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from pypto_build.artifact.atomic import write_bytes
from pypto_build.replay.chips.board import Board
from pypto_build.replay.chips.dispatches import Dispatch
from pypto_build.replay.chips.memory import Windows


class DispatchRow(msgspec.Struct, frozen=True):
    """A dispatch: `index` counts on its rank, `line` is the driver's; seconds from the first one's start."""

    number: int
    program: str
    rank: int
    index: int
    line: int
    producers: list[int]
    begun_s: float
    ended_s: float


class BufferRow(msgspec.Struct, frozen=True):
    """A buffer of a domain's windows, in bytes."""

    name: str
    offset: int
    nbytes: int


class DomainRow(msgspec.Struct, frozen=True):
    """A domain: the ranks in it, where their windows were in this run, and the size of each in bytes."""

    name: str
    ranks: list[int]
    addresses: list[int]
    size: int
    buffers: list[BufferRow]


class NoteRow(msgspec.Struct, frozen=True):
    """What a rank did to a signal in all."""

    rank: int
    kernel: str
    count: int
    sets: int


class SignalRow(msgspec.Struct, frozen=True):
    """A signal at byte `offset` of the window of `owner`, and who notified it."""

    place: str
    domain: str
    owner: int
    offset: int
    notes: list[NoteRow]


class RanksRecord(msgspec.Struct, frozen=True):
    """`ranks.json`."""

    world: int
    dispatches: list[DispatchRow]
    domains: list[DomainRow]
    signals: list[SignalRow]
    schema: int = 1


class WindowsRecord(msgspec.Struct, frozen=True):
    """`windows.json`: (kernel, instruction, position) of each place in the code, the clocks, and the accesses as
    (address, stride, bytes, rows, kind, site, clock, clock from which on it is seen or -1, task)."""

    sites: list[tuple[str, str, str]]
    clocks: list[tuple[int, ...]]
    accesses: list[tuple[int, int, int, int, int, int, int, int, int]]


Times = dict[int, tuple[float, float]]


def write_ranks(
    directory: Path, world: int, dispatches: Sequence[Dispatch], domains: Sequence[Windows], board: Board, times: Times
) -> None:
    """Write `ranks.json`."""
    rows = [
        DispatchRow(
            item.number, item.program, item.rank, item.index, item.line, sorted(item.producers), *times[item.number]
        )
        for item in dispatches
        if item.rank is not None and item.number in times
    ]
    listed = [
        DomainRow(
            windows.domain,
            list(windows.ranks),
            list(windows.addresses),
            windows.size,
            [BufferRow(buffer.name, buffer.offset, buffer.nbytes) for buffer in windows.buffers],
        )
        for windows in domains
    ]
    record = RanksRecord(world, rows, listed, list(_signals(board, domains)))
    directory.mkdir(parents=True, exist_ok=True)
    write_bytes(directory / "ranks.json", msgspec.json.encode(record) + b"\n")


def _signals(board: Board, domains: Sequence[Windows]) -> Iterator[SignalRow]:
    for address in sorted(board.signals()):
        for windows in domains:
            if (place := windows.place(address)) is not None:
                owner, buffer, offset = place
                notes = [NoteRow(note.rank, note.kernel, note.count, note.sets) for note in board.notes(address)]
                name = f"{windows.domain}.{buffer.name if buffer else 'window'}+{offset} of rank {owner}"
                start = windows.addresses[windows.ranks.index(owner)]
                yield SignalRow(name, windows.domain, owner, address - start, sorted(notes, key=lambda note: note.rank))
