"""`scons deps` on a distributed artifact: dispatches of all ranks, messages between them, what decided when the run
ended; with `RANK=` the tasks of one."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path

from pypto_build.artifact.errors import ArtifactError
from pypto_build.artifact.files import from_here, write_bytes
from pypto_build.diagnose.console import counted, one_of, table
from pypto_build.diagnose.recorded.chrome_trace import ChromeTrace
from pypto_build.diagnose.recorded.evidence import SIMULATED
from pypto_build.diagnose.recorded.ranks import Message, RanksRun, Stretch, critical_chain, messages_of
from pypto_build.facts.comparisons import COMPARISONS
from pypto_build.replay.chips.records import HOST, DispatchRow

# Dispatches of all ranks and the messages between them, in words and columns.


_SHOWN_DISPATCHES = 64
_SHOWN_PAIRS = 40
_SHOWN_STEPS = 25

#: Headings and rows.
Table = tuple[list[str], list[list[str]]]


def summary_lines(run: RanksRun) -> list[str]:
    """The whole run: who dispatched what when, who waited for whom, and what decided when it ended."""
    record, messages = run.record, messages_of(run)
    programs = {row.program for row in run.dispatches if row.rank != HOST}
    counts = [counted(record.world, "rank"), f"{counted(len(run.dispatches), 'dispatch', 'dispatches')} of"]
    domains = ", ".join(f"{one.name} ({len(one.ranks)} ranks, {one.size:,} bytes)" for one in record.domains)
    lines = [f"{counts[0]}, {counts[1]} {counted(len(programs), 'program')}, domains: {domains or 'none'}"]
    lines += [f"note: {SIMULATED}"] if run.simulated else []
    lines += ["", *_shown("dispatches", dispatch_table(run, messages), _SHOWN_DISPATCHES)]
    if not run.messages:
        lines += ["", "no messages on record: SWIMLANE=4 records them"]
    elif total := sum(message.between_ranks for message in messages):
        lines += ["", *_shown(f"messages between ranks: {total:,}", message_table(run, messages), _SHOWN_PAIRS)]
    elif run.ended:
        lines += ["", "no messages between ranks: no kernel waited for a signal of another rank"]
    else:
        lines += ["", "no messages on record: those of dispatches that did not end are lost"]
    if run.ended and (chain := critical_chain(run, messages)):
        title = f"what decided when the run ended, {counted(len(chain), 'step')}"
        lines += ["", *_shown(title, chain_table(run, chain), _SHOWN_STEPS, last=True)]
    if record.waiting:
        headings, rows = waiting_table(run)
        lines += ["", "waiting when the run ended", *table(rows, headings)]
    return lines


def _shown(title: str, contents: Table, most: int, last: bool = False) -> list[str]:
    """A table under its title, the first rows of it where there are many, or the last."""
    headings, rows = contents
    more = f", the {'last' if last else 'first'} {most}" if len(rows) > most else ""
    return [title + more, *table(rows[-most:] if last else rows[:most], headings)]


def dispatch_table(run: RanksRun, messages: Sequence[Message]) -> Table:
    """A row a dispatch: where, what, after which others, when, how much its kernels waited, its tasks."""
    headings = ["rank", "", "program", "after", "begun us", "took us", "waited us", "tasks", "submitted at"]
    waited: dict[int, float] = {}
    for message in messages:
        number = message.taken.dispatch.number
        waited[number] = waited.get(number, 0.0) + message.waited
    return headings, [_dispatch(run, row, waited.get(row.number, 0.0)) for row in run.dispatches]


def _dispatch(run: RanksRun, row: DispatchRow, waited: float) -> list[str]:
    begun, ended = run.span(row)
    before = (run.by_number.get(number) for number in row.producers)
    after = ", ".join(f"{'host' if other.rank == HOST else other.rank}/d{other.index}" for other in before if other)
    timeline = run.evidence(row).timeline if row.rank != HOST else None
    tasks = str(len({one.task for one in timeline.rows})) if timeline else "-"
    took = "did not end" if row.ended_s is None else f"{ended - begun:.1f}"
    rank = "host" if row.rank == HOST else str(row.rank)
    cells = [rank, f"d{row.index}", row.program, after or "-"]
    return [*cells, f"{begun:.1f}", took, f"{waited:.1f}", tasks, run.submitted_at(row)]


def message_table(run: RanksRun, messages: Sequence[Message]) -> Table:
    """A row for each pair of ranks of which one let the other go on."""
    pairs: dict[tuple[int, int], list[Message]] = {}
    for message in messages:
        if message.between_ranks:
            pairs.setdefault((message.sent.dispatch.rank, message.taken.dispatch.rank), []).append(message)
    rows = []
    for (sender, receiver), listed in sorted(pairs.items()):
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
    return ["from", "to", "count", "waited us", "longest us", "of the longest: signal", "kernels"], rows


def chain_table(run: RanksRun, chain: Sequence[Stretch]) -> Table:
    """A row a step, the last one the end of the run."""
    rows = [
        [run.title(step.dispatch), f"{step.begun:.1f}", f"{step.ended - step.begun:.1f}", why(run, step)]
        for step in chain
    ]
    return ["dispatch", "from us", "span us", "because of"], rows


def why(run: RanksRun, step: Stretch) -> str:
    """Return a text that says why a step came no earlier: a message, a host tensor or its rank."""
    if step.message is not None:
        sent, taken = step.message.sent, step.message.taken
        signal = f"{run.signal(taken.address)} {taken.condition}"
        return f"{run.title(sent.dispatch)} notifies {signal}, after a wait of {step.message.waited:.1f} us"
    if step.after is None:
        return "the run's beginning"
    if step.after.number in step.dispatch.producers:
        return f"a host tensor of {run.title(step.after)}"
    return f"its rank was taken by {run.title(step.after)}"


def waiting_table(run: RanksRun) -> Table:
    """Return a table of the signals that kernels waited for when the run ended."""
    rows = []
    for wait in run.record.waiting:
        condition = f"{run.signal(wait.address)} {COMPARISONS[wait.comparison]} {wait.expected}"
        rows.append([str(wait.rank), wait.kernel, condition, str(wait.value)])
    return ["rank", "kernel", "waits for", "it is"], rows


# All ranks in the forms of other tools: Chrome's trace format, a process a rank; Graphviz DOT of the dispatches.

_DISPATCHES = 0  # the thread of a rank's dispatches; cores follow


def trace(run: RanksRun) -> str:
    """A process a rank with a track for its dispatches and one a core; messages are flows between cores."""
    events = ChromeTrace()
    cores: dict[tuple[int, int], int] = {}  # process and task -> the thread of its first row
    for row in run.dispatches:
        begun, ended = run.span(row)
        process = _process(run, row.rank)
        name = "host callables" if row.rank == HOST else f"rank {row.rank}" + (" (simulated)" if run.simulated else "")
        events.name_process(process, name)
        events.name_thread((process, _DISPATCHES), "dispatches")
        events.span((process, _DISPATCHES), f"d{row.index} {row.program}", begun, ended)
        evidence = run.evidence(row)
        timeline, messages = evidence.timeline, run.messages.get(row.number)
        if timeline is None or messages is None:
            continue
        shift = run.at(messages.origin_ns) + timeline.zero
        for one in timeline.rows:
            cores.setdefault((row.number, one.task), one.core + 1)
            events.name_thread((process, one.core + 1), timeline.core_name(one.core))
            events.span((process, one.core + 1), evidence.label(one.task), one.start + shift, one.end + shift)
    for message in messages_of(run):
        if message.between_ranks:
            ends = []
            for end, time in ((message.sent, message.sent.at), (message.taken, message.taken.ended)):
                thread = cores.get((end.dispatch.number, end.task), _DISPATCHES)
                ends.append(((_process(run, end.dispatch.rank), thread), time))
            events.arrow(run.signal(message.taken.address), "message", *ends)
    return events.text(note=SIMULATED if run.simulated else "")


def _process(run: RanksRun, rank: int) -> int:
    """Processes are numbered from 1, the host's last."""
    return run.record.world + 1 if rank == HOST else rank + 1


