"""Random legal orders, the two tasks whose order decides, and outputs that depend on it."""

from __future__ import annotations

from pathlib import Path

import pytest

from pypto_build.diagnose.findings import read_report
from pypto_build.diagnose.flaky import main
from pypto_build.diagnose.flaky_orders import flipping_swap, random_order
from tests.diagnose.checked import copy_example
from tests.replay.builder import build_artifact, embedded_module

DAG = "orchestration/vector_dag.cpp"


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

    found = flipping_swap(list(range(20)), list(range(19, -1, -1)), differs)
    assert found is not None
    order, position = found
    assert (order[position], order[position + 1]) == (one, other)
    assert not differs(order)
    order[position], order[position + 1] = other, one
    assert differs(order)
    assert len(runs) <= 12


def test_an_output_that_depends_on_the_order(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two tasks write one tensor, and nothing orders them."""
    edits = ((DAG, "params_t2.add_output(e);", "params_t2.add_output(d);"), (DAG, "add_input(e);", "add_input(d);"))
    artifact, out = copy_example("_jit_vector_dag", tmp_path, edits), tmp_path / "out"
    build_artifact(artifact, out)
    words = [str(artifact), "--build-dir", str(out), "--embedded", str(embedded_module())]
    assert main([*words, "--rounds", "10", "--json", str(out / "found.json")]) == 1
    (finding,) = read_report(out / "found.json").findings
    lines = (artifact / DAG).read_text().splitlines()
    assert finding.rule == "flaky/order"
    assert (finding.path, lines[finding.line - 1].strip()) == (DAG, "params_t2.add_output(d);")
    assert finding.tasks == (1, 2)
    assert finding.message == (
        "output 'f' varies in 16384 of 16384 elements, first at (0, 0), (0, 1), (0, 2), (0, 3); it is enough to run "
        "task 2 (1:3) kernel_shift before task 1 (1:2) kernel_shift, which nothing orders"
    )
    assert finding.detail == ("written by task 4 (1:5) kernel_add",)
    capsys.readouterr()


def test_outputs_that_do_not(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    artifact, out = copy_example("_jit_vector_dag", tmp_path), tmp_path / "out"
    build_artifact(artifact, out)
    words = [str(artifact), "--build-dir", str(out), "--embedded", str(embedded_module()), "--rounds", "5"]
    assert main(words) == 0
    assert capsys.readouterr().out == "[flaky] 5 orders of 5 tasks\n[flaky] _jit_vector_dag: nothing found\n"


def test_an_artifact_that_is_not_built(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    artifact = copy_example("_jit_vector_dag", tmp_path)
    assert main([str(artifact), "--build-dir", str(tmp_path / "out"), "--embedded", "none.so"]) == 2
    assert (
        "interface.json: cannot be read: No such file or directory; build the artifact first" in capsys.readouterr().err
    )
