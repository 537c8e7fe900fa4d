"""`why` goes back from an element to the inputs, and marks the instruction where the reference has another value."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from pypto_build.diagnose.why import answer
from pypto_build.diagnose.why.__main__ import main
from pypto_build.diagnose.why.forward import Forward
from pypto_build.diagnose.why.kept import Link, read_kept
from pypto_build.diagnose.why.runs import Runs
from tests.diagnose.checked import build_checked, copy_example
from tests.diagnose.corpus.why import BUGS, Wrong
from tests.replay.builder import build_artifact, embedded_module


def why(artifact: Path, out: Path, *more: str) -> tuple[int, Link | None]:
    """Build and ask; the exit status and the chain."""
    build_artifact(artifact, out)
    build_checked(artifact, out)
    written = out / "why.json"
    words = [str(artifact), "--build-dir", str(out), "--embedded", str(embedded_module()), *more]
    status = main([*words, "--json", str(written)])
    return status, msgspec.json.decode(written.read_bytes(), type=Link) if written.is_file() else None


def links(link: Link) -> Iterator[Link]:
    """A chain's links, the element first."""
    yield link
    for one in link.of:
        yield from links(one)


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_wrong_element(bug: Wrong, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    artifact = copy_example(bug.artifact, tmp_path, bug.edits)
    status, top = why(artifact, tmp_path / "out", "--out", bug.out, "--at", bug.at)
    assert status == 0 and top is not None and top.differs
    marked = [one for one in links(top) if one.parts]
    assert {one.cpp.rpartition(":")[0] for one in marked} == {bug.file}
    lines = (artifact / bug.file).read_text().splitlines()
    assert all(bug.line in lines[int(one.cpp.rpartition(":")[2]) - 1] for one in marked)
    modules = {one.pto for one in marked}
    assert all(bug.operation in (artifact / p).read_text().splitlines()[int(n) - 1] for p, n in _split(modules))
    assert {one.where.partition(" ")[0] for one in links(top) if one.note == "input of the program"} == bug.inputs
    assert "<-- parts from the reference here" in capsys.readouterr().out
    kept = read_kept(tmp_path / "out", artifact)
    assert kept[0].link == top and all(one.link.differs for one in kept)


def _split(places: set[str]) -> list[tuple[str, str]]:
    return [(position.rpartition(":")[0], position.rpartition(":")[2]) for position in places]


@pytest.mark.parametrize("at", ["5,9", "60,9"])
def test_a_chain_goes_through_the_pipe_to_the_cube(at: str, tmp_path: Path) -> None:
    """Both vector cores pop their half of what the cube has pushed."""
    status, top = why(copy_example("_jit_gemm_silu_lanes", tmp_path), tmp_path / "out", "--out", "out", "--at", at)
    assert status == 0 and top is not None
    chain = list(links(top))
    (push,) = (one for one in chain if one.instruction == "TPUSH" and one.note != "as above")
    (pop,) = (one for one in chain if push in one.of)
    assert (pop.instruction, pop.value) == ("TPOP", push.value)
    assert push.kernel == "gemm_silu_aic" and push.cpp.startswith("kernels/aic/gemm_silu_aic.cpp:")
    inputs = {one.where.partition(" ")[0] for one in chain if one.note == "input of the program"}
    assert {"'a'", "'b'"} <= inputs


@pytest.mark.parametrize(("line", "operation"), [("TSUB(v17", "pto.tadd"), ("", "")])
def test_where_it_stops_nothing_is_said_of_what_came_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str, operation: str
) -> None:
    """With one task looked into, what was wrong before is not laid to its load; another instruction is, to itself."""
    monkeypatch.setattr(answer, "_MOST_TASKS", 1)
    edits = [("kernels/aiv/kernel_mul.cpp", "TMUL(", "TADD(")]
    if line:
        edits.append(("kernels/aiv/kernel_add.cpp", "TADD(", "TSUB("))
    artifact = copy_example("_jit_vector_dag", tmp_path, edits)
    status, top = why(artifact, tmp_path / "out", "--out", "f", "--at", "127,0")
    assert status == 0 and top is not None and top.differs
    assert [one.note for one in links(top) if one.cut] == ["more than 1 tasks back"] * 2
    marked = [one for one in links(top) if one.parts]
    assert [one.instead for one in marked] == ([operation] if line else [])