def dot(run: RanksRun) -> str:
    """The dispatches, a column a rank: solid arrows for host tensors, dashed ones for messages with their number."""
    lines = ["digraph ranks {", "  rankdir=TB;", '  node [shape=box, style="rounded,filled", fillcolor="#d1f0d9"];']
    for rank in dict.fromkeys(row.rank for row in run.dispatches):
        title = "host" if rank == HOST else f"rank {rank}"
        lines.append(f'  subgraph "cluster_{title}" {{ label="{title}";')
        own = [row for row in run.dispatches if row.rank == rank]
        lines += [f'    d{row.number} [label="d{row.index} {row.program}"];' for row in own]
        lines.append("  }")
    for row in run.dispatches:
        lines += [f"  d{number} -> d{row.number};" for number in row.producers if number in run.by_number]
    sent: dict[tuple[int, int], int] = {}
    for message in messages_of(run):
        if message.between_ranks:
            ends = (message.sent.dispatch.number, message.taken.dispatch.number)
            sent[ends] = sent.get(ends, 0) + 1
    lines += [
        f'  d{one} -> d{other} [style=dashed, constraint=false, label="{n}"];' for (one, other), n in sent.items()
    ]
    return "\n".join([*lines, "}", ""])


#: What one file can hold of all ranks.
EXPORTS = ("dot", "trace")


def deps_of_ranks(options: argparse.Namespace, run_deps: Callable[[argparse.Namespace], int]) -> int:
    """Print or export the task graphs of all ranks.

    Returns 0, 1 if --to finds no order, or 2 if the run has no records.
    """
    run = RanksRun(options.root, options.build_dir or options.root, options.platform)
    if not options.rank:
        if options.task or options.to:
            option = f"TASK={options.task}" if options.task else f"TO={options.to}"
            raise ArtifactError(
                option,
                "names a task, and tasks are counted in each dispatch",
                "name the dispatch too, such as RANK=0/d0",
            )
        if options.export:
            print(from_here(_export(run, options.export, options.output)))
        else:
            print("\n".join(summary_lines(run)))
        return 0
    rows = run.choose(options.rank)
    if len(rows) > 1 and (options.task or options.to or options.output):
        listed = ", ".join(f"RANK={row.rank}/d{row.index}" for row in rows)
        raise ArtifactError(f"RANK={options.rank}", f"has {len(rows)} dispatches", f"name one: {listed}")
    status = 0
    for number, row in enumerate(rows):
        if not options.export:
            print(("\n" if number else "") + f"{run.title(row)}, submitted at {run.submitted_at(row)}")
        one = argparse.Namespace(**{**vars(options), "root": run.program_of(row), "build_dir": run.directory_of(row)})
        status = status or run_deps(one)
    return status


def _export(run: RanksRun, form: str, output: Path | None) -> Path:
    if form == "html":
        raise ArtifactError(
            "EXPORT=html",
            "draws only the graph of one dispatch",
            "name the dispatch with RANK=; 'scons report' draws all graphs",
        )
    one_of("EXPORT", form, EXPORTS)
    name, text = ("ranks.dot", dot(run)) if form == "dot" else ("trace.json", trace(run))
    path = output or run.directory / name
    write_bytes(path, text.encode())
    return path
