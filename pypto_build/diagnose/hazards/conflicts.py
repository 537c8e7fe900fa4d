"""Search for conflicts: unordered pairs of accesses to the same bytes, at least one of them a write.

Between tasks, a buffer's regions are visited in the order of submission. Each piece remembers its last writer and the
readers since. The next access must be ordered after those, and through them it is ordered after all earlier accesses.
So no pair is checked twice, and the number of steps grows with the number of regions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import msgspec
import numpy as np

from pypto_build.diagnose.hazards.buffers import Array, Buffers, cut
from pypto_build.diagnose.hazards.record import ATOMIC, WRITE, HostWait, Record, TaskRecord

# Order of the tasks of a run, from dependencies and from waits of the orchestration itself.
# For every submission, the bits of one integer are the submissions that end before it starts. A query then reads one
# bit. Positions count submissions, including allocations.


class Order:
    """The order of one run. `ancestors[i]` has bit j set if j ends before i starts."""

    def __init__(self, tasks: Sequence[TaskRecord], host_waits: Sequence[HostWait]) -> None:
        self._tasks, self._host_waits = tasks, host_waits
        self._position = {task.id: index for index, task in enumerate(tasks)}
        self.ancestors: list[int] = []
        self.direct: list[list[tuple[int, str]]] = []
        consumers: dict[int, int] = {}
        everyone, seen = 0, 0
        for index, task in enumerate(tasks):
            for wait in host_waits[seen : task.host_waits]:
                everyone |= self._waited(wait, consumers)
            seen = max(seen, task.host_waits)
            direct = [(self._position[raw], source) for raw, source in task.waits if raw in self._position]
            before = everyone
            for producer, _ in direct:
                if producer < index:
                    before |= self.ancestors[producer] | 1 << producer
                    consumers[producer] = consumers.get(producer, 0) | 1 << index
            self.ancestors.append(before)
            self.direct.append(direct)
        self._forward()

    def _waited(self, wait: HostWait, consumers: dict[int, int]) -> int:
        """Return the submissions that have ended after a wait of the orchestration."""
        over = 0
        for raw in wait.tasks:
            position = self._position.get(raw)
            if position is not None and position < len(self.ancestors):  # later submissions have not ended
                over |= self.ancestors[position] | 1 << position
                over |= consumers.get(position, 0) if wait.readers else 0
        return over

    def _forward(self) -> None:
        """Add dependencies on tasks that are submitted later, which are rare, until nothing changes."""
        later = any(producer > index for index, direct in enumerate(self.direct) for producer, _ in direct)
        while later:
            later = False
            for index, direct in enumerate(self.direct):
                before = self.ancestors[index]
                for producer, _ in direct:
                    before |= self.ancestors[producer] | 1 << producer
                if before != self.ancestors[index]:
                    self.ancestors[index], later = before, True

    def without(self, producer: int, consumer: int) -> Order:
        """Return the order without the explicit dependency of one submission on another."""
        tasks = [
            msgspec.structs.replace(
                task, waits=[wait for wait in task.waits if wait != (self._tasks[producer].id, "explicit")]
            )
            if index == consumer
            else task
            for index, task in enumerate(self._tasks)
        ]
        return Order(tasks, self._host_waits)

    def before(self, first: int, second: int) -> bool:
        """Return whether `first` ends before `second` starts."""
        return bool(self.ancestors[second] >> first & 1)

    def ordered(self, one: int, other: int) -> bool:
        """Return whether one of the two ends before the other starts."""
        return one == other or self.before(one, other) or self.before(other, one)


@dataclass(frozen=True)
class Conflict:
    """Two regions (by number) in conflict. `begin` and `end` are addresses, `size` is the number of shared bytes."""

    buffer: int
    first: int
    second: int
    begin: int
    end: int
    size: int


@dataclass
class _Chains:
    """Sets of regions as linked lists with shared tails. A set is the number of its last link, 0 is the empty set."""

    parents: list[int] = field(default_factory=lambda: [0])
    regions: list[int] = field(default_factory=lambda: [-1])
    _known: dict[tuple[int, int], int] = field(default_factory=dict)

    def add(self, chain: int, region: int) -> int:
        """Return the set with one more region."""
        key = (chain, region)
        if key not in self._known:
            self._known[key] = len(self.parents)
            self.parents.append(chain)
            self.regions.append(region)
        return self._known[key]

    def members(self, chain: int) -> Iterator[int]:
        """Yield the regions of a set, the last one first."""
        while chain:
            yield self.regions[chain]
            chain = self.parents[chain]


class Frontier:
    """The accesses to each piece of a buffer so far: the last writer, and the readers and atomic writers since."""

    def __init__(self, record: Record, order: Order, pieces: int) -> None:
        self._record = record
        self._order = order
        self._writer = np.full(pieces, -1, dtype=np.int64)
        self._readers = np.zeros(pieces, dtype=np.int64)
        self._adders = np.zeros(pieces, dtype=np.int64)
        self._chains = _Chains()
        #: Pairs of task positions that access the same bytes, one of them writing. They need dependencies.
        self.pairs: set[tuple[int, int]] = set()

    def _task(self, region: int) -> int:
        return self._record.positions[self._record.task_of[region]]

    def access(self, region: int, pieces: Array) -> Iterator[tuple[int, Array]]:
        """Add an access. Yields the earlier regions that conflict with it and are unordered, with the shared pieces."""
        kind = self._record.kind_of[region]
        against = [self._earlier_writers(pieces)]
        if kind & WRITE:
            against.append(self._earlier_members(self._readers, pieces))
        if not kind & ATOMIC:
            against.append(self._earlier_members(self._adders, pieces))
        mine = self._task(region)
        for earlier, shared in (found for each in against for found in each):
            other = self._task(earlier)
            if other == mine:
                continue
            self.pairs.add((other, mine))
            if not self._order.ordered(other, mine):
                yield earlier, shared
        if kind & ATOMIC:
            self._extend(self._adders, pieces, region)
        elif kind & WRITE:
            self._writer[pieces] = region
            self._readers[pieces] = 0
            self._adders[pieces] = 0
        else:
            self._extend(self._readers, pieces, region)

    def _earlier_writers(self, pieces: Array) -> Iterator[tuple[int, Array]]:
        writers = self._writer[pieces]
        for writer in _distinct(writers):
            if writer >= 0:
                yield writer, pieces[writers == writer]

    def _earlier_members(self, chains: Array, pieces: Array) -> Iterator[tuple[int, Array]]:
        held = chains[pieces]
        for chain in _distinct(held):
            if chain:
                shared = pieces[held == chain]
                for region in self._chains.members(chain):
                    yield region, shared

    def _extend(self, chains: Array, pieces: Array, region: int) -> None:
        """Add a region to the sets of some pieces, and drop regions whose task ended before its task starts."""
        held = chains[pieces]
        mine = self._task(region)
        for chain in _distinct(held):
            kept = chain
            while kept and self._superseded(self._task(self._chains.regions[kept]), mine):
                kept = self._chains.parents[kept]
            chains[pieces if len(pieces) == 1 else pieces[held == chain]] = self._chains.add(kept, region)

    def _superseded(self, other: int, mine: int) -> bool:
        return other == mine or self._order.before(other, mine)


def _distinct(values: Array) -> list[int]:
    if len(values) == 0:
        return []
    first = values[0]
    if (values == first).all():
        return [int(first)]
    return [int(value) for value in np.unique(values)]


def between_tasks(record: Record, buffers: Buffers, order: Order, pairs: set[tuple[int, int]]) -> Iterator[Conflict]:
    """Yield the conflicts between tasks. `pairs` receives all pairs of tasks that share bytes, one writing them."""
    for buffer, chosen, whole in buffers.shared_and_written(record):
        if whole:
            begin, end = int(record.regions["base"][chosen[0]]), int(record.ends[chosen[0]])
            for earlier, region in _in_one_piece(record, order, chosen.tolist(), pairs):
                yield Conflict(buffer, earlier, region, begin, end, end - begin)
            continue
        segments = cut(record.regions[chosen])
        frontier = Frontier(record, order, len(segments.edges))
        for region, pieces in zip(chosen.tolist(), segments.pieces, strict=True):
            for earlier, shared in frontier.access(region, pieces):
                yield Conflict(buffer, earlier, region, *segments.span(shared))
        pairs |= frontier.pairs


def _in_one_piece(
    record: Record, order: Order, chosen: list[int], pairs: set[tuple[int, int]]
) -> Iterator[tuple[int, int]]:
    """Do the work of `Frontier` for a buffer that every region covers completely, by far the most frequent case."""
    kinds, positions, tasks, ancestors = record.kind_of, record.positions, record.task_of, order.ancestors
    writer = -1
    readers: list[int] = []
    adders: list[int] = []
    for region in chosen:
        kind, mine = kinds[region], positions[tasks[region]]
        against = [writer] if writer >= 0 else []
        against += readers if kind & WRITE else []
        against += adders if not kind & ATOMIC else []
        for earlier in against:
            other = positions[tasks[earlier]]
            if other != mine:
                pairs.add((other, mine))
                if not (ancestors[mine] >> other | ancestors[other] >> mine) & 1:
                    yield earlier, region
        if kind & WRITE and not kind & ATOMIC:
            writer, readers, adders = region, [], []
            continue
        seen = adders if kind & ATOMIC else readers
        while seen and ((last := positions[tasks[seen[-1]]]) == mine or order.before(last, mine)):
            seen.pop()
        seen.append(region)


def within_tasks(record: Record, buffers: Buffers) -> Iterator[Conflict]:
    """Yield the conflicts between the blocks of one task, and between the members of one group."""
    regions = record.regions
    for task in record.tasks:
        if task.number < 0 or task.number in record.signalling:
            continue
        if task.block_num == 1 and sum(kernel >= 0 for kernel in task.kernels) == 1:
            continue
        part = record.regions_of(task.number)
        of_region = buffers.of_region[part]
        for buffer in np.unique(of_region[of_region >= 0]).tolist():
            chosen = part.start + np.flatnonzero(of_region == buffer)
            kinds = regions["kind"][chosen]
            units = regions["block"][chosen].astype(np.int64) * 4 + regions["member"][chosen]
            if (kinds & WRITE).any() and (units != units[0]).any():
                yield from _among_units(record, buffer, chosen, units)


def _among_units(record: Record, buffer: int, chosen: Array, units: Array) -> Iterator[Conflict]:
    segments = cut(record.regions[chosen])
    lengths = np.array([len(pieces) for pieces in segments.pieces])
    piece = np.concatenate(segments.pieces)
    local = np.repeat(np.arange(len(chosen)), lengths)
    by_piece = np.argsort(piece, kind="stable")
    piece, local = piece[by_piece], local[by_piece]
    writes = (record.regions["kind"][chosen] & WRITE).astype(bool)
    count = len(segments.edges)
    written = np.zeros(count, dtype=bool)
    written[piece[writes[local]]] = True
    low, high = np.full(count, np.iinfo(np.int64).max), np.full(count, -1, dtype=np.int64)
    np.minimum.at(low, piece, units[local])
    np.maximum.at(high, piece, units[local])
    suspect = written & (low < high)
    seen: dict[tuple[int, ...], list[int]] = {}
    for number in np.flatnonzero(suspect).tolist():
        begin, end = np.searchsorted(piece, [number, number + 1])
        seen.setdefault(tuple(local[begin:end].tolist()), []).append(number)
    for together, numbers in seen.items():
        for index, one in enumerate(together):
            for other in together[index + 1 :]:
                if (writes[one] or writes[other]) and _concurrent(record.regions, chosen[one], chosen[other]):
                    yield Conflict(buffer, int(chosen[one]), int(chosen[other]), *segments.span(np.array(numbers)))


def _concurrent(regions: Array, one: int, other: int) -> bool:
    """Return whether two regions of one task are concurrent: no barrier, pipe or common core orders them."""
    a, b = regions[one], regions[other]
    if a["phase"] != b["phase"] or (a["kind"] & ATOMIC and b["kind"] & ATOMIC):
        return False
    if a["block"] != b["block"]:
        return True
    i, j = int(a["member"]), int(b["member"])
    return i != j and not (b["known"][i] >= a["epoch"] or a["known"][j] >= b["epoch"])
