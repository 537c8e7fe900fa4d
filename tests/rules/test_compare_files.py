"""``compare=`` of a test: the user's own rule for outputs, in a file of Python that may be made by a builder."""

from __future__ import annotations

import pytest

from tests.rules.project import Project, Saved
from tests.rules.test_watch import watching

_RULE = """import limits


def compare(name, actual, expected, rtol):
    worst = abs(actual - expected).max()
    return worst <= limits.OF[name], f"worst {worst:g} at {rtol:g}"
"""
_SCRIPT = """from pypto_build.rules import pypto

env = Environment(tools=[pypto])
rule = env.Command("made/rule.py", "rule.in", Copy("$TARGET", "$SOURCE"))
env.ReplayTest(name="t", artifact="build_output/_jit_chain", compare=rule, rtol=0.5)
env.ReplayTest(name="u", artifact="build_output/_jit_chain")
"""


@pytest.fixture
def project(chain: Saved) -> Project:
    """A replayed workspace, whose test compares by a file that is made, which imports a module."""
    project = chain.repeated()
    project.write("SConstruct", _SCRIPT)
    project.write("rule.in", _RULE)
    project.write("made/limits.py", 'OF = {"y": 0.25}\n')
    project.edit("kernels/aiv/plus_one.cpp", "+ 1.0f", "+ 1.25f")
    return project


def test_a_file_judges_and_is_an_input(project: Project) -> None:
    """It is made first; an edit of it, or of what it imports, runs its test again, and nothing else."""
    built = ["compile kernels/aiv/plus_one.cpp", "link kernels/aiv/plus_one.so"]
    runs = ["run _jit_chain", "run _jit_chain RTOL=0.5 comparator *=made/rule.py"]
    run = project.scons("test")
    assert run.actions == [*built, *runs], run.output
    assert "[test] PASS      t" in run.output and "[test] FAIL      u" in run.output
    assert "(made/rule.py)\n    worst 0.25 at 0.5\n" in run.output
    assert project.scons("t").actions == []
    project.edit_file("rule.in", "worst <=", "worst < ")
    run = project.scons("t")
    assert (run.status, run.actions) == (2, runs[1:]), run.output
    assert "    made/rule.py: worst 0.25 at 0.5\n" in run.output
    project.edit_file("made/limits.py", "0.25", "0.5")
    run = project.scons("t")
    assert (run.status, run.actions) == (0, runs[1:]), run.output
    project.edit_file("rule.in", "import limits", "import limits  # nothing")
    assert project.scons("t").actions == runs[1:]
    assert project.scons("t").actions == []
    assert not list((project.root / "made").glob("__pycache__"))


def test_tools_that_do_not_use_a_file_say_so(project: Project) -> None:
    project.edit_file("rule.in", "worst <=", "worst < ")
    run = project.quiet("t", "PACK=onfail")
    assert "compares within tolerances, without made/rule.py\n" in run.output
    run = project.quiet("triage", "TEST=t")
    assert "[triage] compares within tolerances, without made/rule.py\n" in run.output, run.output


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("limits.OF[name]", "limits.OF[0]", "made/rule.py:6: KeyError: 0"),
        ("import limits", "import limits, nowhere", "made/rule.py:1: ModuleNotFoundError: No module named 'nowhere'"),
        ("def compare", "def compares", "made/rule.py: defines no function 'compare'; write def compare(name, actual, "
         "expected, rtol, atol): return ok, message"),
        ("rtol):", "rtol)", "made/rule.py:4: expected ':'"),
        ("return worst", "raise SystemExit(3)  # ", "made/rule.py:6: SystemExit: 3"),
        ("return worst <= limits.OF[name],", "return", "made/rule.py: compare returned 'worst 0.25 at 0.5' for 'y'; "
         "return True or False, or a pair of that and a message"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_file_is_one_line(project: Project, old: str, new: str, message: str) -> None:
    project.edit_file("rule.in", old, new)
    run = project.quiet("t")
    assert run.status == 2 and "Traceback" not in run.output, run.output
    assert f"): golden_error: {message}\n" in run.output, run.output


_LIMITS = {
    "size": "os.path.getsize(path)",
    "names and sizes": "sum(each.stat().st_size for each in os.scandir(os.path.dirname(path)))",
    "size by a program": "1 - subprocess.run(['test', '-s', path]).returncode",
    "size of a link": "os.lstat(path).st_size",
}


@pytest.mark.parametrize("limit", _LIMITS.values(), ids=_LIMITS)
def test_the_size_of_a_file_that_is_not_read_is_an_input(project: Project, limit: str) -> None:
    """A rule may decide by it alone."""
    allowed = f"0.25 - ({limit})"
    project.write("sizes/empty", "")
    path = f"path = {str(project.root / 'sizes' / 'empty')!r}"
    project.write(
        "rule.in", _RULE.replace("import limits", f"import os, subprocess\n{path}").replace("limits.OF[name]", allowed)
    )
    run = project.scons("t")
    assert run.status == 0 and "[test] PASS      t" in run.output, run.output
    assert project.scons("t").actions == []
    project.write("sizes/empty", "1")
    run = project.scons("t")
    assert run.status == 2 and "[test] FAIL      t" in run.output, run.output
    project.write("sizes/empty", "")
    assert project.scons("t").status == 0


@pytest.mark.parametrize("status", [0, 7])
def test_a_file_that_ends_the_process_leaves_no_pass(project: Project, status: int) -> None:
    """Say so in one line, in the next run too."""
    project.edit_file("rule.in", "return worst", f"__import__('os')._exit({status})  # ")
    for _ in range(2):
        run = project.quiet("t")
        assert run.status == 2 and "Traceback" not in run.output, run.output
        assert "[test] ERROR     t" in run.output and "before it wrote a verdict" in run.output, run.output


def test_watch_sees_an_edit_of_a_file(project: Project) -> None:
    project.write("rule.py", _RULE)
    project.write("limits.py", 'OF = {"y": 0.25}\n')
    project.write("SConstruct", _SCRIPT.replace("compare=rule", 'compare="rule.py"'))
    with watching(project, "t") as rounds:
        assert rounds.round().actions[-1] == "run _jit_chain RTOL=0.5 comparator *=rule.py"
        for name, old, new, word in (("rule.py", "worst <=", "worst <", "FAIL"), ("limits.py", "0.25", "0.5", "PASS")):
            project.edit_file(name, old, new)
            run = rounds.round()
            assert run.output.startswith(f"[watch] {name} changed\n"), run.output
            assert run.actions == ["run _jit_chain RTOL=0.5 comparator *=rule.py"] and f"[test] {word}" in run.output
