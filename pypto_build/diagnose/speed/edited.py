"""Recordings as an edit of the program would change them: the model runs again on each, which gives the edit's gain."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

import msgspec
import numpy as np

from pypto_build.diagnose.speed.record import (
    BARRIER,
    INSTRUCTION,
    SET_FLAG,
    UB,
    WAIT_FLAG,
    Array,
    BlockCall,
    EventRow,
    Recording,
    S,
    TileArea,
    V,
    View,
)
from pypto_build.diagnose.speed.what_if import BUFFER_FLAGS

#: Bytes between addresses of blocks that an edit adds.
_APART = 1 << 44
#: Bytes of one execution of a vector instruction that takes the place of scalar accesses, and their number.
_SCALARS = 64


def with_rows(recording: Recording, rows: Mapping[int, EventRow]) -> Recording:
    """Return the recording with other rows at some numbers."""
    return replace(recording, rows=[rows.get(number, row) for number, row in enumerate(recording.rows)])


def with_streams(
    recording: Recording, rows: Sequence[EventRow], streams: Mapping[int, tuple[Array, Array]]
) -> Recording:
    """Return the recording with other streams. Of each: the old positions that stay, and what is there now.

    A position of -1 is new. It and what had no view before must have none. Addresses of views follow their rows.
    """
    had = np.array([bool(row.views) for row in recording.rows])
    has = np.array([bool(row.views) for row in rows])
    listed = [streams[n][1] if n in streams else stream for n, stream in enumerate(recording.streams)]
    kept: dict[int, Array] = {}  # of each changed stream, the numbers of its addresses that stay
    for number, (positions, numbers) in streams.items():
        kept[number] = (np.cumsum(had[recording.streams[number]]) - 1)[positions[has[numbers]]]
    bases: list[Array] = []
    calls: list[BlockCall] = []
    begin = 0
    for call in recording.calls:
        of_call = recording.bases[call.bases]
        if call.stream in kept:
            of_call = of_call[kept[call.stream]]
        bases.append(of_call)
        at = slice(begin, begin + len(of_call))
        calls.append(call if call.bases == at else replace(call, bases=at))
        begin += len(of_call)
    joined = np.concatenate(bases) if bases else recording.bases
    return replace(recording, rows=list(rows), streams=listed, calls=calls, bases=joined)


def of_kernel(recording: Recording, kernel: int) -> list[int]:
    """Return the numbers of the streams that calls of a kernel execute."""
    return sorted({call.stream for call in recording.calls if call.kernel == kernel})


# -- shapes --


def resized(row: EventRow, factor: float, step: int = 0) -> EventRow:
    """Return the row of an instruction as if it worked on `factor` times as much data.

    `step` is the distance in bytes from one such view to the next.
    """

    def tile(old: TileArea) -> TileArea:
        if old.height * factor >= 1:
            height = round(old.height * factor)
            return msgspec.structs.replace(old, height=height, rows=max(old.rows, height), valid_row=height)
        return msgspec.structs.replace(old, width=max(1, round(old.width * factor)))

    def view(old: View) -> View:
        shape, stride = list(old.shape), list(old.stride)
        if shape[3] * factor >= 1:
            stride[3] = step // (old.element * old.shape[3]) if step else stride[3]
            shape[3] = round(shape[3] * factor)
            return msgspec.structs.replace(
                old, shape=tuple(shape), stride=tuple(stride), rows=max(1, round(old.rows * factor))
            )
        shape[4] = max(1, round(shape[4] * factor))
        return msgspec.structs.replace(old, shape=tuple(shape), cols=max(1, round(old.cols * factor)))

    return msgspec.structs.replace(row, tiles=tuple(map(tile, row.tiles)), views=tuple(map(view, row.views)))


def consecutive(row: EventRow) -> EventRow:
    """Return a transfer whose rows follow each other without gaps."""

    def view(old: View) -> View:
        stride = list(old.stride)
        if old.layout == 1:
            stride[4] = min(old.shape[3], old.rows)
            return msgspec.structs.replace(old, stride=tuple(stride), shape=(*old.shape[:3], stride[4], old.shape[4]))
        stride[3] = min(old.shape[4], old.cols)
        return msgspec.structs.replace(old, stride=tuple(stride), shape=(*old.shape[:4], stride[3]))

    return msgspec.structs.replace(row, views=tuple(map(view, row.views)))


def at_address(row: EventRow, old: int, new: int) -> EventRow:
    """Return a row whose tile of UB at `old` is at `new`."""
    tiles = tuple(
        msgspec.structs.replace(tile, address=new) if (tile.space, tile.address) == (UB, old) else tile
        for tile in row.tiles
    )
    return msgspec.structs.replace(row, tiles=tiles)


def moved(recording: Recording, streams: Sequence[int], old: int, new: int) -> Recording:
    """Return the recording with a tile of UB at another address in some streams."""
    numbers = np.unique(np.concatenate([recording.streams[n] for n in streams])).tolist()
    return with_rows(recording, {n: at_address(recording.rows[n], old, new) for n in numbers})


# -- order in a kernel --


def with_larger_steps(recording: Recording, stream: int, number: int, times: int) -> Recording | None:
    """Return the recording with each step of the loop around a row on so many times the data; None if it is no loop."""
    events = recording.streams[stream]
    counts = Counter(events.tolist())
    loops = counts[number]
    seen: Counter[int] = Counter()
    rows = list(recording.rows)
    larger: dict[int, int] = {}
    positions, numbers = [], []
    order = np.cumsum([bool(recording.rows[n].views) for n in events.tolist()]) - 1
    bases = next(recording.bases[call.bases] for call in recording.calls if call.stream == stream)
    begins: dict[int, list[int]] = {}
    for position, n in enumerate(events.tolist()):
        if recording.rows[n].views:
            begins.setdefault(n, []).append(int(bases[order[position]]))
    for position, n in enumerate(events.tolist()):
        inside = counts[n] >= loops and counts[n] % loops == 0
        turn = seen[n] // (counts[n] // loops) if inside else 0
        seen[n] += 1
        if inside and turn % times:
            continue
        if inside and rows[n].kind == INSTRUCTION:
            if n not in larger:
                at = begins.get(n, [0, 0])
                step = at[1] - at[0] if len(at) > 1 else 0
                if step < 0:
                    return None
                larger[n] = len(rows)
                rows.append(resized(rows[n], times, step))
            n = larger[n]
        positions.append(position)
        numbers.append(n)
    return with_streams(recording, rows, {stream: (np.array(positions), np.array(numbers, np.uint32))})


def with_two_buffers(recording: Recording, streams: Sequence[int]) -> Recording:
    """Return the recording in which a pipe need not wait for the last but one use of its buffer."""
    changed = {}
    for stream in streams:
        events = recording.streams[stream]
        free = {
            (row.pipe, row.to, row.id): number
            for number in events.tolist()
            if (row := recording.rows[number]).kind == SET_FLAG and (row.pipe, row.to) in BUFFER_FLAGS
        }
        more = np.array(list(free.values()), np.uint32)
        numbers = np.concatenate((more, events))
        changed[stream] = (np.concatenate((np.full(len(more), -1), np.arange(len(events)))), numbers)
    return with_streams(recording, recording.rows, changed)


def without_scalars(recording: Recording, streams: Sequence[int]) -> Recording:
    """Return the recording with one vector instruction instead of each 64 scalar accesses."""
    whole = TileArea(0, UB, 3, 0, 0, 0, 1, 4, 1, _SCALARS, 1, _SCALARS, 0, 0, 1, _SCALARS)
    rows = [*recording.rows, EventRow(INSTRUCTION, "TMOV", V, tiles=(whole,))]
    changed = {}
    for stream in streams:
        events = recording.streams[stream]
        pipes = np.array([rows[n].pipe if rows[n].kind == INSTRUCTION else -1 for n in events.tolist()])
        scalar = pipes == S
        turn = np.cumsum(scalar) - 1
        kept = np.flatnonzero(~scalar | (turn % _SCALARS == 0))
        numbers = np.where(scalar[kept], len(rows) - 1, events[kept]).astype(np.uint32)
        changed[stream] = (kept, numbers)
    return with_streams(recording, rows, changed)


def with_flags(recording: Recording, streams: Sequence[int], number: int) -> Recording | None:
    """Return the recording with the flags that a barrier's operands need in its place; None if it must wait for all."""
    rows = list(recording.rows)
    changed = {}
    for stream in streams:
        events = recording.streams[stream].tolist()
        positions, numbers = [], []
        ends = [at for at, n in enumerate(events) if rows[n].kind == BARRIER or n == number]
        for at, n in enumerate(events):
            if n != number:
                positions.append(at)
                numbers.append(n)
                continue
            before = events[max((end + 1 for end in ends if end < at), default=0) : at]
            after = events[at + 1 : min((end for end in ends if end > at), default=len(events))]
            pairs = _orders([rows[one] for one in before], [rows[one] for one in after])
            if pairs is None:
                return None
            for first, second in sorted(pairs):
                for kind in (SET_FLAG, WAIT_FLAG) if first != second else (BARRIER,):
                    rows.append(EventRow(kind, "", first, second, 1 << 20))
                    positions.append(-1)
                    numbers.append(len(rows) - 1)
        changed[stream] = (np.array(positions), np.array(numbers, np.uint32))
    return with_streams(recording, rows, changed)


