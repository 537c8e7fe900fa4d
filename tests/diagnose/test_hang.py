"""Logs of runs on simpler: each planted fault is one finding, at its line; a graph adds what is waited for."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from pypto_build.diagnose.findings import read_report
from pypto_build.diagnose.hang import __main__ as hang
from tests.diagnose.corpus import Bug
from tests.diagnose.corpus.logs import BUGS
from tests.diagnose.runs import vector_dag_graph, write_json

_EXAMPLES = Path(__file__).parents[2] / "examples" / "artifacts"


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_planted_fault(bug: Bug, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root, logs = _EXAMPLES / bug.artifact, tmp_path / "logs"
    logs.mkdir()
    (logs / "device.log").write_text("[INFO] started\n" + bug.edits[0][2])
    assert hang.main([str(root), "--log", str(logs), "--json", str(tmp_path / "f.json")]) == 1
    (finding,) = read_report(tmp_path / "f.json").findings
    assert (finding.rule, finding.path) == (bug.rule, bug.file)
    assert bug.says in finding.message
    lines = (root / bug.file).read_text().splitlines() if bug.file else []
    assert finding.line == next((n for n, text in enumerate(lines, 1) if bug.at and bug.at in text), 0)
    assert finding.hint
    capsys.readouterr()


def test_a_graph_tells_what_is_waited_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_json(tmp_path / "deps.json", vector_dag_graph())
    lanes = "fanin_refcount=1/2 kernels=[aic:-1 aiv0:2 aiv1:-1] missing_deps=1"
    running = "fanin_refcount=1/1 kernels=[aic:-1 aiv0:1 aiv1:-1] running_on=[owner_thread=0 cores=[core=9(AIV1)]]"
    (tmp_path / "host.log").write_text(
        f"[STALL thread=0 idle_iterations=5] TASK ring=1 task_id=3 state=WAIT    {lanes}\n"
        f"[STALL thread=0 idle_iterations=5] TASK ring=1 task_id=2 state=RUNNING {running}\n"
        "sub_class=S1:running-stalled completed=2/5 running=1 ready=0 waiting=2 orch_done=0\n"
    )
    assert hang.main([str(_EXAMPLES / "_jit_vector_dag"), "--log", str(tmp_path)]) == 1
    out = capsys.readouterr().out.splitlines()
    assert out[:6] == [
        "2 of 5 tasks had ended; 1 running, 0 ready, 2 waiting; orchestration not done",
        "last dispatched: task 2 (1:2) kernel_shift on core=9(AIV1)",
        "  RUNNING task 2 (1:2) kernel_shift on core=9(AIV1)",
        "            waited for by task 3 (1:3) kernel_mul",
        "  WAIT    task 3 (1:3) kernel_mul",
        "            waits for task 2 (1:2) kernel_shift, "
        "through e: arg 1 'b' float32[16] bytes 0..64 (that task was passed all of it to write)",
    ]


def test_without_the_artifact_numbers_stand(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "x.log").write_text("runtime failed with rc=-4\n")
    assert hang.main(["--log", str(tmp_path / "x.log")]) == 1
    out = capsys.readouterr().out
    assert "DEP_POOL_OVERFLOW (4): there are more dependency edges than the ring's pool has room for" in out


def test_logs_without_a_fault(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = f"[hang] {tmp_path}: these logs report no error, no stall and no fault\n"
    (tmp_path / "x.log").write_text("[INFO] device_runner: all is well\n")
    assert hang.main(["--log", str(tmp_path)]) == 0
    assert capsys.readouterr().out == line
    (tmp_path / "x.log").write_text("Python said this\n")  # nothing of the runtime's: what would write it
    assert hang.main(["--log", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert out.startswith(f"{line}    the logs contain no line of the runtime: run again with ")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("none", "no such file or directory; name a directory with logs"),
        ("empty", "contains no log; name the directory with the logs of host and device"),
    ],
)
def test_no_logs(tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, message: str) -> None:
    (tmp_path / "empty").mkdir()
    assert hang.main(["--log", str(tmp_path / name)]) == 2
    assert capsys.readouterr().err == f"hang: LOG={tmp_path / name}: {message}\n"
    shutil.rmtree(tmp_path / "empty")
