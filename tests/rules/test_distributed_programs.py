"""The example programs for several chips: each agrees with its reference in PyTorch, and nothing that ranks touch is
unordered."""

from __future__ import annotations

from pathlib import Path

from pypto_build.compiler import compile_file
from pypto_build.compiler.golden import compute
from pypto_build.compiler.write import write_files
from tests.rules.project import Project

_EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "distributed"
_NAMES = sorted(path.stem for path in _EXAMPLES.glob("*.py"))


def test_programs_agree_with_their_references(project: Project) -> None:
    for name in _NAMES:
        root = project.root / "build_output" / f"_jit_{name}"
        write_files(root, compile_file(str(_EXAMPLES / f"{name}.py"), root, "a2a3sim").files)
        compute(root)
    assert len(_NAMES) == 8
    run = project.quiet("replay", "JIT=_jit_dist_*", "TIMEOUT=60")
    assert run.status == 0, run.output
    assert f"=== {len(_NAMES)} passed" in run.output
    run = project.quiet("hazards", "JIT=_jit_dist_*")
    assert run.status == 0, run.output
    assert "[hazards/" not in run.output


def test_an_edit_of_the_program_is_compiled_and_replayed(project: Project) -> None:
    text = (_EXAMPLES / "dist_pipeline.py").read_text()
    program = project.root / "dist_pipeline.py"
    program.write_text(text)
    assert project.quiet("compile", f"PROGRAM={program}").status == 0
    assert project.quiet("replay", "JIT=_jit_dist_pipeline").status == 0
    program.write_text(text.replace("* 2.0", "* 2.5"))
    assert project.quiet("compile", f"PROGRAM={program}").status == 0
    run = project.quiet("replay", "JIT=_jit_dist_pipeline")
    assert run.status != 0
    assert "'y' FAIL" in run.output
