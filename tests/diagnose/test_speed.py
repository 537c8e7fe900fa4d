"""`scons speed`: what a run of an example leaves, the first screen, JSON, and errors in one line."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pypto_build.artifact import ArtifactError
from pypto_build.diagnose.findings import Finding, state_of
from pypto_build.diagnose.recorded.ranks import RanksRun
from pypto_build.diagnose.report.predicted import predicted_data
from pypto_build.diagnose.speed import advice
from pypto_build.diagnose.speed.__main__ import main, parser
from pypto_build.diagnose.speed.model import Model, run_time
from pypto_build.diagnose.speed.ranks import answer_ranks
from pypto_build.diagnose.speed.record import (
    INSTRUCTION,
    MTE2,
    SET_FLAG,
    SLOT_ACQUIRED,
    SLOT_PASSED,
    WAIT_FLAG,
    Recording,
    V,
    read_recording,
)
from pypto_build.editor.costs import cost_text
from pypto_build.pto.live.module import LiveModule
from pypto_build.toolchain.python import own_tool
from tests.diagnose.checked import EXAMPLES, build_checked, copy_example
from tests.diagnose.ranks_runs import ranks_document
from tests.diagnose.runs import write_json
from tests.replay.builder import embedded_module


def speed(artifact: Path, out: Path, *more: str) -> int:
    """Build and predict; the exit status."""
    build_checked(artifact, out)
    return main([str(artifact), "--build-dir", str(out), "--embedded", str(embedded_module()), *more])


def recorded(out: Path) -> Recording:
    """Return the record of the run."""
    return read_recording(out / "check" / "dfx_outputs")


def test_a_run_is_recorded_with_operands_flags_and_edges(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    assert speed(copy_example("_jit_vector_dag", tmp_path), out) == 0
    run = recorded(out)
    assert run.complete
    assert [(call.task, call.block, call.member) for call in run.calls] == [(task, 0, 1) for task in range(5)]
    assert {number: sorted(tasks) for number, tasks in run.after.items()} == {
        0: [], 1: [0], 2: [0], 3: [1, 2], 4: [3],
    }  # fmt: skip
    adding = run.streams[run.calls[0].stream]
    assert [run.rows[number].name for number in adding if run.rows[number].kind == INSTRUCTION] == [
        "TLOAD", "TLOAD", "TADD", "TSTORE",
    ]  # fmt: skip
    load = next(run.rows[number] for number in adding if run.rows[number].name == "TLOAD")
    assert (load.pipe, load.tiles[0].bytes, load.views[0].bursts) == (MTE2, 65536, (1, 65536, 65536))
    flags = [(run.rows[n].kind, run.rows[n].pipe, run.rows[n].to) for n in adding if run.rows[n].kind < INSTRUCTION]
    assert (SET_FLAG, MTE2, V) in flags and (WAIT_FLAG, MTE2, V) in flags
    screen = capsys.readouterr().out.splitlines()
    head = r"\[speed\] 910B2: [0-9.]+ us \([0-9.]+ to [0-9.]+\), \d+ % of the speed of light \([0-9.]+ us by .+\); "
    assert re.fullmatch(head + "bound by dispatch", screen[0])
    kernels = [line.split()[1] for line in screen if line.startswith("[speed] kernel_")]
    assert kernels == ["kernel_add", "kernel_shift", "kernel_mul"]


_ROWS = """import pypto_build.compiler.language as pl

Matrix = pl.Tensor[[1024, 64], pl.FP32]


@pl.jit.incore
def rows(x: Matrix, out: pl.Out[Matrix]):
    for i in pl.range(0, 1024, 8):
        a = pl.load(x, [i, 0], [8, 64])
        pl.store(a + a, [i, 0], out)


@pl.jit
def row_by_row(x: Matrix, out: pl.Out[Matrix]):
    rows(x, out)
