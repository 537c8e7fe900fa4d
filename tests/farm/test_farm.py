"""Jobs on a cluster of this machine: what comes back, and what a lost worker, a crash and Ctrl-C cost."""

from __future__ import annotations

import hashlib
import os
import select
import shutil
import signal
import threading
import time
import uuid
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

import msgspec
import pytest

from pypto_build.artifact import ArtifactError
from pypto_build.facts.jobs import FarmJob, FarmReady, FarmResult, Order
from pypto_build.farm import worker
from tests.farm.conftest import at_work, until
from tests.rules.project import Project, open_when_read

distributed = pytest.importorskip("distributed")
from pypto_build.farm import client as farm  # noqa: E402

_ENDLESS = "([] { for (volatile int i = 0;; ) { i = i; } return 0.0f; }())"

pytestmark = pytest.mark.usefixtures("runtime")


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A workspace with one artifact."""
    return Project(tmp_path)


def _order(cluster: Any, project: Project, *names: str, **options: str) -> Order:
    roots = [str(project.artifact.parent / name) for name in names or ("_jit_chain",)]
    jobs = [FarmJob(f"{Path(root).name} a2a3sim", root, "replay", {"PLATFORM": "a2a3sim", **options}) for root in roots]
    return Order(cluster.scheduler_address, 2, jobs)


def _results(order: Order) -> list[FarmResult]:
    return [line for line in farm.run(order, uuid.uuid4().hex, print) if isinstance(line, FarmResult)]


def _pids(cluster: Any) -> list[int]:
    with distributed.Client(cluster.scheduler_address, set_as_default=False) as client:
        return sorted(client.run(os.getpid).values())


def test_a_verdict_comes_back(cluster: Any, project: Project) -> None:
    lines: list[str] = []
    ready, result = farm.run(_order(cluster, project), uuid.uuid4().hex, lines.append)
    assert ready == FarmReady(2) and isinstance(result, FarmResult)
    assert (result.label, result.status, result.lost) == ("_jit_chain a2a3sim", 0, "")
    assert msgspec.json.decode(result.verdict)["status"] == "pass"
    assert "[RUN] PASS" in result.log
    assert lines[0].startswith("[farm] 2 workers")
    assert not (project.root / "build").exists()


def test_a_crash_ends_no_worker_and_is_not_tried_again(cluster: Any, project: Project) -> None:
    before = _pids(cluster)
    project.write_kernel("twice", "*(volatile int*)0")
    (result,) = _results(_order(cluster, project))
    assert result.status == 5
    verdict = msgspec.json.decode(result.verdict)
    assert (verdict["status"], verdict["error"]["kernel"]) == ("runtime_error", "twice")
    assert result.log.count("[RUN] FAIL") == 1
    assert _pids(cluster) == before


def test_a_lost_worker_costs_a_retry(cluster: Any, project: Project) -> None:
    project.artifact.rename(project.artifact.with_name("_jit_lost_worker"))
    results: list[FarmResult] = []
    order = _order(cluster, project, "_jit_lost_worker")
    thread = threading.Thread(target=lambda: results.extend(_results(order)))
    thread.start()
    until(lambda: at_work("_jit_lost_worker"))
    with distributed.Client(cluster.scheduler_address, set_as_default=False) as client:
        busy = [address for address, keys in client.processing().items() if keys]
        pids = client.run(os.getpid)
        first = at_work("_jit_lost_worker")
        os.kill(pids[busy[0]], signal.SIGKILL)
    thread.join(timeout=120)
    assert [(result.status, result.lost) for result in results] == [(0, "")]
    until(lambda: not set(first) & set(at_work("_jit_lost_worker")), 10)


def test_what_is_closed_early_leaves_nothing(cluster: Any, project: Project) -> None:
    project.artifact.rename(project.artifact.with_name("_jit_endless"))
    project.artifact = project.artifact.with_name("_jit_endless")
    project.edit("kernels/aiv/twice.cpp", "2.0f * in[i]", _ENDLESS)
    order = _order(cluster, project, "_jit_endless", TIMEOUT="100")
    results = farm.run(order, uuid.uuid4().hex, print)
    assert next(results) == FarmReady(2)

    def interrupt() -> None:
        until(lambda: at_work("pypto_build.replay") and at_work("_jit_endless"))
        time.sleep(1.0)
        os.kill(os.getpid(), signal.SIGINT)

    stop = threading.Thread(target=interrupt)
    stop.start()
    with pytest.raises(KeyboardInterrupt):
        next(results)
    stop.join()
    farm.end_quietly(results)
    until(lambda: not at_work("_jit_endless"), 15)


def test_a_job_that_never_ends_keeps_no_other_and_ends_with_the_run(cluster: Any, project: Project) -> None:
    """Its compiler waits for a pipe, which no time limit ends."""
    pipe = project.root / "pipe"
    os.mkfifo(pipe)
    waiting = project.artifact.with_name("_jit_waiting")
    shutil.copytree(project.artifact, waiting)
    kernel = waiting / "kernels" / "aiv" / "twice.cpp"
    kernel.write_text(f'#include "{pipe}"\n{kernel.read_text()}')
    results = farm.run(_order(cluster, project, "_jit_waiting", "_jit_chain"), uuid.uuid4().hex, print)
    assert next(results) == FarmReady(2)
    first = next(results)
    assert isinstance(first, FarmResult)
    assert (first.label, first.status, first.lost) == ("_jit_chain a2a3sim", 0, "")
    writer = open_when_read(pipe)
    farm.end_quietly(results)
    waits = select.poll()
    waits.register(writer, 0)
    assert waits.poll(60_000) == [(writer, select.POLLERR)], "a process still reads the pipe"
    os.close(writer)
    until(lambda: not at_work("_jit_waiting"), 15)


def test_workers_that_differ_are_named(cluster: Any, project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    own = worker.describe()
    monkeypatch.setattr(farm, "_describe_here", lambda: {**own, "compiler": "g++ 99"})
    lines: list[str] = []
    with pytest.raises(ArtifactError, match="none of its 2 workers is like this machine"):
        list(farm.run(_order(cluster, project), uuid.uuid4().hex, lines.append))
    assert len(lines) == 2
    assert all(line.endswith(f"is not used: compiler {own['compiler']}, here g++ 99") for line in lines)


def test_nobody_reaches_local_workers() -> None:
    psutil = pytest.importorskip("psutil")
    this = psutil.Process()

    def listening() -> set[tuple[str, int]]:
        connections = this.net_connections(kind="inet")
        return {tuple(connection.laddr) for connection in connections if connection.status == "LISTEN"}

    others, children = listening(), this.children()
    with farm._local(2) as cluster:
        assert cluster.scheduler_address.startswith("inproc://")
        for address, port in listening() - others:  # Dask has no way without; they serve no page
            assert address == "127.0.0.1"
            with pytest.raises(HTTPError, match="404"):
                urlopen(f"http://127.0.0.1:{port}/", timeout=10)
        assert this.children() == children


def test_no_cluster(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(farm, "_CONNECT_S", 1.0)
    order = Order("tcp://127.0.0.1:1", 1, [FarmJob("x", str(project.artifact), "replay")])
    with pytest.raises(ArtifactError, match=r"SCHEDULER=tcp://127\.0\.0\.1:1: no Dask cluster answers: "):
        list(farm.run(order, uuid.uuid4().hex, print))


@pytest.mark.parametrize("name", ["../x", "/etc/x", "a/../../x", ""])
def test_names_stay_inside(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match="is not a path inside the artifact"):
        worker._write(tmp_path, name, hashlib.sha256(b"x").hexdigest(), b"x")
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_arrives_damaged_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"k\.cpp: was damaged in transfer"):
        worker._write(tmp_path, "k.cpp", hashlib.sha256(b"x").hexdigest(), b"y")


def test_scons_with_local_workers(project: Project) -> None:
    import shutil

    other = project.artifact.with_name("_jit_wrong")
    shutil.copytree(project.artifact, other)
    project.edit_file("build_output/_jit_wrong/kernels/aiv/twice.cpp", "2.0f", "3.0f")
    run = project.quiet("replay", "JIT=_jit_*", "SCHEDULER=local", "-j2", "JUNIT=j.xml")
    assert "=== 1 failed, 1 passed in" in run.output, run.output
    assert "mismatch  _jit_wrong a2a3sim" in run.output
    assert "1 of 1 outputs differ" in run.output
    verdict = project.root / "build/logs/_jit_wrong_a2a3sim.replay.verdict.json"
    assert msgspec.json.decode(verdict.read_bytes())["status"] == "mismatch"
    assert 'failures="1"' in (project.root / "j.xml").read_text(encoding="utf-8")


def test_declared_tests(project: Project) -> None:
    """Unchanged tests, and tests with data of this machine, run here; the others are reported as any test."""
    project.write(
        "SConstruct",
        "from pypto_build.rules import pypto\n"
        "env = Environment(tools=[pypto])\n"
        "env.ReplayTest(name='one', artifact='build_output/_jit_chain', platform='a2a3sim')\n"
        "env.ReplayTest(name='two', artifact='build_output/_jit_chain', platform='a5sim')\n"
        "env.ReplayTest(name='own', artifact='build_output/_jit_chain', platform='a5sim', rtol=1e-3,\n"
        "               data='build_output/_jit_chain/data')\n",
    )
    assert "3 passed in" in project.quiet("test").output
    unchanged = project.quiet("test", "SCHEDULER=local", "-j2").output
    assert "3 passed (3 cached)" in unchanged and "[farm]" not in unchanged
    project.write_kernel("twice", "3.0f * in[i]")
    run = project.quiet("test", "SCHEDULER=local", "-j2", "JUNIT=j.xml")
    assert "[farm] 2 workers" in run.output and "=== 3 failed in" in run.output, run.output
    words_of = {line.split()[2]: line.split()[1] for line in run.output.splitlines() if line.startswith("[test] ")}
    assert words_of == {"one": "FAIL", "two": "FAIL", "own": "FAIL"}
    assert f"why: pypto-build triage {project.artifact}" in run.output
    assert {path.name for path in (project.root / "build/logs").glob("*.json")} == {
        "one.test.verdict.json",
        "two.test.verdict.json",
    }
    assert 'failures="3"' in (project.root / "j.xml").read_text(encoding="utf-8")


def test_rounds_are_shared_out(project: Project) -> None:
    """Together the shares run the orders of the one job: those of the seeds from SEED on."""
    run = project.quiet("flaky", "JIT=_jit_chain", "ROUNDS=25", "SEED=3", "SCHEDULER=local", "-j2")
    assert (run.status, "=== 2 passed in" in run.output) == (0, True), run.output
    logs = sorted((project.root / "build/logs").glob("*.flaky.log"))
    assert [log.name for log in logs] == [
        "_jit_chain_a2a3sim_SEED=15_ROUNDS=13.flaky.log",
        "_jit_chain_a2a3sim_SEED=3_ROUNDS=12.flaky.log",
    ]


def test_a_tool_finds_there_what_it_finds_here(project: Project) -> None:
    project.edit("orchestration/chain.cpp", "params_t1.add_input(t);", "params_t1.add_no_dep(t);")
    hazards = ("hazards", "JIT=_jit_chain", "MEMORY=weak")  # which sees what plain C++ touches
    here = project.quiet(*hazards)
    there = project.quiet(*hazards, "SCHEDULER=local", "-j2")
    assert here.status and there.status
    (log,) = (project.root / "build/logs").glob("*.hazards.log")
    findings = [line for line in here.output.splitlines() if "[hazards/" in line]
    assert any("[hazards/raw]" in line for line in findings), here.output
    assert findings == [line for line in log.read_text().splitlines() if "[hazards/" in line]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["replay", "SCHEDULER=ssh://x"], "SCHEDULER=ssh://x: is not a scheduler address; use local, tcp://HOST:PORT or tls://"
         "HOST:PORT"),
        (["report", "SCHEDULER=local"], "SCHEDULER=local: a farm runs one verb of build, replay, lint, pto_check, "
         "hazards, diverge, flaky, triage, bisect, reduce, sweep; leave SCHEDULER= out for other verbs"),
        (["sweep", "SCHEDULER=ssh://x"], "SCHEDULER=ssh://x: is not a scheduler address; use local, tcp://HOST:PORT or tls://"
         "HOST:PORT"),
        (["replay", "SCHEDULER=local", "DATA=x"],
         "DATA=x: works on this machine only, not on a farm; leave out SCHEDULER="),
    ],
)  # fmt: skip
def test_what_a_farm_does_not_do(project: Project, words: list[str], message: str) -> None:
    run = project.quiet(*words, "JIT=_jit_chain")
    assert (run.status, run.output) == (2, f"scons: *** {message}\n")
