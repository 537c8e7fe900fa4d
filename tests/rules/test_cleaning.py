"""``scons -c`` removes what was built and nothing else; ``scons`` alone prints help."""

from __future__ import annotations

import fcntl
import os
import shutil
import time
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from pypto_build.proof.locks import open_lock
from pypto_build.rules import tool
from pypto_build.rules.machinery import cleaning
from pypto_build.rules.machinery.workspace import Workspace
from tests.rules.project import Project


@pytest.fixture
def project(stocked: Project) -> Project:
    """Return a project whose binaries are built; the tests here concern later steps."""
    return stocked


def tree(root: Path) -> set[str]:
    return {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}


def test_clean_leaves_the_workspace_as_it_was(project: Project) -> None:
    before = tree(project.root)
    assert project.replay().status == 0
    assert tree(project.root) > before
    run = project.scons("-c")
    assert run.status == 0
    assert tree(project.root) == before
    assert not (project.root / "build").exists()


def test_clean_of_one_artifact_keeps_the_others(project: Project) -> None:
    assert project.replay().status == 0
    assert project.scons("replay", "JIT=_jit_chain", "PLATFORM=a5sim", "BUILD_DIR=build").status == 0
    (project.root / "build/a2a3sim/other").mkdir()
    (project.root / "build/a2a3sim/other/note.txt").write_text("mine", encoding="utf-8")
    assert project.scons("-c", "JIT=_jit_chain").status == 0
    assert [path for path in tree(project.root) if path.startswith("build/")] == ["build/a2a3sim/other/note.txt"] or {
        "build/a2a3sim/other/note.txt",
        "build/compile_commands.json",
    } == {path for path in tree(project.root) if path.startswith("build/")}


def test_clean_removes_what_the_tools_left(project: Project) -> None:
    before = tree(project.root)
    for words in (
        ["report"],
        ["pack"],
        ["flaky", "ROUNDS=2"],
        ["dump", "TASK=0", "EXPORT=npy"],
        ["deps", "EXPORT=dot"],
    ):
        run = project.scons(*words, "JIT=_jit_chain")
        assert run.status == 0, run.output
    for name in ("report.html", "_jit_chain.tar.zst", "findings/flaky.json", "deps.dot"):
        assert (project.out / name).exists(), name
    assert project.replay("FORCE=1").status == 0
    assert (project.out / "deps.dot").exists()  # what was printed stays
    assert project.scons("-c", "JIT=_jit_chain").status == 0
    assert tree(project.root) - before == {"build/compile_commands.json"}


def test_clean_keeps_files_it_does_not_know(project: Project) -> None:
    assert project.replay().status == 0
    (project.out / "notes.md").write_text("mine", encoding="utf-8")
    assert project.scons("-c").status == 0
    assert [path for path in tree(project.root) if path.startswith("build/")] == ["build/a2a3sim/_jit_chain/notes.md"]


def test_clean_dry_run_removes_nothing(project: Project) -> None:
    assert project.replay().status == 0
    before = tree(project.root)
    run = project.scons("-c", "-n")
    assert "Removed build/a2a3sim/_jit_chain/verdict.json" in run.output
    assert tree(project.root) == before


def test_an_artifact_is_never_written(project: Project) -> None:
    files = {path: path.stat().st_mtime_ns for path in project.artifact.rglob("*")}
    assert project.replay().status == 0
    assert {path: path.stat().st_mtime_ns for path in project.artifact.rglob("*")} == files


def test_scons_alone_prints_help(project: Project) -> None:
    run = project.scons()
    assert run.status == 0
    assert "replay JIT=x" in run.output
    assert run.output.splitlines()[-1] == "Artifacts: _jit_chain"
    assert not (project.root / "build").exists()


def test_what_cannot_be_removed_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """SCons has said how it ends by then, so the process ends here."""

    def refused(*_: object) -> None:
        raise PermissionError(13, "Permission denied", "build/a2a3sim/x/actual")

    ended: list[int] = []
    monkeypatch.setattr(cleaning, "clean_outputs", refused)
    monkeypatch.setattr(os, "_exit", ended.append)
    tool._clean(cast(Workspace, SimpleNamespace(options={"PLATFORM": "a2a3sim"})))
    assert capsys.readouterr().err == "scons: *** build/a2a3sim/x/actual: cannot be removed: Permission denied\n"
    assert ended == [2]


_WAITS = (
    '    FILE* there = fopen("{mark}", "w"); fclose(there); while (access("{go}", F_OK)) usleep(10000);\n'
    "    for (uint32_t i = 0"
)


def test_clean_waits_for_a_run(project: Project, tmp_path: Path) -> None:
    mark, go = tmp_path / "mark", tmp_path / "go"
    project.edit("kernels/aiv/twice.cpp", "    for (uint32_t i = 0", _WAITS.format(mark=mark, go=go))
    includes = "#include <cstdint>\n#include <cstdio>\n#include <unistd.h>"
    project.edit("kernels/aiv/twice.cpp", "#include <cstdint>", includes)
    replay = project.start("pypto_build.cli", "replay", "_jit_chain")
    while not mark.exists() and replay.poll() is None:
        time.sleep(0.01)
    clean = project.start("SCons", "-Q", "-c", "JIT=_jit_chain")
    assert clean.stdout is not None
    first = clean.stdout.readline()
    go.touch()
    assert ("[RUN] PASS" in replay.communicate(timeout=120)[0], replay.returncode) == (True, 0)
    output = clean.communicate(timeout=120)[0]
    assert first.startswith(f"scons: {project.out} is being built by process "), first + output
    assert clean.returncode == 0 and not project.out.exists(), output


def test_a_run_that_waited_for_clean_builds_anew(project: Project) -> None:
    assert project.replay().status == 0
    with open_lock(project.out / ".lock") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        replay = project.start("pypto_build.cli", "replay", "_jit_chain")
        assert replay.stdout is not None and "; waiting for it" in replay.stdout.readline()
        shutil.rmtree(project.out)
    output = replay.communicate(timeout=120)[0]
    assert replay.returncode == 0, output
    assert project.verdict()["status"] == "pass"
    assert (project.out / ".pypto-build").is_file()