"""


def test_a_prediction_is_shown_in_findings_the_report_and_the_editor(tmp_path: Path) -> None:
    program, artifact, out = tmp_path / "row_by_row.py", tmp_path / "_jit_rows", tmp_path / "out"
    program.write_text(_ROWS)
    command = [*own_tool("pypto_build.compiler"), str(program), "--output", str(artifact), "--no-golden"]
    subprocess.run(command, check=True, capture_output=True)
    assert speed(artifact, out) == 0
    document = document_of(out / "speed.json")
    assert [gain["finding"]["rule"] for gain in document["findings"]] == ["speed/few-blocks"]
    kernel = artifact / "kernels" / "aiv" / "rows.cpp"
    line = next(number for number, text in enumerate(kernel.read_text().splitlines(), 1) if "TLOAD(" in text)
    finding = advice.with_origin(Finding("speed/small-rows", "a load", "kernels/aiv/rows.cpp", line), artifact)
    related = [(one.path, one.line) for one in finding.related]
    assert [path for path, _ in related] == ["ptoas/rows.pto", str(program)]
    assert "pto.tload" in (artifact / "ptoas/rows.pto").read_text().splitlines()[related[0][1] - 1]
    assert "pl.load(x" in _ROWS.splitlines()[related[1][1] - 1]

    state = state_of(artifact)
    whole = document["prediction"]
    assert document_of(out / "check" / "verdict.json")["prediction"] == {
        name: whole[name] for name in ("chip", "time_us", "low_us", "high_us")
    }
    section = predicted_data(out, state, None)
    assert section is not None and section["title"] == "Predicted time on 910B2"
    assert section["timeline"]["cores"] == ["AIV_24", "  V", "  MTE2", "  MTE3"]
    # 128 steps on each of three pipes, and the task.
    assert section["timeline"]["rows"]["count"] == 3 * 128 + 1
    (kernel,) = section["roofline"]
    assert (kernel["name"], kernel["bound"]) == ("rows", "HBM") and 0 < kernel["share"] < kernel["balance"] < 1
    assert predicted_data(out, "another state", None) is None

    # The editor shows the cost of the module's line, as long as the artifact is the one that was predicted.
    live = LiveModule()
    live.update((artifact / "ptoas/rows.pto").read_text())
    (function,) = live.functions
    load, shown = related[0][1] - 1, tmp_path / "build" / "a2a3sim" / "_jit_rows"
    shown.mkdir(parents=True)
    shutil.copyfile(out / "speed.json", shown / "speed.json")
    text = cost_text(artifact / "ptoas/rows.pto", function, load)
    assert re.fullmatch(
        r"predicted on 910B2: \*\*[0-9.]+ us\*\* on MTE2 in 128 executions; the run takes [0-9.]+ us", text
    )
    assert cost_text(artifact / "ptoas/rows.pto", function, 0) == ""
    kernel_file = artifact / "kernels/aiv/rows.cpp"
    kernel_file.write_text(kernel_file.read_text() + "\n")
    assert cost_text(artifact / "ptoas/rows.pto", function, load) == ""


_PING_PONG = """import pypto_build.compiler.language as pl

Matrix = pl.Tensor[[16, 64], pl.FP32]


@pl.jit.incore
def twice(a: Matrix, out: pl.Out[Matrix]):
    x = pl.load(a, [0, 0], [16, 64])
    pl.store(x + x, [0, 0], out)


@pl.jit
def ping_pong(a: Matrix, out: pl.Out[Matrix]):
    c = pl.create_tensor([16, 64], pl.FP32)
    d = pl.create_tensor([16, 64], pl.FP32)
    twice(a, c)
    for _ in pl.range(40):
        twice(c, d)
        twice(d, c)
    twice(c, out)
