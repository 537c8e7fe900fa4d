"""Cross-core pipes, and the scheduler that runs the members of a group round-robin."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any

import torch

from .memory import Tile


@dataclass
class _Entry:
    """A push of one core: a matrix, and its position in the slot."""

    value: torch.Tensor
    row: int = 0
    col: int = 0


class _Pipe:
    """One direction of a pipe: a queue for each vector core, of at most `slots` entries."""

    def __init__(self, name: str, slots: int = 8) -> None:
        self.name, self.slots = name, slots
        self.lanes: tuple[deque[_Entry], deque[_Entry]] = (deque(), deque())
        self.unsplit = "empty"  # what the second vector core gets where a tile is not split; see _open_pipe

    def __len__(self) -> int:
        return max(map(len, self.lanes))

    def clear(self) -> None:
        for lane in self.lanes:
            lane.clear()

    def state(self) -> str:
        """`to_aiv: 2 of 8 slots` with the lanes apart where they differ."""
        counts = [len(lane) for lane in self.lanes]
        return f"{self.name}: {max(counts)} of {self.slots} slots" + (
            f" (lanes {counts[0]}, {counts[1]})" if _lanes[0] > 1 and counts[0] != counts[1] else ""
        )


class _Pipes(dict[str, _Pipe]):
    """The pipes of a group by direction; `to_aiv#1` is the pipe with id 1."""

    def __missing__(self, name: str) -> _Pipe:
        self[name] = _Pipe(name)
        return self[name]


_relax: list[Callable[[], None]] = []  # what lets other ranks go on; none where one kernel runs by itself
_pipes = _Pipes()
_current_sb = [0]
_lanes = [1]


def _reset_pipes() -> None:
    """Empty all pipes, so that a group does not see tiles of another group."""
    for pipe in _pipes.values():
        pipe.clear()
    _current_sb[0] = 0
    _lanes[0] = 1


@dataclass
class PipeBuffer:
    """The bytes for popped tiles in the consumer's memory, one slot after the other."""

    address: int
    slot_size: int
    slots: int
    popped: int = 0

    def next(self) -> int:
        self.popped += 1
        return self.address + (self.popped - 1) % max(self.slots, 1) * self.slot_size


def _open_pipe(
    names: tuple[str, ...], slots: int, buffer: int, slot_size: int, local: int, unsplit: str = "empty"
) -> PipeBuffer:
    """Set up a pipe's directions.

    `unsplit` is the second vector core's part in traffic that is not split. It takes its turn without data (empty), has
    no part in the pipe (none), or gets the same tile (copy).
    """
    for name in names:
        _pipes[name].slots, _pipes[name].unsplit = slots, unsplit
    return PipeBuffer(buffer, slot_size, local)


def _lanes_of(pipe: _Pipe) -> tuple[int, ...]:
    """Return the numbers of the vector cores that use a pipe."""
    return (0,) if pipe.unsplit == "none" else tuple(range(_lanes[0]))


def _part_origin(tile: Tile, split: int) -> tuple[int, int]:
    """Return row and column of the slot at which this vector core's part starts. The first core has one more of an
    odd extent.
    """
    lane, (rows, cols) = _current_sb[0], tile.valid
    return {
        0: (0, 0), 1: (lane * tile.rows, 0), 2: (0, lane * tile.cols),
        3: (lane * (rows + 1), 0), 4: (0, lane * (cols + 1)),
    }[split]  # fmt: skip


def _fill(tile: Tile, entries: list[_Entry], row: int, col: int) -> None:
    """Fill a tile with the part of a slot that starts at an element; missing elements are zero."""
    rows, cols = tile.valid
    result = torch.zeros(rows, cols, dtype=tile.dtype)
    for entry in entries:
        top, left = entry.row - row, entry.col - col
        value = entry.value[max(-top, 0) :, max(-left, 0) :]
        top, left = max(top, 0), max(left, 0)
        height, width = max(min(value.shape[0], rows - top), 0), max(min(value.shape[1], cols - left), 0)
        part = value[:height, :width]
        same_size = part.element_size() == tile.dtype.itemsize
        convert = part.is_floating_point() == tile.dtype.is_floating_point or not same_size
        result[top : top + height, left : left + width] = part if convert else part.contiguous().view(tile.dtype)
    tile[:] = result


def _entry(tile: Tile, row: int = 0, col: int = 0) -> _Entry:
    return _Entry(tile.read(*tile.valid).clone(), row, col)


def _tpush_to_aiv(pipe: _Pipe, tile: Tile, split: int) -> Tile:
    """Push the cube core's tile to the vector core, as a whole or in halves for two of them."""
    for lane in pipe.lanes[: 2 if split else 1]:
        lane.append(_entry(tile))
    return tile


def _tpop_from_aic(pipe: _Pipe, split: int, tile: Tile) -> Tile:
    """Pop the oldest tile of the cube core; halves are joined if no scheduler runs two vector cores."""
    if _current_sb[0] and not split:
        _fill(tile, [], 0, 0)
        return tile
    entry = pipe.lanes[0].popleft()
    if split:
        pipe.lanes[1].popleft()
    _fill(tile, [entry], 0, 0)
    return tile


def _tpush_to_aic(pipe: _Pipe, tile: Tile, split: int) -> Tile:
    """Push the vector core's tile to the cube core."""
    if _current_sb[0] and not split:
        return tile
    pipe.lanes[0].append(_entry(tile))
    return tile


