"""Tools that hand parts of their work to a farm find there, byte for byte, what they find here."""

from __future__ import annotations

import math
import os
import signal
import threading
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from pypto_build.artifact import ArtifactError
from pypto_build.diagnose.reduce import judge, work
from pypto_build.diagnose.reduce.__main__ import main as reduce
from pypto_build.diagnose.reduce.remote import main as judge_there
from pypto_build.diagnose.sweep.__main__ import main as sweep
from pypto_build.diagnose.sweep.work import share_bounds
from pypto_build.facts.jobs import FarmJob, FarmResult
from pypto_build.farm.session import FarmSession
from pypto_build.interop.bisect import SessionReplays, options_of, smallest_bad
from pypto_build.interop.steps import Candidate, Outcome, Runner
from pypto_build.replay.verdict import OutputResult, Verdict
from tests.diagnose.checked import copy_example
from tests.farm.conftest import at_work, until
from tests.replay.builder import build_artifact, embedded_module
from tests.rules.project import Project

_ENDLESS = "([] { for (volatile int i = 0;; ) { i = i; } return 0.0f; }())"
_WITHOUT_MAX = [("kernels/aiv/softmax_rows.cpp", "TROWEXPANDSUB(v16, v7, v15);", "TADDS(v16, v7, 0.0f);")]
_WRONG = [("kernels/aiv/kernel_mul.cpp", "TMUL(", "TADD(")]

distributed = pytest.importorskip("distributed")
pytestmark = pytest.mark.usefixtures("runtime")


class HereSession:
    """A farm of this process: jobs are done in the opposite order, one after the other."""

    workers = 3

    def __init__(self, directory: Path, do: Any) -> None:
        self._place, self._do = directory, do
        self.jobs: list[str] = []

    def __enter__(self) -> HereSession:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def results(self, jobs: Sequence[FarmJob]) -> Generator[FarmResult, None, None]:
        for job in reversed(jobs):
            self.jobs.append(job.label)
            yield self._do(job)


