"""Views of the graph know of a program's chain: from a fresh checkout, after the first run, and after an edit."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.rules.project import Project
from tests.rules.test_watch import watching

pytest.importorskip("torch")

PROGRAM = """import pypto_build.compiler.language as pl

M = pl.Tensor[[16, 16], pl.FP32]


@pl.jit.incore
def twice(x: M, y: pl.Out[M]):
    pl.store(pl.load(x, [0, 0], [16, 16]) * 2.0, [0, 0], y)


@pl.jit
def prog(x: M, y: pl.Out[M]):
    twice(x, y)


@prog.reference
def reference(x, y):
    y[:] = x * 2
"""
SCRIPT = """from pypto_build.rules import pypto

env = Environment(tools=[pypto])
env.ReplayTest(name="t", artifact=env.PtoProgram(name="p", source="p.py"))
"""
_ART, _OUT = "build_output/_jit_p", "build/a2a3sim/_jit_p"
_GENERATED = [
    f"{_ART}/{name}"
    for name in ("compiled_meta.json", "data/in/x.pt", "data/out/y.pt", "golden.py", "kernel_config.py",
                 "kernels/aiv/twice.cpp", "orchestration/prog.cpp", "ptoas/twice.pto")
]  # fmt: skip
_BUILT = [
    f"{_OUT}/{name}"
    for name in ("interface.json", "kernel_config.py", "kernels/aiv/twice.o", "kernels/aiv/twice.so",
                 "orchestration/prog.o", "orchestration/prog.so")
]  # fmt: skip
_UNITS = [f"{verb} {name}" for verb, suffix in (("compile", "cpp"), ("link", "so"))
          for name in (f"kernels/aiv/twice.{suffix}", f"orchestration/prog.{suffix}")]  # fmt: skip
_GRAPH = """_jit_p  build/a2a3sim/_jit_p
  verdict.json
    kernels/aiv/twice.so{built}
      kernels/aiv/twice.o{built}
        kernels/aiv/twice.cpp
          ptoas/twice.pto
    orchestration/prog.so{built}
      orchestration/prog.o{built}
        orchestration/prog.cpp
    interface.json{built}
      kernel_config.py
      orchestration/prog.cpp
      compiled_meta.json
    data/in/x.pt
    data/out/y.pt
"""
_BEFORE = """+-t
  +-build/.test.t
    +-inputs 1
      +-build_output/_jit_p