def test_a_right_element_has_its_chain_too(tmp_path: Path) -> None:
    """f = (c + alpha...) of vector_dag, through all five tasks, each value what numpy says of its operands."""
    artifact = copy_example("_jit_vector_dag", tmp_path)
    status, top = why(artifact, tmp_path / "out", "--out", "f", "--at", "127,0")
    assert status == 0 and top is not None
    chain = list(links(top))
    assert not any(one.differs or one.parts for one in chain)
    assert {one.task for one in chain if one.instruction} == {0, 1, 2, 3, 4}
    add = next(one for one in chain if one.instruction == "TADD" and one.task == 0)
    one, other = (operand.value for operand in add.of)
    assert add.value is not None and one is not None and other is not None
    assert add.value == pytest.approx(one + other, rel=1e-6)
    assert {one.where for one in chain if one.note == "input of the program"} == {"'a' [127, 0]", "'b' [127, 0]"}


def test_a_reduction_is_summarised(tmp_path: Path) -> None:
    status, top = why(copy_example("_jit_softmax", tmp_path), tmp_path / "out", "--at", "3,7")
    assert status == 0 and top is not None
    (summary,) = next(one.combined for one in links(top) if one.instruction == "TROWSUM")
    assert summary.count == 256 and summary.max == 1.0 and summary.differ == 0
    assert summary.largest[0][1] == 1.0 and len(summary.largest) == 3
    (maximum,) = [one for one in links(top) if one.instruction == "TROWMAX" and one.combined]
    (summary,) = maximum.combined
    assert summary.min < -summary.max  # the element of the largest size is not the one that decides
    assert [one.value for one in maximum.of] == [maximum.value] == [summary.max]


def test_scratch_carries_nothing(tmp_path: Path) -> None:
    answer = followed(copy_example("_jit_softmax", tmp_path), tmp_path / "out", "--from", "x", "--at", "3,7")
    names = ["TLOAD", "TROWMAX", "TROWEXPANDSUB", "TEXP", "TROWSUM", "TROWEXPANDDIV", "TSTORE"]
    assert [step.instruction for step in answer.steps] == names


def followed(artifact: Path, out: Path, *words: str) -> Forward:
    """Return the answer of `FROM=`."""
    build_artifact(artifact, out)
    build_checked(artifact, out)
    written = out / "forward.json"
    command = [str(artifact), "--build-dir", str(out), "--embedded", str(embedded_module()), *words]
    assert main([*command, "--json", str(written)]) == 0
    return msgspec.json.decode(written.read_bytes(), type=Forward)


def test_forward_through_all_tasks(tmp_path: Path) -> None:
    """An element of vector_dag is in one element of each tensor, in the order of the tasks, and of the output."""
    forward = followed(copy_example("_jit_vector_dag", tmp_path), tmp_path / "out", "--from", "a", "--at", "3,4")
    assert [(one.task, one.instruction) for one in forward.steps if one.instruction not in ("TLOAD", "TSTORE")] == [
        (0, "TADD"), (1, "TADDS"), (2, "TADDS"), (3, "TMUL"), (4, "TADD"),
    ]  # fmt: skip
    assert all((one.count, one.first) == (1, (3, 4)) for one in forward.steps)
    (output,) = forward.outputs
    assert (output.output, output.count, output.of, output.first) == ("f", 1, 16384, [[3, 4]])


