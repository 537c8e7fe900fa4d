"""Messages between ranks: which notification let which wait go on, and what decided when a run ended."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from pypto_build.diagnose.recorded.ranks import RanksRun
from pypto_build.facts.comparisons import COMPARISONS, holds
from pypto_build.replay.chips.records import HOST, DispatchRow


@dataclass(frozen=True)
class Notification:
    """A kernel told something at microsecond `at`; `after` is the signal's value then."""

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
        """The signal's value before; None where it was overwritten."""
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
    told: dict[int, list[Notification]] = {}
    for one in notifications(run):
        told.setdefault(one.address, []).append(one)
    found = []
    for wait in waits(run):
        sent = answer(told.get(wait.address, ()), wait) if wait.held else None
        if sent is not None:
            found.append(Message(sent, wait))
    return sorted(found, key=lambda message: message.taken.ended)


def notifications(run: RanksRun) -> list[Notification]:
    """Return the notifications of all ranks in the order of time."""
    found = []
    for number, record in run.messages.items():
        row = run.by_number[number]
        for time, address, value, sets, after, task, kernel in record.notifications:
            found.append(Notification(row, task, record.kernels[kernel], address, value, sets, after, run.at(time)))
    return sorted(found, key=lambda one: one.at)


def waits(run: RanksRun) -> list[SignalWait]:
    """Return the waits of all ranks in the order of time."""
    found = []
    for number, record in run.messages.items():
        row = run.by_number[number]
        for begun, ended, address, expected, comparison, held, task, kernel in record.waits:
            found.append(
                SignalWait(
                    row, task, record.kernels[kernel], address, expected, comparison, held, run.at(begun), run.at(ended)
                )
            )
    return sorted(found, key=lambda wait: wait.begun)


def answer(told: Sequence[Notification], wait: SignalWait) -> Notification | None:
    """The notification since which the signal has been what `wait` wants, when it went on; None if it always was."""
    answer: Notification | None = None
    for place in range(bisect_right(told, wait.ended, key=lambda one: one.at) - 1, -1, -1):
        one = told[place]
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
    """A stretch of the chain that decided when the run ended: `dispatch` from `begun` to `ended`, and why it could not
    begin or go on earlier: a `message`, a dispatch that it came `after`, or nothing.
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
