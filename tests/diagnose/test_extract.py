"""`extract` writes artifacts that replay alone, with the views, scalars, blocks and groups that their tasks had."""

from __future__ import annotations

import json
import os
import shlex
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from pypto_build.artifact import ArtifactError, load_artifact
from pypto_build.artifact.pt import read_pt
from pypto_build.artifact.shapes import row_major_strides
from pypto_build.diagnose.extract.__main__ import main
from pypto_build.diagnose.extract.record import choose
from pypto_build.diagnose.extract.tensors import ViewStep, parameters, steps_to
from pypto_build.facts.tasks import Task, TaskArgument, TensorView
from pypto_build.replay.verdict import Verdict
from tests.diagnose.checked import EXAMPLES, copy_example
from tests.replay.builder import build_artifact, embedded_module, replay


def extract(artifact: Path, directory: Path, *words: str) -> int:
    """Build and extract into `directory`; the exit status."""
    out = directory / "out" / artifact.name
    build_artifact(artifact, out)
    fixed = [str(artifact), "--build-dir", str(out), "--embedded", str(embedded_module()), "--output", str(directory)]
    return main([*fixed, *words])


def floats(path: Path) -> np.ndarray:
    return np.frombuffer(bytes(read_pt(path).contiguous()), np.float32)


def replayed(root: Path) -> Verdict:
    """The verdict of an extracted artifact by itself."""
    out = root.with_name(f"{root.name}.out")
    build_artifact(root, out)
    return replay(root, out).verdict


@pytest.mark.parametrize(
    ("name", "words", "label", "tensors"),
    [
        ("_jit_vector_dag", ("--task", "3"), "task3", "d e g"),
        ("_jit_vector_dag", ("--task", "1-3"), "task1_3", "c d e g"),
        ("_jit_vector_dag", ("--task", "0,4"), "task0_4", "a b c g f"),
        ("_jit_vector_dag", ("--kernel", "kernel_shift"), "kernel_shift", "c d e"),
        ("_jit_vector_dag_may", ("--from", "2"), "from2", "c e d g f"),
        ("_jit_row_blocks", ("--task", "1-3"), "task1_3", "x g out"),  # rows of larger tensors, a shorter last block
        ("_jit_accumulate", ("--from", "0"), "from0", "x acc y"),  # one tensor read and written by several tasks
        ("_jit_spmd_scale", ("--task", "0"), "task0", "x y"),  # blocks
        ("_jit_gemm_silu", ("--task", "1"), "task1", "a b residual out"),  # a group; part of `out` is not its own
        ("_jit_gemm_silu_lanes", ("--task", "0-1"), "task0_1", "a b residual out"),  # both vector cores
    ],
)
def test_extracted_tasks_replay_alone(
    name: str, words: tuple[str, ...], label: str, tensors: str, tmp_path: Path
) -> None:
    assert extract(EXAMPLES / name, tmp_path, *words) == 0
    root = tmp_path / f"{name}_{label}"
    meta = load_artifact(root).meta
    assert meta is not None
    assert sorted(param.name for param in meta.params) == sorted(tensors.split())
    verdict = replayed(root)
    assert (verdict.status, {output.status for output in verdict.outputs}) == ("pass", {"pass"})
    recorded = json.loads((root / "extracted.json").read_bytes())
    assert verdict.tasks == len(recorded["tasks"])


def test_a_group_has_scratch_of_its_own(tmp_path: Path) -> None:
    """Pipes of two tasks lie in one allocation after the other, and must not come to share it."""
    assert extract(EXAMPLES / "_jit_gemm_silu", tmp_path, "--task", "1-2") == 0
    text = (tmp_path / "_jit_gemm_silu_task1_2/orchestration/gemm_silu_task1_2.cpp").read_text()
    assert text.count("alloc_tensors(") == 2
    assert "MixedKernels mixed_0 = {0, 1, INVALID_KERNEL_ID};" in text


def test_data_are_what_the_run_had(tmp_path: Path) -> None:
    assert extract(EXAMPLES / "_jit_vector_dag", tmp_path, "--task", "0") == 0
    assert extract(EXAMPLES / "_jit_vector_dag", tmp_path, "--task", "4") == 0
    own = EXAMPLES / "_jit_vector_dag/data"
    assert np.array_equal(floats(tmp_path / "_jit_vector_dag_task0/data/in/a.pt"), floats(own / "in/a.pt"))
    made, golden = floats(tmp_path / "_jit_vector_dag_task4/data/out/f.pt"), floats(own / "out/f.pt")
    assert np.allclose(made, golden, rtol=1e-4, atol=1e-4)


