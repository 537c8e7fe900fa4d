"""Bisections through scons and `pypto-build`: revisions of a local clone, and files of two artifacts."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path

import pytest

from tests.interop.standins import STANDIN
from tests.rules.project import Project
from tests.toolchain.test_pins import git

PROGRAM = "def run(tensors, scalars):\n    tensors[1][:] = 2 * tensors[0] + 1\n"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """The artifact of `Project`, in a workspace in which simpler's compilers are called as it calls them."""
    made = Project(tmp_path / "workspace")
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "g++-15").write_text('#!/bin/sh\nexec g++ "$@"\n')
    (programs / "g++-15").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    monkeypatch.setenv("PYPTO_STANDIN_PROGRAM", str(made.write("program.py", PROGRAM)))
    monkeypatch.setenv("PYPTO_BUILD_CACHE", str(tmp_path / "cache"))
    return made


def clone_with_planted_commit(place: Path) -> list[str]:
    """Five revisions of the stand-in, the fourth of which breaks runs; their commits."""
    shutil.copytree(STANDIN, place, ignore=shutil.ignore_patterns("__pycache__"))
    git(place, "init", "-q")
    worker = place / "simpler" / "worker.py"
    for number in range(5):
        worker.write_text(worker.read_text() + f"# revision {number}\n")
        if number == 3:
            broken = worker.read_text().replace(
                "assert self.initialized\n", 'raise RuntimeError("run failed with code -5")\n'
            )
            worker.write_text(broken)
        git(place, "add", "-f", ".")
        git(place, "commit", "-q", "-m", "planted" if number == 3 else f"revision {number}")
    return git(place, "rev-list", "--reverse", "HEAD").split()


def test_a_planted_commit_is_found(tmp_path: Path, project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    clone = tmp_path / "clone"
    commits = clone_with_planted_commit(clone)
    monkeypatch.setenv("SIMPLER_BUILD", "true")
    monkeypatch.setenv("SIMPLER_PYTHON", sys.executable)
    words = ["bisect", "JIT=_jit_chain", "AXIS=simpler", f"GOOD={clone}@{commits[0]}", f"BAD={clone}@{commits[4]}"]
    ran = project.scons(*words)
    assert ran.status == 0, ran.output
    told = ran.output[ran.output.index("[bisect] 4 steps") :].splitlines()
    assert told[:2] == ["[bisect] 4 steps, 0 skipped; bad means: runtime_error", "[bisect] culprit:"]
    assert told[2].endswith(" planted") and told[2].strip().startswith(commits[3][:7])
    record = json.loads((project.out / "bisect.json").read_bytes())
    assert [step["outcome"] for step in record["steps"]] == ["good", "bad", "good", "bad"]
    assert git(clone, "status", "--porcelain") == ""
    # An interrupted one goes on where it was.
    record["culprit"], record["steps"] = [], record["steps"][:3]
    (project.out / "bisect.json").write_text(json.dumps(record))
    ran = project.scons(*words)
    assert "[bisect] going on after 3 steps" in ran.output
    assert ran.output.count("[bisect] bad ") == 1, ran.output


def test_a_file_is_found(tmp_path: Path, project: Project) -> None:
    bad = tmp_path / "bad" / "_jit_chain"
    shutil.copytree(project.artifact, bad)
    for name, old, new in (("twice", "2.0f * in[i]", "in[i] * 2.0f"), ("plus_one", "in[i] + 1.0f", "in[i] - 1.0f")):
        kernel = bad / "kernels" / "aiv" / f"{name}.cpp"
        kernel.write_text(kernel.read_text().replace(old, new))
    ran = project.scons("bisect", "JIT=_jit_chain", "AXIS=kernel", f"GOOD={project.artifact}", f"BAD={bad}")
    assert ran.status == 0, ran.output
    assert ran.output.splitlines()[-2:] == ["[bisect] culprit:", "  kernels/aiv/plus_one.cpp"]


def test_ends_that_make_no_sense(tmp_path: Path, project: Project) -> None:
    same = f"{project.artifact}"
    ran = project.scons("bisect", "JIT=_jit_chain", "AXIS=kernel", f"GOOD={same}", f"BAD={same}")
    message = f"GOOD={same}: has the same kernels and orchestration as BAD={same}; name two that differ"
    assert message in ran.output.splitlines()
    ran = project.scons("bisect", "JIT=_jit_chain", "AXIS=flags", "GOOD=-O1", "BAD=-O2")
    assert "BAD=-O2: passes; name one that fails, or let each run more often with REPEATS=" in ran.output
