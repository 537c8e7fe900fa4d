"""Search for conflicts: unordered pairs of accesses to the same bytes, at least one of them a write.

Between tasks, a buffer's regions are visited in the order of submission. Each piece remembers its last writer and the
readers since. The next access must be ordered after those, and through them it is ordered after all earlier accesses.
So no pair is checked twice, and the number of steps grows with the number of regions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import numpy as np

from pypto_build.artifact.files import read_source
from pypto_build.artifact.instruction_sites import InstructionPosition
from pypto_build.diagnose.findings import Edit, Finding, Related
from pypto_build.diagnose.hazards.context import Array, Buffers, Context, cut
from pypto_build.diagnose.hazards.record import HostWait, LateStore, Record, TaskRecord
from pypto_build.facts.accesses import ATOMIC, PLAIN, READ, WRITE

# Findings on unordered accesses to the same bytes, with the declaration that would order them.


def kind_of(context: Context, conflict: Conflict) -> str:
    """Return the kind of a conflict in the order of submission: RAW, WAR or WAW."""
    first, second = (bool(context.record.regions["kind"][r] & WRITE) for r in (conflict.first, conflict.second))
    return "WAW" if first and second else "RAW" if first else "WAR"


def line_of(context: Context, conflict: Conflict) -> str:
    """Return one line about a conflict, for the details of another finding."""
    one, other = (int(context.record.regions["task"][r]) for r in (conflict.first, conflict.second))
    span = context.bytes_in(conflict.buffer, conflict.begin, conflict.end)
    kind = kind_of(context, conflict)
    return f"{kind}: nothing orders {context.title(other)} after {context.title(one)}, both at {span}"


def task_findings(context: Context, conflicts: Iterable[Conflict]) -> Iterator[Finding]:
    """Yield findings on conflicts between tasks. Conflicts that the same edit would order share one finding.

    Without an edit, conflicts of the same pair of declarations share one.
    """
    groups: dict[tuple[object, ...], list[Conflict]] = {}
    for conflict in conflicts:
        one, other = conflict.first, conflict.second
        key = (kind_of(context, conflict), *_declaration(context, one), *_declaration(context, other))
        groups.setdefault(key, []).append(conflict)
    merged: dict[tuple[object, ...], list[Conflict]] = {}
    for key, group in groups.items():
        edits, _ = _order_them(context, kind_of(context, group[0]), *_ends(context, group[0]))
        merged.setdefault(tuple(edits) or key, []).extend(group)
    for group in merged.values():
        yield _between(context, group)


def _ends(context: Context, conflict: Conflict) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return task and argument of both sides of a conflict."""
    one, other = (
        (int(context.record.regions["task"][r]), context.argument_of(r)) for r in (conflict.first, conflict.second)
    )
    return one, other


def _declaration(context: Context, region: int) -> tuple[object, ...]:
    number = int(context.record.regions["task"][region])
    site = context.site(number)
    return (tuple(context.task(number).kernels), context.argument_of(region), site.line if site else 0)