def _tpop_from_aiv(pipe: _Pipe, split: int, tile: Tile) -> Tile:
    """Pop the oldest tile of the vector core."""
    _fill(tile, [pipe.lanes[0].popleft()], 0, 0)
    return tile


@dataclass
class _WaitPop:
    """A request of a member to wait until the pipe has an entry for each of these lanes."""

    pipe: _Pipe
    lanes: tuple[int, ...]

    def ready(self) -> bool:
        return all(self.pipe.lanes[lane] for lane in self.lanes)

    def run(self) -> list[_Entry]:
        return [self.pipe.lanes[lane].popleft() for lane in self.lanes]


@dataclass
class _WaitPush:
    """A request of a member to wait until the pipe has a free slot for each of these lanes."""

    pipe: _Pipe
    lanes: tuple[int, ...]
    item: _Entry

    def ready(self) -> bool:
        return all(len(self.pipe.lanes[lane]) < self.pipe.slots for lane in self.lanes)

    def run(self) -> None:
        for lane in self.lanes:
            self.pipe.lanes[lane].append(self.item)


Steps = Generator[Any, Any, Any]


def _tpush_to_aiv_g(pipe: _Pipe, tile: Tile, split: int) -> Steps:
    """Push the cube core's tile to all vector cores of the group."""
    yield _WaitPush(pipe, _lanes_of(pipe), _entry(tile))
    return tile


def _tpop_from_aic_g(pipe: _Pipe, split: int, tile: Tile) -> Steps:
    """Pop this vector core's part of the cube core's oldest tile. Without split the second core gets zeros."""
    lane = _current_sb[0]
    entries = [] if lane not in _lanes_of(pipe) else (yield _WaitPop(pipe, (lane,)))
    if split or lane == 0 or pipe.unsplit == "copy":
        _fill(tile, entries, *_part_origin(tile, split))
    else:
        _fill(tile, [], 0, 0)
    return tile


def _tpush_to_aic_g(pipe: _Pipe, tile: Tile, split: int) -> Steps:
    """Push this vector core's part of a tile to the cube core. Without split only the first core's part counts."""
    lane = _current_sb[0]
    entry = _entry(tile, *_part_origin(tile, split))
    if not split and lane:
        entry = _Entry(entry.value[:0])
    if lane in _lanes_of(pipe):
        yield _WaitPush(pipe, (lane,), entry)
    return tile


def _tpop_from_aiv_g(pipe: _Pipe, split: int, tile: Tile) -> Steps:
    """Pop the oldest tile of the vector cores, joined from their parts."""
    entries = yield _WaitPop(pipe, _lanes_of(pipe))
    _fill(tile, entries, 0, 0)
    return tile


@dataclass
class _Barrier:
    """A request of a member to wait until all others are at a barrier, too, or have ended."""


def _barrier_g() -> Steps:
    yield _Barrier()


def _run_scheduler(tasks: list[tuple[str, Any, int]]) -> Any:
    """Run the members of a group, (name, generator, vector core), in turns of one request each, in list order.

    Returns what the last member with a result returned. RuntimeError when no member can go on.
    """
    _lanes[0] = max(1, max((lane for _, _, lane in tasks), default=0) + 1)
    waiting: dict[int, Any] = {}
    results: list[Any] = []
    for number, (_, member, lane) in enumerate(tasks):
        if isinstance(member, Generator):
            _advance(number, member, lane, None, waiting, results)
    while waiting:
        moved = False
        for number in list(waiting):
            request = waiting[number]
            if isinstance(request, _Barrier) or not request.ready():
                continue
            moved = True
            _current_sb[0] = tasks[number][2]
            _advance(number, tasks[number][1], tasks[number][2], request.run(), waiting, results)
        if not moved and waiting and all(isinstance(request, _Barrier) for request in waiting.values()):
            moved = True
            for number in list(waiting):
                _advance(number, tasks[number][1], tasks[number][2], None, waiting, results)
        if not moved and _relax and any(hasattr(request, "what") for request in waiting.values()):
            moved = True  # a signal may come from another rank
            _relax[-1]()
        if not moved:
            raise RuntimeError(_deadlock_text(tasks, waiting))
    _current_sb[0] = 0
    left = [pipe.state() for pipe in _pipes.values() if len(pipe)]
    if left:
        print(f"note: tiles left in pipes at the end of {', '.join(name for name, _, _ in tasks)}: {'; '.join(left)}")
    return next((result for result in reversed(results) if result is not None), None)


def _advance(number: int, member: Any, lane: int, value: Any, waiting: dict[int, Any], results: list[Any]) -> None:
    """Run one member up to its next request or to its end."""
    _current_sb[0] = lane
    try:
        waiting[number] = member.send(value)
    except StopIteration as end:
        waiting.pop(number, None)
        results.append(end.value)


def _deadlock_text(tasks: list[tuple[str, Any, int]], waiting: dict[int, Any]) -> str:
    blocked = []
    for number, request in waiting.items():
        what = "a barrier"
        if hasattr(request, "what"):
            what = request.what()
        elif not isinstance(request, _Barrier):
            what = f"{'a tile from' if isinstance(request, _WaitPop) else 'a free slot in'} {request.pipe.state()}"
        blocked.append(f"({tasks[number][0]}, {type(request).__name__}: waits for {what})")
    return f"Cross-core simulation deadlock; tasks blocked: [{', '.join(blocked)}]"
