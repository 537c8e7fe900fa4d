"""A run of several ranks as it was recorded: `ranks.json`, and a directory a dispatch with the files of one chip."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from pypto_build.artifact.errors import ArtifactError
from pypto_build.artifact.files import read_record
from pypto_build.artifact.layout import DRIVER
from pypto_build.artifact.records import FILE_NAME
from pypto_build.diagnose.recorded.evidence import Evidence, no_record
from pypto_build.facts.comparisons import COMPARISONS, holds
from pypto_build.replay.chips.records import HOST, DispatchRow, MessagesRecord, RanksRecord

# Messages between ranks: which notification let which wait go on, and what decided when a run ended.


@dataclass(frozen=True)
class Notification:
    """A notification of a signal by a kernel at microsecond `at`. `after` is the value of the signal afterwards."""

    dispatch: DispatchRow
    task: int
    kernel: str
    address: int
    value: int
    sets: bool
    after: int
    at: float

    @property
    def before(self) -> int | None:
        """The value of the signal before the notification, or None if the notification overwrote it."""
        return None if self.sets else self.after - self.value


@dataclass(frozen=True)
class SignalWait:
    """A kernel waited from `begun` to `ended`."""

    dispatch: DispatchRow
    task: int
    kernel: str
    address: int
    expected: int
    comparison: int
    held: bool
    begun: float
    ended: float

    @property
    def condition(self) -> str:
        """`>= 1`."""
        return f"{COMPARISONS[self.comparison]} {self.expected}"

    def satisfied_by(self, value: int) -> bool:
        """Return whether a signal of this value ends the wait."""
        return holds(value, self.expected, self.comparison)


@dataclass(frozen=True)
class Message:
    """A notification, and the wait that it let go on."""

    sent: Notification
    taken: SignalWait

    @property
    def between_ranks(self) -> bool:
        """Return whether the sender is another rank."""
        return self.sent.dispatch.rank != self.taken.dispatch.rank

    @property
    def waited(self) -> float:
        """Return the time that the kernel waited for the message, in microseconds."""
        return self.taken.ended - self.taken.begun


def messages_of(run: RanksRun) -> list[Message]:
    """All messages of a run by the time of their arrival."""
    by_address: dict[int, list[Notification]] = {}
    for one in notifications(run):
        by_address.setdefault(one.address, []).append(one)
    messages = []
    for wait in waits(run):
        sent = answer(by_address.get(wait.address, ()), wait) if wait.held else None
        if sent is not None:
            messages.append(Message(sent, wait))
    return sorted(messages, key=lambda message: message.taken.ended)


def notifications(run: RanksRun) -> list[Notification]:
    """Return the notifications of all ranks in the order of time."""
    sent = []
    for number, record in run.messages.items():
        row = run.by_number[number]
        for time, address, value, sets, after, task, kernel in record.notifications:
            sent.append(Notification(row, task, record.kernels[kernel], address, value, sets, after, run.at(time)))
    return sorted(sent, key=lambda one: one.at)


def waits(run: RanksRun) -> list[SignalWait]:
    """Return the waits of all ranks in the order of time."""
    all_waits = []
    for number, record in run.messages.items():
        row = run.by_number[number]
        for begun, ended, address, expected, comparison, held, task, kernel in record.waits:
            all_waits.append(
                SignalWait(
                    row, task, record.kernels[kernel], address, expected, comparison, held, run.at(begun), run.at(ended)
                )
            )
    return sorted(all_waits, key=lambda wait: wait.begun)


def answer(notifications: Sequence[Notification], wait: SignalWait) -> Notification | None:
    """Return the notification that fulfilled the condition of `wait`. Returns None if the condition held from the
    start.
    """
    answer: Notification | None = None
    for index in range(bisect_right(notifications, wait.ended, key=lambda one: one.at) - 1, -1, -1):
        one = notifications[index]
        if not wait.satisfied_by(one.after):
            break
        answer = one
        if one.before is not None and not wait.satisfied_by(one.before):
            break
    if answer is not None and answer.before is not None and wait.satisfied_by(answer.before):
        return None
    return answer


@dataclass(frozen=True)
class Stretch:
    """A part of the critical path: `dispatch` from `begun` to `ended`. It could not begin or continue earlier because
    of a `message`, or of a dispatch that it came `after`, or for no recorded reason.
    """

    dispatch: DispatchRow
    begun: float
    ended: float
    message: Message | None = None
    after: DispatchRow | None = None


def critical_chain(run: RanksRun, messages: Sequence[Message]) -> list[Stretch]:
    """From the dispatch that ended last back to the beginning: over the last message that it had to wait for, else over
    the dispatch before which it could not begin.
    """
    if not run.dispatches:
        return []
    held_up: dict[int, list[Message]] = {}
    for one in messages:
        if one.between_ranks and one.sent.at > one.taken.begun:
            held_up.setdefault(one.taken.dispatch.number, []).append(one)
    current = max(run.dispatches, key=lambda row: run.span(row)[1])
    until = run.span(current)[1]
    chain: list[Stretch] = []
    while len(chain) < len(run.dispatches) + len(messages):
        taken = [one for one in held_up.get(current.number, ()) if one.taken.ended <= until]
        message = max(taken, key=lambda one: one.taken.ended, default=None)
        if message is not None:
            chain.append(Stretch(current, message.taken.ended, until, message=message))
            current, until = message.sent.dispatch, message.sent.at
            continue
        begun = run.span(current)[0]
        before = [row for row in run.dispatches if _precedes(row, current) and run.span(row)[1] <= begun]
        last = max(before, key=lambda row: run.span(row)[1], default=None)
        chain.append(Stretch(current, begun, until, after=last))
        if last is None:
            break
        current, until = last, run.span(last)[1]
    return chain[::-1]


def _precedes(row: DispatchRow, other: DispatchRow) -> bool:
    """Return whether `other` had to begin after the end of `row`: it uses its results or runs on the same rank."""
    return row.number in other.producers or (row.rank == other.rank != HOST and row.number != other.number)


AGAIN = "replay with SWIMLANE=4 DEP_GEN=1"
#: Seconds and nanoseconds beyond any run.
_LONGEST_S, _LATEST_NS = 1e9, 1 << 63
_MOST_RANKS, _MOST_DISPATCHES = 64, 1 << 32
_CHOICE = re.compile(r"(?:rank)?(\d{1,3})(?:/d?(\d{1,9}))?\Z")

#: What is said about a file of a run that is none.
NO_RECORD = "is not a record of this version"


def read_ranks(path: Path, again: str = AGAIN) -> RanksRecord:
    """Read `ranks.json`. Raises `ArtifactError` if it contradicts itself."""
    record = read_record(path, RanksRecord, NO_RECORD, again)

    def wrong(what: str) -> ArtifactError:
        return ArtifactError(path, f"is not a record of a run: {what}", again)

    if not 1 <= record.world <= _MOST_RANKS:
        raise wrong(f"the number of ranks is {record.world}")
    if not 0 <= record.origin_ns < _LATEST_NS:
        raise wrong("its start time is out of range")
    for row in record.dispatches:
        if not (HOST <= row.rank < record.world and 0 <= row.index < _MOST_DISPATCHES):
            raise wrong(f"a dispatch runs on rank {row.rank}")
        if not FILE_NAME.match(row.program) or len(row.program) > 200:
            raise wrong(f"{row.program!r} is not a valid name of a program")
        if not all(0 <= time < _LONGEST_S for time in (row.begun_s, row.ended_s or row.begun_s)):
            raise wrong(f"dispatch {row.number} starts at {row.begun_s}")
    for domain in record.domains:
        if len(domain.ranks) != len(domain.addresses):
            raise wrong(f"{len(domain.ranks)} ranks and {len(domain.addresses)} windows in domain {domain.name!r}")
    if any(not 0 <= wait.comparison < len(COMPARISONS) for wait in record.waiting):
        raise wrong("a wait has an unknown comparison")
    return record


def read_messages(path: Path) -> MessagesRecord | None:
    """Read the notifications and waits of a dispatch; None without a record. Raises `ArtifactError`."""
    if not path.is_file():
        return None
    record = read_record(path, MessagesRecord, NO_RECORD, AGAIN)
    kernels = [row[6] for row in record.notifications] + [row[7] for row in record.waits]
    times = [record.origin_ns, *(row[0] for row in record.notifications), *(t for row in record.waits for t in row[:2])]
    if not all(0 <= kernel < len(record.kernels) for kernel in kernels):
        raise ArtifactError(path, "is not a record of messages: a kernel without a name", AGAIN)
    if not all(0 <= time < _LATEST_NS for time in times):
        raise ArtifactError(path, "is not a record of messages: a time is out of range", AGAIN)
    if not all(0 <= row[4] < len(COMPARISONS) for row in record.waits):
        raise ArtifactError(path, "is not a record of messages: a wait has an unknown comparison", AGAIN)
    return record


@dataclass(frozen=True)
class RanksRun:
    """One run of the distributed artifact in `root`, replayed in `build_dir`. Times are microseconds since it began."""

    root: Path
    build_dir: Path
    platform: str = "a2a3sim"

    @property
    def directory(self) -> Path:
        """Return the directory with the records of all ranks."""
        return self.build_dir / "dfx_outputs"

    @property
    def simulated(self) -> bool:
        """Return whether the times come from a simulation and mean little."""
        return self.platform.endswith("sim")

    @property
    def recorded(self) -> bool:
        """Return whether the run left a record of its ranks."""
        return (self.directory / "ranks.json").is_file()

    @cached_property
    def record(self) -> RanksRecord:
        """Read the record of all ranks. Raises `ArtifactError` if there is none."""
        if not self.recorded:
            raise no_record(self.build_dir, "contains no records of ranks", f"{AGAIN} first")
        return read_ranks(self.directory / "ranks.json")

    @cached_property
    def dispatches(self) -> list[DispatchRow]:
        """The dispatches, ordered by rank and number. Those of the host are last."""
        return sorted(self.record.dispatches, key=lambda row: (row.rank == HOST, row.rank, row.index))

    @cached_property
    def by_number(self) -> dict[int, DispatchRow]:
        """Dispatches by their numbers in the order of submission."""
        return {row.number: row for row in self.record.dispatches}

    def directory_of(self, row: DispatchRow) -> Path:
        """Return the directory with the records of a dispatch."""
        return self.directory / row.place

    def program_of(self, row: DispatchRow) -> Path:
        """The artifact of its chip program."""
        return self.root / "next_levels" / row.program

    def evidence(self, row: DispatchRow) -> Evidence:
        """Return the records of a dispatch in the form of a run on one chip."""
        return Evidence(self.program_of(row), self.directory_of(row), self.platform)

    @cached_property
    def messages(self) -> dict[int, MessagesRecord]:
        """Return the notifications and waits of all dispatches, by number; those without a record are left out."""
        records = {row.number: read_messages(self.directory_of(row) / "messages.json") for row in self.dispatches}
        return {number: record for number, record in records.items() if record is not None}

    def span(self, row: DispatchRow) -> tuple[float, float]:
        """Return the begin and end of a dispatch in microseconds; an unfinished one ends with the run."""
        return row.begun_s * 1e6, self.end if row.ended_s is None else row.ended_s * 1e6

    @property
    def ended(self) -> bool:
        """Return whether all dispatches ended."""
        return not self.record.pending and all(row.ended_s is not None for row in self.record.dispatches)

    @cached_property
    def end(self) -> float:
        """Return the end of the run in microseconds: the last end, or begin of an unfinished dispatch."""
        return max((1e6 * (row.begun_s if row.ended_s is None else row.ended_s) for row in self.dispatches), default=0)

    def at(self, time_ns: int) -> float:
        """A moment of the machine's clock."""
        return (time_ns - self.record.origin_ns) / 1e3

    def title(self, row: DispatchRow) -> str:
        """`rank 0 d1 'reduce'`."""
        position = f"host d{row.index}" if row.rank == HOST else f"rank {row.rank} d{row.index}"
        return f"{position} '{row.program}'"

    def submitted_at(self, row: DispatchRow) -> str:
        """`orchestration/host_orch.py:50`."""
        return f"{DRIVER}:{row.line}" if row.line else DRIVER

    def signal(self, address: int) -> str:
        """`comm_d0.arrived_buf+4 of rank 1`."""
        for domain in self.record.domains:
            if position := domain.place(address):
                return f"{domain.label(position[1])} of rank {position[0]}"
        return f"0x{address:x}"

    def choose(self, text: str) -> list[DispatchRow]:
        """Return the dispatches that `RANK=` names: `1`, `1/d2`, or several with commas. Raises `ArtifactError` if
        there are none.
        """
        chosen: list[DispatchRow] = []
        for word in text.split(","):
            chosen += self._choose(word.strip())
        return list({row.number: row for row in chosen}.values())

    def _choose(self, word: str) -> list[DispatchRow]:
        match = _CHOICE.match(word)
        if match is None:
            raise ArtifactError(
                f"RANK={word}",
                "does not name a rank",
                "write RANK=1 for all dispatches of the rank, RANK=1/d0 for the first",
            )
        rank = int(match[1])
        own = [row for row in self.dispatches if row.rank == rank]
        if not own:
            ranks = ", ".join(str(number) for number in sorted({row.rank for row in self.dispatches} - {HOST}))
            raise ArtifactError(
                f"RANK={word}", f"rank {rank} had no dispatch", f"the ranks with dispatches: {ranks or 'none'}"
            )
        if match[2] is None:
            return own
        rows = [row for row in own if row.index == int(match[2])]
        if not rows:
            listed = ", ".join(f"{rank}/d{row.index}" for row in own)
            raise ArtifactError(
                f"RANK={word}", f"rank {rank} had {len(own)} dispatches", f"name one dispatch with RANK=, of {listed}"
            )
        return rows