def test_a_sweep_in_shares(cluster: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """While one of the two workers that do it is killed."""
    artifact, out = copy_example("_jit_softmax", tmp_path, _WITHOUT_MAX), tmp_path / "out"
    build_artifact(artifact, out)
    words = [str(artifact), "--build-dir", str(out), "--embedded", str(embedded_module()), "--output", str(tmp_path)]
    words += ["--seeds", "1-20", "--json", str(tmp_path / "sweep.json")]
    outcomes = []
    for farm in ([], ["--scheduler", cluster.scheduler_address]):
        if farm:
            threading.Thread(target=_kill_a_worker, args=(cluster, "build_output/_jit_softmax")).start()
        status = sweep([*words, *farm])
        outcomes.append((status, capsys.readouterr().out, (tmp_path / "sweep.json").read_bytes()))
    assert outcomes[0] == outcomes[1]
    assert outcomes[0][0] == 1 and "20 cases against the .pto modules" in outcomes[0][1]


def _kill_a_worker(cluster: Any, part: str) -> None:
    until(lambda: at_work(part))
    with distributed.Client(cluster.scheduler_address, set_as_default=False) as client:
        busy = next(address for address, keys in client.processing().items() if keys)
        os.kill(client.run(os.getpid)[busy], signal.SIGKILL)


def test_shares() -> None:
    assert share_bounds(9, 4) == [0, 9]
    assert share_bounds(25, 4) == [0, 12, 25]
    assert share_bounds(1000, 2)[-1] == 1000 and len(share_bounds(1000, 2)) == 7


def test_what_nobody_needs_any_more_is_ended(cluster: Any, tmp_path: Path) -> None:
    """And the session goes on; what runs when it is closed ends too."""
    project = Project(tmp_path)
    endless = project.artifact.with_name("_jit_spread_endless")
    project.artifact.rename(endless)
    kernel = endless / "kernels/aiv/twice.cpp"
    text = kernel.read_text()
    kernel.write_text(text.replace("2.0f * in[i]", _ENDLESS))
    job = FarmJob("x", str(endless), "replay", {"PLATFORM": "a2a3sim", "TIMEOUT": "100"})
    waiting = FarmJob("gone", str(tmp_path / "nowhere"), "replay")
    with FarmSession(cluster.scheduler_address, 0) as session:
        assert session.workers == 2
        for last in (False, True):
            results = session.results([job, waiting])
            ended = next(results)
            assert (ended.label, ended.status) == ("gone", 2)
            until(lambda: at_work("_jit_spread_endless"))
            if not last:
                results.close()
                until(lambda: not at_work("_jit_spread_endless"), 20)
    until(lambda: not at_work("_jit_spread_endless"), 20)


def _verdict(outputs: Sequence[str]) -> bytes:
    results = [OutputResult(name, "mismatch", [1], "float32", 1) for name in outputs]
    return msgspec.json.encode(Verdict("mismatch" if outputs else "pass", "a", "a2a3sim", "embedded", outputs=results))


def _bisected(tmp_path: Path, farm: SessionReplays | None, replay: Any) -> tuple[list[str], list[Any]]:
    """Delta debugging of eight parts; the culprit and all that was recorded."""
    runner = Runner(tmp_path / "bisect.json", "q", 3, ["-p", "a2a3sim"], farm)
    if farm is None:
        runner._replay = replay  # type: ignore[method-assign]
    runner.record.bad_signature = "mismatch of y"

    def candidate(chosen: Sequence[str]) -> Candidate:
        return Candidate("".join(chosen), tmp_path, [f"--kernel-flags={''.join(chosen)}"])

    def probe(chosen: Sequence[str]) -> Outcome:
        one = candidate(chosen)
        return runner.run(one.name, one.artifact, one.options).outcome

    culprit = smallest_bad(list("abcdefgh"), probe, lambda sets: runner.prefetch([candidate(one) for one in sets]))
    return culprit, [(step.candidate, step.outcome, step.signatures) for step in runner.record.steps]


def test_a_bisection_records_what_it_would_record_here(tmp_path: Path) -> None:
    def ends(chosen: str) -> list[str]:
        return ["y"] if {"c", "f"} <= set(chosen) else ["z"] if "h" in chosen else []

    def there(job: FarmJob) -> FarmResult:
        return FarmResult(job.label, verdict=_verdict(ends(job.options["KERNEL_FLAGS"])))

    def here(_: Path, options: Sequence[str]) -> str:
        wrong = ends(options[0].partition("=")[2])
        return f"mismatch of {wrong[0]}" if wrong else "pass"

    session = HereSession(tmp_path, there)
    (tmp_path / "here").mkdir()
    outcomes = _bisected(tmp_path, SessionReplays(session), None)  # type: ignore[arg-type]
    assert outcomes == _bisected(tmp_path / "here", None, here)
    assert outcomes[0] == ["c", "f"]
    assert len(session.jobs) > 3 * len(outcomes[1])  # the repeats of what was not needed in the end


def test_flags_of_a_replay_as_options() -> None:
    words = ["-p", "a5sim", "--rtol", "1e-3", "--kernel-flags=-O1 -DX=1"]
    assert options_of(words) == {"FORCE": "1", "PLATFORM": "a5sim", "RTOL": "1e-3", "KERNEL_FLAGS": "-O1 -DX=1"}


@pytest.mark.parametrize("keep", ["mismatch:f"])
def test_a_reduction(
    keep: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reduction that is judged elsewhere leads to the same artifact by the same steps."""
    monkeypatch.setattr(work, "packed", lambda arguments, root: ("", ""))
    monkeypatch.setattr(judge, "_QUIET_S", math.inf)  # a busy machine prints lines of progress

    def there(job: FarmJob) -> FarmResult:
        directory = tmp_path / "there"
        directory.mkdir(exist_ok=True)
        with monkeypatch.context() as inside:
            inside.chdir(directory)
            assert judge_there([job.root, "--scratch", str(directory)]) == 0
        return FarmResult(job.label, files={"ending": (directory / "ending").read_bytes()})

    artifact = copy_example("_jit_vector_dag", tmp_path, _WRONG)
    outcomes: list[tuple[str, dict[Path, bytes]]] = []
    for session in (None, HereSession(tmp_path, there)):
        out = tmp_path / f"out{len(outcomes)}"
        build_artifact(artifact, out)
        monkeypatch.setattr(work, "session_of", lambda arguments, session=session: session)
        words = [str(artifact), "--build-dir", str(out), "--embedded", str(embedded_module())]
        assert reduce([*words, "--output", str(tmp_path), "--jobs", "2", "--keep", keep]) == 0
        root = tmp_path / "_jit_vector_dag_reduced"
        files = {path.relative_to(root): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}
        outcomes.append((capsys.readouterr().out, files))
    assert outcomes[0] == outcomes[1]
    assert session is not None and session.jobs


def test_what_a_worker_cannot_judge_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "candidate.msgpack").write_bytes(b"\x93")
    assert judge_there([str(tmp_path), "--scratch", str(tmp_path)]) == 2
    assert capsys.readouterr().err.startswith(f"reduce: {tmp_path}: is not a valid candidate: ")


def test_no_cluster_is_one_line(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ArtifactError, match=r"SCHEDULER=tcp://127\.0\.0\.1:x: the farm process does not start"):
        FarmSession("tcp://127.0.0.1:x", 1)
    assert "no Dask cluster answers" in capfd.readouterr().err