def _between(context: Context, group: list[Conflict]) -> Finding:
    conflict = group[0]
    regions = context.record.regions
    (one, index_one), (other, index_other) = _ends(context, conflict)
    where_one, where_other = context.position_of(conflict.first), context.position_of(conflict.second)
    kind = kind_of(context, conflict)
    edits, hint = _order_them(context, kind, (one, index_one), (other, index_other))
    did = {"RAW": ("writes", "reads"), "WAR": ("reads", "overwrites"), "WAW": ("writes", "writes")}[kind]
    argument = context.site_arg(other, index_other)
    more = len({(int(regions["task"][c.first]), int(regions["task"][c.second])) for c in group})
    related = [
        Related(where_one.path, where_one.line, f"{where_one.instruction} of task {one} is here"),
        Related(where_other.path, where_other.line, f"{where_other.instruction} of task {other} is here"),
    ]
    first_given = context.site_arg(one, index_one)
    if first_given:
        related.insert(0, Related(context.orchestration, first_given.line, f"task {one} declares the argument here"))
    return Finding(
        rule=f"hazards/{kind.lower()}",
        message=f"{context.title(one)} {did[0]} {context.tensor(one, index_one)} and {context.title(other)} {did[1]} "
        f"it ({context.bytes_in(conflict.buffer, conflict.begin, conflict.end)}); nothing orders the two",
        path=context.orchestration if argument else where_other.path,
        line=argument.line if argument else where_other.line,
        hint=hint,
        detail=(f"declared {context.method(one, index_one)} and {context.method(other, index_other)}",)
        + ((f"and {more - 1} more such pairs of tasks",) if more > 1 else ()),
        tasks=(one, other),
        kernel=context.kernel(other, int(regions["member"][conflict.second])),
        related=tuple(related),
        edits=tuple(edits),
    )


def _order_them(context: Context, kind: str, one: tuple[int, int], other: tuple[int, int]) -> tuple[list[Edit], str]:
    """Return the edits of declarations that order two tasks, and the hint.

    They follow from the rules of the runtime. A read depends on earlier writers, an existing output does not, and only
    INOUT and outputs count as writers.
    """
    first, second = context.argument(*one), context.argument(*other)
    changes: list[tuple[tuple[int, int], str]] = []
    if context.task(one[0]).manual or context.task(other[0]).manual:
        return [], "the tasks are in a manual scope: name the first one in set_dependencies of the second"
    if first.manual or second.manual:
        return _without_manual(context), "let the runtime track the tensor: create it without manual_dep"
    if first.tag == "NO_DEP":
        changes.append((one, "inout" if kind == "WAR" else "output"))
    elif kind == "WAR" and first.tag == "INPUT":
        changes.append((one, "inout"))
    if second.tag == "NO_DEP":
        changes.append((other, "input" if kind == "RAW" else "inout"))
    elif second.tag in ("OUTPUT", "OUTPUT_EXISTING"):
        changes.append((other, "inout"))
    if not changes:
        return [], f"make task {other[0]} depend on task {one[0]} with add_dep"
    edits = [edit for where, to in changes if (edit := context.change_method(*where, to))]
    words = [f"task {where[0]} {context.tensor(*where)} as add_{to}" for where, to in changes]
    return edits, f"declare {' and '.join(words)}" + ("; or keep readers apart with add_dep" if kind == "WAR" else "")


def _without_manual(context: Context) -> list[Edit]:
    """Return the edit that creates a tensor without manual_dep, if exactly one line uses manual_dep."""
    old = "/*manual_dep=*/true"
    lines = [number for number, text in enumerate(context.lines, 1) if old in text]
    return [Edit(context.orchestration, lines[0], old, "/*manual_dep=*/false")] if len(lines) == 1 else []


def unit_findings(context: Context, conflicts: Iterable[Conflict]) -> Iterator[Finding]:
    """Yield findings on conflicts inside a task, one for each pair of lines."""
    groups: dict[tuple[InstructionPosition, InstructionPosition, bool], list[Conflict]] = {}
    for conflict in conflicts:
        positions = sorted(
            (context.position_of(r) for r in (conflict.first, conflict.second)), key=lambda p: (p.path, p.line)
        )
        same_block = len({int(context.record.regions["block"][r]) for r in (conflict.first, conflict.second)}) == 1
        groups.setdefault((positions[0], positions[1], same_block), []).append(conflict)
    for (_, _, same_block), group in groups.items():
        yield _within(context, group, same_block)


