"""The sample repository, as README shows it: its first run, a null run, an edit of one program, and questions."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from tests.rules.project import Project, Run, run_of

_HERE = Path(__file__).resolve().parents[2]
_SAMPLE = _HERE / "examples" / "repository"
_TESTS = [
    "relax_test.a2a3sim", "relax_test.a5sim", "rms_norm_test.a2a3sim", "rms_norm_test.a5sim", "scale_hazards",
    "scale_lint", "scale_test", "seeded_test", "softmax_test.a2a3sim", "softmax_test.a5sim",
]  # fmt: skip

pytest.importorskip("torch")


def passed(run: Run) -> list[str]:
    """The names of the tests that passed."""
    return sorted(re.findall(r"^\[test\] PASS +(\S+)", run.output, re.MULTILINE))


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory, runtime: Path) -> Project:
    """A fresh clone of the sample after its first `scons test`."""
    project = Project(tmp_path_factory.mktemp("sample") / "here")
    shutil.rmtree(project.root)
    shutil.copytree(_SAMPLE, project.root, ignore=shutil.ignore_patterns("build", "build_output", "include"))
    run = project.scons("test")
    assert (run.status, passed(run)) == (0, _TESTS), run.output
    assert {"compile programs/relax.py", "make scale_data", "make seeded", "run scale_lint"} <= set(run.actions)
    assert {path.name for path in project.root.iterdir()} == {
        ".gitignore", "SConstruct", "build", "build_output", "programs", "scale",
    }  # fmt: skip
    return project


def test_a_null_run_does_nothing(sample: Project) -> None:
    run = sample.scons("test")
    assert (run.status, run.actions, passed(run)) == (0, [], _TESTS)
    assert "10 passed (10 cached)" in run.output


def test_an_edit_of_a_program_builds_its_kernel_and_runs_its_tests(sample: Project) -> None:
    sample.edit_file("programs/softmax.py", "pl.row_sum(exps))", "pl.row_sum(exps) + 0.0)")
    run = sample.scons("test")
    kernel = "compile build_output/_jit_softmax/kernels/aiv/softmax_rows.cpp"
    assert sorted(set(run.actions)) == [
        kernel, "compile programs/softmax.py", "link kernels/aiv/softmax_rows.so",
        "run _jit_softmax RTOL=0.001 ATOL=0.001",
    ]  # fmt: skip
    assert len(run.actions) == 7  # for both platforms
    assert (run.status, passed(run)) == (0, _TESTS)
    sample.edit_file("programs/softmax.py", "Softmax of each row", "Softmax of every row")
    assert sample.scons("test").actions == ["compile programs/softmax.py"]  # it comes to the same C++
    assert sample.scons("test").actions == []


def test_a_value_from_which_header_and_data_are_made(sample: Project) -> None:
    sample.write("scale/factor.txt", "7\n")
    run = sample.scons("quick")
    assert run.actions == [
        "compile scale/_jit_scale/kernels/aiv/scale.cpp", "link kernels/aiv/scale.so", "make scale_data",
        "run _jit_scale DATA=build/data/scale_data/snapshot",
    ]  # fmt: skip
    assert (run.status, passed(run)) == (0, ["scale_test", "softmax_test.a2a3sim", "softmax_test.a5sim"])
    assert sample.scons("quick").actions == []


def test_tests_by_patterns_of_their_names(sample: Project) -> None:
    run = sample.scons("test", "scale*", "rel*.a5sim")
    assert (run.status, passed(run)) == (0, ["relax_test.a5sim", "scale_hazards", "scale_lint", "scale_test"])
    run = sample.quiet("test", "nope*")
    assert run.status == 2
    assert "scons: *** NAMES=nope*: no test has such a name; scons test --list lists them" in run.output


def test_the_list_of_tests_builds_nothing(sample: Project) -> None:
    run = sample.scons("test", "LIST=1")
    assert (run.status, run.actions) == (0, [])
    listed = [line.split() for line in run.output.splitlines() if not line.startswith("scons:")]
    assert listed == [[name] if name.startswith("scale") else [name, "programs"] for name in _TESTS]
    assert sample.scons("test", "--list").output == run.output
    run = sample.quiet("test", "soft*", "--list", "TAGS=programs")
    assert run.output == "softmax_test.a2a3sim  programs\nsoftmax_test.a5sim    programs\n"


def test_the_slowest_tests_are_named(sample: Project) -> None:
    run = sample.scons("test", "FORCE=1")
    slowest = re.search(r"^slowest: (.*)$", run.output, re.MULTILINE)
    assert slowest, run.output
    seconds = [float(part.split()[-2]) for part in slowest[1].split(", ")]
    assert len(seconds) == 3 and seconds == sorted(seconds, reverse=True)


def test_an_error_in_a_reference_is_at_its_line_of_the_program(sample: Project) -> None:
    sample.edit_file("programs/softmax.py", "torch.softmax(x, dim=1)", "torch.softmax(x, dim=1).nothing")
    run = sample.scons("test", "ANNOTATE=github")
    message = "AttributeError: 'Tensor' object has no attribute 'nothing'"
    assert (run.status, passed(run)) == (2, [name for name in _TESTS if "softmax" not in name])
    assert "\n[test] ERROR     softmax_test.a5sim       " in run.output
    assert run.output.count(f"programs/softmax.py:28: {message}\n") == 4  # a line and a text for each platform
    assert run.output.count(f"::error file=programs/softmax.py,line=28,title=build/error::{message}\n") == 2
    sample.edit_file("programs/softmax.py", ".nothing", "")


def test_a_replay_by_its_artifact_sees_the_program(sample: Project) -> None:
    """`scons replay`, and a file by its name, build the same as a test."""
    sample.edit_file("programs/rms_norm.py", "pl.col_expand_mul(y,", "pl.col_expand_mul(y * 1.0,")
    run = sample.scons("replay", "JIT=_jit_rms_norm")
    assert run.status == 0, run.output
    assert run.actions == [
        "compile build_output/_jit_rms_norm/kernels/aiv/rms_norm_rows.cpp", "compile programs/rms_norm.py",
        "link kernels/aiv/rms_norm_rows.so", "run _jit_rms_norm",
    ]  # fmt: skip
    assert sample.scons("build/a5sim/_jit_rms_norm/kernels/aiv/rms_norm_rows.so").actions == [
        "compile build_output/_jit_rms_norm/kernels/aiv/rms_norm_rows.cpp", "link kernels/aiv/rms_norm_rows.so",
    ]  # fmt: skip


def test_clean_leaves_what_was_cloned(sample: Project, tmp_path: Path) -> None:
    """Artifacts of programs, a generated header, data and build directories go; the sources stay."""
    copy = Project.__new__(Project)
    copy.root = tmp_path / "here"
    shutil.copytree(sample.root, copy.root, symlinks=True)
    copy.write("build_output/_jit_relax/notes.md", "mine")
    assert (copy.root / "scale/include/factor.h").is_file()
    assert copy.quiet("-c").status == 0
    names = {str(path.relative_to(copy.root)) for path in copy.root.rglob("*") if path.is_file()}
    cloned = {str(path.relative_to(_SAMPLE)) for path in _SAMPLE.rglob("*") if path.is_file()}
    assert names == {"build_output/_jit_relax/notes.md", *cloned}


def test_clean_of_a_test_leaves_the_others(sample: Project, tmp_path: Path) -> None:
    """Remove the inputs and outputs of the named test, its generated header included."""
    copy = Project.__new__(Project)
    copy.root = tmp_path / "here"
    shutil.copytree(sample.root, copy.root, symlinks=True)
    before = {path.relative_to(copy.root) for path in copy.root.rglob("*") if path.is_file()}
    assert copy.quiet("-c", "scale_test").status == 0
    after = {path.relative_to(copy.root) for path in copy.root.rglob("*") if path.is_file()}
    gone = {"/".join(path.parts[:3]) for path in before - after}
    gone.discard("build/a2a3sim/units")  # where nothing is built
    assert gone == {"build/a2a3sim/_jit_scale", "build/data/scale_data", "scale/include/factor.h"}
    assert not [path for path in after if path.parts[:3] in (("build", "a2a3sim", "_jit_scale"),)]
    assert copy.quiet("-c", "softmax_test").status == 0
    left = {path.relative_to(copy.root) for path in copy.root.rglob("*") if path.is_file()}
    gone = {"/".join(path.parts[:-1]) for path in after - left}
    assert {"build_output/_jit_softmax", "build/a2a3sim/_jit_softmax", "build/a5sim/_jit_softmax"} <= gone
    assert not [name for name in gone if "softmax" not in name]


QUERIES = {
    "somepath(softmax_test, programs/softmax.py)": [
        "softmax_test", "softmax_test.a2a3sim", "build/a2a3sim/_jit_softmax/interface.json",
        "build_output/_jit_softmax/kernel_config.py", "programs/softmax.py",
    ],
    "kind(test, rdeps(scale/factor.txt))": ["scale_hazards", "scale_test"],
    "kind('source file', deps(scale_kernel))": [
        "scale/_jit_scale/kernels/aiv/scale.cpp", "scale/factor.txt", "scale/make_header.py",
    ],
    "kind(test, deps(quick)) - rdeps(programs/softmax.py)": ["scale_test"],
    "deps(scale_kernel, 1)": ["build/a2a3sim/units/kernels/aiv/scale_kernel.so", "scale_kernel"],
    "rdeps(quick, scale/make_data.py) ^ kind(suite, all)": ["quick"],
    "somepath(scale_test, programs/softmax.py)": [],
}  # fmt: skip


@pytest.mark.parametrize("question", QUERIES)
def test_questions(sample: Project, question: str) -> None:
    run = sample.quiet("query", question)
    assert (run.status, run.output.splitlines()) == (0, QUERIES[question])


def test_forms_of_an_answer(sample: Project) -> None:
    rows = json.loads(sample.quiet("query", "deps(scale_kernel, 1)", "FORMAT=json").output)
    assert rows[1] == {"name": "scale_kernel", "kind": "target", "deps": [rows[0]["name"]]}
    dot = sample.quiet("query", "deps(scale_kernel, 1)", "FORMAT=dot").output
    assert f'  "scale_kernel" -> "{rows[0]["name"]}";\n' in dot


@pytest.mark.parametrize(
    ("question", "message"),
    [
        ("deps(scal_test)", "there is no target or file scal_test; did you mean scale_test?"),
        ("dips(scale_test)", "there is no function dips; the functions are deps(X[, DEPTH]), rdeps(X) or "
         "rdeps(WITHIN, X), somepath(FROM, TO), kind(PATTERN, X)"),
        ("deps(scale_test", "the function is written deps(X[, DEPTH])"),
        ("deps(scale_test, many)", "'many' is not a depth; give a number"),
        ("kind([, all)", "'[' is not a pattern: unterminated character set at position 0"),
        ("quick scale_test", "'scale_test' is not expected here"),
        ("somepath(quick)", "',' is missing"),
    ],
)  # fmt: skip
def test_questions_that_are_none(sample: Project, question: str, message: str) -> None:
    run = sample.quiet("query", question)
    assert (run.status, run.output.splitlines()[0]) == (2, f"scons: *** query '{question}': {message}")


def test_a_question_makes_nothing(tmp_path: Path) -> None:
    """It answers about a fresh checkout as far as that tells."""
    shutil.copytree(_SAMPLE, tmp_path / "here", ignore=shutil.ignore_patterns("build", "build_output", "include"))
    project = Project.__new__(Project)
    project.root = tmp_path / "here"
    run = project.quiet("query", "deps(softmax_test.a5sim)")
    assert (run.status, run.output.splitlines()) == (
        0,
        ["build_output/_jit_softmax", "build_output/_jit_softmax/kernel_config.py", "programs/softmax.py",
         "softmax_test.a5sim"],
    )  # fmt: skip
    assert not (project.root / "build_output").exists()


def test_the_readme_shows_its_sconstruct() -> None:
    readme = (_HERE / "README.md").read_text(encoding="utf-8")
    section = readme.partition("## In a repository of kernels")[2].partition("\n## ")[0]
    assert f"```python\n{(_SAMPLE / 'SConstruct').read_text(encoding='utf-8')}```" in section


def test_runs_are_parsed() -> None:
    assert run_of(0, "[data] make seeded  (not built before)\n").actions == ["make seeded"]
