"""RUNTIME=torch over ranks, and the first task that leaves it: a program of ours for two ranks, all-reduce."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from pypto_build.artifact.distributed import interface_of, load_distributed
from pypto_build.artifact.interface import encode_interface
from pypto_build.compiler.__main__ import main as compile_program
from pypto_build.diagnose.ranks import diverge
from tests.replay.builder import PLATFORM, Replayed, build_artifact, embedded_module, run_tool

_PROGRAM = Path(__file__).parents[2] / "examples" / "distributed" / "dist_allreduce.py"


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The artifact, and beside it what is built of it."""
    root = tmp_path_factory.mktemp("reference")
    assert compile_program([str(_PROGRAM), "--output", str(root / "_jit_dist_allreduce")]) == 0
    _build(root)
    return root


def _build(root: Path) -> None:
    distributed = load_distributed(root / "_jit_dist_allreduce")
    (root / "out").mkdir(exist_ok=True)
    (root / "out" / "interface.json").write_bytes(encode_interface(interface_of(distributed)))
    for name, chip in distributed.chips.items():
        build_artifact(chip, root / "out" / name)


@pytest.fixture
def copied(compiled: Path, tmp_path: Path) -> Path:
    """One to be edited."""
    shutil.copytree(compiled, tmp_path / "copy")
    return tmp_path / "copy"


def _words(root: Path) -> list[str]:
    words = [str(root / "_jit_dist_allreduce"), "--platform", PLATFORM.name, "--build-dir", str(root / "out")]
    words += ["--embedded", str(embedded_module())]
    return [*words, *(word for name in ("publish", "reduce") for word in ("--chip", f"{name}={root / 'out' / name}"))]


def _replay(root: Path) -> Replayed:
    argv = [sys.executable, "-m", "pypto_build.replay.chips", *_words(root), "--runtime", "torch"]
    return run_tool(argv, root / "out")


def _edit(root: Path, name: str, old: str, new: str) -> None:
    path = root / "_jit_dist_allreduce" / name
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def test_ranks_compute_by_torch(compiled: Path) -> None:
    run = _replay(compiled)
    assert run.status == 0, run.stdout + run.stderr
    assert (run.verdict.runtime, run.verdict.status, run.verdict.tasks) == ("torch", "pass", 4)


def test_what_torch_executes_are_the_modules(copied: Path) -> None:
    """An edit of a module counts, whatever the compiled kernel does; and a deadlock is seen at once."""
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
    assert first.startswith(f"{kernel}: error: rank 0 d0 'publish' task 0 'scale_rows' is the first that leaves ")
    assert "argument 'partial__ssa_v0' differs in 256 of 256 elements, first at 0: " in first
