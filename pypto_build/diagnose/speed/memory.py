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
_LONGEST_LINE = 1 << 20
#: Parts of a call in which misses are counted.
_BINS = 16


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


def hits(recording: Recording, rates: Rates) -> Hits:
    """Return the hits of all calls, taken in the order of submission."""
    calls = recording.calls
    order = sorted(range(len(calls)), key=lambda index: (calls[index].task, calls[index].block, calls[index].member))
    width = {member: rates.cores["aiv" if member else "aic"] for member in range(3)}
    views = [row.views[0] if row.views else None for row in recording.rows]
    sizes = np.array([view.bursts[0] * view.bursts[1] if view else 0 for view in views], np.int64)
    writes = np.array([bool(view and view.writes) for view in views])
    has_view = np.array([view is not None for view in views])
    touched = [stream[has_view[stream]] for stream in recording.streams]  # rows with a view, by stream
    total = int(sum(sizes[touched[call.stream]].sum() for call in calls))
    line = int(rates["l2.line"])
    while total > line * _MOST_LINES and line < _LONGEST_LINE:
        line *= 2
    offsets = [_lines(view, line) if view else np.zeros(0, np.int64) for view in views]
    counts = np.array([len(found) for found in offsets], np.int64)
    rows = [touched[calls[index].stream] for index in order]
    if not rows or not sum(map(len, rows)):
        return Hits(np.zeros(len(calls)), np.ones(len(calls)), np.ones(len(calls)), 1.0, 0, 0, 0.0, 0)
    number = np.concatenate(rows)
    base = np.concatenate([recording.bases[calls[index].bases] for index in order]).astype(np.int64)
    lengths = np.array([len(found) for found in rows])
    owner = np.repeat(np.array(order), lengths)
    turn = np.concatenate([np.arange(length) / length for length in lengths if length])
    task = np.repeat(np.array([calls[index].task for index in order]), lengths)
    wave = np.repeat(np.array([calls[index].block // width[calls[index].member] for index in order]), lengths)
    by_turn = np.lexsort((turn, wave, task))
    number, base, owner = number[by_turn], base[by_turn], owner[by_turn]
    group = np.cumsum(np.diff(task[by_turn] * len(calls) + wave[by_turn], prepend=-1) != 0)
    bins = (turn[by_turn] * _BINS).astype(np.int64)
    each = counts[number]
    lines = np.repeat(base, each) + _joined(number, offsets)
    lines //= line
    access = np.repeat(np.arange(len(number)), each)
    weight = np.repeat(sizes[number] / np.maximum(each, 1), each)
    moment = np.cumsum(weight)
    by_line = np.lexsort((np.arange(len(lines)), lines))
    earlier = np.full(len(lines), -np.inf)
    same = lines[by_line[1:]] == lines[by_line[:-1]]
    earlier[by_line[1:][same]] = moment[by_line[:-1][same]]
    capacity = rates["l2"] * 2**20 * rates["l2.reuse"]
    hit = moment - earlier <= capacity
    loads = ~writes[number][access]
    together = np.zeros(len(calls), np.int64)  # calls that run at the same time share what one of them missed
    together[owner] = group
    binned = (group * _BINS + bins)[access]
    shape = (int(group.max()) + 1, _BINS)
    loaded = np.bincount(binned[loads], weight[loads], shape[0] * _BINS).reshape(shape)
    missed = np.bincount(binned[loads & ~hit], weight[loads & ~hit], shape[0] * _BINS).reshape(shape)
    rate = np.divide(missed, loaded, out=np.zeros(shape), where=loaded > 0)
    mean, square = rate.mean(axis=1), (rate**2).mean(axis=1)
    phase = np.divide(mean**2, square, out=np.ones(shape[0]), where=square > 0)
    of_group = loaded.sum(axis=1)
    share = 1 - np.divide(missed.sum(axis=1), of_group, out=np.zeros(shape[0]), where=of_group > 0)
    sharers = _sharers(lines, group[access], owner[access], loads, len(calls), weight)
    footprint = int(min(len(np.unique(lines)) * line, total))
    fits = footprint <= capacity
    stored = int(sizes[number][writes[number]].sum())
    return Hits(
        share[together],
        phase[together],
        sharers,
        1.0 if fits else 0.0,
        footprint,
        int(loaded.sum()),
        float(missed.sum()),
        stored,
    )


def _sharers(lines: Array, group: Array, owner: Array, loads: Array, calls: int, weight: Array) -> Array:
    """Return for each call the mean cube of the number of calls that load the same line at the same time."""
    _, line = np.unique(lines, return_inverse=True)
    place = line.astype(np.int64) * (int(group.max()) + 1) + group
    of_load = np.unique(place[loads] * calls + owner[loads])
    places, count = np.unique(of_load // calls, return_counts=True)
    cubes = count[np.searchsorted(places, place[loads])].astype(float) ** 3
    total = np.bincount(owner[loads], weight[loads], calls)
    found: Array = np.divide(
        np.bincount(owner[loads], cubes * weight[loads], calls), total, out=np.ones(calls), where=total > 0
    )
    return found


def _lines(view: View, line: int) -> Array:
    """Return an offset in each line of a view."""
    count, length, step = view.bursts
    count, length = max(count, 0), max(length, 1)
    inside = np.arange(0, length, line, dtype=np.int64)
    if count > _MOST_LINES:
        count = _MOST_LINES
    starts = np.arange(count, dtype=np.int64) * step
    if abs(step) < line and count > 1:  # several rows a line
        starts = starts[:: max(1, line // max(abs(step), 1))]
    found: Array = (starts[:, None] + inside[None, :]).reshape(-1)
    return found


def _joined(numbers: Array, offsets: Sequence[Array]) -> Array:
    """Return the offsets of all numbers one after the other."""
    sizes = np.array([len(found) for found in offsets], np.int64)
    begins = np.concatenate(([0], np.cumsum(sizes)))[:-1]
    flat = np.concatenate(offsets) if offsets else np.zeros(0, np.int64)
    each = sizes[numbers]
    ends = np.cumsum(each)
    index = (
        np.arange(int(ends[-1]) if len(ends) else 0) - np.repeat(ends - each, each) + np.repeat(begins[numbers], each)
    )
    joined: Array = flat[index]
    return joined
