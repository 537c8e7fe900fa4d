"""Bisections over revisions of a local clone, files of two artifacts and flags; one of them with real replays."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from pypto_build.interop import bisect, steps
from pypto_build.interop.bisect import apply, hunks_of
from pypto_build.replay.verdict import ErrorInfo, OutputResult, Verdict, write_verdict
from tests.artifact.artifacts import make_artifact
from tests.rules.project import Project
from tests.toolchain.test_pins import git

_PASS = Verdict("pass", "a", "a2a3sim", "simpler")
_WRONG = Verdict("mismatch", "a", "a2a3sim", "simpler", outputs=[OutputResult("y", "mismatch", [1], "float32", 1)])
_OTHER = Verdict("build_error", "a", "a2a3sim", "simpler", error=ErrorInfo("build_error", "does not compile"))
Oracle = Callable[[Path, list[str]], Verdict]


@pytest.fixture
def replays(monkeypatch: pytest.MonkeyPatch) -> Callable[[Oracle], list[list[str]]]:
    """Replace replays by an oracle; return the words that each was started with."""

    def install(oracle: Oracle) -> list[list[str]]:
        started: list[list[str]] = []

        def run(words: Sequence[str], log: Path) -> None:
            started.append(list(words))
            artifact, build_dir = Path(words[0]), Path(words[-1])
            write_verdict(oracle(artifact, list(words)), build_dir / "a2a3sim" / artifact.name / "verdict.json")

        monkeypatch.setattr(steps, "run_replay", run)
        return started

    return install


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a clone with five commits; the fourth is called planted."""
    monkeypatch.setenv("PYPTO_BUILD_CACHE", str(tmp_path / "cache"))
    directory = tmp_path / "clone"
    directory.mkdir()
    git(directory, "init", "-q")
    for number in range(5):
        (directory / "number").write_text(str(number))
        git(directory, "add", "-A")
        git(directory, "commit", "-q", "-m", "planted" if number == 3 else f"revision {number}")
    return directory


def run(tmp_path: Path, axis: str, good: object, bad: object, *words: str) -> int:
    artifact, out = tmp_path / "a", tmp_path / "out"
    if not artifact.exists():
        make_artifact(artifact)
    command = [str(artifact), "--build-dir", str(out), "--axis", axis, f"--good={good}", f"--bad={bad}", *words]
    return bisect.main(command)


def commits(clone: Path) -> list[str]:
    return git(clone, "rev-list", "--reverse", "HEAD").split()


def bad_from(clone: Path, number: int) -> Oracle:
    later = commits(clone)[number:]
    return lambda _, words: _WRONG if words[words.index("--simpler") + 1] in later else _PASS


def test_a_planted_commit_is_found(
    tmp_path: Path,
    clone: Path,
    replays: Callable[[Oracle], list[list[str]]],
    capsys: pytest.CaptureFixture[str],
) -> None:
    started = replays(bad_from(clone, 3))
    ends = (f"{clone}@main~4", f"{clone}@main")
    assert run(tmp_path, "simpler", *ends, "--rtol=1e-3") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-3:-1] == ["[bisect] 4 steps, 0 skipped; a bad step shows: mismatch of y", "[bisect] culprit:"]
    assert lines[-1].endswith(" planted") and lines[-1].strip().startswith(commits(clone)[3][:7])
    assert started[0][:7] == [str(tmp_path / "a"), "--force", "-p", "a2a3sim", "--runtime", "simpler", "--rtol"]
    record = json.loads((tmp_path / "out" / "bisect.json").read_bytes())
    assert [step["outcome"] for step in record["steps"]] == ["good", "bad", "good", "bad"]
    assert git(clone, "status", "--porcelain") == ""
    # An interrupted bisection continues; one that is finished, or has another question, starts anew.
    record["culprit"], record["steps"] = [], record["steps"][:3]
    (tmp_path / "out" / "bisect.json").write_text(json.dumps(record))
    assert run(tmp_path, "simpler", *ends, "--rtol=1e-3") == 0
    assert "[bisect] continues after 3 steps" in capsys.readouterr().out
    assert len(started) == 5
    assert run(tmp_path, "simpler", *ends, "--rtol=1e-3") == 0
    assert len(started) == 9