def test_forward_spreads_over_a_row(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two rows of the left operand of a product reach two rows of the result, whose other rows are free of them."""
    forward = followed(copy_example("_jit_matmul", tmp_path), tmp_path / "out", "--from", "a", "--at", "3:5,4")
    (output,) = forward.outputs
    assert (output.output, output.count, output.first[0]) == ("c", 256, [3, 0])
    assert "reaches 'c': 256 of 16384 elements" in capsys.readouterr().out


def test_a_task_of_many_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The block that stored the element is found first, and only that one is traced."""
    monkeypatch.setattr(Runs, "_clear", lambda _: None)
    artifact, out = copy_example("_jit_spmd_scale", tmp_path), tmp_path / "out"
    status, top = why(artifact, out, "--at", "255,63")  # y has 256 x 64 elements, written by 8 blocks
    assert status == 0 and top is not None and not top.differs
    blocks = {one.block for one in links(top) if one.instruction}
    assert len(blocks) == 1 and blocks == {7}
    assert {path.name.split(".")[1:3] == ["0", "7"] for path in (out / "why").glob("*/trace.*.json")} == {True}


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--from", "y", "--at", "0,0"), "FROM=y is not a tensor of the program; the tensors are x, out"),
        (
            ("--from", "x", "--out", "out", "--at", "0,0"),
            "OUT=out and FROM=x cannot be used together; leave out one of the two",
        ),
        (("--out", "x", "--at", "0,0"), "OUT=x is not an output of the program; the outputs are out"),
        (("--at", "0"), "AT=0 does not fit the shape [64, 256]; give an index such as AT=0,0"),
        (("--at", "64,0"), "AT=64,0: 64 is not within 0 to 63; the shape is [64, 256]"),
        (("--at", "0,a"), "AT=0,a: 'a' is neither an index nor a range; write an index I or a range I:J"),
        (("--at", "5:2,0"), "AT=5:2,0: 5:2 is not within 0 to 63; the shape is [64, 256]"),
    ],
)
def test_what_it_cannot_answer(
    words: tuple[str, ...], says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert why(copy_example("_jit_softmax", tmp_path), tmp_path / "out", *words) == (2, None)
    assert capsys.readouterr().err.splitlines() == [f"why: {says}"]


@pytest.mark.parametrize(("source", "at"), [("a", "5,9"), ("a", "60,9"), ("b", "9,100")])
def test_forward_goes_through_the_pipe_to_the_vector_cores(source: str, at: str, tmp_path: Path) -> None:
    """A row of the left operand becomes a row of the pushed tile, and a column of the right one becomes a column.

    They reach a row or a column of the output, on the vector core that has its half.
    """
    forward = followed(copy_example("_jit_gemm_silu_lanes", tmp_path), tmp_path / "out", "--from", source, "--at", at)
    names = [one.instruction for one in forward.steps]
    assert names.index("TMATMUL") < names.index("TPUSH") < names.index("TPOP") < names.index("TADD")
    (output,) = forward.outputs
    row, col = map(int, at.split(","))
    assert (output.output, output.count) == ("out", 128 if source == "a" else 64)
    assert output.first[0] == ([row, 0] if source == "a" else [0, col])
    pops = {(one.kernel, one.count) for one in forward.steps if one.instruction == "TPOP"}
    assert {kernel for kernel, _ in pops} == {"gemm_silu_aiv"}


def test_forward_stops_where_it_is_overwritten(tmp_path: Path) -> None:
    """The output of the last task does not carry b if the task takes neither c nor g."""
    edits = [
        ("orchestration/vector_dag.cpp", "params_t4.add_input(g);", "params_t4.add_input(ext_a);"),
        ("orchestration/vector_dag.cpp", "params_t4.add_input(c);", "params_t4.add_input(ext_a);"),
    ]
    forward = followed(copy_example("_jit_vector_dag", tmp_path, edits), tmp_path / "out", "--from", "b", "--at", "3,4")
    assert {one.task for one in forward.steps} == {0, 1, 2, 3} and forward.outputs == []


def test_forward_forgets_what_others_store_over(tmp_path: Path) -> None:
    """c is made of b, and of a alone before anybody loads it: as memory that is used again."""
    edits = [
        ("orchestration/vector_dag.cpp", "params_t1.add_input(c);", "params_t1.add_input(ext_a);"),
        ("orchestration/vector_dag.cpp", "params_t1.add_output(d);", "params_t1.add_inout(c);"),
    ]
    forward = followed(copy_example("_jit_vector_dag", tmp_path, edits), tmp_path / "out", "--from", "b", "--at", "3,4")
    assert {one.task for one in forward.steps} == {0} and forward.outputs == []
