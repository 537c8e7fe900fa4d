"""Hits in L2: which loads of a run find what an earlier access left there.

Accesses are taken in lines, in the order of submission; blocks of a task that run at the same time take turns. A load
of a line hits if fewer bytes than L2 keeps were accessed since the line was. At its first access a line misses: a run
begins with an empty L2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pypto_build.diagnose.speed.rates import Rates
from pypto_build.diagnose.speed.record import Array, Recording, View

#: Accesses to lines that are looked at; lines are longer where there would be more.
_MOST_LINES = 1 << 22
_SHORTEST_LINE, _LONGEST_LINE = 32, 1 << 20
#: Parts of a call in which misses are counted.
_PARTS = 16


@dataclass(frozen=True)
class Hits:
    """For each call of a recording, the share of its loaded bytes that hit; and the bytes of memory in all.

    `phase` is the part of a call's loads among which its misses are: 1 where hits and misses alternate. `sharers` is
    the mean cube of the number of cores that load the same line. `store_hits` is the share of stored bytes that stay
    in L2: all where the whole run fits.
    """

    by_call: Array
    phase: Array
    sharers: Array
    store_hits: float
    footprint: int
    loaded: int
    missed: float
    stored: int


@dataclass(frozen=True)
class _Touches:
    """All accesses to lines, in the order in which they happen: a row an access of an instruction to a line.

    Where all that share a line with an access access the same bytes, one row stands for all its lines: `lines` is their
    number. `group` counts the calls that run together: those blocks of a task that the cores can take at once. `part`
    is the part of its call in which an access lies.
    """

    line: Array
    lines: Array
    call: Array
    group: Array
    part: Array
    weight: Array
    loads: Array


def hits(recording: Recording, rates: Rates) -> Hits:
    """Return the hits of all calls."""
    count = len(recording.calls)
    views = [row.views[0] if row.views else None for row in recording.rows]
    sizes = np.array([view.bursts[0] * view.bursts[1] if view else 0 for view in views], np.int64)
    viewed = np.array([view is not None for view in views], bool)
    rows = [stream[viewed[stream]] for stream in recording.streams]
    of_stream = [int(sizes[numbers].sum()) for numbers in rows]
    total = sum(of_stream[call.stream] for call in recording.calls)
    if not total:
        return Hits(np.zeros(count), np.ones(count), np.ones(count), 1.0, 0, 0, 0.0, 0)
    line = int(rates["l2.line"])
    shortest = min(view.bursts[1] for view in views if view and view.bursts[0] and view.bursts[1])
    while line > max(
        shortest, _SHORTEST_LINE
    ):  # a load does not bring in the rest of a line that its row has a part of
        line //= 2
    while total > line * _MOST_LINES and line < _LONGEST_LINE:
        line *= 2
    touches = _touches(recording, rates, rows, views, sizes, line)
    by_line = np.argsort(touches.line, kind="stable")
    sorted_lines = touches.line[by_line]
    again = sorted_lines[1:] == sorted_lines[:-1]
    moment = np.cumsum(touches.weight)
    earlier = np.full(len(moment), -np.inf)
    earlier[by_line[1:][again]] = moment[by_line[:-1][again]]
    capacity = rates["l2"] * 2**20 * rates["l2.reuse"]
    first = by_line[np.concatenate(([True], ~again))]
    footprint = min(int(touches.lines[first].sum()) * line, total)
    loaded, missed, share, phase = _misses(touches, moment - earlier > capacity)
    together = np.zeros(count, np.int64)
    together[touches.call] = touches.group
    stored = float(touches.weight[~touches.loads].sum())
    stay = 1.0 if footprint <= capacity else 0.0
    sharers = _sharers(touches, by_line, again, count)
    return Hits(share[together], phase[together], sharers, stay, footprint, round(loaded), missed, round(stored))


def _touches(
    recording: Recording, rates: Rates, rows: Sequence[Array], views: Sequence[View | None], sizes: Array, line: int
) -> _Touches:
    """Return all accesses: `rows` are those with views, by stream, `sizes` the bytes of each row's view."""
    calls = recording.calls
    numbers = [rows[call.stream] for call in calls]
    lengths = np.array([len(result) for result in numbers])
    waves = np.array([call.block // rates.cores["aiv" if call.member else "aic"] for call in calls])
    begins = np.repeat(np.cumsum(lengths) - lengths, lengths)
    turn = (np.arange(len(begins)) - begins) / np.repeat(lengths, lengths)
    task = np.repeat(np.array([call.task for call in calls]), lengths)
    wave = np.repeat(waves, lengths)
    by_turn = np.lexsort((turn, wave, task))
    number = np.concatenate(numbers)[by_turn]
    base = np.concatenate([recording.bases[call.bases] for call in calls]).astype(np.int64)[by_turn]
    new = (np.diff(task[by_turn], prepend=-1) != 0) | (np.diff(wave[by_turn], prepend=-1) != 0)
    bursts: dict[tuple[int, int, int], int] = {}
    shape = np.array([bursts.setdefault(view.bursts, len(bursts)) if view else 0 for view in views])[number]
    offsets = [_lines(of, line) for of in bursts]
    whole = np.array([len(result) for result in offsets], np.int64)
    alone = _alone(base, shape, offsets, line)
    each = np.where(alone, 1, whole[shape])
    access = np.repeat(np.arange(len(number)), each)
    joined = _joined(shape + alone * len(offsets), [*offsets, *(result[:1] for result in offsets)])
    loads = np.array([bool(view and not view.writes) for view in views])
    return _Touches(
        (np.repeat(base, each) + joined) // line,
        np.where(alone, whole[shape], 1)[access],
        np.repeat(np.arange(len(calls)), lengths)[by_turn][access],
        (np.cumsum(new) - 1)[access],
        (turn[by_turn] * _PARTS).astype(np.int64)[access],
        (sizes[number] / np.maximum(each, 1))[access],
        loads[number][access],
    )


def _alone(base: Array, shape: Array, offsets: Sequence[Array], line: int) -> Array:
    """Return for each access whether all that share a line with it access the same bytes.

    The first line of such an access stands for all its lines: they hit or miss together.
    """
    _, base_number = np.unique(base, return_inverse=True)
    _, first, span = np.unique(base_number * len(offsets) + shape, return_index=True, return_inverse=True)
    base, shape = base[first], shape[first]
    inside, kind = np.unique(base % line * len(offsets) + shape, return_inverse=True)
    lines = [(at // len(offsets) + offsets[at % len(offsets)]) // line for at in inside.tolist()]
    apart = np.array([len(at) > 0 and len(np.unique(at)) == len(at) for at in lines], bool)[kind]
    low = base // line + np.array([at.min(initial=0) for at in lines], np.int64)[kind]
    high = base // line + np.array([at.max(initial=0) for at in lines], np.int64)[kind]
    order = np.argsort(low, kind="stable")
    ends = np.maximum.accumulate(high[order])
    gap = low[order][1:] > ends[:-1]  # no line before reaches into the next span
    result = np.empty(len(order), bool)
    result[order] = np.concatenate(([True], gap)) & np.concatenate((gap, [True]))
    alone: Array = (result & apart)[span]
    return alone


def _misses(touches: _Touches, missing: Array) -> tuple[float, float, Array, Array]:
    """Return the bytes that were loaded and that missed; of each group the share of hits, and the phase of misses.

    Calls that run together share what one of them missed.
    """
    groups = int(touches.group.max()) + 1
    cell = touches.group * _PARTS + touches.part
    loads = touches.loads
    loaded = np.bincount(cell[loads], touches.weight[loads], groups * _PARTS).reshape(groups, _PARTS)
    missing = loads & missing
    missed = np.bincount(cell[missing], touches.weight[missing], groups * _PARTS).reshape(groups, _PARTS)
    rate = np.divide(missed, loaded, out=np.zeros(missed.shape), where=loaded > 0)
    mean, square = rate.mean(axis=1), (rate**2).mean(axis=1)
    phase = np.divide(mean**2, square, out=np.ones(groups), where=square > 0)
    all_loads = loaded.sum(axis=1)
    share = 1 - np.divide(missed.sum(axis=1), all_loads, out=np.zeros(groups), where=all_loads > 0)
    return float(loaded.sum()), float(missed.sum()), share, phase


def _sharers(touches: _Touches, by_line: Array, again: Array, calls: int) -> Array:
    """Return for each call the mean cube of the number of calls that load the same line at the same time."""
    of_group = np.bincount(touches.group, minlength=1)
    if len(of_group) >= calls:  # no two calls run together
        return np.ones(calls)
    line = np.empty(len(by_line), np.int64)
    line[by_line] = np.concatenate(([0], np.cumsum(~again)))
    loads = touches.loads
    cell = (line * len(of_group) + touches.group)[loads]
    pairs = np.sort(cell * calls + touches.call[loads])
    pairs = pairs[np.concatenate(([True], pairs[1:] != pairs[:-1]))] // calls if len(pairs) else pairs
    begins = np.flatnonzero(np.concatenate(([True], pairs[1:] != pairs[:-1]))) if len(pairs) else np.zeros(0, np.int64)
    count = np.diff(np.concatenate((begins, [len(pairs)])))
    cubes = count[np.searchsorted(pairs[begins], cell)].astype(float) ** 3
    total = np.bincount(touches.call[loads], touches.weight[loads], calls)
    result: Array = np.divide(
        np.bincount(touches.call[loads], cubes * touches.weight[loads], calls),
        total,
        out=np.ones(calls),
        where=total > 0,
    )
    return result


def _lines(bursts: tuple[int, int, int], line: int) -> Array:
    """Return an offset in each line of a view's bursts."""
    count, length, step = bursts
    count, length = max(count, 0), max(length, 1)
    inside = np.arange(0, length, max(line, length >> 16), dtype=np.int64)
    count = min(count, _MOST_LINES // len(inside))
    starts = np.arange(count, dtype=np.int64) * step
    if abs(step) < line and count > 1:  # several rows a line
        starts = starts[:: max(1, line // max(abs(step), 1))]
    result: Array = (starts[:, None] + inside[None, :]).reshape(-1)
    return result


def _joined(numbers: Array, offsets: Sequence[Array]) -> Array:
    """Return the offsets of all numbers one after the other."""
    sizes = np.array([len(result) for result in offsets], np.int64)
    begins = np.concatenate(([0], np.cumsum(sizes)))[:-1]
    flat = np.concatenate(offsets) if offsets else np.zeros(0, np.int64)
    each = sizes[numbers]
    ends = np.cumsum(each)
    index = (
        np.arange(int(ends[-1]) if len(ends) else 0) - np.repeat(ends - each, each) + np.repeat(begins[numbers], each)
    )
    joined: Array = flat[index]
    return joined
