"""Findings of `scons speed`: each planted slow kernel is found, and its gain is what the model gives for the edit."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pytest

from pypto_build.diagnose.recorded.critical_path import read_timeline
from pypto_build.diagnose.speed.advice import LEAST_GAIN, advise
from pypto_build.diagnose.speed.document import Gain
from pypto_build.diagnose.speed.model import predict
from pypto_build.diagnose.speed.record import (
    ALL,
    BARRIER,
    FIX,
    INSTRUCTION,
    L0C,
    MTE2,
    MTE3,
    SET_FLAG,
    WAIT_FLAG,
    EventRow,
    Recording,
    S,
    V,
)
from pypto_build.facts.accesses import READ, WRITE
from tests.diagnose.checked import copy_example
from tests.diagnose.test_speed import speed
from tests.diagnose.test_speed_model import A2, load, run, tile, vector

ROWS = 64


def flag(kind: int, pipe: int, to: int) -> EventRow:
    """Return a flag of one pipe to another."""
    return EventRow(kind, "", pipe, to)


def both(pipe: int, to: int) -> list[EventRow]:
    """Return a flag that is set and waited for."""
    return [flag(SET_FLAG, pipe, to), flag(WAIT_FLAG, pipe, to)]


def advice(recording: Recording) -> dict[str, Gain]:
    """Return the findings by rule."""
    return {gain.finding.rule: gain for gain in advise(recording, A2, predict(recording, A2))}


def assert_gain(gain: Gain, slow: Recording, fast: Recording) -> None:
    """Check a gain against the prediction for a recording of the mended kernel, made by hand."""
    saved = predict(slow, A2).time_us - predict(fast, A2).time_us
    assert gain.gain_us == pytest.approx(saved, rel=1e-6)
    assert saved > 0


def adds(at: int, times: int = 400) -> Recording:
    """Return many sums of two tiles, the second of them at an address."""
    x, y, z = tile(0, 64, 64, READ), tile(at, 64, 64, READ), tile(0x10000, 64, 64, WRITE)
    return run([vector("TADD", x, y, z)] * times)


def test_the_padding_that_removes_a_bank_conflict() -> None:
    slow = adds(0x4000)
    gain = advice(slow)["speed/bank-conflict"]
    assert gain.finding.hint.startswith("move the tile from address 0x4000 to 0x4")
    new = int(gain.finding.hint.split("to 0x")[1].split(",")[0], 16)
    assert 0 < new - 0x4000 < 512 and (new - 0x4000) % 32 == 0
    assert_gain(gain, slow, adds(new))
    assert "speed/bank-conflict" not in advice(adds(new))


@pytest.mark.parametrize(("cols", "step", "rule"), [(64, 8192, "small-rows"), (1024, 1100, "unaligned-rows")])
def test_short_and_unaligned_rows(cols: int, step: int, rule: str) -> None:
    slow, fast = (run([load(ROWS, cols, apart)] * 100, blocks=48) for apart in (step, cols))
    assert_gain(advice(slow)[f"speed/{rule}"], slow, fast)
    assert f"speed/{rule}" not in advice(fast)


def test_narrow_tiles_that_become_whole_rows_save_what_was_said() -> None:
    """Tiles of 64 bytes a row that cover a matrix: loads of whole rows of it move as many bytes."""
    slow = run([load(256, 32, 1024)] * 32, blocks=48)
    bases = (1 << 40) + np.arange(48 * 32, dtype=np.uint64) // np.uint64(32) * np.uint64(256 * 2048)
    slow = replace(slow, bases=bases + np.arange(48 * 32, dtype=np.uint64) % np.uint64(32) * np.uint64(64))
    fast = run([load(8, 1024)] * 32, blocks=48, apart=8 * 2048)
    assert_gain(advice(slow)["speed/small-rows"], slow, fast)


def loop(steps: int, rows: int) -> Recording:
    """Return a loop that loads some rows and adds to them, in turn."""
    body = [load(rows, 256), *both(MTE2, V), vector("TADDS", tile(0, rows, 256, READ), tile(0x8000, rows, 256, WRITE))]
    recording = run([*body, *both(V, MTE2)] * steps)
    return replace(recording, bases=(1 << 40) + np.arange(steps, dtype=np.uint64) * np.uint64(rows * 512))


def test_one_row_at_a_time() -> None:
    slow = loop(256, 1)
    gain = advice(slow)["speed/row-by-row"]
    assert gain.finding.hint == "process 32 times as many rows in each iteration"
    assert_gain(gain, slow, loop(8, 32))


def test_loads_of_a_few_rows_at_a_time() -> None:
    def strided(steps: int, rows: int) -> Recording:
        body = [load(rows, 256, 1024), *both(MTE2, V), vector("TADDS", tile(0, rows, 256, READ))]
        recording = run([*body, *both(V, MTE2)] * steps)
        return replace(recording, bases=(1 << 40) + np.arange(steps, dtype=np.uint64) * np.uint64(rows * 2048))

    gain = advice(strided(256, 2))["speed/small-transfers"]
    assert gain.finding.message == "TLOAD moves 2 rows of only 1024 bytes in each of 256 loop iterations"
    assert gain.finding.hint == "process 16 times as many rows in each iteration"
    assert_gain(gain, strided(256, 2), strided(16, 32))
    assert "speed/small-transfers" not in advice(strided(16, 32))


def drain(cols: int) -> EventRow:
    """Return a move of 128 rows out of L0C."""
    source = msgspec.structs.replace(tile(0, 128, cols, READ, element=4), space=L0C)
    return EventRow(INSTRUCTION, "TSTORE", FIX, tiles=(source,))


def test_an_odd_number_of_fractals_that_leaves_l0c() -> None:
    gain = advice(run([drain(40)] * 100))["speed/odd-drain"]
    assert gain.finding.message == "TSTORE writes rows with an odd number of fractals, which is slow"
    assert gain.gain_us == pytest.approx(100 * 128 * 2.6 * (5 - 1) / 1850)
    assert "speed/odd-drain" not in advice(run([drain(64)] * 100))


def test_cores_that_load_the_same_lines_at_once() -> None:
    whole = run([load(16, 1024)] * 64, blocks=48)
    same = replace(whole, bases=(1 << 40) + (np.arange(48 * 64, dtype=np.uint64) % 64) * 32768)
    gain = advice(same)["speed/same-reads"]
    assert gain.finding.hint.endswith("rotate the loop by the block number")
    apart = predict(same, A2.with_values(l2__shared__aiv=1e15)).time_us
    assert gain.gain_us == pytest.approx(predict(same, A2).time_us - apart, rel=1e-6)
    assert "speed/same-reads" not in advice(whole)


def test_data_that_l2_does_not_keep() -> None:
    # Each of the 48 blocks loads 4 MB twice: first all of it, then all of it again; or each 128 KB twice in turn.
    first = np.arange(48 * 128, dtype=np.uint64) * 32768
    again = np.concatenate([np.tile(part, 2) for part in np.split(first, 48)])
    at_once = np.concatenate([np.tile(part, 2) for part in np.split(first, 48 * 32)])
    slow, fast = (
        replace(run([load(16, 1024)] * 256, blocks=48), bases=(1 << 40) + bases) for bases in (again, at_once)
    )
    gain = advice(slow)["speed/over-l2"]
    assert gain.finding.message == "the run uses 192 MiB, but L2 keeps only 154: data are loaded again from HBM"
    assert gain.gain_us == pytest.approx(predict(slow, A2).time_us - predict(slow, A2.with_values(l2=1000)).time_us)
    assert predict(fast, A2).time_us < predict(slow, A2).time_us - gain.gain_us
    assert predict(fast, A2).missed == predict(slow, A2).missed / 2
    small = run([load(16, 1024)] * 100, blocks=48)
    assert "speed/over-l2" not in advice(small)


def test_blocks_that_take_longer_than_others() -> None:
    rows = [load(8, 1024), load(24, 1024), load(16, 1024)]
    streams = [np.full(64, number, np.uint32) for number in range(3)]

    def blocks(numbers: Sequence[int]) -> Recording:
        whole = run([rows[0]] * 64, blocks=len(numbers))
        calls = [replace(call, stream=number) for call, number in zip(whole.calls, numbers, strict=True)]
        return replace(whole, rows=rows, streams=streams, calls=calls)

    gain = advice(blocks([0, 1]))["speed/uneven-blocks"]
    assert gain.finding.hint == "give all blocks as much work"
    saved = predict(blocks([0, 1]), A2).time_us - predict(blocks([2, 2]), A2).time_us
    assert saved > 0
    assert gain.gain_us == pytest.approx(saved, rel=0.1)
    assert "speed/uneven-blocks" not in advice(blocks([2, 2]))


def test_loads_that_wait_for_one_buffer() -> None:
    body = [flag(WAIT_FLAG, V, MTE2), load(16, 1024), *both(MTE2, V)]
    body += [vector("TADDS", tile(0, 16, 1024, READ), tile(0x8000, 16, 1024, WRITE))] * 8 + [flag(SET_FLAG, V, MTE2)]
    slow, fast = (run([flag(SET_FLAG, V, MTE2)] * buffers + body * 50) for buffers in (1, 2))
    rules = advice(slow)
    assert rules["speed/one-buffer"].finding.message == "MTE2 waits until V releases the only buffer"
    assert_gain(rules["speed/one-buffer"], slow, fast)


def test_a_barrier_that_is_wider_than_its_operands_need() -> None:
    one = vector("TADDS", tile(0, 16, 1024, READ), tile(0x8000, 16, 1024, WRITE))
    other = msgspec.structs.replace(load(16, 1024), tiles=(tile(0x10000, 16, 1024, WRITE),))
    slow, fast = (
        run([one, EventRow(BARRIER, "", ALL), other, EventRow(BARRIER, "", ALL)] * 100),
        run([one, other] * 100),
    )
    gain = advice(slow)["speed/wide-barrier"]
    assert gain.finding.message == "all pipes wait at this barrier; the operands need no wait"
    assert_gain(gain, slow, fast)
    needed = run([load(16, 1024), EventRow(BARRIER, "", ALL), one, EventRow(BARRIER, "", ALL)] * 100)
    assert "speed/wide-barrier" not in advice(needed)  # every instruction needs the one before it


def test_a_barrier_before_loads_of_what_was_stored_stays() -> None:
    view = msgspec.structs.replace(load(16, 1024).views[0], access=WRITE)
    store = EventRow(INSTRUCTION, "TSTORE", MTE3, tiles=(tile(0, 16, 1024, READ),), views=(view,))
    recording = run([store, EventRow(BARRIER, "", ALL), load(16, 1024)] * 50)
    assert "speed/wide-barrier" not in advice(recording)


def test_a_scalar_loop() -> None:
    recording = run([EventRow(INSTRUCTION, "GetValue", S, tiles=(tile(0, 1, 1, READ),))] * 6400)
    gain = advice(recording)["speed/scalar-loop"]
    whole = vector("TMOV", msgspec.structs.replace(tile(0, 1, 64, READ | WRITE), element=4))
    assert gain.gain_us == pytest.approx(predict(recording, A2).time_us - predict(run([whole] * 100), A2).time_us, 0.01)


SHORT: Sequence[EventRow] = (load(8, 1024),)


def test_short_tasks_in_a_chain_are_one_task() -> None:
    slow = run(SHORT, tasks=6, chain=True)
    gain = advice(slow)["speed/short-tasks"]
    assert gain.finding.tasks == tuple(range(6))
    assert_gain(gain, slow, run([*SHORT] * 6))


def test_one_block_on_many_cores_is_split() -> None:
    """The edit's gain is that of the same steps, dealt out to blocks by hand."""
    step = [load(8, 1024), *both(MTE2, V), vector("TADDS", tile(0, 8, 1024, READ), tile(0x8000, 8, 1024, WRITE))]
    slow = run(step * 42)
    gain = advice(slow)["speed/few-blocks"]
    blocks = int(gain.finding.hint.removeprefix("split the work into ").removesuffix(" blocks"))
    assert (gain.finding.message, blocks) == ("1 block of 0 on 48 cores: the others are idle", 7)
    assert_gain(gain, slow, run(step * 6, blocks=7))
    assert "speed/few-blocks" not in advice(run(step * 2, blocks=48))


