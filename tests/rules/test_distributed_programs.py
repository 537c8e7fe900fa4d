"""The example programs for several chips, and one of all collectives: each agrees with its reference in PyTorch, and
nothing that ranks touch is unordered."""

from __future__ import annotations

from pathlib import Path

from pypto_build.compiler import compile_file
from pypto_build.compiler.golden import compute
from pypto_build.compiler.write import write_files
from tests.rules.project import Project

_EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "distributed"
_PROGRAMS = [*sorted(_EXAMPLES.glob("*.py")), Path(__file__).parent / "programs" / "dist_collectives.py"]


def test_programs_agree_with_their_references(project: Project) -> None:
    for program in _PROGRAMS:
        root = project.root / "build_output" / f"_jit_{program.stem}"
        write_files(root, compile_file(str(program), root, "a2a3sim").files)
        compute(root)
    assert len(_PROGRAMS) == 9
    run = project.quiet("replay", "JIT=_jit_dist_*", "TIMEOUT=60")
    assert run.status == 0, run.output
    assert f"=== {len(_PROGRAMS)} passed" in run.output
    # `python -m tests.diagnose.corpus.ranks` looks at all of them
    for target, names in (("lint", "_jit_dist_*"), ("hazards", "_jit_dist_collectives,_jit_dist_experts")):
        run = project.quiet(target, f"JIT={names}")
        assert run.status == 0, run.output
        assert f"[{target}/" not in run.output


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