def test_reference_golden_shows_a_wrong_kernel(tmp_path: Path) -> None:
    edits = [("kernels/aiv/kernel_mul.cpp", "TMUL(", "TADD(")]
    artifact = copy_example("_jit_vector_dag", tmp_path, edits)
    assert extract(artifact, tmp_path, "--task", "3") == 0
    assert replayed(tmp_path / "_jit_vector_dag_task3").status == "pass"  # as wrong as it was
    assert extract(artifact, tmp_path, "--task", "3", "--golden", "reference") == 0
    verdict = replayed(tmp_path / "_jit_vector_dag_task3")
    assert [(output.name, output.status) for output in verdict.outputs] == [("g", "mismatch")]


def test_a_task_that_crashes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    crash = "*(volatile float*)(0x10) = 1.0f; TMUL("
    artifact = copy_example("_jit_vector_dag", tmp_path, [("kernels/aiv/kernel_mul.cpp", "TMUL(", crash)])
    directory = tmp_path / "a b"
    assert extract(artifact, directory, "--task", "3") == 0
    output = capsys.readouterr().out
    assert "the run itself ends early" in output
    assert output.endswith(f"scons replay JIT={shlex.quote(os.path.relpath(directory / '_jit_vector_dag_task3'))}\n")
    assert replayed(directory / "_jit_vector_dag_task3").error is not None
    assert extract(artifact, directory, "--task", "1") == 0  # before the crash: as in any run
    assert replayed(directory / "_jit_vector_dag_task1").status == "pass"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ((), "TASK=: no task is named; give exactly one of TASK=37, TASK=3-7, KERNEL=name and FROM=37"),
        (("--task", "1", "--from", "2"), "TASK=1 and FROM=2: name different tasks"),
        (("--task", "7-3"), "TASK=7-3: the range ends before it begins; write 3-7"),
        (("--task", "x"), "TASK=x: is not a task number"),
        (("--task", "99"), "TASK=99: no such task ran; tasks are numbered 0 to 4"),
        (("--from", "-1"), "FROM=-1: is not a task number"),
        (("--kernel", "nobody"), "KERNEL=nobody: no task runs it"),
    ],
)
def test_wrong_use_is_one_line(
    words: tuple[str, ...], says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert extract(EXAMPLES / "_jit_vector_dag", tmp_path, *words) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"extract: {says}")