def _within(context: Context, group: list[Conflict], same_block: bool) -> Finding:
    regions = context.record.regions

    def unit(region: int) -> tuple[int, int]:
        return int(regions["block"][region]), int(regions["member"][region])

    def units_of(conflict: Conflict) -> list[tuple[int, int]]:
        return sorted((unit(conflict.first), unit(conflict.second)))

    # The order of recording differs from run to run; the minimum reports the same conflict every time.
    conflict = min(group, key=units_of)
    number = int(regions["task"][conflict.first])
    pair = sorted((conflict.first, conflict.second), key=lambda r: (not regions["kind"][r] & WRITE, unit(r)))
    writer, other = context.position_of(pair[0]), context.position_of(pair[1])
    both = bool(regions["kind"][pair[1]] & WRITE)
    index = context.argument_of(pair[0])
    units = [context.member(r) for r in pair]
    rule, hint = (
        ("lanes", "hand the bytes over through a pipe (TPUSH, TPOP), or offset them by get_subblockid()")
        if same_block
        else ("blocks", "offset what each block writes by get_block_idx(args), or meet at a SYNCALL before")
    )
    return Finding(
        rule=f"hazards/{rule}",
        message=f"{context.title(number)}: {units[0]} writes {context.tensor(number, index)} "
        f"({writer.instruction}) while {units[1]} {'writes' if both else 'reads'} the same bytes "
        f"({other.instruction}), {context.bytes_in(conflict.buffer, conflict.begin, conflict.end)}",
        path=writer.path,
        line=writer.line,
        hint=hint,
        detail=(f"{len(group)} such pairs",) if len(group) > 1 else (),
        tasks=(number,),
        kernel=context.kernel(number, int(regions["member"][pair[0]])),
        related=(Related(other.path, other.line, f"{other.instruction} of {units[1]} is here"),)
        if other != writer
        else (),
    )


# Markers that make stores visible, and the edits that insert them.


# Findings on stores of cores of one chip that affect each other.
# - Two cores store into one line of 64 bytes at the same time, one of them through its data cache. The cache writes
#   back the whole line, so the other core's store is lost.
# - A block reads a store of another block after a barrier. The barrier orders the blocks, but makes no store visible.

#: The size of a line of a data cache.
LINE_BYTES = 64
CLEAN, FENCE = "dcci((__gm__ void *)0, cache_line_t::ENTIRE_DATA_CACHE);", "dsb(DSB_DDR);"


def after_store(plain: bool, pipe: str) -> str:
    """Return the markers behind a plain C++ store, or behind a store of a pipe."""
    return f"{CLEAN} {FENCE}" if plain else f"pipe_barrier(PIPE_{pipe}); {FENCE}"


def edits_beside(root: Path, path: str, line: int, markers: str, *, before: bool = False) -> tuple[Edit, ...]:
    """Return the edit that puts markers beside the statement of a line, or nothing if the line is no statement."""
    statement = read_source(root / path).splitlines()[line - 1].strip() if line else ""
    if not statement.endswith(";"):
        return ()
    return (Edit(path, line, statement, f"{markers} {statement}" if before else f"{statement} {markers}"),)


#: The largest number of lines of one region that are checked.
_MOST_LINES = 4096


def line_findings(context: Context, order: Order) -> Iterator[Finding]:
    """Yield one finding on a shared line for each pair of positions."""
    record = context.record
    kinds = record.regions["kind"]
    plain = np.flatnonzero((kinds & PLAIN > 0) & (kinds & WRITE > 0))
    if not len(plain):
        return
    by_line: dict[int, list[int]] = {}
    for region in plain.tolist():
        for line in _lines(record, region):
            by_line.setdefault(line, []).append(region)
    low, high = min(by_line) * LINE_BYTES, (max(by_line) + 1) * LINE_BYTES
    near = (kinds & WRITE > 0) & (record.regions["base"] < high) & (record.ends > low)
    reported: set[tuple[object, object]] = set()
    for region in np.flatnonzero(near).tolist():
        for line in _lines(record, region):
            for other in by_line.get(line, ()):
                if not _together(record, order, other, region):
                    continue
                key = (context.position_of(other), context.position_of(region))
                if key not in reported and key[::-1] not in reported:
                    reported.add(key)
                    yield _finding(context, other, region, line)