def test_another_failure_says_nothing(
    tmp_path: Path,
    clone: Path,
    replays: Callable[[Oracle], list[list[str]]],
    capsys: pytest.CaptureFixture[str],
) -> None:
    broken, bad = commits(clone)[1:4], commits(clone)[4]

    def oracle(_: Path, words: list[str]) -> Verdict:
        commit = words[words.index("--simpler") + 1]
        return _WRONG if commit == bad else _OTHER if commit in broken else _PASS

    replays(oracle)
    assert run(tmp_path, "simpler", f"{clone}@main~4", f"{clone}@main") == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[-6:-4] == [
        "[bisect] 5 steps, 3 skipped; a bad step shows: mismatch of y",
        "[bisect] one of these, since some could not be tested:",
    ]
    assert [line.split()[-1] for line in lines[-4:]] == ["1", "2", "planted", "4"]


def test_a_failure_that_comes_and_goes(
    tmp_path: Path, clone: Path, replays: Callable[[Oracle], list[list[str]]], capsys: pytest.CaptureFixture[str]
) -> None:
    always, count = bad_from(clone, 3), [0]

    def every_third(artifact: Path, words: list[str]) -> Verdict:
        count[0] += 1
        return always(artifact, words) if count[0] % 3 == 0 else _PASS

    replays(every_third)
    assert run(tmp_path, "simpler", f"{clone}@main~4", f"{clone}@main", "--repeats", "3") == 0
    assert capsys.readouterr().out.splitlines()[-1].endswith(" planted")


def test_flags(
    tmp_path: Path, replays: Callable[[Oracle], list[list[str]]], capsys: pytest.CaptureFixture[str]
) -> None:
    guilty = {"-ffast-math", "-funroll"}

    def oracle(_: Path, words: list[str]) -> Verdict:
        flags = next((word for word in words if word.startswith("--kernel-flags=")), "")
        return _WRONG if guilty <= set(flags.partition("=")[2].split()) else _PASS

    replays(oracle)
    assert run(tmp_path, "flags", "-O2", "-O2 -ffast-math -g -funroll -Wall") == 0
    assert capsys.readouterr().out.splitlines()[-3:] == ["[bisect] culprit:", "  -ffast-math", "  -funroll"]


@pytest.mark.parametrize(
    "axis, good, bad, message",
    [
        (
            "simpler",
            "{clone}@main",
            "{clone}@main",
            "GOOD={good}: is the same commit as BAD={bad}; name two different commits",
        ),
        (
            "simpler",
            "{clone}@main",
            "{clone}@main~2",
            "GOOD={good}: BAD={bad} is not a descendant of this commit; name an ancestor of BAD=",
        ),
        ("simpler", "{clone}@no", "{clone}@main", "SIMPLER={good}: revision no is not in {clone}; git log there lists"),
        ("flags", "-O1", "-O1", "BAD=-O1: has no flag that GOOD=-O1 lacks; add a flag"),
        (
            "flags",
            "-O1",
            "-O2",
            "BAD=-O2: passes; name a version that fails, or raise REPEATS= if it fails only sometimes",
        ),
        (
            "kernel",
            "{a}",
            "{a}",
            "GOOD={a}: has the same kernels and orchestration as BAD={a}; name two artifacts that differ",
        ),
        ("kernel", "{a}", "/nowhere", "BAD=/nowhere: no such artifact in "),
    ],
)
def test_ends_that_make_no_sense(
    tmp_path: Path,
    clone: Path,
    replays: Callable[[Oracle], list[list[str]]],
    capsys: pytest.CaptureFixture[str],
    axis: str,
    good: str,
    bad: str,
    message: str,
) -> None:
    replays(lambda *_: _PASS)
    names = {"clone": str(clone), "a": str(tmp_path / "a")}
    good, bad = good.format(**names), bad.format(**names)
    assert run(tmp_path, axis, good, bad) == 2
    assert capsys.readouterr().err.startswith(message.format(good=good, bad=bad, **names))


def test_a_good_end_that_fails(
    tmp_path: Path, replays: Callable[[Oracle], list[list[str]]], capsys: pytest.CaptureFixture[str]
) -> None:
    replays(lambda *_: _WRONG)
    assert run(tmp_path, "flags", "-O1", "-O2") == 2
    log = tmp_path / "out" / "bisect.log"
    assert (
        capsys.readouterr().err == f"GOOD=-O1: does not pass (mismatch of y, see {log}); name a version that passes\n"
    )


def test_a_file_is_found_through_scons(tmp_path: Path) -> None:
    project = Project(tmp_path / "workspace")
    bad = tmp_path / "bad" / "_jit_chain"
    shutil.copytree(project.artifact, bad)
    for name, old, new in (("twice", "2.0f * in[i]", "in[i] * 2.0f"), ("plus_one", "in[i] + 1.0f", "in[i] - 1.0f")):
        kernel = bad / "kernels" / "aiv" / f"{name}.cpp"
        kernel.write_text(kernel.read_text().replace(old, new))
    ran = project.scons("bisect", "JIT=_jit_chain", "AXIS=kernel", "GOOD=_jit_chain", f"BAD={bad}")
    assert ran.status == 0, ran.output
    assert ran.output.splitlines()[-2:] == ["[bisect] culprit:", "  kernels/aiv/plus_one.cpp"]


