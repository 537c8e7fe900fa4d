"""A machine on which tools cannot be watched: it says so once, first, and passes say that they are unproven."""

from __future__ import annotations

from pathlib import Path

from pypto_build.proof import Action
from pypto_build.replay.report import last_line
from pypto_build.replay.verdict import Verdict
from pypto_build.rules.embedded_runtime import runtime_step
from pypto_build.rules.machinery.workspace import Workspace
from pypto_build.rules.options import parse_options
from pypto_build.runtime.build import headers, sources
from pypto_build.toolchain.host import find_compiler
from tests.rules.project import Project

LINE = (
    "pypto-build: what tools read cannot be watched here, so nothing but the runtime is kept and a pass is unproven: "
    "{} does not compile the library that watches: witness.cpp:1:1: error: no headers; name another compiler with CXX="
)

RUNTIME = "build the embedded runtime, once"  # by the first of these tests in a home


def _compiler(directory: Path) -> Path:
    """A compiler that compiles everything but the library."""
    path = directory / "cxx"
    refuses = 'case $a in *witness.cpp) echo "witness.cpp:1:1: error: no headers" >&2; exit 1;; esac'
    path.write_text(f'#!/bin/sh\nfor a; do {refuses}; done\nexec {find_compiler().path} "$@"\n')
    path.chmod(0o755)
    return path


def test_it_is_said_once_and_everything_is_built_again(tmp_path: Path) -> None:
    compiler, project = _compiler(tmp_path), Project(tmp_path / "project")
    project.write_artifact()
    words = ("build", "JIT=_jit_chain", f"CXX={compiler}")
    first, second = project.scons(*words), project.scons(*words)
    repeated = [action for action in first.actions if action != RUNTIME]
    assert (first.status, second.status, second.actions) == (0, 0, repeated), second.output
    for run in (first, second):
        assert run.output.splitlines()[0] == LINE.format(compiler)
        assert run.output.count("cannot be watched") == 1
    runs = project.scons("replay", *words[1:]), project.scons("replay", *words[1:])
    for run in runs:  # what was built is kept for a run, the runtime for this user
        assert (run.status, RUNTIME in run.actions) == (0, False), run.output
        assert run.output.splitlines()[-1].startswith("[RUN] PASS (unproven: what tools read cannot be watched here) (")
    assert [run.actions for run in runs] == [sorted([*repeated, "run _jit_chain"])] * 2
    assert project.verdict()["unproven"] == "what tools read cannot be watched here"


def test_sources_and_compiler_stand_for_what_the_runtime_reads(tmp_path: Path) -> None:
    def action(compiler: str) -> Action:
        options = parse_options({"CXX": compiler})
        return runtime_step(Workspace(tmp_path, options, whole_graph=False)).action

    compiler = str(_compiler(tmp_path))
    unwatched, watched = action(compiler), action(find_compiler().path)
    assert (unwatched.assumed, unwatched.shared, watched.assumed, watched.shared) == (True, False, False, True)
    assert sorted(unwatched.inputs) == sorted(map(str, (*sources(), *headers(), compiler)))
    assert watched.inputs == ()


def test_a_pass_says_so() -> None:
    verdict = Verdict("pass", "a", "a2a3sim", "embedded", unproven="nothing is watched")
    assert last_line(verdict, 0.25) == "PASS (unproven: nothing is watched) (0.25s)"


def test_a_cache_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    project = Project(tmp_path / "project")
    project.write_artifact()
    run = project.scons("build", "JIT=_jit_chain", env={"PYPTO_BUILD_CACHE": "/dev/null/x"})
    reason = "/dev/null/x cannot be written; name another directory with PYPTO_BUILD_CACHE"
    assert run.status == 2 and run.output.count(reason) == 1 and "CXX=" not in run.output, run.output
