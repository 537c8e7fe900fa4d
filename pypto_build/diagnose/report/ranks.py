"""Picture of all ranks for the report: timelines, waits and messages, as plain data for its script."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pypto_build.artifact.distributed import load_distributed
from pypto_build.diagnose.deps.ranks import chain_table, dispatch_table, message_table, waiting_table
from pypto_build.diagnose.recorded.critical_path import Timeline
from pypto_build.diagnose.recorded.evidence import SIMULATED
from pypto_build.diagnose.recorded.ranks import (
    Message,
    RanksRun,
    SignalWait,
    Stretch,
    critical_chain,
    messages_of,
    waits,
)
from pypto_build.replay.chips.records import HOST, DispatchRow

#: Beyond so many rows the cores of a rank share one.
_MOST_LANES = 120
_MOST_MESSAGES = 4000
_MOST_BARS = 40000
#: Waits that are shorter than so many microseconds are not drawn.
_SHORTEST = 0.05


class Picture:
    """Rows, bars and arrows; texts are kept once and named by their places."""

    def __init__(self, run: RanksRun) -> None:
        self.run = run
        self.messages = messages_of(run)
        self.chain = critical_chain(run, self.messages) if run.ended else []
        self._names: dict[str, int] = {}
        self._kernels: dict[str, int] = {}
        self._timelines = {row.number: self._timeline(row) for row in run.dispatches}
        self._lanes: dict[tuple[int, int], int] = {}  # rank and core (-1: its dispatches) -> row
        self.bands = self._bands()

    def _timeline(self, row: DispatchRow) -> Timeline | None:
        """The timeline of a dispatch, if it is known when that was."""
        recorded = row.rank != HOST and row.number in self.run.messages
        return self.run.evidence(row).timeline if recorded else None

    def _bands(self) -> list[dict[str, Any]]:
        cores: dict[int, list[tuple[int, str]]] = {}
        for row in self.run.dispatches:
            timeline = self._timelines[row.number]
            listed = {(one.core, timeline.core_name(one.core)) for one in timeline.rows} if timeline else set()
            cores[row.rank] = sorted({*cores.get(row.rank, ()), *listed})
        shared = sum(1 + len(lanes) for lanes in cores.values()) > _MOST_LANES
        bands: list[dict[str, Any]] = []
        lane = 0
        for rank, lanes in cores.items():
            self._lanes[rank, -1] = lane
            names = ["dispatch"]
            for number, (core, name) in enumerate(lanes):
                self._lanes[rank, core] = lane + 1 + (0 if shared else number)
                if not (shared and number):
                    names.append("cores" if shared else name)
            lane += len(names)
            bands.append({"name": "host" if rank == HOST else f"rank {rank}", "lanes": names})
        return bands

    def name(self, text: str) -> int:
        """The place of a text."""
        return self._names.setdefault(text, len(self._names))

    def _kernel(self, name: str) -> int:
        """The number by which a kernel has its colour."""
        return self._kernels.setdefault(name, len(self._kernels))

    def _lane(self, row: DispatchRow, task: int, time: float) -> int:
        """The row where a task of a dispatch ran at a moment."""
        timeline, record = self._timelines[row.number], self.run.messages.get(row.number)
        if timeline is not None and record is not None:
            shift = self.run.at(record.origin_ns) + timeline.zero
            own = [one for one in timeline.rows if one.task == task]
            at = next((one for one in own if one.start + shift <= time <= one.end + shift), own[0] if own else None)
            if at is not None:
                return self._lanes[row.rank, at.core]
        return self._lanes[row.rank, -1]

    def bars(self) -> list[tuple[int, int, int, float, float, int, int]]:
        """Return what ran as rows of (row, 0 for a dispatch or 1 for a kernel, text, start, duration, colour, whether
        it is on the critical path).
        """
        deciding = {step.dispatch.number for step in self.chain}
        bars: list[tuple[int, int, int, float, float, int, int]] = []
        for row in self.run.dispatches:
            begun, ended = self.run.span(row)
            text = self.name(f"{self.run.title(row)}" + ("" if row.ended_s is not None else ", which did not end"))
            span = (round(begun, 3), round(ended - begun, 3))
            bars.append((self._lanes[row.rank, -1], 0, text, *span, -1, int(row.number in deciding)))
        for row in self.run.dispatches:
            timeline, record = self._timelines[row.number], self.run.messages.get(row.number)
            if timeline is None or record is None:
                continue
            evidence, shift = self.run.evidence(row), self.run.at(record.origin_ns) + timeline.zero
            for one in timeline.rows:
                text = self.name(f"rank {row.rank} {evidence.label(one.task)}")
                span = (round(one.start + shift, 3), round(one.end - one.start, 3))
                colour = self._kernel(evidence.kernel_of(one.task))
                bars.append((self._lanes[row.rank, one.core], 1, text, *span, colour, 0))
        return bars[:_MOST_BARS]

    def waits(self) -> list[tuple[int, float, float, int]]:
        """(row, start, duration, text) of the waits that took time."""
        return [
            (self._lane(one.dispatch, one.task, one.begun), round(one.begun, 3), round(one.ended - one.begun, 3), text)
            for one in waits(self.run)
            if one.ended - one.begun >= _SHORTEST
            for text in [self.name(self._waits_for(one))]
        ]

    def _waits_for(self, wait: SignalWait) -> str:
        signal = f"{self.run.signal(wait.address)} {wait.condition}"
        return f"{self.run.title(wait.dispatch)} {wait.kernel} waits for {signal}"

    def arrows(self) -> tuple[list[dict[str, Any]], int]:
        """The messages between ranks in the order of time, and how many are left out."""
        between = [message for message in self.messages if message.between_ranks]
        kept = sorted(between, key=lambda message: -message.waited)[:_MOST_MESSAGES]
        kept.sort(key=lambda message: (message.taken.ended, message.sent.at))
        deciding = {id(step.message) for step in self.chain if step.message is not None}
        return [self._arrow(message, id(message) in deciding) for message in kept], len(between) - len(kept)

    def _arrow(self, message: Message, critical: bool) -> dict[str, Any]:
        sent, taken = message.sent, message.taken
        return {
            "fromLane": self._lane(sent.dispatch, sent.task, sent.at),
            "toLane": self._lane(taken.dispatch, taken.task, taken.ended),
            "at": round(sent.at, 3),
            "ended": round(taken.ended, 3),
            "waited": round(message.waited if sent.at > taken.begun else 0.0, 3),
            "from": self.name(f"{self.run.title(sent.dispatch)} {sent.kernel}"),
            "to": self.name(f"{self.run.title(taken.dispatch)} {taken.kernel}"),
            "signal": self.name(f"{self.run.signal(taken.address)} ({taken.condition})"),
            "critical": critical,
        }

    @property
    def names(self) -> list[str]:
        """All texts."""
        return list(self._names)


def ranks_data(run: RanksRun) -> dict[str, Any]:
    """Return the data that `ranks.js` draws, and the tables below it."""
    picture = Picture(run)
    bars = picture.bars()
    waiting = picture.waits()
    arrows, left_out = picture.arrows()
    start = min((bar[3] for bar in bars), default=0.0)
    return {
        "note": f"{SIMULATED[0].upper()}{SIMULATED[1:]}." if run.simulated else "",
        "start": start,
        "end": max(run.end, start + 1e-3),
        "bands": picture.bands,
        "names": picture.names,
        "bars": bars,
        "waits": waiting,
        "messages": arrows,
        "messagesLeftOut": left_out,
        "tables": _tables(run, picture.messages, picture.chain),
    }


def _tables(run: RanksRun, messages: Sequence[Message], chain: Sequence[Stretch]) -> list[list[Any]]:
    """Title, headings, rows and a note of each table."""
    hint = "To show the tasks of one dispatch: scons deps RANK=0/d0. With EXPORT=html, its graph becomes a page."
    tables = [["Dispatches", *dispatch_table(run, messages), hint]]
    if run.record.waiting:
        tables.insert(0, ["Waiting when the run ended", *waiting_table(run), ""])
    if any(message.between_ranks for message in messages):
        tables.append(["Messages from rank to rank", *message_table(run, messages), ""])
    if chain:
        tables.append(["What decided when the run ended", *chain_table(run, chain), ""])
    return tables


def ranks_facts(run: RanksRun) -> list[list[str]]:
    """Return the number of ranks as a name and a value for the heading of the page."""
    if not run.recorded:
        return [["ranks", str(load_distributed(run.root).ranks)]]
    record = run.record
    plain = record.devices in ([], list(range(record.world)))
    return [
        ["ranks", str(record.world) if plain else f"{record.world}, on devices {', '.join(map(str, record.devices))}"]
    ]