def _orders(before: Sequence[EventRow], after: Sequence[EventRow]) -> set[tuple[int, int]] | None:
    """Return the pairs of pipes whose instructions share bytes of a tile; None if they may share global memory."""
    first = [row for row in dict.fromkeys(before) if row.kind == INSTRUCTION]
    second = [row for row in dict.fromkeys(after) if row.kind == INSTRUCTION]
    if any(view.writes for row in first for view in row.views) and any(row.views for row in second):
        return None
    pairs = set()
    for one in first:
        for other in second:
            if any(_share(a, b) for a in one.tiles for b in other.tiles):
                pairs.add((one.pipe, other.pipe))
    return pairs


def _share(a: TileArea, b: TileArea) -> bool:
    ends = [tile.address + tile.rows * tile.cols * tile.element for tile in (a, b)]
    return a.space == b.space and a.address < ends[1] and b.address < ends[0] and (a.writes or b.writes)


# -- tasks --


def fused(recording: Recording, head: Mapping[int, int]) -> Recording:
    """Return the recording with tasks that run inside of others: `head` names the task that takes a task in."""
    parts: dict[tuple[int, int, int], list[BlockCall]] = {}
    for calls in recording.tasks.values():
        for call in calls:
            parts.setdefault((head.get(call.task, call.task), call.block, call.member), []).append(call)
    streams: list[Array] = []
    joined: dict[tuple[int, ...], int] = {}
    bases: list[Array] = []
    listed: list[BlockCall] = []
    begin = 0
    for (task, block, member), calls in parts.items():
        key = tuple(call.stream for call in calls)
        if key not in joined:
            joined[key] = len(streams)
            streams.append(np.concatenate([recording.streams[n] for n in key]))
        of_call = np.concatenate([recording.bases[call.bases] for call in calls])
        bases.append(of_call)
        end = begin + len(of_call)
        listed.append(BlockCall(task, block, member, calls[0].kernel, joined[key], slice(begin, end)))
        begin = end
    after: dict[int, frozenset[int]] = {}
    for task, waits in recording.after.items():
        to = head.get(task, task)
        after[to] = after.get(to, frozenset()) | {head.get(one, one) for one in waits} - {to}
    return replace(recording, streams=streams, calls=listed, bases=np.concatenate(bases), after=after)