"""


def test_a_chain_over_two_buffers_names_each_producer_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program, artifact, out = tmp_path / "ping_pong.py", tmp_path / "_jit_ping_pong", tmp_path / "out"
    program.write_text(_PING_PONG)
    command = [*own_tool("pypto_build.compiler"), str(program), "--output", str(artifact), "--no-golden"]
    subprocess.run(command, check=True, capture_output=True)
    runs: list[Model] = []

    def counted(model: Model) -> float:
        runs.append(model)
        return run_time(model)

    monkeypatch.setattr(advice, "run_time", counted)
    assert speed(artifact, out) == 0
    run = recorded(out)
    # Each of the 82 tasks overlaps with every second one before it: 1,721 edges. The one before it stands for them all.
    assert run.after == {0: frozenset()} | {task: frozenset((task - 1,)) for task in range(1, 82)}
    # One edit is tried for each kind of finding, however many tasks there are.
    assert len(runs) <= 3


def test_calls_of_equal_instructions_share_a_stream(tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert speed(copy_example("_jit_spmd_scale", tmp_path), out) == 0
    run = recorded(out)
    assert len(run.calls) > 1
    assert {call.stream for call in run.calls} == {0}
    assert len({tuple(run.bases[call.bases].tolist()) for call in run.calls}) == len(run.calls)


def test_slots_between_cube_and_vector_core_are_recorded(tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert speed(copy_example("_jit_gemm_silu", tmp_path), out) == 0
    run = recorded(out)
    of_member: dict[int, list[tuple[int, str, str]]] = {}
    for call in run.tasks[0]:
        rows = [run.rows[number] for number in run.streams[call.stream]]
        of_member[call.member] = [
            (row.kind, row.name, after.name)
            for row, after in zip(rows, [*rows[1:], rows[-1]], strict=True)
            if row.kind in (SLOT_ACQUIRED, SLOT_PASSED)
        ]
    # A slot is there before what pushes or pops it.
    assert (SLOT_ACQUIRED, "producer", "TPUSH") in of_member[0]
    assert (SLOT_ACQUIRED, "consumer", "TPOP") in of_member[1]
    assert [kind for kind, name, _ in of_member[0] if name == "producer"][:2] == [SLOT_ACQUIRED, SLOT_PASSED]


def document_of(path: Path) -> Any:
    """Return the content of a JSON file."""
    return json.loads(path.read_text())


def test_json_has_the_prediction_its_lines_and_its_rates(tmp_path: Path) -> None:
    out, path = tmp_path / "out", tmp_path / "speed.json"
    artifact = copy_example("_jit_softmax", tmp_path)
    assert speed(artifact, out, "--json", str(path), "--chip-name", "910B4") == 0
    written = document_of(path)
    prediction = written["prediction"]
    assert prediction["chip"] == "910B4"
    assert prediction["low_us"] < prediction["time_us"] < prediction["high_us"]
    (kernel,) = prediction["kernels"]
    assert written["names"] == {str(kernel["kernel"]): "softmax_rows"}
    text = (artifact / "kernels/aiv/softmax_rows.cpp").read_text().splitlines()
    at = {line["row"]: line for line in written["lines"]}
    named = [row for row in prediction["rows"] if row["name"].startswith("T")]
    assert named
    for row in named:
        line = at[row["row"]]
        assert line["path"] == "kernels/aiv/softmax_rows.cpp"
        assert row["name"] in text[line["line"] - 1]
    assert {rate["name"]: rate["value"] for rate in written["rates"]}["clock"] == 1.5


def test_what_has_no_price_is_an_error_at_its_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    edit = ("kernels/aiv/kernel_mul.cpp", "TMUL(v17, v7, v13);", "TPOW(v17, v7, v13);")
    artifact = copy_example("_jit_vector_dag", tmp_path, [edit])
    assert speed(artifact, tmp_path / "out") == 1
    text = (artifact / "kernels/aiv/kernel_mul.cpp").read_text().splitlines()
    line = next(number for number, row in enumerate(text, 1) if "TPOW" in row)
    error = (
        "error: no rate of 'TPOW' is known for 910B2, so predicted times are too low; add a row to RATES= 'slope.TPOW'"
    )
    assert f"kernels/aiv/kernel_mul.cpp:{line}: {error}" in capsys.readouterr().out.splitlines()
    rates = tmp_path / "mine.toml"
    rates.write_text(
        '[[rate]]\nname = "slope.TPOW"\nvalue = 40\nunit = "cycles"\nchip = "a2a3"\nevidence = "D"\nsource = "x"\n'
    )
    assert speed(artifact, tmp_path / "out", "--rates", str(rates)) == 0


def test_a_chip_of_the_other_generation_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    artifact = copy_example("_jit_softmax", tmp_path)
    assert speed(artifact, tmp_path / "out", "--chip-name", "950PR") == 2
    error = "speed: CHIP=950PR: is not a chip of the platform a2a3sim; use one of 910B1, 910B2, 910B3, 910B4"
    assert capsys.readouterr().err.splitlines() == [error]


def test_changes_and_another_artifact_are_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    softmax, out = copy_example("_jit_softmax", tmp_path), tmp_path / "_jit_softmax.out"
    assert speed(softmax, out, "--what-if", "nodispatch,double") == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("[speed] what if")]
    assert [line.partition(":")[0] for line in lines] == [
        "[speed] what if nodispatch", "[speed] what if double", "[speed] what if all of these",
    ]  # fmt: skip
    dag = copy_example("_jit_vector_dag", tmp_path)
    assert speed(dag, tmp_path / "dag", "--other", str(out / "speed.json")) == 0
    line = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("[speed] the run: "))
    assert line.endswith(" in _jit_softmax: _jit_softmax is faster")
    assert speed(dag, tmp_path / "dag", "--other", "_jit_nothing") == 2
    assert capsys.readouterr().err.endswith("run `scons speed` on it first\n")


def test_a_run_that_leaves_no_record_says_why(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    artifact = copy_example("_jit_softmax", tmp_path)
    words = [str(artifact), "--build-dir", str(tmp_path / "none"), "--embedded", "none"]
    assert main(words) in (2, 3)
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_each_dispatch_of_each_rank_is_predicted(tmp_path: Path) -> None:
    out = tmp_path / "out"
    directory = out / "dfx_outputs"
    write_json(directory / "ranks.json", ranks_document())
    artifact = EXAMPLES.parent / "distributed" / "_jit_dist_allreduce"
    run = RanksRun(artifact, out)
    load = {
        "kind": INSTRUCTION, "name": "TLOAD", "pipe": MTE2,
        "tiles": [[0, 0, 2, 0, 1, 1, 1, 4, 1, 256, 1, 256, 0, 0, 1, 256]],
        "views": [[1, 0, 4, [1, 1, 1, 1, 256], [256, 256, 256, 256, 1], 1, 256]],
    }  # fmt: skip
    for row in run.dispatches:
        times = 1000 * (1 + row.index) * (1 + row.rank)
        document = {"schema": 1, "complete": True, "calls": 1, "bases": times, "rows": [load], "streams": [times]}
        write_json(run.directory_of(row) / "instructions.json", document)
        bases, call = np.arange(times, dtype=np.uint64) * 1024, np.array([0, 0, 1, 0, 0, times], np.uint32)
        data = bases.tobytes() + call.tobytes() + np.zeros(times, np.uint32).tobytes()
        (run.directory_of(row) / "instructions.bin").write_bytes(data)
    printed: list[str] = []
    words = [str(artifact), "--build-dir", str(out), "--embedded", "none", "--json", str(tmp_path / "all.json")]
    options = parser().parse_args(words)
    assert answer_ranks(options, directory, lambda *lines: printed.extend(lines)) == 0
    heads = [line for line in printed if " d0 " in line or " d1 " in line]
    assert [line.partition(": ")[0] for line in heads] == [
        "[speed] rank 0 d0 'publish'", "[speed] rank 0 d1 'reduce'",
        "[speed] rank 1 d0 'publish'", "[speed] rank 1 d1 'reduce'",
    ]  # fmt: skip
    (longest,) = [line for line in printed if "takes longest" in line]
    assert re.fullmatch(r"\[speed\] rank 1 takes longest: .+, without waits for others", longest)
    # Equal findings of the ranks are one, with the largest gain.
    assert [line for line in printed if line.endswith("[speed/few-blocks]")] == [
        f"note: 1 block of {kernel} on 48 cores: the others are idle [speed/few-blocks]"
        for kernel in ("sum_ranks", "scale_rows")
    ]
    times_us = {
        title: written["prediction"]["time_us"] for title, written in document_of(tmp_path / "all.json").items()
    }
    assert sorted(times_us, key=lambda title: times_us[title])[-1] == "rank 1 d1 'reduce'"
    options.max_time = 1.0
    assert answer_ranks(options, directory, lambda *lines: printed.extend(lines)) == 1
    (error,) = [line for line in printed if line.startswith("error: ")]
    assert error.endswith("more than 1 us [speed/max-time]")
    for option, value in (("what_if", "double"), ("export", "trace")):
        with pytest.raises(ArtifactError, match="works only for one chip program"):
            answer_ranks(parser().parse_args([*words, f"--{option.replace('_', '-')}={value}"]), directory, print)