"""


@pytest.fixture
def project(tmp_path: Path, runtime: Path) -> Project:
    """A fresh checkout of a program with its test."""
    project = Project(tmp_path / "here")
    shutil.rmtree(project.artifact.parent)
    project.write("p.py", PROGRAM)
    project.write("SConstruct", SCRIPT)
    return project


def answer(project: Project, question: str) -> list[str]:
    """The names of an answer, but for those outside of the workspace."""
    run = project.quiet("query", question)
    assert run.status == 0, run.output
    return [line for line in run.output.splitlines() if not line.startswith("/")]


def test_views_of_a_chain(project: Project) -> None:
    made = ["compile p.py", f"make {_ART}/data"]
    assert answer(project, "deps(t)") == [_ART, f"{_ART}/kernel_config.py", "p.py", "t"]
    verdict = f"{_OUT}/replays/default/verdict.json"
    assert answer(project, "rdeps(p.py)") == [verdict, _ART, f"{_ART}/kernel_config.py", "p", "p.py", "t", "test"]
    run = project.scons("-n", "t", "--tree=all")
    assert (run.status, run.actions) == (0, made) and _BEFORE in run.output, run.output
    assert not (project.root / "build_output").exists() and not (project.root / _OUT).exists()

    run = project.scons("graph", "JIT=_jit_p")  # what it consists of is known when it is made
    assert (run.status, run.actions) == (0, made), run.output
    assert run.output.endswith(_GRAPH.format(built="  (to be built: not built before)"))

    assert project.scons("t").actions == [*_UNITS, "run _jit_p", "sign kernel_config.py"]
    assert project.scons("-n", "t").actions == []
    assert project.quiet("graph", "JIT=_jit_p").output == _GRAPH.format(built="")
    entries = json.loads((project.root / "build/compile_commands.json").read_bytes())
    assert [entry["file"] for entry in entries] == [
        str(project.root / _ART / name) for name in ("kernels/aiv/twice.cpp", "orchestration/prog.cpp")
    ]
    assert answer(project, "deps(t)") == sorted([*_BUILT, *_GENERATED, _ART, "p.py", "t"])
    assert answer(project, "deps(p)") == [_ART, f"{_ART}/kernel_config.py", "p", "p.py"]
    assert set(answer(project, "rdeps(p.py)")) > {*_BUILT, *_GENERATED, verdict, "p", "t", "test"}
    assert answer(project, f"rdeps({_ART}/kernels/aiv/twice.cpp)") == sorted([
        f"{_OUT}/kernels/aiv/twice.o", f"{_OUT}/kernels/aiv/twice.so", verdict, f"{_ART}/kernels/aiv/twice.cpp", "t",
        "test",
    ])  # fmt: skip
    assert answer(project, f"somepath({_OUT}/kernels/aiv/twice.so, p.py)") == [
        f"{_OUT}/kernels/aiv/twice.so", f"{_OUT}/kernels/aiv/twice.o", f"{_ART}/kernels/aiv/twice.cpp", _ART,
        f"{_ART}/kernel_config.py", "p.py",
    ]  # fmt: skip
    assert answer(project, "kind('source', deps(t))") == ["p.py"]
    run = project.scons("-n", "t", "--tree=all")
    assert (run.status, run.actions) == (0, [])
    lines = [line.strip(" |") for line in run.output.splitlines()]
    at = lines.index(f"+-{_OUT}/kernels/aiv/twice.so")
    assert lines[at : at + 4] == [
        f"+-{_OUT}/kernels/aiv/twice.so", f"+-{_OUT}/kernels/aiv/twice.o", f"+-{_ART}/kernels/aiv/twice.cpp",
        f"+-{_ART}/ptoas/twice.pto",
    ]  # fmt: skip

    project.edit_file("p.py", "* 2.0", "* (1.0 + 1.0)")
    assert project.scons("-n", "t").actions == ["compile p.py"]
    project.edit_file("p.py", "[16, 16]) * (1.0 + 1.0)", "[16, 16]) * 3.0")
    project.edit_file("p.py", "x * 2", "x * 3")
    assert project.scons("-n", "t").actions == ["compile p.py"]
    kernel = [action for action in _UNITS if "kernels" in action]
    assert project.scons("t").actions == sorted([*kernel, "compile p.py", f"make {_ART}/data", "run _jit_p"])
    assert project.scons("-n", "t").actions == []


@pytest.mark.parametrize("words", [("t",), ("replay", "JIT=_jit_p")], ids=["a test", "an artifact"])
def test_watch_sees_an_edit_of_a_program(project: Project, words: tuple[str, ...]) -> None:
    """A save of the program is a round with what it changes; what the round writes of the artifact is none."""
    rebuilt = ["compile kernels/aiv/twice.cpp", "compile p.py", "link kernels/aiv/twice.so", "run _jit_p"]
    with watching(project, *words) as rounds:
        first = rounds.round()
        assert "run _jit_p" in first.actions and "compile p.py" in first.actions, first.output
        project.edit_file("p.py", "* 2.0", "* 3.0")
        run = rounds.round()
        assert run.output.startswith("[watch] p.py changed\n") and run.actions == rebuilt, run.output
        assert "FAIL" in run.output
        project.edit_file("p.py", "* 3.0", "* (1.0 + 1.0)")
        run = rounds.round()
        assert run.actions == ["compile p.py", "restored kernels/aiv/twice.so"], run.output
        assert "[RUN] PASS (cached)" in run.output, run.output
