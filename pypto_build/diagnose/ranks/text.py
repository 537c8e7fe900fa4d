"""Dispatches of all ranks and the messages between them, in words and columns."""

from __future__ import annotations

from collections.abc import Sequence

from pypto_build.diagnose.console import table
from pypto_build.diagnose.ranks.messages import Message, Step, critical_chain, messages_of
from pypto_build.diagnose.ranks.run import RanksRun
from pypto_build.diagnose.recorded.evidence import SIMULATED
from pypto_build.replay.chips.board import COMPARISONS
from pypto_build.replay.chips.records import HOST, DispatchRow

_SHOWN_DISPATCHES = 64
_SHOWN_PAIRS = 40
_SHOWN_STEPS = 25


def summary_lines(run: RanksRun) -> list[str]:
    """The whole run: who dispatched what when, who waited for whom, and what decided when it ended."""
    record, messages = run.record, messages_of(run)
    programs = {row.program for row in run.dispatches if row.rank != HOST}
    counts = [_count(record.world, "rank"), f"{_count(len(run.dispatches), 'dispatch', 'dispatches')} of"]
    domains = ", ".join(
        f"{domain.name} ({len(domain.ranks)} ranks, {domain.size:,} bytes)" for domain in record.domains
    )
    lines = [f"{counts[0]}, {counts[1]} {_count(len(programs), 'program')}, domains: {domains or 'none'}"]
    lines += [f"note: {SIMULATED}"] if run.simulated else []
    lines += ["", *_dispatch_lines(run, messages)]
    lines += ["", *_message_lines(run, messages)]
    chain = critical_chain(run, messages)
    if chain:
        lines += ["", *_chain_lines(run, chain)]
    if record.waiting:
        lines += ["", "waiting when the run ended", *waiting_lines(run)]
    return lines


def _count(number: int, one: str, several: str = "") -> str:
    return f"{number:,} {one if number == 1 else several or one + 's'}"


def _dispatch_lines(run: RanksRun, messages: Sequence[Message]) -> list[str]:
    shown = run.dispatches[:_SHOWN_DISPATCHES]
    rows = [
        ["host" if row.rank == HOST else str(row.rank), f"d{row.index}", row.program, *_times(run, row, messages)]
        for row in shown
    ]
    more = f", the first {len(shown)}" if len(run.dispatches) > len(shown) else ""
    headings = ("rank", "", "program", "after", "begun us", "took us", "waited us", "tasks", "submitted at")
    return [f"dispatches{more}", *table(rows, headings)]


def _times(run: RanksRun, row: DispatchRow, messages: Sequence[Message]) -> list[str]:
    """After which dispatches it came, when it began, how long it took, how long its kernels waited, its tasks."""
    begun, ended = run.span(row)
    before = (run.by_number.get(number) for number in row.producers)
    after = ", ".join(f"{'host' if other.rank == HOST else other.rank}/d{other.index}" for other in before if other)
    waited = sum(message.waited for message in messages if message.taken.dispatch.number == row.number)
    timeline = run.evidence(row).timeline if row.rank != HOST else None
    tasks = str(len({one.task for one in timeline.rows})) if timeline else "-"
    took = "did not end" if row.ended_s is None else f"{ended - begun:.1f}"
    return [after or "-", f"{begun:.1f}", took, f"{waited:.1f}", tasks, run.submitted_at(row)]


def pairs_of(messages: Sequence[Message]) -> dict[tuple[int, int], list[Message]]:
    """Messages between ranks by sender and receiver, in the order of ranks."""
    found: dict[tuple[int, int], list[Message]] = {}
    for message in messages:
        if message.between_ranks:
            found.setdefault((message.sent.dispatch.rank, message.taken.dispatch.rank), []).append(message)
    return dict(sorted(found.items()))


def _message_lines(run: RanksRun, messages: Sequence[Message]) -> list[str]:
    if not run.messages:
        return ["no messages on record: SWIMLANE=4 records them"]
    pairs = pairs_of(messages)
    total = sum(map(len, pairs.values()))
    if not total:
        return ["no messages between ranks: no kernel waited for a signal of another rank"]
    rows = []
    for (sender, receiver), listed in list(pairs.items())[:_SHOWN_PAIRS]:
        longest = max(listed, key=lambda message: message.waited)
        rows.append(
            [
                str(sender),
                str(receiver),
                str(len(listed)),
                f"{sum(message.waited for message in listed):.1f}",
                f"{longest.waited:.1f}",
                f"{run.signal(longest.taken.address)} {longest.taken.condition}",
                f"{longest.sent.kernel} -> {longest.taken.kernel}",
            ]
        )
    more = f", the first {_SHOWN_PAIRS} pairs" if len(pairs) > _SHOWN_PAIRS else ""
    headings = ("from", "to", "count", "waited us", "longest us", "of the longest: signal", "kernels")
    return [f"messages between ranks: {total:,}{more}", *table(rows, headings)]


def _chain_lines(run: RanksRun, chain: Sequence[Step]) -> list[str]:
    shown = chain[-_SHOWN_STEPS:]
    more = f", the last {len(shown)}" if len(chain) > len(shown) else ""
    rows = [
        [run.title(step.dispatch), f"{step.begun:.1f}", f"{step.ended - step.begun:.1f}", why(run, step)]
        for step in shown
    ]
    heading = f"what decided when the run ended, {_count(len(chain), 'step')}{more}"
    return [heading, *table(rows, ("dispatch", "from us", "span us", "because of"))]


def why(run: RanksRun, step: Step) -> str:
    """What a step had to come after."""
    if step.message is not None:
        sent, taken = step.message.sent, step.message.taken
        signal = f"{run.signal(taken.address)} {taken.condition}"
        return f"{run.title(sent.dispatch)} notifies {signal}, after a wait of {step.message.waited:.1f} us"
    if step.after is None:
        return "the run's beginning"
    if step.after.number in step.dispatch.producers:
        return f"a host tensor of {run.title(step.after)}"
    return f"its rank was taken by {run.title(step.after)}"


def waiting_lines(run: RanksRun) -> list[str]:
    """What kernels waited for when the run ended."""
    rows = [
        [
            str(wait.rank),
            wait.kernel,
            f"{run.signal(wait.address)} {COMPARISONS[wait.comparison]} {wait.expected}",
            str(wait.value),
        ]
        for wait in run.record.waiting
    ]
    return table(rows, ("rank", "kernel", "waits for", "it is"))
