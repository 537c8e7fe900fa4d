"""Findings `speed/…`: what makes a run slow, and the gain of an edit.

Each candidate is the recording, or the rates, as the edit would change them. The model runs on it, and the time that
goes away is the gain. A gain below 2 % of the run is not shown.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec

from pypto_build.artifact.files import read_source
from pypto_build.artifact.instruction_sites import InstructionPosition, relative
from pypto_build.diagnose.console import counted
from pypto_build.diagnose.findings import Edit, Finding, Related
from pypto_build.diagnose.speed import edited
from pypto_build.diagnose.speed.cost import Cost, price
from pypto_build.diagnose.speed.document import Gain
from pypto_build.diagnose.speed.memory import Hits, hits
from pypto_build.diagnose.speed.model import Model, Prediction, TaskTime, run_time
from pypto_build.diagnose.speed.rates import A2A3, Rates
from pypto_build.diagnose.speed.record import (
    ALL,
    BARRIER,
    FIX,
    INSTRUCTION,
    MTE2,
    MTE3,
    PIPES,
    SET_FLAG,
    UB,
    WAIT_FLAG,
    Recording,
    S,
    View,
)
from pypto_build.diagnose.speed.schedule import DATA
from pypto_build.diagnose.speed.text import headline
from pypto_build.diagnose.speed.what_if import BUFFER_FLAGS

#: The least gain that is shown, as a share of the run's time.
LEAST_GAIN = 0.02
#: Microseconds below which dispatch costs more than a task, bytes of a transfer that are enough, and of a row.
_SHORT_TASK, _TRANSFER, _ROW = 10.0, 16384, 512
#: Bytes of UB that kernels may use, and steps of a loop or scalar accesses from which on they matter.
_UB_BYTES = {True: 184 * 1024, False: 248 * 1024}
_LEAST_STEPS, _LEAST_SCALARS = 8, 64
#: Microseconds of work that a block of its own needs.
_LEAST_BLOCK = 2.0
#: The share by which blocks differ that are called uneven.
_UNEVEN = 1.1


@dataclass(frozen=True)
class EditCandidate:
    """An edit that may help: what is slow, where, and the recording and the rates after the edit.

    `rearranged`: the same data lie elsewhere in global memory, so as many of them hit in L2.
    """

    rule: str
    message: str
    hint: str
    recording: Recording
    rates: Rates
    row: int = -1
    kernel: int = -1
    tasks: tuple[int, ...] = ()
    old: int = -1
    new: int = -1
    rearranged: bool = False


@dataclass(frozen=True)
class Advisor:
    """Yields edits that may make a recording faster, from the costs, calls and streams of its prediction."""

    recording: Recording
    rates: Rates
    prediction: Prediction
    l2: Hits
    names: Mapping[int, str] = field(default_factory=dict)

    @cached_property
    def costs(self) -> list[Cost]:
        """Return the cost of each row."""
        return [price(row, self.rates) for row in self.recording.rows]

    @cached_property
    def kernel_of(self) -> dict[int, int]:
        """Return the kernel of each stream."""
        return {call.stream: call.kernel for call in self.recording.calls}

    @cached_property
    def uses(self) -> Counter[int]:
        """Return how many calls execute each stream."""
        return Counter(call.stream for call in self.recording.calls)

    @cached_property
    def counts(self) -> list[Counter[int]]:
        """Return how often each row is in each stream."""
        return [Counter(stream.tolist()) for stream in self.recording.streams]

    @cached_property
    def homes(self) -> dict[int, list[int]]:
        """Return the streams of each row."""
        result: dict[int, list[int]] = defaultdict(list)
        for stream, counts in enumerate(self.counts):
            for number in counts:
                result[number].append(stream)
        return result

    def _of(
        self, rule: str, message: str, hint: str, recording: Recording, row: int = -1, **more: Any
    ) -> EditCandidate:
        kernel = self.kernel_of.get(self.homes[row][0], -1) if row >= 0 and self.homes[row] else -1
        values: dict[str, Any] = {"row": row, "kernel": kernel, "rates": self.rates, **more}
        return EditCandidate(rule, message, hint, recording, **values)

    # -- in a kernel --

    def banks(self) -> Iterator[EditCandidate]:
        """Yield for each address that conflicts the nearest one that does not."""
        conflicts: dict[tuple[int, int], int] = {}
        for number, cost in enumerate(self.costs):
            tiles = [tile for tile in self.recording.rows[number].tiles if tile.space == UB]
            if cost.conflict > 0 and len(tiles) > 1 and self.homes[number]:
                sources = [tile for tile in tiles if tile.reads and not tile.writes] or tiles
                conflicts.setdefault((self.kernel_of[self.homes[number][0]], sources[-1].address), number)
        for (kernel, old), number in conflicts.items():
            streams = edited.of_kernel(self.recording, kernel)
            if self._lost(streams, old) < LEAST_GAIN * self.prediction.time_us:
                continue
            new = self._free_of_conflict(streams, number, old)
            if new >= 0:
                row = self.recording.rows[number]
                message = (
                    f"operands of {row.name} share banks of UB, which costs {self.costs[number].conflict:.0f} cycles"
                )
                hint = f"move the tile from address 0x{old:x} to 0x{new:x}, by {new - old:+d} bytes"
                changed = edited.moved(self.recording, streams, old, new)
                yield self._of("speed/bank-conflict", message, hint, changed, number, old=old, new=new)

    def _lost(self, streams: list[int], old: int) -> float:
        """Return the microseconds that all calls lose to conflicts of a tile of UB: no edit of it saves more."""
        cycles = sum(
            self.uses[stream] * count * self.costs[number].conflict
            for stream in streams
            for number, count in self.counts[stream].items()
            if any((tile.space, tile.address) == (UB, old) for tile in self.recording.rows[number].tiles)
        )
        return cycles / self.rates.clock

    def _free_of_conflict(self, streams: list[int], number: int, old: int) -> int:
        """Return the address from `old` on at which a row has the least conflicts and no other tile lies, or -1."""
        rows = [self.recording.rows[n] for n in sorted({n for stream in streams for n in self.counts[stream]})]
        tiles = {(t.address, t.address + t.rows * t.cols * t.element) for r in rows for t in r.tiles if t.space == UB}
        size = max(end - begin for begin, end in tiles if begin == old)
        others = [span for span in tiles if span[0] != old]
        row = self.recording.rows[number]
        best, least = -1, self.costs[number].conflict
        limit = _UB_BYTES[self.rates.arch == A2A3]
        for new in range((old // 32) * 32, limit - size + 1, 32):
            if any(new < end and begin < new + size for begin, end in others):
                continue
            shifted = edited.at_address(row, old, new)
            conflict = price(shifted, self.rates).conflict
            if conflict < least:
                best, least = new, conflict
            if least == 0:
                break
        return best

    def rows_of_transfers(self) -> Iterator[EditCandidate]:
        """Yield transfers whose rows in global memory are short or not aligned."""
        aligned = int(self.rates["alignment"])
        for number, row in enumerate(self.recording.rows):
            if row.kind != INSTRUCTION or row.pipe not in (MTE2, MTE3, FIX) or not row.views or not self.homes[number]:
                continue
            count, length, step = row.views[0].bursts
            if count < 2 or (length >= _ROW and step % aligned == 0):
                continue
            short = length < _ROW
            message = f"{row.name} moves {count} rows of {length} bytes with a distance of {step} bytes; " + (
                f"rows of less than {_ROW} bytes use only a part of the transfer rate"
                if short
                else f"full speed needs rows that are aligned to {aligned} bytes"
            )
            hint = "make the tile as wide as the matrix, or store the tiles one after the other in global memory"
            changed = edited.with_rows(self.recording, {number: edited.consecutive(row)})
            rule = "speed/small-rows" if short else "speed/unaligned-rows"
            yield self._of(rule, message, hint, changed, number, rearranged=True)

    def steps(self) -> Iterator[EditCandidate]:
        """Yield loops whose steps move less than 16 KB by one transfer."""
        for stream, counts in enumerate(self.counts):
            seen: set[int] = set()
            for number, count in counts.items():
                row = self.recording.rows[number]
                if row.kind != INSTRUCTION or row.pipe != MTE2 or not row.views or not row.tiles:
                    continue
                bursts, length, _ = row.views[0].bursts
                size = bursts * length
                if count < _LEAST_STEPS or not 0 < size < _TRANSFER or count in seen:
                    continue
                seen.add(count)
                times = min(count, _TRANSFER // size, self._room(stream))
                changed = edited.with_larger_steps(self.recording, stream, number, times) if times > 1 else None
                if changed:
                    one = "one row" if bursts == 1 else f"{bursts} rows"
                    message = f"{row.name} moves {one} of only {size} bytes in each of {count} loop iterations"
                    hint = f"process {times} times as many rows in each iteration"
                    yield self._of(
                        "speed/row-by-row" if bursts == 1 else "speed/small-transfers", message, hint, changed, number
                    )

    def _room(self, stream: int) -> int:
        """Return how many times the tiles of a stream fit into UB."""
        used = {
            tile.address: tile.rows * tile.cols * tile.element
            for number in self.counts[stream]
            for tile in self.recording.rows[number].tiles
            if tile.space == UB
        }
        return _UB_BYTES[self.rates.arch == A2A3] // max(1, sum(used.values()))

    def buffers(self) -> Iterator[EditCandidate]:
        """Yield kernels in which a pipe waits until its only buffer is free."""
        for kernel in self.prediction.kernels:
            waits = [
                wait
                for wait in kernel.waits
                if (row := self.recording.rows[wait.row]).kind == WAIT_FLAG and (row.pipe, row.to) in BUFFER_FLAGS
            ]
            if waits:
                row = self.recording.rows[waits[0].row]
                message = f"{PIPES[row.to]} waits until {PIPES[row.pipe]} releases the only buffer"
                hint = "use two buffers in turn, each with its own flag"
                streams = edited.of_kernel(self.recording, kernel.kernel)
                changed = edited.with_two_buffers(self.recording, streams)
                yield self._of("speed/one-buffer", message, hint, changed, waits[0].row)

    def barriers(self) -> Iterator[EditCandidate]:
        """Yield barriers of all pipes behind which fewer pipes have to wait."""
        for number, row in enumerate(self.recording.rows):
            if row.kind == BARRIER and row.pipe == ALL and self.homes[number]:
                changed = edited.with_flags(self.recording, self.homes[number], number)
                if changed:
                    added = [r for r in changed.rows[len(self.recording.rows) :] if r.kind != WAIT_FLAG]
                    order = {(r.pipe, r.to if r.kind == SET_FLAG else r.pipe) for r in added}
                    pairs = [f"{PIPES[first]} to {PIPES[second]}" for first, second in sorted(order)]
                    message = "all pipes wait at this barrier; the operands need " + (", ".join(pairs) or "no wait")
                    hint = f"replace the barrier by waits of {', '.join(pairs)}" if pairs else "remove the barrier"
                    yield self._of("speed/wide-barrier", message, hint, changed, number)

    def scalars(self) -> Iterator[EditCandidate]:
        """Yield kernels that access single elements in a loop."""
        for kernel in sorted(set(self.kernel_of.values())):
            streams = edited.of_kernel(self.recording, kernel)
            counts: Counter[int] = Counter()
            for stream in streams:
                for number, count in self.counts[stream].items():
                    row = self.recording.rows[number]
                    if row.kind == INSTRUCTION and row.pipe == S:
                        counts[number] = max(counts[number], count)
            if counts and max(counts.values()) >= _LEAST_SCALARS:
                number, count = counts.most_common(1)[0]
                message = f"{self.recording.rows[number].name} accesses one element {count} times per call"
                changed = edited.without_scalars(self.recording, streams)
                yield self._of("speed/scalar-loop", message, "use an instruction on a whole tile", changed, number)

    def drains(self) -> Iterator[EditCandidate]:
        """Yield drains of L0C whose width is an odd number of fractals."""
        odd = next((n for n, cost in enumerate(self.costs) if cost.pipe == FIX and cost.work > cost.light > 0), -1)
        if odd >= 0 and self.homes[odd]:
            changed = self.rates.with_values(drain__odd=0.0)
            message = f"{self.recording.rows[odd].name} writes rows with an odd number of fractals, which is slow"
            hint = "choose a width that is 8 times a power of two"
            yield self._of("speed/odd-drain", message, hint, self.recording, odd, rates=changed)

    # -- in the run --

    def reads(self) -> Iterator[EditCandidate]:
        """Yield the rate without loads of one address by many cores."""
        if self.l2.sharers.max(initial=1.0) > 1:
            changed = self.rates.with_values(l2__shared__aiv=1e15, l2__shared__aic=1e15)
            message = "several cores load the same cache lines at the same time in the same order"
            hint = "start each block at another position: rotate the loop by the block number"
            yield self._of("speed/same-reads", message, hint, self.recording, rates=changed)

    def level2(self) -> Iterator[EditCandidate]:
        """Yield an L2 that keeps the run's data until they are used again."""
        capacity = self.rates["l2"] * self.rates["l2.reuse"]
        size = self.prediction.footprint / 2**20
        if size > capacity:
            changed = self.rates.with_values(l2=1.01 * (self.prediction.loaded + self.prediction.stored) / 2**20 + size)
            message = f"the run uses {size:,.0f} MiB, but L2 keeps only {capacity:,.0f}: data are loaded again from HBM"
            hint = "use loaded data again before loading others: split the work into parts that fit into L2"
            yield self._of("speed/over-l2", message, hint, self.recording, rates=changed)

    def tasks(self) -> Iterator[EditCandidate]:
        """Yield short tasks that may run as one: in a chain, or side by side on the same kernel."""
        after, calls = self.recording.after, self.recording.tasks
        longest: dict[int, float] = defaultdict(float)
        for block in self.prediction.tasks:
            longest[block.task] = max(longest[block.task], block.end_us - block.start_us)
        followers: Counter[int] = Counter(before for waits in after.values() for before in waits)
        message = "tasks of less than 10 us wait for their dispatch"
        chain: dict[int, int] = {}
        for most in (1, len(after)):  # a chain, or also those of which several wait for one
            head: dict[int, int] = {}
            for task, waits in after.items():
                heads = {head.get(one, one) for one in waits}
                few = all(followers[one] <= most and longest[one] < _SHORT_TASK for one in waits)
                if few and len(heads) == 1 and longest[task] < _SHORT_TASK and self._alike(task, min(heads)):
                    head[task] = min(heads)
            if head != chain:
                yield self._tasks("speed/short-tasks", f"{message}, one after the other", head)
            chain = head
        groups: dict[tuple[frozenset[int], int], list[int]] = defaultdict(list)
        for task, of in calls.items():
            if len(of) == 1 and longest[task] < _SHORT_TASK:
                groups[after.get(task, frozenset()), of[0].kernel].append(task)
        for (_, kernel), members in groups.items():
            cores = self.rates.cores["aiv" if calls[members[0]][0].member else "aic"]
            each = -(-len(members) // cores)
            if each > 1:
                beside = {task: members[at - at % each] for at, task in enumerate(members) if at % each}
                name = self.names.get(kernel, str(kernel))
                yield self._tasks("speed/short-tasks", f"{message}: {len(members)} of {name} side by side", beside)

    def _alike(self, one: int, other: int) -> bool:
        blocks = [[(call.block, call.member) for call in self.recording.tasks[task]] for task in (one, other)]
        return blocks[0] == blocks[1]

    def _tasks(self, rule: str, message: str, head: Mapping[int, int]) -> EditCandidate:
        changed = edited.fused(self.recording, head)
        tasks = tuple(sorted({*head, *head.values()}))
        kernel = self.recording.tasks[tasks[0]][0].kernel
        return self._of(rule, message, "fuse them into one kernel, or one task", changed, tasks=tasks, kernel=kernel)

    def waves(self) -> Iterator[EditCandidate]:
        """Yield tasks whose blocks keep some cores idle: in a last wave, or because some take longer."""
        blocks: dict[int, list[TaskTime]] = defaultdict(list)
        for block in self.prediction.tasks:
            blocks[block.task].append(block)
        least = LEAST_GAIN * self.prediction.time_us
        for task, of_task in blocks.items():
            times = {block.block: block.end_us - block.start_us for block in of_task}
            extent = max(block.end_us for block in of_task) - min(block.start_us for block in of_task)
            if extent < least:
                continue  # no edit of the task saves more than its time
            first = self.recording.tasks[task][0]
            cores = self.rates.cores["aiv" if first.member else "aic"]
            count, total, longest = len(times), sum(times.values()), max(times.values())
            more: dict[str, Any] = {"tasks": (task,), "kernel": first.kernel}
            parts = min(cores // count, int(longest / _LEAST_BLOCK))
            if parts > 1:
                name = self.names.get(first.kernel, str(first.kernel))
                message = f"{counted(count, 'block')} of {name} on {cores} cores: the others are idle"
                hint = f"split the work into {count * parts} blocks"
                changed = edited.with_more_blocks(self.recording, task, parts)
                yield self._of("speed/few-blocks", message, hint, changed, **more)
            if extent - total / cores < least:
                continue  # even blocks save no more than the time in which cores are idle
            if count > cores and count % cores:
                full = -(-count // cores) * cores
                factors = {(task, block): count / full for block in times}
                changed = edited.with_even_blocks(self.recording, factors, {task: full - count})
                message = f"{count} blocks on {cores} cores: only {count % cores} cores are busy in the last wave"
                yield self._of("speed/last-wave", message, f"use {full} blocks of less work", changed, **more)
            elif 1 < count <= cores and longest > _UNEVEN * total / count:
                factors = {(task, block): total / count / time for block, time in times.items() if time}
                changed = edited.with_even_blocks(self.recording, factors, {})
                message = f"the longest block takes {longest:,.1f} us, the mean is {total / count:,.1f}"
                yield self._of("speed/uneven-blocks", message, "give all blocks as much work", changed, **more)

    def dependencies(self) -> Iterator[EditCandidate]:
        """Yield the dependencies on the critical path between tasks that share no bytes, as one edit."""
        placed = self.prediction.tasks
        number = max(range(len(placed)), key=lambda n: placed[n].end_us, default=-1)
        after = dict(self.recording.after)
        idle: list[tuple[int, int]] = []
        while number >= 0:
            block = placed[number]
            if block.reason == DATA and block.before >= 0:
                task, other = block.task, placed[block.before].task
                if task != other and not self._share(other, task):
                    after[task] = (after[task] - {other}) | self.recording.after.get(other, frozenset())
                    idle.append((other, task))
            number = block.before
        if idle:
            other, task = idle[-1]
            more = f" ({len(idle)} such dependencies)" if len(idle) > 1 else ""
            message = f"task {task} waits for task {other}, although the two share no bytes and cores are idle{more}"
            tasks = tuple(sorted({task for pair in idle for task in pair}))
            kernel = self.recording.tasks[task][0].kernel
            changed = replace(self.recording, after=after)
            yield self._of(
                "speed/idle-dependency", message, "remove the dependency", changed, tasks=tasks, kernel=kernel
            )

    @cached_property
    def _reach(self) -> list[list[tuple[int, bool]]]:
        """Return of each stream the bytes that its views extend over, and whether they are written."""

        def reach(view: View) -> tuple[int, bool]:
            count, length, step = view.bursts
            return (count - 1) * step + length, view.writes

        of_row = [reach(row.views[0]) if row.views else None for row in self.recording.rows]
        return [[view for n in stream.tolist() if (view := of_row[n])] for stream in self.recording.streams]

    def _spans(self, task: int) -> set[tuple[int, int, bool]]:
        return {
            (base, base + size, writes)
            for call in self.recording.tasks[task]
            for (size, writes), base in zip(
                self._reach[call.stream], self.recording.bases[call.bases].tolist(), strict=True
            )
        }

    def _share(self, one: int, other: int) -> bool:
        return any(a[0] < b[1] and b[0] < a[1] and (a[2] or b[2]) for a in self._spans(one) for b in self._spans(other))


#: The tables of candidates, by what they look at.
_LOOKS: tuple[Callable[[Advisor], Iterator[EditCandidate]], ...] = (
    Advisor.banks,
    Advisor.rows_of_transfers,
    Advisor.steps,
    Advisor.buffers,
    Advisor.barriers,
    Advisor.scalars,
    Advisor.drains,
    Advisor.reads,
    Advisor.level2,
    Advisor.tasks,
    Advisor.waves,
    Advisor.dependencies,
)


def advise(
    recording: Recording,
    rates: Rates,
    prediction: Prediction,
    names: Mapping[int, str] | None = None,
    positions: Mapping[int, InstructionPosition] | None = None,
    root: Path | None = None,
    l2: Hits | None = None,
) -> list[Gain]:
    """Return the findings on a run with the gain of each, the largest first. `l2` are the hits of the recording."""
    l2 = l2 or hits(recording, rates)
    advisor = Advisor(recording, rates, prediction, l2, names or {})
    best: dict[tuple[str, str, int, str], Gain] = {}
    for look in _LOOKS:
        for candidate in look(advisor):
            same = candidate.rearranged or candidate.recording.accesses_as(recording)
            kept = l2 if same and candidate.rates["l2"] == rates["l2"] else None
            after = run_time(Model(candidate.recording, candidate.rates, l2=kept))
            gain = prediction.time_us - after
            if gain < LEAST_GAIN * prediction.time_us:
                continue
            at = (positions or {}).get(candidate.row, InstructionPosition(""))
            result = Gain(_finding(candidate, at, gain, prediction.time_us, advisor.names, root), gain, after)
            key = result.finding.rule, at.path, at.line, "" if at.line else result.finding.message
            if key not in best or best[key].gain_us < gain:
                best[key] = result
    gains = sorted(best.values(), key=lambda one: -one.gain_us)
    if root is None:
        return gains
    return [msgspec.structs.replace(gain, finding=with_origin(gain.finding, root)) for gain in gains]


def with_origin(finding: Finding, root: Path) -> Finding:
    """Return the finding with the lines of the module and the program that its line was generated from."""
    if not finding.line:
        return finding
    from pypto_build.diagnose.origin import origin  # the language of modules takes a while to load

    source = origin(root / finding.path, finding.line)
    if source is None:
        return finding
    related = [Related(relative(source.module, root), source.line, f"the module's {source.operation}")]
    if source.program and source.program.file:
        related.append(Related(source.program.file, source.program.line, "the program's line"))
    return msgspec.structs.replace(finding, related=tuple(related))


def limit_finding(prediction: Prediction, most_us: float) -> Finding:
    """Return the prediction beside the time that a run may take: an error if all of the range is above that."""
    above = prediction.low_us > most_us
    message = f"{headline(prediction).partition(', ')[0]}, {'more' if above else 'not surely more'} than {most_us:g} us"
    return Finding("speed/max-time", message, level="error" if above else "note")


def _finding(
    candidate: EditCandidate,
    at: InstructionPosition,
    gain: float,
    whole: float,
    names: Mapping[int, str],
    root: Path | None,
) -> Finding:
    detail = f"gain predicted by the model: {gain:,.1f} us, {100 * gain / whole:.0f} % of the run"
    return Finding(
        candidate.rule,
        candidate.message,
        at.path,
        at.line,
        candidate.hint,
        "note",
        (detail,),
        candidate.tasks,
        names.get(candidate.kernel, ""),
        edits=_edits(candidate, at, root),
    )


def _edits(candidate: EditCandidate, at: InstructionPosition, root: Path | None) -> tuple[Edit, ...]:
    """Return the edit of the constant that is a tile's address, if the kernel has it in one line."""
    if candidate.old < 0 or not root or not at.path:
        return ()
    lines = read_source(root / at.path).splitlines()
    old = f"= {candidate.old};"
    places = [number for number, line in enumerate(lines, 1) if line.strip().endswith(old) and "int64_t" in line]
    return (Edit(at.path, places[0], old, f"= {candidate.new};"),) if len(places) == 1 else ()
