"""A program to an artifact, and on to a verdict."""

from __future__ import annotations

import os

from tests.rules.project import Project

PROGRAM = """\
import pypto_build.compiler.language as pl

M = pl.Tensor[[16, 16], pl.FP32]


@pl.jit.incore
def twice(x: M, y: pl.Out[M]):
    pl.store(pl.load(x, [0, 0], [16, 16]) * 2.0, [0, 0], y)


@pl.jit.incore
def square(x: M, y: pl.Out[M]):
    t = pl.load(x, [0, 0], [16, 16])
    pl.store(pl.matmul(t, t), [0, 0], y)


@pl.jit.incore
def fused(x: M, y: pl.Out[M]):
    t = pl.load(x, [0, 0], [16, 16])
    pl.store(pl.relu(pl.matmul(t, t)), [0, 0], y)


@pl.jit
def prog(x: M, y: pl.Out[M]):
    a = pl.create_tensor([16, 16], pl.FP32)
    b = pl.create_tensor([16, 16], pl.FP32)
    twice(x, a)
    square(a, b)
    fused(b, y)
"""
REFERENCE = """

@prog.reference(rtol=1e-3, atol=1e-2)
def reference(x, y):
    a = x * 2
    y[:] = (a @ a @ a @ a).relu()
"""
DATA = "make build_output/_jit_prog/data"


def test_a_program_edit_rebuilds_what_it_changes(project: Project) -> None:
    """Edit one of three kernels, one of them mixed: the binaries of the others are kept.

    The golden is made again only when the reference changed, or the data differ from those that were made.
    """
    data = project.root / "build_output/_jit_prog/data"
    project.write("prog.py", PROGRAM + REFERENCE)
    run = project.scons("compile", "PROGRAM=prog.py")
    assert (run.status, run.actions) == (0, ["compile prog.py", DATA]), run.output
    assert "[pto] next: scons replay JIT=_jit_prog\n" in run.output
    assert "[pto] wrote build_output/_jit_prog/golden.py\n" in run.output
    run = project.scons("replay", "JIT=_jit_prog")
    assert run.status == 0, run.output
    kernels = ["aic/fused_aic", "aic/square", "aiv/fused_aiv", "aiv/twice"]
    for step in ("compile kernels/{}.cpp", "link kernels/{}.so"):
        assert [action for action in run.actions if action.startswith(step[:12])] == list(map(step.format, kernels))

    project.edit_file("prog.py", "pl.load(x, [0, 0], [16, 16]) * 2.0", "2.0 * (pl.load(x, [0, 0], [16, 16]) + 0.0)")
    run = project.scons("compile", "PROGRAM=prog.py")
    assert run.reasons == {"compile prog.py": "content of prog.py changed"}
    run = project.scons("replay", "JIT=_jit_prog")
    edited = ["compile kernels/aiv/twice.cpp", "link kernels/aiv/twice.so", "run _jit_prog"]
    assert (run.status, run.actions) == (0, edited), run.output

    project.edit_file("prog.py", "pl.relu(pl.matmul(t, t))", "pl.maximum(pl.matmul(t, t), 0.0)")
    project.edit_file("prog.py", "relu()", "relu() + 0.0 * x")
    assert project.scons("compile", "PROGRAM=prog.py").actions == ["compile prog.py", DATA]
    run = project.scons("replay", "JIT=_jit_prog")
    members = [
        "compile kernels/aic/fused_aic.cpp",
        "compile kernels/aiv/fused_aiv.cpp",
        "link kernels/aiv/fused_aiv.so",
    ]
    assert (run.status, [a for a in run.actions if a != "link kernels/aic/fused_aic.so"]) == (
        0,
        [*members, "run _jit_prog"],
    ), run.output

    before = {path: path.read_bytes() for path in data.rglob("*.pt")}
    (data / "out/y.pt").unlink()
    assert project.scons("compile", "PROGRAM=prog.py").reasons == {DATA: "data is not as it was computed"}
    assert {path: path.read_bytes() for path in data.rglob("*.pt")} == before
    run = project.scons("compile", "PROGRAM=prog.py")
    assert (run.actions, "scons: `compile' is up to date.\n" in run.output) == ([], True), run.output