def barrier_findings(context: Context) -> Iterator[Finding]:
    """Yield one finding for each store that is read after a barrier without being visible."""
    record, regions = context.record, context.record.regions
    reported: set[object] = set()
    for store in record.document.late:
        inside = record.regions_of(store.task)
        for region in range(inside.start, inside.stop):
            row = regions[region]
            same = (row["block"], row["member"]) == (store.block, store.member)
            if same or row["phase"] != store.phase or not int(row["kind"]) & READ:
                continue
            shared = store.bytes_shared(*(int(row[name]) for name in ("base", "rows", "stride", "length")))
            position = context.position(store.site)
            if shared >= 0 and position not in reported:
                reported.add(position)
                yield _barrier_finding(context, store, region, shared)


def _barrier_finding(context: Context, store: LateStore, region: int, shared: int) -> Finding:
    position, where = context.position(store.site), context.position_of(region)
    markers = after_store(position.instruction == "plain write", "ALL")
    index = context.argument_of(region)
    return Finding(
        rule="memory/unfenced-barrier",
        message=(
            f"{context.title(store.task)}: block {store.block} stores {context.tensor(store.task, index)} "
            f"({position.instruction}), and {context.member(region)} reads it after the SYNCALL ({where.instruction}, "
            f"from byte {shared - context.argument(store.task, index).address} on), but SYNCALL alone "
            "does not make the store visible"
        ),
        path=position.path,
        line=position.line,
        hint=f"insert between this store and the SYNCALL: {markers}",
        tasks=(store.task,),
        kernel=context.kernel(store.task, store.member),
        related=(Related(where.path, where.line, f"{where.instruction} reads the bytes here"),),
        edits=edits_beside(context.artifact.root, position.path, position.line, markers),
    )


def _lines(record: Record, region: int) -> set[int]:
    row = record.regions[region]
    lines: set[int] = set()
    for number in range(int(row["rows"])):
        begin = int(row["base"]) + number * int(row["stride"])
        lines.update(range(begin // LINE_BYTES, (begin + int(row["length"]) - 1) // LINE_BYTES + 1))
        if len(lines) > _MOST_LINES:
            break
    return lines


def _together(record: Record, order: Order, one: int, other: int) -> bool:
    """Return whether two regions belong to cores that may run at the same time."""
    a, b = record.regions[one], record.regions[other]
    if a["task"] == b["task"]:
        return bool((a["block"], a["member"]) != (b["block"], b["member"]) and a["phase"] == b["phase"])
    positions = (record.positions[int(a["task"])], record.positions[int(b["task"])])
    return not order.ordered(*positions)


def _finding(context: Context, one: int, other: int, line: int) -> Finding:
    regions = context.record.regions
    number, second = int(regions["task"][one]), int(regions["task"][other])
    position, where = context.position_of(one), context.position_of(other)
    index = context.argument_of(one)
    begin = line * LINE_BYTES - context.argument(number, index).address
    who = [f"{context.title(task)}{unit and f', {unit},'}" for task, unit in
           ((number, context.member(one)), (second, context.member(other)))]  # fmt: skip
    return Finding(
        rule="memory/shared-line",
        message=(
            f"{who[0]} and {who[1]} store at the same time into one 64-byte line, bytes {max(begin, 0)} "
            f"to {begin + LINE_BYTES} of {context.tensor(number, index)}: the last "
            "write-back of the line overwrites the other store"
        ),
        path=position.path,
        line=position.line,
        hint="keep these stores 64 bytes apart, or use TSTORE",
        tasks=tuple(dict.fromkeys((number, second))),
        kernel=context.kernel(number, int(regions["member"][one])),
        related=(Related(where.path, where.line, f"{where.instruction} of the other core is here"),)
        if where != position
        else (),
    )


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
        for earlier, shared in (match for each in against for match in each):
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