def test_a_last_wave_on_few_cores() -> None:
    big = [load(32, 1024)] * 20
    gain = advice(run(big, blocks=60))["speed/last-wave"]
    assert gain.finding.message == "60 blocks on 48 cores: only 12 cores are busy in the last wave"
    assert gain.finding.hint == "use 96 blocks of less work"
    assert_gain(gain, run(big, blocks=60), run([load(20, 1024)] * 20, blocks=96))
    assert "speed/last-wave" not in advice(run(big, blocks=96))


def test_a_dependency_between_tasks_that_share_nothing() -> None:
    long = [load(32, 1024)] * 200
    slow = run(long, tasks=2, chain=True)
    gain = advice(slow)["speed/idle-dependency"]
    assert gain.finding.tasks == (0, 1)
    assert_gain(gain, slow, run(long, tasks=2))
    shared = replace(slow, bases=np.zeros_like(slow.bases))
    assert "speed/idle-dependency" in advice(shared)  # both only read


def test_findings_are_sorted_by_gain_and_small_ones_are_left_out() -> None:
    recording = run([load(ROWS, 64, 8192)] * 100, blocks=60)
    gains = advise(recording, A2, prediction := predict(recording, A2))
    assert [one.gain_us for one in gains] == sorted((one.gain_us for one in gains), reverse=True)
    assert len(gains) > 1
    assert all(one.gain_us >= LEAST_GAIN * prediction.time_us for one in gains)