def with_even_blocks(
    recording: Recording, factors: Mapping[tuple[int, int], float], more: Mapping[int, int]
) -> Recording:
    """Return the recording with so many times the work in some blocks of tasks, and with more blocks in some tasks."""
    rows = list(recording.rows)
    streams = list(recording.streams)
    kept: dict[tuple[int, float], int] = {}
    calls: list[BlockCall] = []
    bases, begin = [recording.bases], len(recording.bases)
    for call in recording.calls:
        factor = factors.get((call.task, call.block), 1.0)
        key = call.stream, round(factor, 3)
        if factor != 1.0 and key not in kept:
            kept[key] = _divided(rows, streams, streams[call.stream], factor)
        one = replace(call, stream=kept.get(key, call.stream))
        calls.append(one)
        if call.block < more.get(call.task, 0):
            blocks = 1 + max(other.block for other in recording.tasks[call.task])
            of_call = recording.bases[call.bases] + np.uint64(_APART)
            bases.append(of_call)
            calls.append(replace(one, block=call.block + blocks, bases=slice(begin, begin + len(of_call))))
            begin += len(of_call)
    return replace(recording, rows=rows, streams=streams, calls=calls, bases=np.concatenate(bases))


def with_more_blocks(recording: Recording, task: int, parts: int) -> Recording:
    """Return the recording with each block of a task replaced by `parts` blocks that share its steps.

    A row that a stream has at least `parts` times is a step of a loop: each part takes its share of them. A stream
    without loop is divided by the extents of its operands.
    """
    rows, streams = list(recording.rows), list(recording.streams)
    numbers: dict[bytes, int] = {}
    calls: list[BlockCall] = []
    bases, begin = [recording.bases], len(recording.bases)
    viewed = np.array([bool(row.views) for row in rows], bool)
    divided: dict[int, int] = {}
    for call in recording.calls:
        if call.task != task:
            calls.append(call)
            continue
        stream, of_call = streams[call.stream], recording.bases[call.bases]
        part = _parts(stream, parts)
        if part is None and call.stream not in divided:
            divided[call.stream] = _divided(rows, streams, stream, 1 / parts)
        for number in range(parts):
            if part is None:
                taken, at = divided[call.stream], of_call + np.uint64(number * _APART)
            else:
                kept = (part == number) | (part < 0)
                own = stream[kept]
                taken = numbers.setdefault(own.tobytes(), len(streams))
                if taken == len(streams):
                    streams.append(own)
                at = of_call[kept[viewed[stream]]]
            bases.append(at)
            calls.append(
                replace(call, block=call.block * parts + number, stream=taken, bases=slice(begin, begin + len(at)))
            )
            begin += len(at)
    return replace(recording, rows=rows, streams=streams, calls=calls, bases=np.concatenate(bases))


def _parts(stream: Array, parts: int) -> Array | None:
    """Return for each event the part that takes it, or -1 for all of them; None for a stream without a loop."""
    _, inverse, counts = np.unique(stream, return_inverse=True, return_counts=True)
    if counts.max(initial=0) < parts:
        return None
    order = np.argsort(inverse, kind="stable")
    begins = np.concatenate(([0], np.cumsum(counts)))[:-1]
    turn = np.empty(len(stream), np.int64)
    turn[order] = np.arange(len(stream)) - np.repeat(begins, counts)
    count = counts[inverse]
    result: Array = np.where(count < parts, -1, turn * parts // count)
    return result


def _divided(rows: list[EventRow], streams: list[Array], stream: Array, factor: float) -> int:
    """Add a stream with so many times the work of another, and return its number."""
    numbers, inverse = np.unique(stream, return_inverse=True)
    new = np.arange(len(rows), len(rows) + len(numbers), dtype=np.uint32)
    rows += [resized(rows[n], factor) if rows[n].kind == INSTRUCTION else rows[n] for n in numbers.tolist()]
    streams.append(new[inverse])
    return len(streams) - 1
