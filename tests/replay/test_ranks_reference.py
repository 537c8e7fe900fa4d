"""RUNTIME=torch over ranks, and the first task with another result: an all-reduce program for two ranks."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from pypto_build.artifact.distributed import interface_of, load_distributed
from pypto_build.artifact.interface import encode_interface
from pypto_build.diagnose.diverge import __main__ as diverge
from tests.compiler.programs import compile_with_data
from tests.replay.builder import PLATFORM, Replayed, build_artifact, embedded_module, run_tool

_NAME = "_jit_dist_allreduce"
_PROGRAM = Path(__file__).parents[2] / "examples" / "distributed" / "dist_allreduce.py"


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the artifact, with its build beside it."""
    root = tmp_path_factory.mktemp("reference")
    compile_with_data(_PROGRAM, root / _NAME)
    _build(root)
    return root


def _build(root: Path, name: str = _NAME) -> tuple[str, ...]:
    distributed = load_distributed(root / name)
    (root / "out").mkdir(exist_ok=True)
    (root / "out" / "interface.json").write_bytes(encode_interface(interface_of(distributed)))
    for program, chip in distributed.chips.items():
        build_artifact(chip, root / "out" / program)
    return tuple(distributed.chips)


@pytest.fixture
def copied(compiled: Path, tmp_path: Path) -> Path:
    """Return a copy of the artifact to edit."""
    shutil.copytree(compiled, tmp_path / "copy")
    return tmp_path / "copy"


def _words(root: Path, name: str = _NAME, programs: Sequence[str] = ("publish", "reduce")) -> list[str]:
    words = [str(root / name), "--platform", PLATFORM.name, "--build-dir", str(root / "out")]
    words += ["--embedded", str(embedded_module())]
    return [*words, *(word for chip in programs for word in ("--chip", f"{chip}={root / 'out' / chip}"))]


def _replay(root: Path) -> Replayed:
    argv = [sys.executable, "-m", "pypto_build.replay.chips", *_words(root), "--runtime", "torch"]
    return run_tool(argv, root / "out")


def _edit(root: Path, name: str, old: str, new: str) -> None:
    path = root / _NAME / name
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def test_ranks_compute_by_torch(compiled: Path) -> None:
    run = _replay(compiled)
    assert run.status == 0, run.stdout + run.stderr
    assert (run.verdict.runtime, run.verdict.status, run.verdict.tasks) == ("torch", "pass", 4)


def test_what_torch_executes_are_the_modules(copied: Path) -> None:
    """Edit a module: the result follows it and not the compiled kernel; a deadlock is detected at once."""
    module = "next_levels/reduce/ptoas/sum_ranks.pto"
    _edit(
        copied,
        module,
        "pto.comm.twait(%arrived__ssa_v0_pview_20, %c1_i32",
        "pto.comm.twait(%arrived__ssa_v0_pview_20, %c9",
    )
    _edit(
        copied,
        module,
        "  %c1_i32 = arith.constant 1 : i32\n",
        "  %c1_i32 = arith.constant 1 : i32\n  %c9 = arith.constant 9 : i32\n",
    )
    run = _replay(copied)
    assert run.status == 6, run.stdout + run.stderr
    assert run.verdict.error is not None
    assert "rank 0 d1 'reduce' kernel 'sum_ranks' (task 0) waits for comm_d0" in run.verdict.error.message
    assert "waits for comm_d0." in run.verdict.error.message and ">= 9, it is 1" in run.verdict.error.message


def test_the_first_task_that_leaves_the_reference(
    compiled: Path, copied: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert diverge.main(_words(compiled)) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "[diverge] _jit_dist_allreduce: nothing found"
    kernel = "next_levels/publish/kernels/aiv/scale_rows.cpp"
    _edit(copied, kernel, "tmp1__ssa_v0, arg2)", "tmp1__ssa_v0, arg2 * 2)")
    _build(copied)
    assert diverge.main(_words(copied)) == 1
    first = capsys.readouterr().out.splitlines()[0]
    line = 1 + next(i for i, text in enumerate((copied / _NAME / kernel).read_text().split("\n")) if "arg2 * 2" in text)
    assert re.match(
        (
            rf"{kernel}:{line}: error: rank [01] d0 'publish' task 0 'scale_rows' is the first "
            rf"task that differs from "
        ),
        first,
    )
    assert "argument 'partial__ssa_v0' differs in 256 of 256 elements, first at 0: " in first


def test_a_collective_is_what_torch_distributed_says(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Break a collective in kernel and module alike: the fault is found, and later tasks get the right rows."""
    source, name = Path(__file__).parents[1] / "rules" / "programs" / "dist_exchanged.py", "_jit_exchanged"
    compile_with_data(source, tmp_path / name)
    names = _build(tmp_path, name)
    argv = [sys.executable, "-m", "pypto_build.replay.chips", *_words(tmp_path, name, names)]
    run = run_tool(argv, tmp_path / "out")
    assert (run.status, run.verdict.status) == (0, "pass"), run.stdout + run.stderr
    (chip,) = (tmp_path / name / "next_levels").glob("builtin.*")
    for pattern, old, new in (("kernels/aiv/*.cpp", " < 4 ? ", " > 4 ? "), ("ptoas/*.pto", ".minsi ", ".maxsi ")):
        (path,) = chip.glob(pattern)
        text = path.read_text()
        assert text.count(old) == 1
        path.write_text(text.replace(old, new))
    _build(tmp_path, name)
    run = run_tool([*argv, "--runtime", "torch"], tmp_path / "out")
    assert (run.status, run.verdict.status) == (0, "pass"), run.stdout + run.stderr
    capsys.readouterr()
    assert diverge.main(_words(tmp_path, name, names)) == 1
    first = capsys.readouterr().out.splitlines()[0]
    subject = r": error: rank [01] d1 'builtin.tensor.all_to_all_v__fp32__8x64' task 0 'builtin_tensor_all_to_all_v__"
    assert re.search(subject, first), first
    assert "by torch.distributed's all_to_all_v " in first
