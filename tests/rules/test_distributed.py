"""Distributed artifacts from an edit to a verdict: every chip program's files are nodes, and the driver runs late."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.rules.project import Project

_EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "distributed" / "_jit_dist_allreduce"
_KERNEL = "next_levels/publish/kernels/aiv/scale_rows.cpp"


@pytest.fixture
def allreduce(project: Project) -> Project:
    """A workspace with a copy of the example."""
    project.artifact = project.root / "build_output" / _EXAMPLE.name
    project.out = project.root / "build" / "a2a3sim" / _EXAMPLE.name
    shutil.copytree(_EXAMPLE, project.artifact)
    return project


def test_one_edit_is_one_compile(allreduce: Project) -> None:
    run = allreduce.replay()
    assert run.status == 0, run.output
    verdict = allreduce.verdict()
    assert (verdict["status"], verdict["tasks"], verdict["cached"]) == ("pass", 4, False)
    assert allreduce.replay().actions == []
    assert allreduce.verdict()["cached"] is True
    allreduce.edit(_KERNEL, "TMULS(v9, v8, v3);", "TMULS(v9, v8, 2.0f * v3);")
    run = allreduce.replay()
    assert (run.status, run.actions) == (
        2,
        [f"compile {_KERNEL}", "link kernels/aiv/scale_rows.so", "run _jit_dist_allreduce"],
    )
    assert allreduce.verdict()["status"] == "mismatch"
    allreduce.edit(_KERNEL, "TMULS(v9, v8, 2.0f * v3);", "TMULS(v9, v8, v3);")
    assert allreduce.replay().status == 0


def test_the_driver_is_an_input_and_runs_in_the_replay_alone(allreduce: Project) -> None:
    mark = allreduce.root / "driver ran"
    allreduce.edit(
        "orchestration/host_orch.py", "import torch\n", f"import torch\nopen({str(mark)!r}, 'a').write('x')\n"
    )
    assert allreduce.scons("build", f"JIT={allreduce.artifact.name}").status == 0
    assert allreduce.scons("graph", f"JIT={allreduce.artifact.name}").status == 0
    assert not mark.exists()
    assert allreduce.replay().status == 0
    assert mark.read_text() == "x"
    allreduce.edit("orchestration/host_orch.py", 'tensors["x"][r, 0:256]', 'tensors["x"][0, 0:256]')
    run = allreduce.replay()
    assert (run.status, run.actions) == (2, ["run _jit_dist_allreduce", "sign orchestration/host_orch.py"])
    assert allreduce.verdict()["status"] == "mismatch"


def test_faults_of_the_driver_name_its_line(allreduce: Project) -> None:
    allreduce.edit("orchestration/host_orch.py", 'callables["reduce"]', 'callables["reduse"]')
    text = (allreduce.artifact / "orchestration/host_orch.py").read_text().splitlines()
    line = next(number for number, line in enumerate(text, 1) if "reduse" in line)
    run = allreduce.replay()
    assert f"runtime_error: orchestration/host_orch.py:{line}: KeyError: there is no 'reduse'" in run.output
    assert "Traceback" not in run.output


def test_other_tools_say_what_to_name(allreduce: Project) -> None:
    run = allreduce.quiet("dump", f"JIT={allreduce.artifact.name}")
    assert run.status == 2
    assert run.output.strip().splitlines()[-1] == (
        f"scons: *** {allreduce.artifact}: is distributed, and 'scons dump' looks at one chip program; "
        "JIT= one of _jit_dist_allreduce/next_levels/publish, _jit_dist_allreduce/next_levels/reduce"
    )


_SUM = "next_levels/reduce/kernels/aiv/sum_ranks.cpp"
_WAIT = "comm::TWAIT(v12, static_cast<int32_t>(1), comm::WaitCmp::GE);"


def _findings(project: Project) -> list[str]:
    """What `scons hazards` reports, without numbers of lines and ranks that a schedule chooses."""
    run = project.quiet("hazards", f"JIT={project.artifact.name}")
    return [line for line in run.output.splitlines() if "[hazards/" in line]


def test_hazards_between_ranks(allreduce: Project) -> None:
    assert _findings(allreduce) == []
    # A read that no wait orders after the other rank's write.
    allreduce.edit(_SUM, _WAIT, "(void)v12;")
    text = (allreduce.artifact / _SUM).read_text().splitlines()
    own, others = (
        next(n for n, line in enumerate(text, 1) if f"TLOAD({tile})" in line) for tile in ("v13, v17", "v14, v18")
    )
    assert _findings(allreduce) == [
        f"{_SUM}:{line}: error: rank {reader} d1 'reduce' kernel 'sum_ranks' TLOAD reads comm_d0.partial_buf+0..1023 of "
        f"rank {writer}, which rank {writer} d0 'publish' kernel 'scale_rows' TSTORE writes: no notify and wait order the "
        "two [hazards/unordered-ranks]"
        for line, reader, writer in ((own, 1, 0), (others, 0, 1))
    ]
    allreduce.edit(_SUM, "(void)v12;", _WAIT)
    # All ranks set one cell: what one notified is lost.
    allreduce.edit(
        _SUM, "comm::Signal v12(peer_address(v4, v2 + v10, v11));", "comm::Signal v12(peer_address(v4, v2, v11));"
    )
    allreduce.edit(
        _SUM,
        "comm::TNOTIFY(v12, static_cast<int32_t>(1), comm::NotifyOp::AtomicAdd);",
        "comm::TNOTIFY(v12, static_cast<int32_t>(1), comm::NotifyOp::Set);",
    )
    allreduce.edit(_SUM, "comm::Signal v12(v2 + v11);\n    comm::TWAIT", "comm::Signal v12(v2);\n    comm::TWAIT")
    assert any(
        "a set overwrites what the others have notified [hazards/signal-set-by-several]" in line
        for line in _findings(allreduce)
    )


def test_a_window_that_is_written_again_too_early(allreduce: Project) -> None:
    """The next round's publish does not wait until the peers have read."""
    driver = allreduce.artifact / "orchestration/host_orch.py"
    text = driver.read_text()
    start = text.index("        for r in range(0, world_size, 1):")
    end = text.index("\n\n\ndist_allreduce._pypto")
    driver.write_text(text[:end] + "\n" + text[start:end] + text[end:])
    kernel = "next_levels/publish/kernels/aiv/scale_rows.cpp"
    lines = (allreduce.artifact / kernel).read_text().splitlines()
    line = next(number for number, line in enumerate(lines, 1) if "TSTORE" in line)
    assert _findings(allreduce) == [
        f"{kernel}:{line}: error: rank {writer} d2 'publish' kernel 'scale_rows' TSTORE writes comm_d0.partial_buf+0..1023 "
        f"of rank {writer}, which rank {reader} d1 'reduce' kernel 'sum_ranks' TLOAD reads: no notify and wait order the "
        "two [hazards/window-reused-early]"
        for writer, reader in ((0, 1), (1, 0))
    ]