def test_ends_by_revisions_of_the_artifact(tmp_path: Path) -> None:
    """A tag and a branch name the artifact as it was there."""
    project = Project(tmp_path / "workspace")

    def git(*words: str) -> None:
        identity = ["-c", "user.name=n", "-c", "user.email=n@example.org"]
        subprocess.run(["git", *identity, *words], cwd=project.artifact, check=True, capture_output=True)

    git("init", "--quiet")
    git("add", "kernels", "orchestration", "kernel_config.py")
    git("commit", "--quiet", "-m", "good")
    git("tag", "v1")
    kernel = project.artifact / "kernels" / "aiv" / "plus_one.cpp"
    kernel.write_text(kernel.read_text().replace("in[i] + 1.0f", "in[i] - 1.0f"))
    git("commit", "--quiet", "-am", "bad")
    git("branch", "broken")
    ran = project.scons("bisect", "JIT=_jit_chain", "AXIS=kernel", "GOOD=v1", "BAD=broken")
    assert ran.status == 0, ran.output
    assert ran.output.splitlines()[-2:] == ["[bisect] culprit:", "  kernels/aiv/plus_one.cpp"]
    ran = project.scons("bisect", "JIT=_jit_chain", "AXIS=kernel", "GOOD=v2", "BAD=broken")
    assert ran.status == 2 and "GOOD=v2: no such artifact in " in ran.output


def test_lines_are_found(tmp_path: Path) -> None:
    """Find the one of three changed lines, in two files, that flips the verdict."""
    project = Project(tmp_path / "workspace")
    bad = tmp_path / "bad" / "_jit_chain"
    shutil.copytree(project.artifact, bad)
    for name, old, new in (
        ("twice", "2.0f * in[i]", "in[i] * 2.0f"),
        ("plus_one", "#include", "// a note\n// and one more\n#include"),
        ("plus_one", "in[i] + 1.0f", "in[i] - 1.0f"),
    ):
        kernel = bad / "kernels" / "aiv" / f"{name}.cpp"
        kernel.write_text(kernel.read_text().replace(old, new, 1))
    text = (project.artifact / "kernels" / "aiv" / "plus_one.cpp").read_text()
    line = 1 + text[: text.index("in[i] + 1.0f")].count("\n")
    ran = project.scons("bisect", "JIT=_jit_chain", "AXIS=hunk", f"GOOD={project.artifact}", f"BAD={bad}")
    assert ran.status == 0, ran.output
    assert ran.output.splitlines()[-2:] == ["[bisect] culprit:", f"  kernels/aiv/plus_one.cpp:{line}"]


def test_hunks_put_together_are_the_other_text(tmp_path: Path) -> None:
    old, new = "a\nb\nc\nd\n", "x\na\nc\nC\nd"
    hunks = hunks_of("f", old, new)
    assert [hunk.place for hunk in hunks] == ["f:1", "f:2", "f:4"]
    (tmp_path / "f").write_text(old)
    apply(tmp_path, hunks)
    assert (tmp_path / "f").read_text() == new


_PTOAS = """#!{python}
import subprocess, sys
words = sys.argv[1:]
source = next(word for word in words if word.endswith(".pto"))
target = words[words.index("-o") + 1]
command = [{python!r}, "-m", "pypto_build.pto.assemble", source, "--platform", "a2a3sim", "-o", target]
subprocess.run(command, check=True)
text = open(target).read()
open(target, "w").write(text.replace("TMUL(", "TADD("))
"""


def test_the_unit_that_an_assembler_gets_wrong(tmp_path: Path) -> None:
    project = Project(tmp_path / "workspace")
    project.use_example("_jit_vector_dag")
    ptoas = tmp_path / "ptoas"
    ptoas.write_text(_PTOAS.format(python=sys.executable))
    ptoas.chmod(0o755)
    ran = project.scons("bisect", "JIT=_jit_vector_dag", "AXIS=ptoas", "GOOD=own", f"BAD={ptoas}")
    assert ran.status == 0, ran.output
    assert ran.output.splitlines()[-2:] == ["[bisect] culprit:", "  kernels/aiv/kernel_mul.cpp"]
    ran = project.scons("bisect", "JIT=_jit_vector_dag", "AXIS=ptoas", "GOOD=own", "BAD=no-such-ptoas")
    assert "no-such-ptoas: no such program; name a ptoas executable, or 'own' for the built-in assembler" in ran.output
