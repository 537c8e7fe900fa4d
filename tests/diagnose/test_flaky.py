"""Random legal orders, the two tasks whose order decides, and outputs that depend on it."""

from __future__ import annotations

from pathlib import Path

import pytest

from pypto_build.diagnose.findings import read_report
from pypto_build.diagnose.flaky.__main__ import flipping_swap, main, random_order
from pypto_build.diagnose.triage.experiments import Orders, try_orders
from pypto_build.replay import Request
from pypto_build.replay.reference import launch
from tests.diagnose.checked import copy_example
from tests.diagnose.corpus import Bug
from tests.diagnose.corpus.flaky import BUGS
from tests.replay.builder import build_artifact, embedded_module


def test_orders_are_legal_and_seeded() -> None:
    pairs = [(0, 1), (0, 2), (1, 3), (2, 3), (3, 4)]
    orders = [random_order(range(5), pairs, seed) for seed in range(20)]
    assert all(order.index(first) < order.index(second) for order in orders for first, second in pairs)
    assert {tuple(order) for order in orders} == {(0, 1, 2, 3, 4), (0, 2, 1, 3, 4)}
    assert orders == [random_order(range(5), pairs, seed) for seed in range(20)]


@pytest.mark.parametrize(("one", "other"), [(3, 17), (0, 19), (8, 9)])
def test_the_deciding_swap_is_found(one: int, other: int) -> None:
    runs = []

    def differs(order: list[int]) -> bool:
        runs.append(order)
        return order.index(other) < order.index(one)

    swap = flipping_swap(list(range(20)), list(range(19, -1, -1)), differs)
    assert swap is not None
    order, position = swap
    assert (order[position], order[position + 1]) == (one, other)
    assert not differs(order)
    order[position], order[position + 1] = other, one
    assert differs(order)
    assert len(runs) <= 12


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_planted_bug(bug: Bug, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    artifact, out = copy_example(bug.artifact, tmp_path, bug.edits), tmp_path / "out"
    build_artifact(artifact, out)
    words = [str(artifact), "--build-dir", str(out), "--embedded", str(embedded_module())]
    assert main([*words, "--rounds", "10", "--json", str(out / "found.json")]) == 1
    (finding,) = read_report(out / "found.json").findings
    assert (finding.rule, finding.path) == (bug.rule, bug.file)
    assert bug.at in (artifact / bug.file).read_text().splitlines()[finding.line - 1]
    assert bug.says in finding.message
    assert finding.detail == ("written by task 4 (1:5) kernel_add",)
    capsys.readouterr()


def test_outputs_that_do_not(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    artifact, out = copy_example("_jit_vector_dag", tmp_path), tmp_path / "out"
    build_artifact(artifact, out)
    words = [str(artifact), "--build-dir", str(out), "--embedded", str(embedded_module()), "--rounds", "5"]
    assert main(words) == 0
    assert capsys.readouterr().out == "[flaky] 5 orders of 5 tasks\n[flaky] _jit_vector_dag: nothing found\n"


def test_the_reference_is_asked_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """DATA=reference: each further run takes the inputs and goldens that the first one has made."""
    artifact, out = copy_example("_jit_vector_dag", tmp_path), tmp_path / "out"
    build_artifact(artifact, out)
    computed: list[Path] = []
    make = launch.make_goldens

    def counted(request: Request) -> Path:
        computed.append(request.artifact_dir)
        return make(request)

    monkeypatch.setattr(launch, "make_goldens", counted)
    words = [str(artifact), "--build-dir", str(out), "--embedded", str(embedded_module()), "--rounds", "2"]
    assert main([*words, "--data", "reference"]) == 0
    assert len(computed) == 1
    request = Request(artifact, out, embedded_module(), results=out / "triage", data=Path("reference"))
    assert try_orders(request) == Orders(5)
    assert len(computed) == 2


def test_an_artifact_that_is_not_built(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    artifact = copy_example("_jit_vector_dag", tmp_path)
    assert main([str(artifact), "--build-dir", str(tmp_path / "out"), "--embedded", "none.so"]) == 2
    assert (
        "interface.json: cannot be read: No such file or directory; build the artifact first" in capsys.readouterr().err
    )