def test_the_edit_of_a_finding_saves_what_it_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    artifact = copy_example("_jit_row_blocks", tmp_path)
    (kernel,) = artifact.glob("kernels/aiv/gate_rows.cpp")
    slow = "  for (int i = 0; i < 500; ++i) { TMUL(v24, v8, v22); }"
    kernel.write_text(kernel.read_text().replace("  TRECIP(v24, v22);", f"{slow}\n  TRECIP(v24, v22);"))
    out, path = tmp_path / "out", tmp_path / "speed.json"
    words = ("--json", str(path), "--sarif", str(tmp_path / "speed.sarif"))
    assert speed(artifact, out, *words) == 0
    before = json.loads(path.read_text())
    gain = next(one for one in before["findings"] if one["finding"]["rule"] == "speed/bank-conflict")
    finding = gain["finding"]
    assert finding["path"] == "kernels/aiv/gate_rows.cpp"
    assert kernel.read_text().splitlines()[finding["line"] - 1] == slow
    assert "[speed/bank-conflict]" in capsys.readouterr().out
    (edit,) = finding["edits"]
    assert edit["old"] == "= 32768;"
    assert json.loads((out / "findings/speed.json").read_text())["findings"][0]["rule"].startswith("speed/")
    assert "speed/bank-conflict" in (tmp_path / "speed.sarif").read_text()
    lines = kernel.read_text().splitlines(keepends=True)
    lines[edit["line"] - 1] = lines[edit["line"] - 1].replace(edit["old"], edit["new"])
    kernel.write_text("".join(lines))
    assert speed(artifact, out, *words) == 0
    after = json.loads(path.read_text())
    saved = before["prediction"]["time_us"] - after["prediction"]["time_us"]
    assert saved == pytest.approx(gain["gain_us"], rel=0.01)


