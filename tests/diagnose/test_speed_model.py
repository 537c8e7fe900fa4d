"""The model of `scons speed`: prices against plain formulas, pipes in small programs, and what may never get faster."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from math import ceil
from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pypto_build.artifact import ArtifactError
from pypto_build.diagnose.speed.calibrate import calibrate, measured_times, write_rates
from pypto_build.diagnose.speed.cost import Cost, price
from pypto_build.diagnose.speed.model import Model, Prediction, predict
from pypto_build.diagnose.speed.pipes import Shares, simulate
from pypto_build.diagnose.speed.rates import CHIPS, EVIDENCE, RATES, rates_of, read_rates
from pypto_build.diagnose.speed.record import (
    ALL,
    BARRIER,
    INSTRUCTION,
    MET,
    MTE1,
    MTE2,
    SET_FLAG,
    SLOT_ACQUIRED,
    SLOT_PASSED,
    UB,
    WAIT_FLAG,
    BlockCall,
    EventRow,
    M,
    Recording,
    TileArea,
    V,
    View,
)
from pypto_build.diagnose.speed.what_if import WhatIf, read_what_if
from pypto_build.facts.accesses import READ, WRITE

A2, A5 = rates_of("910B1"), rates_of("950PR")
FAST = Shares(0.0, 0.0, 0.0, 0.0)


def tile(address: int, rows: int, cols: int, access: int, extent: int = 0, element: int = 2) -> TileArea:
    """Return a row-major tile in UB of `extent` columns, all of them where that is 0."""
    whole = extent or cols
    return TileArea(address, UB, access, 0, 0, 1, 1, element, rows, whole, rows, cols, 0, 0, rows, cols)


def vector(name: str, *tiles: TileArea) -> EventRow:
    """Return a vector instruction."""
    return EventRow(INSTRUCTION, name, V, tiles=tiles)


def load(rows: int, cols: int, step: int = 0, element: int = 2) -> EventRow:
    """Return a load of a matrix to UB; its rows are `step` elements apart."""
    view = View(READ, 0, element, (1, 1, 1, rows, cols), (0, 0, 0, step or cols, 1), rows, cols)
    return EventRow(INSTRUCTION, "TLOAD", MTE2, tiles=(tile(0, rows, cols, WRITE, element=element),), views=(view,))


# -- a second implementation: plain, for whole tiles --


def plain_vector(name: str, starts: Sequence[int], target: int, size: int, slope: float, arch: int) -> float:
    """Return head and cycles of an instruction on whole tiles of `size` bytes at these addresses."""
    groups, head, own_head = (16, 22.3, 22.3) if arch == 2 else (8, 55, 30)
    repeats = ceil(size / 256)
    at_once = 1
    for group in range(groups):
        for half in (0, 1):
            expected = [s for s in starts if (group - s // 32) % groups < 8 and (arch == 2 or s >> 17 == half)]
            at_once = max(at_once, len(expected))
    cycles = max(head + repeats * slope, own_head + repeats * at_once)
    return cycles + (16 if size % 256 and arch == 2 else 0)


def plain_load(rows: int, length: int, step: int) -> tuple[float, float]:
    """Return cycles of a load alone and the bytes that it counts for, on 910B1."""
    size = rows * length
    share = 1.0
    if rows > 1 and step != length:
        if length < 128:
            share = 0.92 * length / 128
        elif length < 512:
            share = 1 - 0.08 * (512 - length) / 384
        if step % 512:
            share = min(share, 0.785)
    return 264 + max(20.6, size / 128), size / share


@given(
    st.sampled_from([("TADD", 1.0), ("TMUL", 1.05), ("TMAX", 1.0)]),
    st.lists(st.integers(0, 1000), min_size=2, max_size=2),
    st.integers(1, 127),
)
def test_vector_instructions_cost_what_the_plain_formula_says(
    named: tuple[str, float], blocks: list[int], cols: int
) -> None:
    name, slope = named
    width = 128 * cols
    x, y = (tile(32 * block, 1, width, READ) for block in blocks)
    cost = price(vector(name, x, y, tile(0x8000, 1, width, WRITE)), A2)
    expected = plain_vector(name, [x.address, y.address], 0x8000, 2 * width, slope, 2)
    assert cost.head + cost.work == pytest.approx(expected)


@given(st.integers(0, 7), st.integers(0, 7), st.integers(1, 100))
def test_vector_instructions_of_a5_cost_what_the_plain_formula_says(first: int, second: int, cols: int) -> None:
    x, y = tile(first * 0x4000, 1, 128 * cols, READ), tile(second * 0x8000, 1, 128 * cols, READ)
    cost = price(vector("TADD", x, y, tile(0x1000, 1, 128 * cols, WRITE)), A5)
    expected = plain_vector("TADD", [x.address, y.address], 0x1000, 256 * cols, 1.247, 5)
    assert cost.head + cost.work == pytest.approx(expected)


@given(st.integers(1, 200), st.integers(1, 600), st.integers(0, 600))
def test_loads_cost_what_the_plain_formula_says(rows: int, cols: int, gap: int) -> None:
    cost = price(load(rows, cols, cols + gap), A2)
    alone, moved = plain_load(rows, 2 * cols, 2 * (cols + gap))
    assert cost.head + cost.work == pytest.approx(alone)
    assert cost.moved == pytest.approx(moved)


# -- measured facts that the formulas must give --


@pytest.mark.parametrize("repeats, apart, cycles", [(32, 0x4000, 86.0), (128, 0x8000, 278.5), (127, 0x8100, 149.6)])
def test_additions_that_were_measured(repeats: int, apart: int, cycles: float) -> None:
    x, y, z = (tile(apart * n, 1, 128 * repeats, READ if n < 2 else WRITE) for n in range(3))
    cost = price(vector("TADD", x, y, z), A2)
    assert cost.head + cost.work == pytest.approx(cycles, rel=0.01)
    assert (cost.conflict > 0) == (apart != 0x8100)


def test_a_store_to_fractals_whose_blocks_lie_in_one_group_takes_eight_times_as_long() -> None:
    source = tile(0, 128, 128, READ)
    costs = []
    for step in (144, 145):
        target = TileArea(0x10000, UB, WRITE, 1, 0, 1, 0, 2, step, 128, 128, 128, 0, 0, 128, 128)
        costs.append(price(vector("TMOV", source, target), A2).work / 128)
    assert costs == [pytest.approx(8.0, rel=0.02), pytest.approx(1.1, rel=0.1)]


def test_a_product_takes_a_cycle_a_fractal() -> None:
    a = TileArea(0, 2, READ, 1, 0, 1, 1, 2, 128, 64, 128, 64, 0, 0, 128, 64)
    b = TileArea(0, 3, READ, 1, 0, 1, 1, 2, 64, 256, 64, 256, 0, 0, 64, 256)
    cost = price(EventRow(INSTRUCTION, "TMATMUL", M, tiles=(a, b)), A2)
    assert (cost.light, cost.work) == (512.0, 523.0)


def test_an_instruction_without_price_is_named() -> None:
    assert price(vector("TPOW", tile(0, 1, 64, READ), tile(0, 1, 64, WRITE)), A2).unpriced == "TPOW"


# -- pipes --


def cycles(events: Sequence[tuple[EventRow, Cost]], shares: Shares = FAST) -> float:
    """Return the cycles of one core without issue costs."""
    rows, costs = [row for row, _ in events], [cost for _, cost in events]
    times = simulate(rows, costs, {1: list(range(len(rows)))}, shares, A2.with_values(issue=0))
    return times[1].cycles


def work(pipe: int, amount: float, head: float = 0.0) -> tuple[EventRow, Cost]:
    """Return an instruction of so many cycles."""
    return EventRow(INSTRUCTION, "X", pipe), Cost(pipe, head, amount)


def sign(kind: int, pipe: int, to: int = 0, number: int = 0) -> tuple[EventRow, Cost]:
    """Return a flag or barrier."""
    return EventRow(kind, "", pipe, to, number), Cost()


def test_pipes_run_side_by_side_until_a_flag_orders_them() -> None:
    assert cycles([work(MTE2, 100), work(V, 30)]) == 100
    assert cycles([work(MTE2, 100), sign(SET_FLAG, MTE2, V), sign(WAIT_FLAG, MTE2, V), work(V, 30)]) == 130
    assert cycles([work(MTE2, 100), sign(BARRIER, ALL), work(V, 30)]) == 130


def test_a_flag_that_is_set_twice_is_waited_for_in_order() -> None:
    events = [work(MTE2, 10), sign(SET_FLAG, MTE2, V), work(MTE2, 50), sign(SET_FLAG, MTE2, V)]
    events += [sign(WAIT_FLAG, MTE2, V), work(V, 5), sign(WAIT_FLAG, MTE2, V), work(V, 5)]
    assert cycles(events) == 65


def test_a_head_is_paid_by_the_first_of_a_run() -> None:
    assert cycles([work(V, 10, 20), work(V, 10, 20)]) == 40
    assert cycles([work(V, 10, 20), sign(BARRIER, V), work(V, 10, 20)]) == 60


def test_a_wait_is_told_with_its_flag() -> None:
    events = [work(MTE2, 100), sign(SET_FLAG, MTE2, V), sign(WAIT_FLAG, MTE2, V), work(V, 30)]
    rows, costs = [row for row, _ in events], [cost for _, cost in events]
    time = simulate(rows, costs, {1: [0, 1, 2, 3]}, FAST, A2.with_values(issue=0))[1]
    assert (time.waits, time.busy) == ({2: 100.0}, {MTE2: 100.0, V: 30.0})


def test_a_full_queue_holds_up_the_scalar_unit() -> None:
    many = [work(MTE1, 10) for _ in range(40)]
    # The queue has 32 places: the vector instruction behind 40 others is issued when the ninth begins.
    assert cycles([*many, work(V, 400)]) == 470


def test_a_consumer_waits_for_the_slot_that_its_producer_fills() -> None:
    rows = [
        EventRow(INSTRUCTION, "TPUSH", 10),
        EventRow(SLOT_PASSED, "producer", to=2, id=1),
        EventRow(SLOT_ACQUIRED, "consumer", to=2, id=1),
        EventRow(INSTRUCTION, "TPOP", MTE2),
        EventRow(SLOT_PASSED, "consumer", to=2, id=1),
        EventRow(SLOT_ACQUIRED, "producer", to=2, id=1),
    ]
    costs = [Cost(10, 0, 100), Cost(), Cost(), Cost(MTE2, 0, 7), Cost(), Cost()]
    produce, consume = [5, 0, 1], [2, 3, 4]
    quick = A2.with_values(issue=0, slot=0)
    times = simulate(rows, costs, {0: produce * 3, 1: consume * 3}, FAST, quick)
    assert (times[0].cycles, times[1].cycles) == (300, 307)
    slow = [*costs[:3], Cost(MTE2, 0, 1000), *costs[4:]]
    times = simulate(rows, slow, {0: produce * 3, 1: consume * 3}, FAST, quick)
    assert times[0].cycles == 100 + 1000 + 100  # the third push waits for the first pop, of two slots


# -- whole runs --

_FEW = settings(max_examples=20, deadline=None)


def run(
    stream: Sequence[EventRow], blocks: int = 1, tasks: int = 1, chain: bool = False, apart: int = 1 << 24
) -> Recording:
    """Return tasks of so many blocks, each of which executes these rows on memory of its own."""
    calls: list[BlockCall] = []
    bases: list[int] = []
    views = sum(bool(row.views) for row in stream)
    for task in range(tasks):
        for block in range(blocks):
            begin = len(bases)
            bases += [(1 << 40) + ((task * blocks + block) * views + n) * apart for n in range(views)]
            calls.append(BlockCall(task, block, 1, 0, 0, slice(begin, len(bases))))
    after = {task: frozenset({task - 1}) for task in range(1, tasks)} if chain else {}
    rows = list(dict.fromkeys(stream))
    numbers = np.array([rows.index(row) for row in stream], np.uint32)
    return Recording(rows, [numbers], calls, np.array(bases, np.uint64), after)


STREAM = [load(8, 1024), vector("TADDS", tile(0, 8, 1024, READ), tile(0x8000, 8, 1024, WRITE))]


@_FEW
@given(st.integers(1, 200), st.integers(1, 64), st.integers(1, 100))
def test_more_bytes_are_never_faster(rows: int, more: int, blocks: int) -> None:
    few, many = (predict(run([load(n, 1024)], blocks), A2).time_us for n in (rows, rows + more))
    assert many >= few * 0.999


@_FEW
@given(st.integers(1, 60), st.integers(1, 24))
def test_fewer_cores_are_never_faster(blocks: int, cores: int) -> None:
    whole = predict(run(STREAM, blocks), A2).time_us
    assert predict(run(STREAM, blocks), A2.with_values(cores__aic=cores)).time_us >= whole * 0.98


@settings(deadline=None)
@given(st.integers(0, 255), st.integers(1, 32))
def test_more_conflicts_are_never_faster(block: int, rows: int) -> None:
    def time(at: int) -> float:
        x, y, z = tile(0, rows, 1024, READ), tile(at, rows, 1024, READ), tile(0x20000, rows, 1024, WRITE)
        return price(vector("TADD", x, y, z), A2).work

    assert time(0x10000 + 32 * block) <= time(0x10000)


@_FEW
@given(st.integers(1, 60), st.integers(1, 8), st.booleans())
def test_no_run_is_faster_than_its_speed_of_light(blocks: int, tasks: int, chain: bool) -> None:
    result = predict(run(STREAM, blocks, tasks, chain), A2)
    assert result.light_us <= result.low_us <= result.time_us <= result.high_us
    assert sum(result.evidence.values()) == pytest.approx(1)
    assert set(result.evidence) <= set(EVIDENCE)


def test_a_chain_waits_for_its_tasks_and_their_dispatch() -> None:
    side_by_side, chain = (predict(run(STREAM, 1, 5, chained), A2) for chained in (False, True))
    assert chain.time_us - side_by_side.time_us == pytest.approx(
        4 * (10 + 0.35) + 4 * _each(chain) - 4 * 0.87, rel=0.05
    )
    assert chain.bound == "dispatch"


def _each(result: Prediction) -> float:
    kernel = result.kernels[0]
    return float(kernel.time_us / kernel.calls)


def test_all_cores_together_get_what_hbm_gives() -> None:
    result = predict(run([load(64, 1024, 2048)] * 40, 48), A2)
    moved = 48 * 40 * 64 * 2048
    assert moved / (result.kernels[0].time_us / 48) / 1000 == pytest.approx(A2["hbm.read"], rel=0.05)
    assert result.kernels[0].bound == "HBM"


def test_what_was_loaded_before_is_in_l2() -> None:
    one = run([load(64, 1024)] * 20, 1, 2, True)
    again = Recording(one.rows, one.streams, one.calls, np.concatenate([one.bases[:20]] * 2), one.after)
    assert predict(one, A2).missed == 2 * 20 * 64 * 2048
    assert predict(again, A2).missed == 20 * 64 * 2048


def test_rows_shorter_than_a_line_bring_in_their_own_bytes() -> None:
    narrow = run([load(256, 32, 1024)] * 32, apart=64)  # 32 tiles of 64 bytes a row cover 256 rows of 2048 bytes
    assert predict(narrow, A2).missed == predict(narrow, A2).loaded == 256 * 2048


@pytest.mark.parametrize("others", [False, True])
def test_accesses_to_the_same_bytes_alone_hit_as_line_by_line(others: bool) -> None:
    """A load that overlaps all others by half, at the end, makes the model look at each line."""
    tiles = [load(64, 1024), load(64, 1024)] * 4
    recording = run([*tiles, load(64, 1024)] if others else tiles)
    bases = (1 << 40) + np.array([0, 1, 0, 1, 1, 0, 1, 0], np.uint64) * np.uint64(1 << 17)
    if others:
        bases = np.append(bases, np.uint64((1 << 40) + (1 << 16)))
    result = predict(replace(recording, bases=bases), A2)
    assert (result.missed, result.footprint) == (1 << 18, 1 << 18)


# -- rates --


def test_every_rate_has_evidence_and_source_and_holds_for_a_chip() -> None:
    for rate in RATES:
        assert rate.evidence in EVIDENCE and rate.source and rate.unit
        assert rate.chip in (*CHIPS, *CHIPS.values())
    named = [(rate.name, rate.chip) for rate in RATES]
    assert len(set(named)) == len(named)


@pytest.mark.parametrize("arch", ["a2a3", "a5"])
def test_each_generation_prices_the_same_instructions(arch: str) -> None:
    def names(of: str) -> set[str]:
        return {r.name for r in RATES if r.chip == of and r.name.startswith(("slope.", "row.", "column."))}

    assert names(arch) == names("a2a3")


def test_rows_of_a_file_replace_ours(tmp_path: Path) -> None:
    path = tmp_path / "rates.toml"
    row = 'name = "{}"\nvalue = 7.5\nunit = "cycles a repeat"\nchip = "{}"\nevidence = "{}"\nsource = "mine"\n'
    path.write_text("[[rate]]\n" + row.format("slope.TPOW", "a2a3", "D"))
    rates = rates_of("910B2", read_rates(path))
    assert rates["slope.TPOW"] == 7.5
    cost = price(vector("TPOW", tile(0, 1, 128, READ), tile(0, 1, 128, WRITE)), rates)
    assert (cost.unpriced, cost.work) == ("", 7.5)
    for name, chip, evidence, says in (
        ("no.such", "a2a3", "D", "there is no rate 'no.such'"),
        ("hbm", "910C", "D", "there is no chip '910C'"),
        ("hbm", "a2a3", "X", "'X' is not a kind of evidence"),
    ):
        path.write_text("[[rate]]\n" + row.format(name, chip, evidence))
        with pytest.raises(ArtifactError, match=says):
            read_rates(path)
    row = row.replace("cycles a repeat", "GB/s")
    path.write_text("[[rate]]\n" + row.format("hbm", "a2a3", "D").replace("7.5", "0"))
    with pytest.raises(ArtifactError, match="is not a valid value of 'hbm'; give"):
        read_rates(path)
    path.write_text("[[rate]]\n" + row.format("clock", "a2a3", "D"))
    with pytest.raises(ArtifactError, match="the unit of 'clock' is not GB/s; give the rate in GHz"):
        read_rates(path)
    path.write_text("[[rate]]\nnam = 1\n")
    with pytest.raises(ArtifactError, match="is not a list of rates"):
        read_rates(path)


def test_a_row_of_the_chip_precedes_one_of_its_generation() -> None:
    assert (rates_of("910B4")["hbm"], rates_of("910B1")["hbm"]) == (780, 1560)
    ours = next(rate for rate in RATES if rate.name == "hbm" and rate.chip == "a2a3")
    assert rates_of("910B4", [msgspec.structs.replace(ours, value=5.0)])["hbm"] == 5.0


# -- what-ifs and calibration --


@_FEW
@given(st.sampled_from([WhatIf(double=True), WhatIf(nobanks=True), WhatIf(nodispatch=True), WhatIf(l2=True)]))
def test_a_what_if_is_no_slower_and_no_faster_than_light(change: WhatIf) -> None:
    plain = predict(run(STREAM * 3, 48, 3, True), A2)
    result = predict(run(STREAM * 3, 48, 3, True), A2, change)
    assert result.light_us <= result.time_us <= plain.time_us * 1.001


def test_a_second_buffer_lets_the_next_load_begin() -> None:
    def stream(count: int) -> list[EventRow]:
        rows: list[EventRow] = []
        for number in range(count):
            rows += [EventRow(WAIT_FLAG, "", V, MTE2, 0)] if number else []
            rows += [load(1, 8192), EventRow(SET_FLAG, "", MTE2, V, 0), EventRow(WAIT_FLAG, "", MTE2, V, 0)]
            rows += [vector("TEXP", tile(0, 1, 8192, READ), tile(0x8000, 1, 8192, WRITE))]
            rows += [EventRow(SET_FLAG, "", V, MTE2, 0)]
        return rows

    one, two = (predict(run(stream(20)), A2, change).kernels[0] for change in (WhatIf(), WhatIf(double=True)))
    assert one.overlap == pytest.approx(1.0, abs=0.02)
    assert two.overlap > 1.15
    assert two.time_us < 0.9 * one.time_us


def test_words_of_whatif() -> None:
    assert read_what_if("double, cores=12") == {
        "double": WhatIf(double=True),
        "cores=12": WhatIf(cores=12),
        "all of these": WhatIf(double=True, cores=12),
    }
    for wrong in ("doubled", "cores=0", "cores=x", "l2=some"):
        with pytest.raises(ArtifactError, match=f"there is no change named '{wrong}'"):
            read_what_if(wrong)


def _timeline(path: Path, rows: Sequence[tuple[int, int, float, float]]) -> None:
    cycles = [[core, task, number, round(1000 * a), round(1000 * b)] for number, (core, task, a, b) in enumerate(rows)]
    path.write_text(json.dumps({"metadata": {"clock_freq_hz": 1_000_000_000}, "aicore_tasks": cycles}))


def _counters(path: Path, rows: Sequence[tuple[int, int, float, float]]) -> None:
    head = "thread_id,core_id,task_id,func_id,core_type,pmu_total_cycles,vec_busy_cycles,event_type"
    lines = [f"0,{core},{task:016x},0,1,{round((b - a) * A2.clock)},0,2" for core, task, a, b in rows]
    path.write_text("\n".join([head, *lines]) + "\n")


def test_a_calibration_finds_the_memory_that_was_measured(tmp_path: Path) -> None:
    recording = run([load(64, 1024, 2048)] * 40, 48, 2, True)
    recording = replace(recording, ids={100: 0, 200: 1})
    slow = A2.with_values(hbm=A2["hbm"] * 0.5, hbm__read=A2["hbm.read"] * 0.5)
    rows = [(one.cores[0], 100 * (1 + one.block.task), one.start, one.end) for one in Model(recording, slow).run[0]]
    for write, name in ((_timeline, "x.json"), (_counters, "pmu.csv")):
        file, path = tmp_path / name, tmp_path / "rates.toml"
        write(file, rows)
        result = calibrate(recording, A2, measured_times(file, recording, A2, {0: "reader"}), name, {0: "reader"})
        assert {"hbm", "hbm.read"} <= {rate.name for rate in result.changed} <= {"hbm", "hbm.read", "issue"}
        assert {rate.source for rate in result.changed} == {f"fitted to {name}"}
        assert result.before > 40 and result.after < 5
        lines = write_rates(path, result)
        assert lines[0].startswith("calibration: mean error ")
        assert rates_of("910B1", read_rates(path))["hbm.read"] == pytest.approx(slow["hbm.read"], rel=0.1)
        write(file, [(0, 7, 0.0, 1.0)])
        with pytest.raises(ArtifactError, match="has times of other tasks"):
            measured_times(file, recording, A2, {})
    (tmp_path / "pmu.csv").write_text("task_id,core_type\n0,1\n")
    with pytest.raises(ArtifactError, match="is not a table of counters: column 'pmu_total_cycles' is missing"):
        measured_times(tmp_path / "pmu.csv", recording, A2, {})


def test_blocks_that_meet_take_the_longest_way_to_each_meeting() -> None:
    short, long = (vector("TEXP", tile(0, 1, n, READ), tile(0x8000, 1, n, WRITE)) for n in (128, 12800))
    meeting = EventRow(MET, "SYNCALL")
    rows = [short, long, meeting]
    streams = [np.array([0, 2, 1], np.uint32), np.array([1, 2, 0], np.uint32)]
    calls = [BlockCall(0, block, 1, 0, block, slice(0, 0)) for block in range(2)]
    calm = A2.with_values(issue=0)
    result = predict(Recording(rows, streams, calls), calm)
    each = {number: price(rows[number], calm) for number in (0, 1)}
    both = 2 * (each[1].head + each[1].work) / calm.clock + calm["dispatch.barrier"]
    start, end = result.tasks[0].start_us, result.tasks[0].end_us
    assert end - start == pytest.approx(both)


def test_a_run_without_calls_takes_no_time() -> None:
    assert predict(Recording([], [], []), A2).time_us == 0
    empty = Recording([], [np.zeros(0, np.uint32)], [BlockCall(0, 0, 1, 0, 0, slice(0, 0))])
    assert predict(empty, A2).bound == "dispatch"
