"""Artifacts that have only ``.pto`` modules build and replay; an edit of a module reaches its kernels."""

from __future__ import annotations

import shutil

import pytest

from tests.rules.project import Project, Saved

UNIT = "kernels/aiv/kernel_mul.pto"
_REFUSED = "===== errors =====\n  [kernel_mul]\n    ptoas: unsupported\n"
MADE = "completed/_jit_vector_dag/kernels/aiv"


@pytest.fixture
def modules(project: Project) -> Project:
    """The example as a compilation without ptoas writes it."""
    project.use_example("_jit_vector_dag")
    strip(project)
    return project


@pytest.fixture(scope="module")
def replayed(tmp_path_factory: pytest.TempPathFactory) -> Saved:
    """The same after a replay."""
    project = Project(tmp_path_factory.mktemp("completion"))
    project.use_example("_jit_vector_dag")
    strip(project)
    assert project.replay().status == 0
    return Saved(project)


def strip(project: Project) -> None:
    root = project.artifact
    for path in (root / "ptoas").glob("*.pto"):
        path.rename(root / "kernels" / "aiv" / path.name)
    shutil.rmtree(root / "ptoas")
    (root / "kernel_config.py").unlink()
    for path in root.glob("kernels/*/*.cpp"):
        path.unlink()


def before(project: Project) -> list[str]:
    return sorted(str(path.relative_to(project.artifact)) for path in project.artifact.rglob("*"))


def test_modules_alone_replay(modules: Project) -> None:
    files = before(modules)
    run = modules.replay()
    assert run.status == 0, run.output
    assert run.actions == [
        "compile completed/_jit_vector_dag/kernels/aiv/kernel_add.cpp",
        "compile completed/_jit_vector_dag/kernels/aiv/kernel_mul.cpp",
        "compile completed/_jit_vector_dag/kernels/aiv/kernel_shift.cpp",
        "compile completed/_jit_vector_dag/orchestration/vector_dag.cpp",
        "link kernels/aiv/kernel_add.so",
        "link kernels/aiv/kernel_mul.so",
        "link kernels/aiv/kernel_shift.so",
        "link orchestration/vector_dag.so",
        "regenerating from kernels/aiv/kernel_add.pto",
        "regenerating from kernels/aiv/kernel_mul.pto",
        "regenerating from kernels/aiv/kernel_shift.pto",
        "run _jit_vector_dag",
        "sign completed/_jit_vector_dag/kernel_config.py",
    ]
    assert before(modules) == files  # nothing is written into the artifact
    run = modules.replay()
    assert (run.status, run.actions) == (0, [])


def test_an_edited_module_assembles_alone(replayed: Saved) -> None:
    modules = replayed.repeated()
    modules.edit(UNIT, "pto.tmul", "pto.tadd")
    run = modules.replay()
    assert run.status == 2
    assert run.actions == [
        f"compile {MADE}/kernel_mul.cpp",
        "link kernels/aiv/kernel_mul.so",
        f"regenerating from {UNIT}",
        "run _jit_vector_dag",
    ]
    modules.edit(UNIT, "pto.tadd", "pto.tmul")
    assert modules.replay().status == 0


def test_a_module_that_cannot_be_assembled(replayed: Saved) -> None:
    modules = replayed.repeated()
    modules.edit(UNIT, "pto.tmul", "pto.tmull")
    run = modules.replay()
    assert run.status == 2
    path = modules.artifact / UNIT
    assert f"scons: *** {path}:18:3: unknown operation 'pto.tmull'; did you mean pto.tmul?\n" in run.output
    assert modules.verdict()["status"] == "build_error"
    modules.edit(UNIT, "pto.tmull", "pto.tmul")
    assert modules.replay().status == 0


def test_a_module_that_names_a_kernel_by_a_path(modules: Project) -> None:
    """Completion writes a file for each function: none of them lies elsewhere."""
    name = "x/../../../../../../elsewhere"
    modules.edit(UNIT, "@kernel_mul(", f'@"{name}"(')
    modules.edit("orchestration/vector_dag.cpp", "// Task 3: kernel_mul", f'// Task 3: "{name}"')
    run = modules.replay()
    assert run.status == 2
    path = modules.artifact / UNIT
    assert f'scons: *** {path}:2:3: func.func @"{name}": the name is not a C++ identifier' in run.output
    assert not list(modules.root.rglob("elsewhere*"))


