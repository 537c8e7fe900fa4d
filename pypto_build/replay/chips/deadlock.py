"""Detects deadlocks between ranks, and reports which signals they wait for and which ranks notified those."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from pypto_build.facts.comparisons import COMPARISONS
from pypto_build.replay.chips.board import Board, Notes, Wait
from pypto_build.replay.chips.dispatches import Dispatch, Queue
from pypto_build.replay.chips.memory import Windows
from pypto_build.runtime.waits import ago

_SHOWN = 4
_TOKEN_HINT = "order the dispatches of a rank by a token: an INOUT tensor that all of them share"
_HINT = "look at the peer that each notifies, at offset and value of the signal, and at who skips its notify"


class Watch:
    """Checks the board from time to time. Two checks without any progress in between make a deadlock. Kernels that wait
    for members of their group are woken without a note on the board; with such waits, more checks are needed."""

    _LOOKS, _LOOKS_WITH_GROUPS = 2, 12

    def __init__(self, board: Board) -> None:
        self._board = board
        self._before: object = None
        self._still = 0

    def stuck(self, running: Mapping[int, Dispatch]) -> list[Wait]:
        """Return the waits of `running` ranks if none of them can go on; else none."""
        board = self._board
        epoch = board.epoch
        waits = {rank: board.waits(rank) for rank in running}
        if not all(waits.values()) or any(board.busy(rank) > 0 for rank in running):
            self._before = None
            return []
        found = [wait for rank in waits.values() for wait in rank]
        now = (epoch, tuple((wait.rank, wait.task, wait.address) for wait in found), tuple(running))
        self._still = self._still + 1 if now == self._before else 1
        self._before = now
        grouped = any(board.other_waits(rank) for rank in running)
        needed = self._LOOKS_WITH_GROUPS if grouped else self._LOOKS
        if self._still < needed or board.epoch != epoch or any(wait.is_over for wait in found):
            return []
        return found


def explain(
    board: Board, waits: Sequence[Wait], running: Mapping[int, Dispatch], queue: Queue, domains: Sequence[Windows]
) -> tuple[str, str]:
    """Return the message of a deadlock, in one line, and the hint."""
    told = [_wait(board, wait, running[wait.rank], domains) for wait in waits]
    more = f"; and {len(told) - _SHOWN} more" if len(told) > _SHOWN else ""
    behind = [(item.rank, item, producers) for item, producers in queue.waiting() if item.rank is not None]
    blocked = [
        f"{item} was submitted before {running[rank]} and has not begun: nothing orders them, "
        "and a rank runs one dispatch at a time"
        for rank, item, producers in behind
        if rank in running and not producers and item.number < running[rank].number
    ]
    later = [f"{item} comes after {running[rank]} on its rank" for rank, item, _ in behind if rank in running]
    because = f"; {blocked[0]}" if blocked else f"; {later[0]}" if later else ""
    members = {rank for windows in domains for rank in windows.ranks}
    over = sorted(members - running.keys() - {rank for rank, *_ in behind})
    ranks, have = ("ranks", "have") if len(over) > 1 else ("rank", "has")
    ended = f"; {ranks} {', '.join(map(str, over))} {have} nothing left to run" if over else ""
    hint = _TOKEN_HINT if blocked else _HINT
    return f"the ranks wait for each other: {'; '.join(told[:_SHOWN])}{more}{because}{ended}", hint


def _wait(board: Board, wait: Wait, dispatch: Dispatch, domains: Sequence[Windows]) -> str:
    """Return a description of one wait, and of the notifications of its signal."""
    place = next(((windows, found) for windows in domains if (found := windows.place(wait.address)) is not None), None)
    if place is None:
        signal, members = f"the signal at 0x{wait.address:x}", tuple[int, ...]()
    else:
        windows, (owner, buffer, offset) = place
        members = windows.ranks
        name = buffer.name if buffer else "window"
        whose = "" if owner == wait.rank else f" of rank {owner}"
        signal = f"{windows.domain}.{name}+{offset}{whose}"
    notes = sorted(board.notes(wait.address), key=lambda note: note.rank)
    latest = max((note.last_ns for note in notes), default=0)
    parts = [_note(note, note.last_ns == latest) for note in notes]
    never = [str(rank) for rank in members if rank not in {note.rank for note in notes}]
    parts += [f"never by rank {', '.join(never)}"] if never and notes else []
    history = f"notified {'; '.join(parts)}" if notes else "nobody ever notified it"
    return (
        f"{dispatch} kernel '{wait.kernel}' (task {wait.task}) waits for {signal} {COMPARISONS[wait.comparison]} "
        f"{wait.expected}, it is {wait.value} ({history})"
    )


def _note(note: Notes, is_latest: bool) -> str:
    times = f"{note.count} times" if note.count > 1 else "once"
    set_to = f", set to {note.last}" if note.sets else ""
    when = f", {ago(time.monotonic_ns() - note.last_ns)}" if is_latest else ""
    return f"{times} by rank {note.rank} '{note.kernel}'{set_to}{when}"