def test_nothing_of_somebody_else_is_replaced(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mine = tmp_path / "_jit_vector_dag_task3/notes.txt"
    mine.parent.mkdir()
    mine.write_text("mine")
    assert extract(EXAMPLES / "_jit_vector_dag", tmp_path, "--task", "3") == 2
    assert "already exists, and pypto-build did not write it" in capsys.readouterr().err
    assert mine.read_text() == "mine"


# --- layout ----------------------------------------------------------------------------------------------------------


def taken(array: np.ndarray, steps: list[ViewStep]) -> np.ndarray:
    """Return the array after the calls."""
    for step in steps:
        if step.method == "view":
            array = array[tuple(slice(o, o + n) for o, n in zip(step.more, step.shape, strict=True))]
        elif step.method == "reshape":
            assert array.flags.c_contiguous, "simpler refuses to reshape anything else"
            array = array.reshape(step.shape)
        elif step.method == "slice":
            axis, start, end, by = step.more
            array = array[tuple(slice(start, end, by) if a == axis else slice(None) for a in range(array.ndim))]
        else:
            array = array.transpose(step.more)
    return array


def view(offset: int, shape: tuple[int, ...], strides: tuple[int, ...]) -> TensorView:
    return TensorView(0, 4096 * 4, offset, "float32", shape, strides)


@pytest.mark.parametrize(
    ("shape", "offset", "extents", "strides"),
    [
        ((8, 16), 0, (8, 16), (16, 1)),
        ((8, 16), 32, (4, 16), (16, 1)),
        ((8, 16), 5, (8, 3), (16, 1)),
        ((8, 16), 37, (1, 3), (16, 1)),
        ((8, 16), 0, (4, 16), (32, 1)),  # every other row
        ((8, 16), 0, (16, 8), (1, 16)),  # exchanged axes
        ((8, 16), 16, (16,), (1,)),  # a row, without its axis
        ((8, 16), 24, (2, 4), (4, 1)),  # contiguous, across rows
        ((2, 3, 4), 12, (1, 3, 4), (12, 4, 1)),
        ((2, 3, 4), 4, (2, 4), (12, 1)),
        ((8, 16), 0, (0, 16), (16, 1)),
    ],
)
def test_views_are_made_by_calls(
    shape: tuple[int, ...], offset: int, extents: tuple[int, ...], strides: tuple[int, ...]
) -> None:
    array = np.arange(int(np.prod(shape)), dtype=np.int64)
    expected = np.zeros(extents, np.int64)
    for index in product(*map(range, extents)):
        expected[index] = array[offset + sum(i * s for i, s in zip(index, strides, strict=True))]
    try:
        steps = steps_to(shape, 0, view(offset, extents, strides))
    except ArtifactError:
        assert (shape, extents) == ((2, 3, 4), (2, 4))  # two axes of three, neither contiguous nor a window
        return
    assert np.array_equal(taken(array.reshape(shape), steps), expected)


def use(index: int, direction: str, argument: TensorView, before: np.ndarray, after: np.ndarray) -> TaskArgument:
    """An argument whose whole allocation held `before`, and `after` the task `after`."""
    first, last = argument.window
    old, new = before[first:last].tobytes(), after[first:last].tobytes()
    return TaskArgument(index, direction, argument, before=old, after=old if old == new else new)


def task(number: int, *uses: TaskArgument) -> Task:
    return Task(number, number, (-1, 0, -1), args=uses, names=("k",))


def whole(shape: tuple[int, ...]) -> TensorView:
    return TensorView(64, int(np.prod(shape)) * 4, 0, "float32", shape, row_major_strides(shape))


def test_what_others_wrote_in_between_is_an_input_again() -> None:
    zeros, ones, twos = (np.full(16, value, np.float32) for value in (0, 1, 2))
    first = task(0, use(0, "OUT", whole((4, 4)), zeros, ones))
    kept = parameters([first, task(3, use(0, "IN", whole((4, 4)), ones, ones))])
    assert [(one.direction, one.shape) for one in kept] == [("OUT", (4, 4))]
    made = parameters([first, task(3, use(0, "IN", whole((4, 4)), twos, twos))])
    assert [one.direction for one in made] == ["OUT", "IN"]
    assert made[1].initial.view(np.float32).tolist() == twos.tolist()


def test_what_a_task_left_as_it_was_is_an_input() -> None:
    """It may not have been written, so what was there counts; memory that nobody had written is no number there."""
    before, after = np.arange(16, dtype=np.float32), np.arange(16, dtype=np.float32)
    after[:8] += 1
    (one,) = parameters([task(0, use(0, "OUT", whole((4, 4)), before, after))])
    assert one.direction == "INOUT"
    before[8:] = after[8:] = np.nan
    (one,) = parameters([task(0, use(0, "OUT", whole((4, 4)), before, after))])
    assert one.direction == "INOUT" and one.final.view(np.float32)[8:].tolist() == [0.0] * 8


def test_one_tensor_given_twice_is_one_parameter() -> None:
    before, after = np.zeros(16, np.float32), np.ones(16, np.float32)
    uses = (use(0, "OUT", whole((4, 4)), before, after), use(1, "IN", whole((4, 4)), before, after))
    (one,) = parameters([task(0, *uses)])
    assert one.direction == "INOUT" and len(one.uses) == 2


def test_windows_apart_are_parameters_of_their_own() -> None:
    big = np.arange(4096, dtype=np.float32)
    far = (TensorView(64, big.nbytes, offset, "float32", (2, 8), (8, 1)) for offset in (0, 2048))
    made = parameters([task(0, *(use(n, "IN", argument, big, big) for n, argument in enumerate(far)))])
    assert [(one.base, one.shape) for one in made] == [(0, (2, 8)), (2048, (2, 8))]


def test_ranges_and_suffixes() -> None:
    chosen = choose("3-5,9", "", "")
    assert [n for n in range(12) if chosen.takes_number(n)] == [3, 4, 5, 9] and chosen.last == 9
    assert choose("", "", "7").last is None and choose("", "", "7").takes_number(100)