def test_the_manifest_names_the_kernels(project: Project) -> None:
    """With a manifest there, its func_ids count, whatever the comments in the orchestration say."""
    project.use_example("_jit_vector_dag")
    manifest = (project.artifact / "kernel_config.py").read_text(encoding="utf-8")
    strip(project)
    (project.artifact / "kernel_config.py").write_text(manifest, encoding="utf-8")
    for number, name in enumerate(("kernel_add", "kernel_shift", "kernel_shift", "kernel_mul", "kernel_add")):
        project.edit("orchestration/vector_dag.cpp", f"// Task {number}: {name}", "// a task")
    run = project.scons("splice", f"JIT={project.artifact.name}")
    assert run.status == 0, run.output
    completed = project.out / "completed" / "_jit_vector_dag" / "kernel_config.py"
    assert completed.read_text(encoding="utf-8") == manifest


def test_kernels_whose_modules_ptoas_refused(project: Project) -> None:
    """Their modules are assembled here; the others are what they are, and edited as ever."""
    project.use_example("_jit_vector_dag")
    root = project.artifact
    for path in ("kernels/aiv/kernel_mul.cpp", "ptoas/kernel_mul.cpp"):
        (root / path).unlink()
    missing = project.replay()
    assert "file 'kernels/aiv/kernel_mul.cpp' is missing; restore the file or compile again" in missing.output
    (root / "report").mkdir()
    (root / "report" / "codegen_errors.txt").write_text(_REFUSED)
    files = before(project)
    run = project.replay()
    assert run.status == 0, run.output
    assert [action for action in run.actions if "regenerating" in action] == ["regenerating from ptoas/kernel_mul.pto"]
    assert before(project) == files
    made, taken = (project.out / MADE / f"kernel_{name}.cpp" for name in ("mul", "add"))
    assert "TMUL(" in made.read_text() and taken.read_text() == (root / "kernels/aiv/kernel_add.cpp").read_text()
    assert project.replay().actions == []

    for edited in ("ptoas/kernel_add.pto", "ptoas/kernel_mul.pto"):
        text = (root / edited).read_text()
        (root / edited).write_text(text.replace("pto.tadd", "pto.tsub").replace("pto.tmul", "pto.tsub"))
        assert project.replay().status == 2, edited
        (root / edited).write_text(text)
        assert project.replay().status == 0, edited
    project.edit("kernels/aiv/kernel_add.cpp", "TADD(", "TSUB(")
    assert project.replay().status == 2
    project.edit("kernels/aiv/kernel_add.cpp", "TSUB(", "TADD(")

    passes = project.quiet("passes", "JIT=_jit_vector_dag")
    assert passes.status == 2
    assert (
        "report/codegen_errors.txt:2: error: the compiler could not generate code for function 'kernel_mul'"
    ) in passes.output
    (root / "ptoas" / "kernel_mul.pto").unlink()
    run = project.replay()
    assert (
        "kernel 2: no module defines the function kernel_mul; the modules in ptoas/ are: kernel_add, kernel_shift; "
        in run.output
    )
    assert "report/codegen_errors.txt says why it was not made" in run.output


def test_write_completes_the_artifact_itself(modules: Project) -> None:
    run = modules.scons("splice", "JIT=_jit_vector_dag", "WRITE=1")
    assert run.status == 0, run.output
    assert "[pto->cpp] wrote kernels/aiv/kernel_mul.cpp\n" in run.output
    assert (modules.artifact / "kernel_config.py").is_file()
    assert (modules.artifact / "ptoas" / "kernel_mul.pto").is_file()
    run = modules.replay()
    assert run.status == 0, run.output
    assert "compile kernels/aiv/kernel_mul.cpp" in run.actions
    assert not any(action.startswith("regenerating") for action in run.actions)


def test_a_module_of_an_unknown_kernel(modules: Project) -> None:
    modules.edit("orchestration/vector_dag.cpp", "// Task 3: kernel_mul", "// Task 3: multiply")
    run = modules.replay()
    assert run.status == 2
    line = 74
    assert run.output == (
        f"scons: *** {modules.artifact}/orchestration/vector_dag.cpp:{line}: cannot determine which "
        f"module defines the kernel "
        "with func_id 2: kernels/ has no function multiply; write a comment '// Task N: <kernel>' above the "
        "submission\n"
    )
