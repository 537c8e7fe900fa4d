"""Artifacts of other shapes: several orchestrations, kernels from elsewhere, names that need care."""

from __future__ import annotations

import shutil

import pytest

from tests.rules.project import Project


@pytest.fixture
def project(stocked: Project) -> Project:
    """Return a project whose binaries are built; the tests here concern later steps."""
    return stocked


def test_every_sub_build_of_a_multi_orchestration_artifact(project: Project) -> None:
    parent = project.artifact.with_name("_jit_pair")
    for name in ("first", "second"):
        shutil.copytree(project.artifact, parent / "next_levels" / name)
    run = project.scons("replay", "JIT=_jit_pair")
    assert run.status == 0, run.output
    assert [action for action in run.actions if action.startswith("run")] == [
        "run _jit_pair.first",
        "run _jit_pair.second",
    ]
    kernel = parent / "next_levels/second/kernels/aiv/twice.cpp"
    kernel.write_text(kernel.read_text(encoding="utf-8").replace("2.0f", "3.0f"), encoding="utf-8")
    run = project.scons("replay", "JIT=_jit_pair")
    assert run.status == 2
    assert run.actions == ["compile kernels/aiv/twice.cpp", "link kernels/aiv/twice.so", "run _jit_pair.second"]
    assert project.scons("replay", "JIT=_jit_pair/next_levels/first").actions == []


def test_external_kernel_with_headers_of_its_own(project: Project) -> None:
    source = project.write("library/src/twice.cpp", "")
    header = project.write("library/include/scale.h", "#define SCALE 2.0f\n")
    project.write_kernel("twice", "SCALE * in[i]", "#include <scale.h>\n")
    (project.artifact / "kernels/aiv/twice.cpp").rename(source)
    project.edit(
        "kernel_config.py",
        'str(_ROOT_DIR / "kernels" / "aiv" / "twice.cpp")',
        f'"{source}", "external": True, "extra_include_dirs": ["{header.parent}"]',
    )
    assert project.replay().status == 0
    header.write_text("#define SCALE 3.0f\n", encoding="utf-8")
    run = project.replay()
    assert (run.status, run.actions) == (
        2,
        ["compile library/src/twice.cpp", "link kernels/aiv/twice.so", "run _jit_chain"],
    )
    assert run.reasons["compile library/src/twice.cpp"] == "content of library/include/scale.h changed"


def test_names_that_a_shell_would_mind(project: Project) -> None:
    moved = project.root / "build output $HOME; touch gone"
    shutil.move(project.artifact.parent, moved)
    run = project.scons("replay", "JIT=_jit_chain", f"BUILD_OUTPUT={moved.name}")
    assert run.status == 0, run.output
    assert project.scons("replay", "JIT=_jit_chain", f"BUILD_OUTPUT={moved.name}").actions == []
    assert not (project.root / "gone").exists()


def test_build_dir_elsewhere(project: Project) -> None:
    run = project.replay("BUILD_DIR=out/of the way")
    assert run.status == 0, run.output
    assert (project.root / "out/of the way/a2a3sim/_jit_chain/verdict.json").exists()
    assert not (project.root / "build").exists()
    assert project.scons("-c", "BUILD_DIR=out/of the way").status == 0
    assert not (project.root / "out/of the way").exists()


def test_a_second_build_waits_for_the_first(project: Project) -> None:
    import fcntl
    import subprocess
    import sys

    assert project.replay().status == 0
    with (project.out / ".lock").open("r+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        command = [sys.executable, "-m", "SCons", "-Q", "build", "JIT=_jit_chain"]
        second = subprocess.Popen(
            command, cwd=project.root, env=project.environment(), stderr=subprocess.PIPE, text=True
        )
        assert second.stderr is not None
        assert second.stderr.readline().startswith(f"scons: {project.out} is being built by process ")
        fcntl.flock(lock, fcntl.LOCK_UN)
        assert second.wait(timeout=60) == 0
        second.stderr.close()