def test_options_of_a_compilation(project: Project) -> None:
    """A lost file is compiled again; the API's generation, dumps, and what is left without ptoas."""
    project.write("prog.py", PROGRAM)
    artifact = project.root / "build_output/_jit_prog"
    assert project.scons("compile", "PROGRAM=prog.py").status == 0
    assert not (artifact / "passes_dump").exists()
    (artifact / "kernel_config.py").unlink()
    assert project.scons("compile", "PROGRAM=prog.py").actions == ["compile prog.py"]
    assert (artifact / "kernel_config.py").exists()
    project.scons("compile", "PROGRAM=prog.py", "VINTAGE=2026-05", "DUMP_PASSES=1")
    assert "from_tensor_arg(orch_args.tensor(0))" in (artifact / "orchestration/prog.cpp").read_text(encoding="utf-8")
    assert sorted(path.name for path in (artifact / "passes_dump").iterdir()) == [
        "00_frontend.py", "01_after_flatten_calls.py", "02_after_convert_to_ssa.py", "03_after_infer_types.py",
        "04_after_infer_memory.py", "05_after_expand_mixed.py", "06_after_split_lanes.py",
        "07_after_plan_addresses.py",
    ]  # fmt: skip
    assert project.scons("compile", "PROGRAM=prog.py", "PTOAS=/nowhere").output == (
        "scons: *** PTOAS=/nowhere: no such program; name the ptoas executable, or use PTOAS=own "
        "for the built-in assembler\n"
    )
    project.scons("compile", "PROGRAM=prog.py", "SKIP_PTOAS=1")
    assert sorted(str(path.relative_to(artifact)) for path in artifact.rglob("*") if path.is_file()) == [
        "compiled_files.json", "compiled_meta.json", "kernels/aic/square.pto", "kernels/aiv/twice.pto",
        "kernels/fused.pto", "orchestration/prog.cpp",
    ]  # fmt: skip


def test_pypto_itself(project: Project) -> None:
    """Its process runs where PYTHON= says; the rule is the same otherwise."""
    project.write("prog.py", "import pypto\n")
    run = project.scons("compile", "PROGRAM=prog.py", "COMPILER=pypto", "PYTHON=/nowhere/python")
    assert run.status == 2
    assert (
        "error: /nowhere/python: cannot be run: No such file or directory; name the Python interpreter with PYTHON=\n"
    ) in run.output
    assert not (project.root / "build_output/_jit_prog").exists()


def test_the_rule(project: Project) -> None:
    project.write("prog.py", PROGRAM)
    project.write(
        "SConstruct",
        "from pypto_build.rules import pypto\n"
        "env = Environment(tools=[pypto])\n"
        "env.PtoProgram(name='hello', source='prog.py')\n",
    )
    run = project.scons("hello")
    assert (run.status, run.actions) == (0, ["compile prog.py", "make build_output/_jit_hello/data"]), run.output
    assert "[pto->cpp] assembler: our own; PTOAS= names another\n" in run.output
    assert (project.root / "build_output/_jit_hello/kernel_config.py").exists()


def test_variables_that_a_program_sees(project: Project) -> None:
    """It sees those that are part of the key, and `VARIABLES=` adds more; each other one is hidden."""
    seen = "import os\nSEEN = sorted({'HOME', 'TERM', 'COLUMNS', 'SCALE', 'PYPTO_SCALE', 'LANG'} & os.environ.keys())\n"
    seen += "print('sees', *(f'{name}={os.environ[name]}' for name in SEEN), end=' .\\n')\n"
    project.write("prog.py", f"{seen}\n{PROGRAM}")

    def compiled(value: str, *words: str) -> tuple[list[str], list[str]]:
        environment = {**os.environ, **dict.fromkeys(("TERM", "COLUMNS", "SCALE", "PYPTO_SCALE"), value)}
        run = project.scons("compile", "PROGRAM=prog.py", *words, env=environment)
        assert run.status == 0, run.output
        shown = [word for line in run.output.splitlines() if "sees " in line for word in line.split() if "=" in word]
        return run.actions[:1], sorted(set(shown))

    first, shown = compiled("40")
    assert first == ["compile prog.py"]
    hidden = {word.partition("=")[0] for word in shown}
    assert compiled("40") == ([], [])
    repeated, shown_again = compiled("41")
    words = [word for word in shown if "40" in word]
    assert repeated == (["compile prog.py"] if words else []), (words, shown_again)
    assert "SCALE" not in hidden
    assert compiled("40", "VARIABLES=SCALE")[1].count("SCALE=40") == 1
    assert compiled("40", "VARIABLES=SCALE") == ([], [])
    other, shown_other = compiled("41", "VARIABLES=SCALE")
    assert other == ["compile prog.py"] and "SCALE=41" in shown_other


def test_mistakes(project: Project) -> None:
    run = project.scons("compile")
    assert run.output == (
        "scons: *** PROGRAM=: 'scons compile' needs a program; name a Python file with PROGRAM=, such "
        "as examples/vector_dag.py\n"
    )
    run = project.scons("compile", "PROGRAM=nothing.py")
    assert run.output == "scons: *** nothing.py: no such file; name a Python program with PROGRAM=\n"
    project.write(
        "prog.py",
        "import pypto_build.compiler.language as pl\n\n@pl.jit\ndef f(x: pl.Tensor[[4], pl.FP32]):\n    x +\n",
    )
    run = project.scons("compile", "PROGRAM=prog.py")
    assert run.status == 2
    assert "Traceback" not in run.output
    assert "prog.py:5" in run.output
    assert not (project.root / "build_output/_jit_prog").exists()
