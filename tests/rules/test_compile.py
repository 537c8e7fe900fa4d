"""A program to an artifact, and on to a verdict."""

from __future__ import annotations

from pathlib import Path

from tests.rules.project import Project

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def test_compile_and_replay(project: Project) -> None:
    project.write("prog.py", (EXAMPLES / "vector_dag.py").read_text(encoding="utf-8"))
    run = project.scons("compile", "PROGRAM=prog.py")
    assert (run.status, run.actions) == (0, ["compile prog.py"]), run.output
    assert project.scons("compile", "PROGRAM=prog.py").actions == []
    run = project.scons("replay", "JIT=_jit_prog", "RTOL=1e-5", "ATOL=1e-4")
    assert run.status == 0, run.output
    project.edit_file("prog.py", "pl.load(a, [0, 0], [N, N]) * pl.load(b", "pl.load(b, [0, 0], [N, N]) * pl.load(a")
    run = project.scons("compile", "PROGRAM=prog.py")
    assert run.reasons == {"compile prog.py": "content of prog.py changed"}
    run = project.scons("replay", "JIT=_jit_prog", "RTOL=1e-5", "ATOL=1e-4")
    assert run.status == 0, run.output
    compiled = [action for action in run.actions if action.startswith("compile")]
    assert compiled == ["compile kernels/aiv/kernel_mul.cpp"]


def test_a_lost_artifact_is_compiled_again(project: Project) -> None:
    project.write("prog.py", (EXAMPLES / "hello_world.py").read_text(encoding="utf-8"))
    assert project.scons("compile", "PROGRAM=prog.py").status == 0
    (project.root / "build_output/_jit_prog/kernel_config.py").unlink()
    assert project.scons("compile", "PROGRAM=prog.py").actions == ["compile prog.py"]
    assert (project.root / "build_output/_jit_prog/kernel_config.py").exists()


def test_pypto_itself(project: Project) -> None:
    """Its process runs where PYTHON= says; the rule is the same otherwise."""
    project.write("prog.py", "import pypto\n")
    run = project.scons("compile", "PROGRAM=prog.py", "COMPILER=pypto", "PYTHON=/nowhere/python")
    assert run.status == 2
    assert "error: /nowhere/python: cannot be run: No such file or directory; PYTHON= names it\n" in run.output
    assert not (project.root / "build_output/_jit_prog").exists()


def test_the_rule(project: Project) -> None:
    project.write("prog.py", (EXAMPLES / "hello_world.py").read_text(encoding="utf-8"))
    project.write(
        "SConstruct",
        "from pypto_build.rules import pypto\n"
        "env = Environment(tools=[pypto])\n"
        "env.PtoProgram(name='hello', source='prog.py')\n",
    )
    run = project.scons("hello")
    assert (run.status, run.actions) == (0, ["compile prog.py"]), run.output
    assert (project.root / "build_output/_jit_hello/kernel_config.py").exists()


def test_mistakes(project: Project) -> None:
    run = project.scons("compile")
    assert run.output == (
        "scons: *** PROGRAM=: 'scons compile' needs a program; name a Python file, such as examples/vector_dag.py\n"
    )
    run = project.scons("compile", "PROGRAM=nothing.py")
    assert run.output == "scons: *** nothing.py: no such file; PROGRAM= and source name a program in Python\n"
    project.write(
        "prog.py",
        "import pypto_build.compiler.language as pl\n\n@pl.jit\ndef f(x: pl.Tensor[[4], pl.FP32]):\n    x +\n",
    )
    run = project.scons("compile", "PROGRAM=prog.py")
    assert run.status == 2
    assert "Traceback" not in run.output
    assert "prog.py:5" in run.output
    assert not (project.root / "build_output/_jit_prog").exists()
