"""The model: from the instructions of a run and the rates of a chip to times, as pure functions.

Three layers: bounds (`light`), the pipes of each block (`pipes.simulate`), and the run on the chip (`schedule.place`).
Blocks that run at the same time share the memory: each gets the rate at which all together take what HBM gives.
"""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf, log2
from typing import Any

import msgspec
import numpy as np

from pypto_build.diagnose.speed.cost import Cost, price
from pypto_build.diagnose.speed.memory import Hits, hits
from pypto_build.diagnose.speed.pipes import CoreTime, Shares, simulate
from pypto_build.diagnose.speed.rates import Rates
from pypto_build.diagnose.speed.record import FIX, INSTRUCTION, MTE1, MTE2, MTE3, PIPES, Array, M, Recording, S, V
from pypto_build.diagnose.speed.schedule import SUBMISSION, Block, Placed, Schedule, critical
from pypto_build.diagnose.speed.what_if import BUFFER_FLAGS, WhatIf

#: Rounds in which the shares of the memory settle, and the change of a run's time at which they are settled.
_ROUNDS, _SETTLED = 8, 0.005
#: Steps of a share in which blocks count as alike: so many in an octave.
_STEPS = 32
#: Relative error of what the model leaves out, besides that of its rates.
MODEL_ERROR = 0.1
#: Below so many microseconds nothing is claimed: errors count twice.
NO_CLAIM_US = 20.0
_HIT_STEPS = 16

AS_IT_IS = WhatIf()

BOUND_BY: Mapping[int, str] = {S: "scalar", V: "vector", M: "cube", MTE1: "L1 to L0", FIX: "drain of L0C"}
HBM, L2, WAITS, DISPATCH = "HBM", "L2", "waits", "dispatch"


class Wait(msgspec.Struct, frozen=True):
    """Microseconds that a kernel's calls waited at one flag or slot: the number of its row."""

    row: int
    time_us: float


class KernelTime(msgspec.Struct, frozen=True):
    """The calls of one kernel: microseconds of all together, and the range.

    `busy` is the share of the time in which each pipe works. `overlap` is the sum of these: 1 if pipes take turns.
    `bound` is what takes longest. `light_us` is the least that the calls could take. `conflict_us` is lost to banks.
    `compute_us` is the work of the cube or vector unit at its full rate, `memory_us` that of global memory.
    """

    kernel: int
    member: str
    calls: int
    time_us: float
    low_us: float
    high_us: float
    light_us: float
    bound: str
    overlap: float
    busy: dict[str, float]
    waits: tuple[Wait, ...]
    conflict_us: float
    compute_us: float = 0.0
    memory_us: float = 0.0


class RowTime(msgspec.Struct, frozen=True):
    """The costs of all executions of one row: how often, its pipe, and microseconds on it over all calls."""

    row: int
    name: str
    pipe: str
    count: int
    time_us: float


class TaskTime(msgspec.Struct, frozen=True, array_like=True):
    """One block in the predicted timeline."""

    task: int
    block: int
    cores: tuple[int, ...]
    start_us: float
    end_us: float
    reason: str
    before: int


class Prediction(msgspec.Struct, frozen=True):
    """The predicted run.

    `light_us` is the speed of light, `light` what sets it, and `lights` all bounds. `bound` is what takes most of the
    critical path, of which `path` has all shares. `evidence` is the share of the time that rests on rates of each
    evidence. `unpriced` names the instructions without a price; the times then are too low.
    """

    chip: str
    time_us: float
    low_us: float
    high_us: float
    light_us: float
    light: str
    lights: dict[str, float]
    bound: str
    path: dict[str, float]
    evidence: dict[str, float]
    kernels: tuple[KernelTime, ...]
    rows: tuple[RowTime, ...]
    tasks: tuple[TaskTime, ...]
    unpriced: tuple[int, ...]
    footprint: int
    loaded: int
    missed: float
    stored: int
    complete: bool = True
    schema: int = 1

    @property
    def percent(self) -> float:
        """Return the time as percent of the speed of light: 100 is the best possible."""
        return 100 * self.light_us / self.time_us if self.time_us else 100.0


