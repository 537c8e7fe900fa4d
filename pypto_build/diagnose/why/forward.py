"""Follows elements of a tensor forward: the instructions that used them, and the outputs that they reach."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import numpy as np

from pypto_build.artifact.instruction_sites import AccessSite, find_positions
from pypto_build.diagnose.why.runs import Call, FirstRun, Runs, Traced, as_many, exact, is_atomic, pieces
from pypto_build.diagnose.why.trace import Array, Instruction, Intervals, Tile
from pypto_build.facts.accesses import READ, SPACES, WRITE
from pypto_build.pto.ops import TABLE

# Which elements of an instruction's operands flow into an element that it writes.

#: (tile, rows, columns): elements of an operand, in the order in which they are combined.
Contribution = tuple[Tile, Array, Array]

_L0A, _L0B, _L0C, _BIAS = 2, 3, 4, 5
_FAMILIES = {row.cpp: row.family for row in TABLE.values()}
#: What element of an operand it is depends on values, by the family of the operation.
_BY_VALUE = {"gather", "scatter", "sort", "histogram", "concat", "pack"}
#: Instructions of which no operation is made that exchange elements too.
_FAMILIES |= dict.fromkeys(("TINTERLEAVE", "TDEINTERLEAVE", "TPAIRREDUCESUM"), "pack")


def contributions(instruction: Instruction, result: Tile, row: int, col: int) -> Iterator[Contribution]:
    """For each tile that the instruction read, the elements that went into element (`row`, `col`) of its result."""
    for tile in instruction.read:
        rows, cols = _elements(instruction.name, tile, result, row, col)
        yield tile, rows, cols


def _elements(name: str, tile: Tile, result: Tile, row: int, col: int) -> tuple[Array, Array]:
    family = _FAMILIES.get(name, "")
    high, wide = tile.operand.height, tile.operand.width
    every_row, every_col = np.arange(high), np.arange(wide)
    if family in ("matmul", "matmul_mx"):
        if tile.space == _L0A:
            return np.full(wide, min(row, high - 1)), every_col
        if tile.space == _L0B:
            return every_row, np.full(high, min(col, wide - 1))
        return _one(0 if tile.space == _BIAS else row, col, tile)
    if family == "transpose":
        return _one(col, row, tile)
    alike = (high, wide) == (result.operand.height, result.operand.width)
    if family in _BY_VALUE:
        return _one(row, col, tile) if alike else _all(high, wide)
    if family == "rowreduce":
        return np.full(wide, min(row, high - 1)), every_col
    if family == "colreduce":
        return every_row, np.full(high, min(col, wide - 1))
    if family == "rowexpand" and not alike:
        return _one(0, row, tile) if high == 1 and wide > 1 else _one(row, 0, tile)
    if family == "select" and not alike:
        bits = 8 * tile.operand.element
        return _one(row, col // bits, tile)
    return _one(row, col, tile)


def reached(name: str, tile: Tile, carries: Array, result: Tile) -> Array:
    """Return a mask of the elements of a result that depend on the elements of an operand that `carries` marks."""
    family = _FAMILIES.get(name, "")
    high, wide = result.operand.height, result.operand.width
    if family in _BY_VALUE and carries.shape != (high, wide):
        return np.ones((high, wide), bool)
    by_row, by_col = (np.asarray(carries.any(axis=axis)) for axis in (1, 0))
    if family in ("matmul", "matmul_mx") and tile.space in (_L0A, _L0B):
        return _spread(by_row[:, None] if tile.space == _L0A else by_col[None, :], high, wide)
    if family == "transpose":
        return _spread(carries.T, high, wide)
    if family == "rowreduce":
        return _spread(by_row[:, None], high, wide)
    if family == "colreduce":
        return _spread(by_col[None, :], high, wide)
    if family == "rowexpand" and carries.shape[0] == 1 and carries.shape[1] > 1 and high > 1:
        return _spread(carries.T, high, wide)
    if family == "select" and carries.shape[1] < wide:
        return _spread(np.repeat(carries, 8 * tile.operand.element, axis=1), high, wide)
    return _spread(carries, high, wide)


def _spread(mask: Array, high: int, wide: int) -> Array:
    """Return a mask in the shape of a result. A single row or column is repeated."""
    spread = np.zeros((high, wide), bool)
    rows = high if mask.shape[0] == 1 else min(high, mask.shape[0])
    cols = wide if mask.shape[1] == 1 else min(wide, mask.shape[1])
    spread[:rows, :cols] = mask[:rows, :cols]
    return spread


def _one(row: int, col: int, tile: Tile) -> tuple[Array, Array]:
    """Return the index of one element. If the operand has a single row or column, its only row or column is used."""
    high, wide = tile.operand.height, tile.operand.width
    return np.array([row if row < high else 0]), np.array([col if col < wide else 0])


def _all(high: int, wide: int) -> tuple[Array, Array]:
    rows, cols = np.indices((high, wide))
    return rows.reshape(-1), cols.reshape(-1)


def handed_over(
    pushing: Sequence[Instruction], popped: Tile, turn: int, members: tuple[int, int], row: int, col: int
) -> tuple[int, Tile, int, int] | None:
    """Return the push that an element of a member's `turn`-th pop (from 0) came from: number, tile, row and column.

    `members` are the numbers of the pushing and of the popping core. A tile of the cube may be split between both
    vector cores. With several pipes, the push with the popped value counts.
    """
    value = popped.values[row, col]
    for one in in_turn(pushing, turn):
        at = _in_push(one.read[0], popped, members, row, col)
        if at is not None and _alike(one.read[0].values[at], value):
            return one.number, one.read[0], *at
    return None


def in_turn(pushing: Sequence[Instruction], turn: int) -> list[Instruction]:
    """The pushes of a member, those first that a pop by its turn is likely to have."""
    pushes = [one for one in pushing if one.name == "TPUSH" and one.read]
    return [*pushes[turn : turn + 1], *pushes[:turn], *pushes[turn + 1 :]]


def carried_over(push: Tile, carries: Array, popped: Tile, members: tuple[int, int]) -> Array | None:
    """Carry the mask of a pushed tile over to the popped tile. Returns None if the pop took another tile."""
    high, wide = popped.operand.height, popped.operand.width
    inside = [(r, c) for r in (0, high - 1) for c in (0, wide - 1) if _in_push(push, popped, members, r, c) is not None]
    for lane_row, lane_col in ((0, 0), (high // 2, 0), (0, wide // 2)):
        if _in_push(push, popped, members, lane_row, lane_col) is not None:
            inside.append((lane_row, lane_col))
    if not inside:
        return None
    row, col = inside[-1]
    there = _in_push(push, popped, members, row, col)
    assert there is not None
    down, right = there[0] - row, there[1] - col
    rows = slice(max(0, -down), min(high, push.operand.height - down))
    cols = slice(max(0, -right), min(wide, push.operand.width - right))
    source = slice(rows.start + down, rows.stop + down), slice(cols.start + right, cols.stop + right)
    if not _alike(push.values[source], popped.values[rows, cols]):
        return None
    mask = np.zeros((high, wide), bool)
    mask[rows, cols] = carries[source]
    return mask


def _alike(pushed: Array, popped: Array) -> bool:
    """Return whether all values are equal up to rounding."""
    return bool(
        np.isclose(pushed.astype(np.float64), popped.astype(np.float64), rtol=1e-2, atol=0.0, equal_nan=True).all()
    )


def _in_push(push: Tile, pop: Tile, members: tuple[int, int], row: int, col: int) -> tuple[int, int] | None:
    """Return the row and column of a popped element in the pushed tile; None if it came from another tile."""
    (high, wide), (rows, cols) = ((tile.operand.height, tile.operand.width) for tile in (push, pop))
    lane = max(members) - 1
    if (high, wide) == (rows, cols):
        return row, col
    down, right = (lane * rows, 0) if high == 2 * rows and wide == cols else (0, lane * cols)
    if (high, wide) in ((2 * rows, cols), (rows, 2 * cols)):
        return row + down, col + right
    up, left = (lane * high, 0) if rows == 2 * high and cols == wide else (0, lane * wide)
    inside = (rows, cols) in ((2 * high, wide), (high, 2 * wide))
    return (row - up, col - left) if inside and 0 <= row - up < high and 0 <= col - left < wide else None


def last_write(
    instructions: list[Instruction], before: int, space: int, addresses: Array
) -> list[tuple[int, Tile, int, int] | None]:
    """For each address of a memory who wrote it last before an instruction: its number, the tile, row and column."""
    writers: list[tuple[int, Tile, int, int] | None] = [None] * len(addresses)
    left = np.arange(len(addresses))
    lowest, highest = int(addresses.min(initial=1 << 62)), int(addresses.max(initial=-1))
    for number in range(before - 1, -1, -1):
        for tile in instructions[number].written:
            low, high = tile.span
            if tile.space != space or not len(left) or high <= lowest or low > highest:
                continue
            flat = tile.addresses.reshape(-1)
            order = np.argsort(flat, kind="stable")
            at = np.searchsorted(flat, addresses[left], sorter=order)
            hit = np.flatnonzero(flat[order[np.minimum(at, len(flat) - 1)]] == addresses[left])
            for index in hit.tolist():
                row, col = divmod(int(order[at[index]]), tile.operand.width)
                writers[int(left[index])] = (number, tile, row, col)
            left = np.delete(left, hit)
        if not len(left):
            break
    return writers


def last_store(instructions: list[Instruction], before: int, address: int) -> tuple[int, int, int] | None:
    """Find the last instruction that stored to a global address, with the row and column in its tile."""
    for number in range(before - 1, -1, -1):
        for view in instructions[number].views:
            low, high = view.span
            if view.writes and low <= address < high:
                hit = np.argwhere((view.addresses <= address) & (address < view.addresses + view.element))
                if len(hit):
                    return number, int(hit[-1][0]), int(hit[-1][1])
    return None


# Which kernel calls have a part in what bytes hold, and in which calls bytes have one, by what they load and store.


@dataclass
class Cone:
    """Calls, the last one first, and the bytes that they load but none of them stores."""

    calls: list[Call] = field(default_factory=list)
    left: Intervals = field(default_factory=Intervals)


def cone_of(first_run: FirstRun, needed: Intervals, before: int, calls: Iterable[Call] = ()) -> Cone:
    """Return the calls of tasks before number `before` that contribute to the bytes, or to what `calls` load. The cone
    includes `calls`.
    """
    blocks_of: dict[int, set[int]] = {}
    for number, block in calls:
        blocks_of.setdefault(number, set()).add(block)
    cone = Cone()
    low, high = first_run.stored_hulls
    for number in range(before - 1, -1, -1):
        first, end = needed.hull
        if number not in blocks_of and not (low[number] < end and high[number] > first):
            continue
        blocks = _storing(first_run, number, needed, blocks_of.get(number, set()))
        if blocks:
            needed = _before(first_run, number, needed, blocks)
            cone.calls += [(number, block) for block in sorted(blocks, reverse=True)]
    cone.left = needed
    return cone


def _storing(first_run: FirstRun, number: int, needed: Intervals, blocks: set[int]) -> set[int]:
    """Return the blocks of a task that store some of the bytes, and the blocks whose stores they load."""
    regions = first_run.regions_of(number)
    if first_run.is_opaque(number):
        args = [arg.span for arg in first_run.tasks[number].args if arg.writes]
        spans = np.array(args, np.int64).reshape(-1, 2)
        if blocks or needed.touched(spans[:, 0], spans[:, 1]).any():
            return set(range(max(first_run.tasks[number].block_num, 1)))
    stores = regions[(regions["kind"] & WRITE) > 0]
    blocks = set(blocks)
    needed_here = needed
    loads = regions[np.isin(regions["block"], list(blocks)) & ((regions["kind"] & READ) > 0)]
    if blocks and first_run.tasks[number].block_num > 1:
        needed_here = needed_here.with_(pieces(loads))
    while len(stores):
        more = set(stores["block"][_touching(stores, needed_here)].tolist()) - blocks
        if not more:
            break
        blocks |= more
        if first_run.tasks[number].block_num == 1:
            break
        needed_here = pieces(regions[np.isin(regions["block"], list(more)) & ((regions["kind"] & READ) > 0)])
    return blocks


def _touching(regions: Array, needed: Intervals) -> Array:
    """Return a mask of the regions that share a byte with `needed`."""
    base, rows = regions["base"].astype(np.int64), regions["rows"].astype(np.int64)
    stride, length = regions["stride"].astype(np.int64), regions["length"].astype(np.int64)
    hit = needed.touched(base, base + (rows - 1) * stride + length)
    for index in np.flatnonzero(hit & (rows > 1)).tolist():  # between the rows, perhaps
        part = pieces(regions[index : index + 1])
        hit[index] = bool(needed.touched(part.low, part.high).any())
    return hit


def _before(first_run: FirstRun, number: int, needed: Intervals, blocks: set[int]) -> Intervals:
    """Return the bytes needed from earlier tasks, if these blocks of a task store some of the needed bytes."""
    regions = first_run.regions_of(number)
    if len(blocks) < first_run.tasks[number].block_num:
        regions = regions[np.isin(regions["block"], list(blocks))]
    stores = regions[((regions["kind"] & WRITE) > 0) & ~is_atomic(regions)]
    if len(stores) and exact(stores):
        needed = needed.without(pieces(stores))
    loads = pieces(regions[((regions["kind"] & READ) > 0) | is_atomic(regions)])
    if first_run.is_opaque(number):
        spans = np.array([arg.span for arg in first_run.tasks[number].args if arg.reads], np.int64).reshape(-1, 2)
        loads = loads.with_(Intervals.of(spans[:, 0], spans[:, 1]))
    return needed.with_(loads)


def reached_by(first_run: FirstRun, source: Intervals) -> list[Call]:
    """Return the calls, in order, that may load the bytes or the results of such calls."""
    carried, calls = source, []
    low, high = first_run.loaded_hulls
    for number in range(len(first_run.tasks)):
        first, end = carried.hull
        if not (low[number] < end and high[number] > first):
            continue
        regions = first_run.regions_of(number)
        loads = regions[((regions["kind"] & READ) > 0)]
        blocks = set(loads["block"][_touching(loads, carried)].tolist())
        if first_run.is_opaque(number):
            blocks = set(range(max(first_run.tasks[number].block_num, 1)))
        if blocks:
            calls += [(number, block) for block in sorted(blocks)]
            kept = regions[np.isin(regions["block"], list(blocks)) & ((regions["kind"] & WRITE) > 0)]
            carried = carried.with_(pieces(kept))
    return calls


Plan = Callable[[Call], tuple[list[Call], list[Call] | None]]

#: Tasks that are looked into, and indices that are named of the elements an output has.
_MOST_TASKS, NAMED = 64, 5


class Carried(msgspec.Struct):
    """An instruction that had the elements in its operands: how many of its result carry them, the extremes of these,
    and the first one by row and column. ``times`` is how often it was executed with them."""

    task: int
    block: int
    kernel: str
    instruction: str
    where: str
    count: int
    min: float
    max: float
    first: tuple[int, int]
    cpp: str = ""
    pto: str = ""
    times: int = 1


class Reached(msgspec.Struct):
    """An output of the program that they reach: how many elements, the extremes, and the first few by index."""

    output: str
    count: int
    of: int
    min: float
    max: float
    first: list[list[int]]


class Forward(msgspec.Struct):
    """The answer: from which elements, through which instructions in order, to which outputs."""

    source: str
    count: int
    steps: list[Carried]
    outputs: list[Reached]
    note: str = ""


class Walk:
    """Follows bytes through the tasks in the order of submission. `tainted` are the bytes that depend on the elements,
    by their addresses in the first run.
    """

    def __init__(self, first_run: FirstRun, source: Intervals, runs: Callable[[Plan], Runs]) -> None:
        self.first_run, self.tainted = first_run, source
        self.steps: dict[tuple[int, int, int, str, str], Carried] = {}
        self.sites: dict[tuple[int, int, int, str, str], AccessSite] = {}
        self.note = ""
        self._calls = reached_by(first_run, source)
        self._runs = runs(self._plan)

    def _plan(self, call: Call) -> tuple[list[Call], list[Call] | None]:
        """Return a call with the calls that follow it, and the calls that provide what they load."""
        at = self._calls.index(call)
        chosen = as_many(self.first_run, self._calls[at:])
        last = max(chosen)[0] + 1
        return chosen, cone_of(self.first_run, Intervals(), last, chosen).calls if self.first_run.by_itself else None

    def follow(self) -> None:
        """Visit all calls that load tainted bytes. Bytes that another value overwrites are no longer tainted."""
        blocks: dict[int, list[int]] = {}
        for number, block in self._calls:
            blocks.setdefault(number, []).append(block)
        looked = 0
        for number in range(len(self.first_run.tasks)):
            calls = [(number, block) for block in blocks.get(number, []) if self._loads((number, block))]
            if calls and looked == _MOST_TASKS:
                self.note = (
                    f"more than {_MOST_TASKS} tasks have it: task {number} and those after it were not looked into"
                )
                return
            looked += bool(calls)
            for call in calls:
                if large := self._runs.too_large(call):
                    self.note = f"{large}; what it made of them is not known"
                    return
                self._call(self._runs.of(call))
                self._runs.forget(call)
            self._overwritten(number, [block for _, block in calls])

    def _overwritten(self, number: int, but: list[int]) -> None:
        """Drop the bytes that the unfollowed blocks of a task store over."""
        low, high = self.first_run.stored_hulls
        first, end = self.tainted.hull
        if low[number] < end and high[number] > first:
            regions = self.first_run.regions_of(number)
            stores = regions[((regions["kind"] & WRITE) > 0) & ~is_atomic(regions) & ~np.isin(regions["block"], but)]
            if exact(stores):
                self.tainted = self.tainted.without(pieces(stores))

    def _loads(self, call: Call) -> bool:
        """Return whether a call may load a tainted byte."""
        if self.first_run.is_opaque(call[0]):
            return True
        regions = self.first_run.regions_of(call[0])
        loads = pieces(regions[(regions["block"] == call[1]) & ((regions["kind"] & READ) > 0)])
        return bool(self.tainted.touched(loads.low, loads.high).any())

    def _call(self, members: Sequence[Traced]) -> None:
        """One block of a task: its members one after the other, where they wait for each other in turns."""
        memories: dict[int, dict[int, Array]] = {one.member: {} for one in members}
        pushed = _Pushed(members)
        for one, instruction in pushed.in_turns():
            own = memories[one.member]
            if instruction.name == "TPUSH" and instruction.read:
                tile = instruction.read[0]
                mask = pushed.carries[one.member, instruction.number] = _memory(own, tile.space, tile.span[1])[
                    tile.addresses
                ]
                if mask.any():
                    self._note(one, instruction, "slot of the pipe", mask, tile.values[mask].astype(np.float64))
            for tile, mask in self._results(instruction, one, own, pushed):
                memory = _memory(own, tile.space, tile.span[1])
                memory[tile.addresses[..., None] + np.arange(tile.operand.element)] = mask[..., None]
                if mask.any():
                    where = f"{SPACES[tile.space]} 0x{tile.operand.address:x}"
                    self._note(one, instruction, where, mask, tile.values[mask].astype(np.float64))
            self._store(one, instruction, own)

    def _results(
        self, instruction: Instruction, one: Traced, memories: dict[int, Array], pushed: _Pushed
    ) -> list[tuple[Tile, Array]]:
        """The tiles that an instruction writes, with which of their elements carry now."""
        sources = [(tile, _memory(memories, tile.space, tile.span[1])[tile.addresses]) for tile in instruction.read]
        loads = [view for view in instruction.views if not view.writes]
        results = []
        for result in instruction.written:
            mask = np.zeros(result.addresses.shape, bool)
            if result not in instruction.results:
                results.append((result, mask))
                continue
            for tile, carries in sources:
                if carries.any():
                    mask |= reached(instruction.name, tile, carries, result)
            for view in loads:
                high, wide = (min(a, b) for a, b in zip(view.shape, mask.shape, strict=True))
                mask[:high, :wide] |= self.tainted.holds(self._first_run(view.addresses[:high, :wide], one))
            if instruction.name == "TPOP":
                mask |= pushed.popped(one, instruction, result)
            results.append((result, mask))
        return results

    def _first_run(self, addresses: Array, one: Traced) -> Array:
        """Addresses of the run that traced a call, as they were in the first."""
        there = np.full(addresses.shape, -1, np.int64)
        for slot, arg in zip(one.slots, self.first_run.tasks[one.task].args, strict=True):
            inside = (addresses >= slot.buffer) & (addresses < slot.buffer + slot.size)
            there[inside] = addresses[inside] - slot.buffer + arg.address
        return there

    def _store(self, one: Traced, instruction: Instruction, memories: dict[int, Array]) -> None:
        tile = next(iter(instruction.read), None)
        for view in instruction.views:
            if not view.writes or tile is None:
                continue
            carries = _memory(memories, tile.space, tile.span[1])[tile.addresses]
            high, wide = (min(a, b) for a, b in zip(view.shape, carries.shape, strict=True))
            mask, addresses = carries[:high, :wide], view.addresses[:high, :wide]
            stored = self._first_run(addresses, one)
            for chosen in (~mask, mask):
                low = np.sort(stored[chosen])
                part = Intervals.of(low[low >= 0], low[low >= 0] + view.element)
                if chosen is mask:
                    self.tainted = self.tainted.with_(part)
                elif not view.adds:
                    self.tainted = self.tainted.without(part)
            if mask.any():
                location = one.place(int(addresses[mask][0]))
                where = f"'{one.names[location[0]]}'" if location is not None else "global memory"
                self._note(one, instruction, where, mask, tile.values[:high, :wide][mask].astype(np.float64))

    def _note(self, one: Traced, instruction: Instruction, where: str, mask: Array, values: Array) -> None:
        key = one.task, one.block, one.member, instruction.site.offset, where
        row, col = (int(i) for i in np.argwhere(mask)[0])
        low, high, count = float(values.min()), float(values.max()), int(np.count_nonzero(mask))
        step = self.steps.get(key)
        if step is not None:
            step.times, step.count = step.times + 1, step.count + count
            step.min, step.max = min(step.min, low), max(step.max, high)
            return
        line = one.expected.lines.get(instruction.number, 0)
        pto = f"{one.module}:{line}" if line else ""
        self.steps[key] = Carried(
            one.task, one.block, one.kernel, instruction.name, where, count, low, high, (row, col), pto=pto
        )
        self.sites[key] = instruction.site

    def located(self, root: Path) -> list[Carried]:
        """The steps, with the lines of the kernels."""
        positions = find_positions(self.sites.values(), root)
        for key, step in self.steps.items():
            at = positions[self.sites[key]]
            if at.path:
                step.cpp, step.instruction = f"{at.path}:{at.line}", at.instruction
        return list(self.steps.values())


class _Pushed:
    """The tiles that the members of a group pass to each other through pipes."""

    def __init__(self, members: Sequence[Traced]) -> None:
        self._members = members
        self.carries: dict[tuple[int, int], Array] = {}  # of what was pushed, by member and instruction

    def in_turns(self) -> Iterator[tuple[Traced, Instruction]]:
        """Yield the instructions of all members. A pop follows the push that it takes."""
        at = [0] * len(self._members)
        while any(position < len(one.instructions) for position, one in zip(at, self._members, strict=True)):
            went_on = False
            for index, one in enumerate(self._members):
                while at[index] < len(one.instructions) and not self._waits(one, at[index]):
                    yield one, one.instructions[at[index]]
                    at[index] += 1
                    went_on = True
            if not went_on:  # pipes of other ways: whoever is first goes on
                index = next(i for i, one in enumerate(self._members) if at[i] < len(one.instructions))
                yield self._members[index], self._members[index].instructions[at[index]]
                at[index] += 1

    def _waits(self, one: Traced, position: int) -> bool:
        """Return whether an instruction pops a tile that another member has still to push."""
        if one.instructions[position].name != "TPOP":
            return False
        turn = sum(before.name == "TPOP" for before in one.instructions[:position])
        for other in self._others(one):
            pushes = [push.number for push in other.instructions if push.name == "TPUSH" and push.read]
            if turn < len(pushes) and (other.member, pushes[turn]) not in self.carries:
                return True
        return False

    def _others(self, one: Traced) -> list[Traced]:
        return [other for other in self._members if (other.member == 0) != (one.member == 0)]

    def popped(self, one: Traced, instruction: Instruction, result: Tile) -> Array:
        """Return a mask of the elements of a popped tile that carry pushed elements."""
        turn = sum(before.name == "TPOP" for before in one.instructions[: instruction.number])
        mask = np.zeros(result.addresses.shape, bool)
        for other in self._others(one):
            for push in in_turn(other.instructions, turn):
                carries = self.carries.get((other.member, push.number))
                if carries is not None:
                    mask_of_push = carried_over(push.read[0], carries, result, (other.member, one.member))
                    if mask_of_push is not None:
                        mask |= mask_of_push
                        break
        return mask


def _memory(memories: dict[int, Array], space: int, size: int) -> Array:
    """The mask of a memory of the core, at least so large."""
    memory = memories.get(space)
    if memory is None or len(memory) < size:
        grown = np.zeros(max(size, 1 << 16), bool)
        if memory is not None:
            grown[: len(memory)] = memory
        memories[space] = grown
    return memories[space]


def forward_lines(answer: Forward) -> list[str]:
    """For people."""
    lines = [f"{answer.source}: {answer.count} element{'s' if answer.count > 1 else ''}"]
    for step in answer.steps:
        block = f" block {step.block}" if step.block else ""
        times = f", {step.times} times" if step.times > 1 else ""
        values = _range(step.min, step.max)
        places = "  ".join(filter(None, (step.cpp, step.pto)))
        first = f"the first [{step.first[0]}, {step.first[1]}]"
        lines.append(f"  task {step.task} {step.kernel}{block}  {step.instruction}  {places}")
        lines.append(f"      {step.where}: {step.count} carry it{times}, {values}, {first}")
    for output in answer.outputs:
        first = ", ".join(str(index) for index in output.first)
        values = _range(output.min, output.max)
        lines.append(f"reaches '{output.output}': {output.count} of {output.of} elements, {values}: {first}")
    if not answer.outputs:
        lines.append("reaches no output")
    return [*lines, *([answer.note] if answer.note else [])]


def _range(low: float, high: float) -> str:
    return f"{low:.6g}" if low == high else f"{low:.6g} to {high:.6g}"