def test_the_predicted_timeline_is_exported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    artifact, out, path = copy_example("_jit_vector_dag", tmp_path), tmp_path / "out", tmp_path / "speed.json"
    for form in ("trace", "swimlane"):
        assert speed(artifact, out, "--export", form, "--json", str(path)) == 0
    lines = capsys.readouterr().out.splitlines()
    assert {f"[speed] predicted timeline: out/{name}" for name in ("speed-trace.json", "predicted_swimlane.json")} < {
        *lines
    }
    predicted = json.loads(path.read_text())["prediction"]
    trace = json.loads((out / "speed-trace.json").read_text())
    assert trace["otherData"] == {"note": "predicted by scons speed, not measured", "chip": "910B2"}
    tasks = [event for event in trace["traceEvents"] if event.get("cat") == "task"]
    ends = [task[4] for task in predicted["tasks"]]
    assert [event["ts"] + event["dur"] for event in tasks] == pytest.approx(ends)
    named = {(e["pid"], e["tid"]): e["args"]["name"] for e in trace["traceEvents"] if e["name"] == "thread_name"}
    inside = [event for event in trace["traceEvents"] if event.get("cat") == "instruction"]
    assert {(event["name"], named[event["pid"], event["tid"]]) for event in inside} >= {
        ("TLOAD", "MTE2"), ("TADD", "V"), ("TSTORE", "MTE3"),
    }  # fmt: skip
    for event in inside:
        around = [one for one in tasks if one["pid"] == event["pid"] and one["ts"] <= event["ts"] + 1e-6]
        assert any(event["ts"] + event["dur"] <= one["ts"] + one["dur"] + 1e-6 for one in around)
    timeline = read_timeline(out / "predicted_swimlane.json")
    assert [timeline.core_type(row.core) for row in timeline.rows] == ["aiv"] * 5
    assert timeline.span[1] == pytest.approx(max(ends) - min(task[3] for task in predicted["tasks"]), abs=0.002)