@dataclass(frozen=True, eq=False)
class Shape:
    """The properties that decide the time of a block: the streams of their members, and how they use L2.

    A model has one object for each: blocks of one shape are compared by it.
    """

    streams: tuple[tuple[int, int], ...]
    hits: float
    phase: float = 1.0
    sharers: float = 1.0

    @property
    def members(self) -> tuple[int, ...]:
        """Return the members that a block has."""
        return tuple(member for member, _ in self.streams)


@dataclass(frozen=True)
class Timed:
    """The cores of a block at some share of the memory, and what they move.

    `crowding` says how much faster the block misses while it does than in the mean over its loads.
    """

    cores: Mapping[int, CoreTime]
    cycles: float
    loaded: float
    stored: float
    crowding: float


class Model:
    """A recording with the rates of a chip: costs and times, kept for those that ask again."""

    def __init__(self, recording: Recording, rates: Rates, what_if: WhatIf = AS_IT_IS, l2: Hits | None = None) -> None:
        self.recording, self.rates = recording, what_if.rates(rates)
        self.costs: list[Cost] = [price(row, rates) for row in recording.rows]
        if what_if.nobanks:
            self.costs = [replace(cost, work=cost.work - cost.conflict, conflict=0.0) for cost in self.costs]
        self.hits = l2 or hits(recording, self.rates)
        if what_if.l2:
            self.hits = replace(self.hits, by_call=np.ones(len(recording.calls)), store_hits=1.0, missed=0.0)
        self.spare = BUFFER_FLAGS if what_if.double else frozenset()
        self._timed: dict[tuple[Shape, int], Timed] = {}
        self._shapes: dict[tuple[Any, ...], Shape] = {}

    @cached_property
    def counts(self) -> list[dict[int, int]]:
        """Return how often each row is in each stream."""
        return [dict(Counter(stream.tolist())) for stream in self.recording.streams]

    @cached_property
    def streams(self) -> list[list[int]]:
        """Return the streams as lists."""
        return [stream.tolist() for stream in self.recording.streams]

    @cached_property
    def blocks(self) -> dict[int, list[Shape]]:
        """Return the shapes of each task's blocks, in order."""
        uses = zip(self.hits.by_call.tolist(), self.hits.phase.tolist(), self.hits.sharers.tolist(), strict=True)
        tasks: dict[int, dict[int, list[Any]]] = {}
        for call, use in zip(self.recording.calls, uses, strict=True):
            of_block = tasks.setdefault(call.task, {}).setdefault(call.block, [(-1.0, 1.0, 1.0)])
            of_block[0] = max(of_block[0], use)
            of_block.append((call.member, call.stream))
        return {task: [self._shape(tuple(of)) for of in blocks.values()] for task, blocks in tasks.items()}

    def _shape(self, block: tuple[Any, ...]) -> Shape:
        """Return the shape of a block, of which `block` has the use of L2 and the streams.

        What differs little counts as alike.
        """
        shape = self._shapes.get(block)
        if shape is None:
            (hit, phase, sharers), *streams = block
            near = round(hit * _HIT_STEPS), round(phase * _HIT_STEPS), round(8 * log2(max(1.0, sharers)))
            new = Shape(tuple(streams), near[0] / _HIT_STEPS, near[1] / _HIT_STEPS, 2 ** (near[2] / 8))
            shape = self._shapes[block] = self._shapes.setdefault((near, *streams), new)
        return shape

    def shares(self, shape: Shape, step: int) -> Shares:
        """Return what a block gets of the memory at a step below the most that a core can take."""
        core = "aic" if shape.streams[0][0] == 0 else "aiv"
        share = self.rates[f"hbm.{core}"] * 2 ** (-step / _STEPS)
        at_l2 = 1 / self.rates[f"l2.{core}"]
        shared = at_l2 + (shape.sharers - 1) / self.rates[f"l2.shared.{core}"]
        at_store = 1 / (share * self.rates["store.weight"])
        return Shares(1 / share, at_store, shared, at_l2, shape.hits, self.hits.store_hits)

    @staticmethod
    def _crowding(shape: Shape, shares: Shares) -> float:
        misses = min(1.0, (1 - shape.hits) / max(shape.phase, 1 / _HIT_STEPS))
        missing = shape.phase * (misses * shares.hbm_load + (1 - misses) * shares.l2_load)
        return (missing + (1 - shape.phase) * shares.l2_load) / missing if missing else 1.0

    def timed(self, shape: Shape, step: int) -> Timed:
        """Return the times of a block's cores."""
        cached = self._timed.get((shape, step))
        if cached is None:
            members = {member: self.streams[stream] for member, stream in shape.streams}
            shares = self.shares(shape, step)
            cores = simulate(self.recording.rows, self.costs, members, shares, self.rates, spare=self.spare)
            moved = [self._moved(stream) for _, stream in shape.streams]
            loaded = sum(load for load, _ in moved) * (1 - shape.hits)
            stored = sum(store for _, store in moved) * (1 - self.hits.store_hits)
            longest = max(core.cycles for core in cores.values())
            cached = Timed(cores, longest, loaded, stored, self._crowding(shape, shares))
            self._timed[shape, step] = cached
        return cached

    def memory_cycles(self, shape: Shape, stream: int) -> float:
        """Return the cycles in which a core alone moves the bytes of a stream: it loads and stores at the same time."""
        load, store = self._moved(stream)
        shares = self.shares(shape, 0)
        return max(shares.load(load), shares.store(store))

    def _moved(self, stream: int) -> tuple[float, float]:
        load = store = 0.0
        for number, count in self.counts[stream].items():
            cost = self.costs[number]
            if cost.writes:
                store += count * cost.moved
            else:
                load += count * cost.moved
        return load, store

    # -- the whole run --

    @cached_property
    def run(self) -> tuple[list[Placed], list[Shape], list[int]]:
        """Return all blocks in time, and of each its shape and the step of its share."""
        shapes = [shape for of_task in self.blocks.values() for shape in of_task]
        numbers = itertools.count()
        tasks = {
            task: [Block(task, block, next(numbers), shape.members) for block, shape in enumerate(of_task)]
            for task, of_task in self.blocks.items()
        }
        different = {shape: number for number, shape in enumerate(dict.fromkeys(shapes))}
        kinds, by_kind = np.array([different[shape] for shape in shapes], np.int64), list(different)
        schedule = Schedule(tasks, self.recording.after, self.rates)
        steps = np.zeros(len(shapes), np.int64)
        before = inf
        for _ in range(_ROUNDS):
            most = int(steps.max(initial=0)) + 1
            keys, which = np.unique(kinds * most + steps, return_inverse=True)
            timed = [self.timed(by_kind[key // most], key % most) for key in keys.tolist()]
            times = np.array([one.cycles for one in timed])[which] / self.rates.clock
            self._meet(times, [timed[key] for key in which.tolist()], tasks)
            placed = schedule.place(times.tolist())
            over = max((one.end for one in placed), default=0.0)
            if not placed or abs(over - before) <= _SETTLED * over:
                break
            before, last = over, steps
            steps = self._shared_out(placed, timed, which, steps)
            if np.array_equal(steps, last):
                break
        order = [one.block.number for one in placed]
        return placed, [shapes[number] for number in order], steps[order].tolist()

    def _meet(self, times: Array, timed: Sequence[Timed], tasks: Mapping[int, Sequence[Block]]) -> None:
        """Set the time of blocks that meet at SYNCALL to the sum of the longest ways to each meeting."""
        if not any(core.met for one in {id(one): one for one in timed}.values() for core in one.cores.values()):
            return
        for blocks in tasks.values():
            numbers = [block.number for block in blocks]
            met = [[core.met for core in timed[number].cores.values() if core.met] for number in numbers]
            meetings = [[max(at) for at in zip(*of_block, strict=False)] for of_block in met]
            count = min(map(len, meetings))
            if not count or len(numbers) == 1:
                continue
            ends = np.array(
                [[0.0, *at[:count], timed[number].cycles] for at, number in zip(meetings, numbers, strict=True)]
            )
            together = float(np.diff(ends, axis=1).max(axis=0).sum()) / self.rates.clock
            times[numbers] = together + count * self.rates["dispatch.barrier"]

    def _shared_out(self, placed: Sequence[Placed], timed: Sequence[Timed], which: Array, steps: Array) -> Array:
        """Return the step of each block by how much more than HBM gives is taken while it runs."""
        order = np.array([one.block.number for one in placed])
        start = np.array([one.start for one in placed])
        end = np.array([one.end for one in placed])
        length = np.maximum(end - start, 1e-9)
        loads = np.array([one.loaded * one.crowding for one in timed])[which[order]]
        stores = np.array([one.stored for one in timed])[which[order]]
        excess = np.maximum(
            _during(start, end, (loads + stores) / length) / (self.rates["hbm"] * 1000),
            _during(start, end, loads / length) / (self.rates["hbm.read"] * 1000),
        )
        result = np.zeros(len(steps), np.int64)
        result[order] = np.maximum(0, np.rint(steps[order] + _STEPS * np.log2(np.maximum(excess, 1e-3))))
        return result


def _during(start: Array, end: Array, rate: Array) -> Array:
    """Return for each interval the mean of the sum of all rates during it."""
    times = np.concatenate((start, end))
    order = np.argsort(times, kind="stable")
    sorted_times = times[order]
    total = np.cumsum(np.concatenate((rate, -rate))[order])
    area = np.concatenate(([0.0], np.cumsum(total[:-1] * np.diff(sorted_times))))
    result: Array = (np.interp(end, sorted_times, area) - np.interp(start, sorted_times, area)) / np.maximum(
        end - start, 1e-9
    )
    return result


def predict(recording: Recording, rates: Rates, what_if: WhatIf = AS_IT_IS) -> Prediction:
    """Return the predicted run of a recording on the chip of the rates, with the changes of `what_if`."""
    return predicted(Model(recording, rates, what_if))


def run_time(model: Model) -> float:
    """Return the microseconds of a run: those of `predicted`, and nothing else of it."""
    return max(max((one.end for one in model.run[0]), default=0.0), *lights(model).values())


def predicted(model: Model) -> Prediction:
    """Return the predicted run of a model."""
    rates, recording = model.rates, model.recording
    placed, shapes, steps = model.run
    over = max((one.end for one in placed), default=0.0)
    bounds: dict[str, float] = defaultdict(float)
    evidence: dict[str, float] = defaultdict(float)
    error = 0.0
    on_path: dict[tuple[Shape, int], float] = defaultdict(float)
    for number in critical(placed):
        one = placed[number]
        on_path[shapes[number], steps[number]] += one.end - one.start
        bounds[DISPATCH] += max(one.gap, 0.0)
        evidence[rates.evidence("dispatch.submit" if one.reason == SUBMISSION else "dispatch.dependency")] += one.gap
        error += 0.2 * one.gap
    for (shape, step), time in on_path.items():
        bounds[model_bound(model, shape, step)] += time
        for letter, share, spread in model_evidence(model, shape, step):
            evidence[letter] += share * time
            error += spread * share * time
    relative = MODEL_ERROR + (error / over if over else 0.0)
    if over < NO_CLAIM_US:
        relative *= 2
    result = lights(model)
    light = max(result, key=lambda name: result[name])
    total = sum(evidence.values()) or 1.0
    all_bounds = sum(bounds.values()) or 1.0
    time_us = max(over, result[light])
    unpriced = tuple(number for number, cost in enumerate(model.costs) if cost.unpriced)
    return Prediction(
        rates.chip,
        time_us,
        max(time_us * (1 - relative), result[light]),
        time_us * (1 + relative),
        result[light],
        light,
        result,
        max(bounds, key=lambda name: bounds[name], default=DISPATCH),
        {name: value / all_bounds for name, value in sorted(bounds.items(), key=lambda item: -item[1])},
        {letter: evidence[letter] / total for letter in "DCSFG" if evidence.get(letter)},
        tuple(kernel_times(model, placed, shapes, steps)),
        tuple(row_times(model, placed, shapes, steps)),
        tuple(
            TaskTime(one.block.task, one.block.block, one.cores, one.start, one.end, one.reason, one.before)
            for one in placed
        ),
        unpriced,
        model.hits.footprint,
        model.hits.loaded,
        model.hits.missed,
        model.hits.stored,
        recording.complete,
    )


def _core_bound(model: Model, time: CoreTime, shape: Shape) -> str:
    if not time.busy:
        return WAITS
    pipe = max(time.busy, key=lambda name: time.busy[name])
    if time.busy[pipe] < 0.5 * time.cycles:
        return WAITS
    if pipe in (MTE2, MTE3):
        missed = shape.hits < 0.5 if pipe == MTE2 else model.hits.store_hits < 0.5
        return HBM if missed else L2
    return BOUND_BY[pipe]


def model_bound(model: Model, shape: Shape, step: int) -> str:
    """Return what bounds the slowest core of a block."""
    cores = model.timed(shape, step).cores
    return _core_bound(model, max(cores.values(), key=lambda core: core.cycles), shape)


def model_evidence(model: Model, shape: Shape, step: int) -> list[tuple[str, float, float]]:
    """Return the rates on which the busiest pipe of a block's slowest core rests: evidence, share and spread."""
    cores = model.timed(shape, step).cores
    member = max(cores, key=lambda number: cores[number].cycles)
    busy = cores[member].busy
    if not busy:
        return [(model.rates.evidence("issue"), 1.0, model.rates.rows["issue"].spread)]
    pipe = max(busy, key=lambda name: busy[name])
    stream = dict(shape.streams)[member]
    shares = model.shares(shape, step)
    cycles: dict[str, float] = defaultdict(float)
    for number, count in model.counts[stream].items():
        cost = model.costs[number]
        if cost.pipe != pipe or model.recording.rows[number].kind != INSTRUCTION:
            continue
        at_memory = (shares.store(cost.moved) if cost.writes else shares.load(cost.moved)) if cost.moved else 0.0
        if at_memory > cost.work:
            core = "aiv" if member else "aic"
            name = "hbm" if step or shape.hits < 0.5 else f"l2.{core}"
            cycles[name] += count * at_memory
        else:
            for name, value in cost.used.items():
                cycles[name] += count * value
    total = sum(cycles.values()) or 1.0
    rows = model.rates.rows
    return [(rows[name].evidence, value / total, rows[name].spread) for name, value in cycles.items()]


def lights(model: Model) -> dict[str, float]:
    """Return the bounds of the run in microseconds: each resource at its full rate, and the longest chain of tasks."""
    rates = model.rates
    result: dict[str, float] = defaultdict(float)
    cores = rates.cores
    uses: Counter[int] = Counter(call.stream for call in model.recording.calls)
    by_stream: list[dict[int, float]] = []
    for number, counts in enumerate(model.counts):
        cycles: dict[int, float] = defaultdict(float)
        for row, count in counts.items():
            cycles[model.costs[row].pipe] += count * model.costs[row].light
            cycles[-1] += count * model.costs[row].own / rates["l2.aic"]
        by_stream.append(cycles)
        for pipe, value in cycles.items():
            kind = "aiv" if pipe == V else "aic"
            if pipe in BOUND_BY and pipe != S:
                result[BOUND_BY[pipe]] += uses[number] * value / cores[kind] / rates.clock
    at_hbm = model.hits.missed + model.hits.stored * (1 - model.hits.store_hits)
    result[HBM] = at_hbm / (rates["hbm"] * 1000)
    result[L2] = (model.hits.loaded + model.hits.stored) / (rates["l2.aiv"] * cores["aiv"] * rates.clock)
    of_stream = [max(cycles.values(), default=0.0) for cycles in by_stream]
    least: dict[int, float] = defaultdict(float)
    for call in model.recording.calls:
        least[call.task] = max(least[call.task], of_stream[call.stream] / rates.clock)
    ends: dict[int, float] = {}
    for task in sorted(least):
        ends[task] = least[task] + max(
            (ends.get(before, 0.0) for before in model.recording.after.get(task, ())), default=0.0
        )
    result["dependencies"] = max(ends.values(), default=0.0)
    return dict(result)


def kernel_times(
    model: Model, placed: Sequence[Placed], shapes: Sequence[Shape], steps: Sequence[int]
) -> list[KernelTime]:
    """Return the times of all kernels, the one that takes most first."""
    uses: Counter[tuple[Shape, int]] = Counter(zip(shapes, steps, strict=True))
    kernel_of = {call.stream: (call.kernel, call.member) for call in model.recording.calls}
    gathered: dict[tuple[int, int], list[tuple[Shape, int, int, int]]] = defaultdict(list)
    for (shape, step), count in uses.items():
        for member, stream in shape.streams:
            gathered[kernel_of[stream]].append((shape, step, member, count))
    result = [_kernel_time(model, kernel, uses_of) for (kernel, _), uses_of in _merged(gathered).items()]
    return sorted(result, key=lambda one: -one.time_us)


def _merged(
    gathered: Mapping[tuple[int, int], list[tuple[Shape, int, int, int]]],
) -> dict[tuple[int, bool], list[tuple[Shape, int, int, int]]]:
    """Return the uses by kernel and type of core: both vector cores of a group run one kernel."""
    merged: dict[tuple[int, bool], list[tuple[Shape, int, int, int]]] = defaultdict(list)
    for (kernel, member), uses in gathered.items():
        merged[kernel, member > 0] += uses
    return merged


def _kernel_time(model: Model, kernel: int, uses: Sequence[tuple[Shape, int, int, int]]) -> KernelTime:
    cycles = light = conflict = error = compute = memory = 0.0
    busy: dict[int, float] = defaultdict(float)
    waits: dict[int, float] = defaultdict(float)
    bounds: dict[str, float] = defaultdict(float)
    calls = 0
    for shape, step, member, count in uses:
        time = model.timed(shape, step).cores[member]
        stream = dict(shape.streams)[member]
        calls += count
        cycles += count * time.cycles
        bounds[_core_bound(model, time, shape)] += count * time.cycles
        for pipe, value in time.busy.items():
            busy[pipe] += count * value
        for row, value in time.waits.items():
            waits[row] += count * value
        of_pipe: dict[int, float] = defaultdict(float)
        for row, number in model.counts[stream].items():
            cost = model.costs[row]
            conflict += count * number * cost.conflict
            of_pipe[cost.pipe] += number * cost.light
            of_pipe[-1] += number * cost.own / model.rates["l2.aiv" if member else "l2.aic"]
        light += count * max(of_pipe.values(), default=0.0)
        compute += count * max(of_pipe[V], of_pipe[M])
        memory += count * model.memory_cycles(shape, stream)
        error += count * time.cycles * sum(share * spread for _, share, spread in model_evidence(model, shape, step))
    clock = model.rates.clock
    relative = MODEL_ERROR + (error / cycles if cycles else 0.0)
    time_us = cycles / clock
    if calls and time_us / calls < NO_CLAIM_US:
        relative *= 2
    longest = sorted(waits.items(), key=lambda item: -item[1])[:5]
    return KernelTime(
        kernel,
        "aiv" if uses[0][2] else "aic",
        calls,
        time_us,
        max(0.0, time_us * (1 - relative)),
        time_us * (1 + relative),
        light / clock,
        max(bounds, key=lambda name: bounds[name], default=WAITS),
        sum(busy.values()) / cycles if cycles else 0.0,
        {PIPES[pipe]: value / cycles for pipe, value in sorted(busy.items(), key=lambda item: -item[1])}
        if cycles
        else {},
        tuple(Wait(row, value / clock) for row, value in longest),
        conflict / clock,
        compute / clock,
        memory / clock,
    )


def row_times(model: Model, placed: Sequence[Placed], shapes: Sequence[Shape], steps: Sequence[int]) -> list[RowTime]:
    """Return what each row costs over all calls, those that cost most first."""
    cycles: dict[int, float] = defaultdict(float)
    counts: Counter[int] = Counter()
    for (shape, step), count in Counter(zip(shapes, steps, strict=True)).items():
        shares = model.shares(shape, step)
        for _, stream in shape.streams:
            for number, times in model.counts[stream].items():
                cost = model.costs[number]
                if model.recording.rows[number].kind != INSTRUCTION:
                    continue
                at_memory = (
                    (shares.store(cost.moved) if cost.writes else shares.load(cost.moved)) if cost.moved else 0.0
                )
                cycles[number] += count * times * max(cost.work, at_memory)
                counts[number] += count * times
    rows = model.recording.rows
    return [
        RowTime(number, rows[number].name, PIPES.get(rows[number].pipe, "?"), counts[number], value / model.rates.clock)
        for number, value in sorted(cycles.items(), key=lambda item: -item[1])
    ]
