"""``PyTest``: which files run, and which are proven, after edits of what they read and of what they do not."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import tempfile
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.rules.project import Project, Run
from tests.rules.test_chain_views import PROGRAM

_SCRIPT = """from pypto_build.rules import pypto
env = Environment(tools=[pypto])
env.PyTest(name='unit', files=Glob('tests/test_*.py'){more})
"""
_LINE = re.compile(r"^\[test\] (\w+) +(\S+) +(?:(cached|\d+\.\d\d s)  )?(.*)$", re.MULTILINE)
_A, _B, _C = (f"tests/test_{letter}.py" for letter in "abc")


class _Tests(Project):
    """A workspace with two modules, and three files of tests: two read one of the modules each, one reads a file."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.write("SConstruct", _SCRIPT.format(more=""))
        self.write("product/__init__.py", "")
        self.write("product/one.py", "def one():\n    return 1\n")
        self.write("product/two.py", "def two():\n    return 2\n")
        self.write("tests/data.txt", "3\n")
        self.write(_A, "from product.one import one\n\ndef test_one():\n    assert one() == 1\n")
        self.write(
            _B,
            "import subprocess, sys\n\ndef test_two(tmp_path):\n"
            "    code = 'from product.two import two; print(two())'\n"
            "    (tmp_path / 'made').write_text(code)\n"
            "    code = (tmp_path / 'made').read_text()\n"
            "    assert subprocess.run([sys.executable, '-c', code], capture_output=True, env={}).stdout == b'2\\n'\n",
        )
        self.write(
            _C,
            "import os, pytest\n\ndef test_data():\n    assert open('tests/data.txt').read() == '3\\n'\n\n"
            "@pytest.mark.skip(reason='not here')\ndef test_more():\n    pass\n",
        )

    def lines(self, *words: str, env: dict[str, str] | None = None) -> dict[str, str]:
        """Return the word that `scons test` prints for each file, and ``cached`` for a file that did not run."""
        return _told(self.quiet(*(words or ("test",)), env=env))


def _told(run: Run) -> dict[str, str]:
    rows = _LINE.findall(run.output)
    return {name: f"{word} cached" if took == "cached" else word for word, name, took, _ in rows}


def _expected(*ran: str, word: str = "PASS") -> dict[str, str]:
    """Every file is proven but those that ``ran``."""
    return {name: word if name in ran else "PASS cached" for name in (_A, _B, _C)}


@pytest.fixture
def tests(tmp_path: Path) -> _Tests:
    project = _Tests(tmp_path / "here")
    assert project.lines() == {_A: "PASS", _B: "PASS", _C: "PASS"}
    assert project.lines() == _expected()
    return project


@pytest.mark.parametrize(
    ("name", "old", "new", "ran"),
    [
        ("product/one.py", "return 1", "return 3", _A),
        ("product/two.py", "return 2", "return 3", _B),  # by a process that the test starts
        (_A, "== 1", "== 3", _A),  # pytest compiles files of tests itself
    ],
)
def test_an_old_size_and_time_hide_no_edit(tests: _Tests, name: str, old: str, new: str, ran: str) -> None:
    """Python alone takes what it compiled before the edit."""
    status = (tests.root / name).stat()
    tests.edit_file(name, old, new)
    os.utime(tests.root / name, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert tests.lines() == _expected(ran, word="FAIL")
    tests.edit_file(name, new, old)
    os.utime(tests.root / name, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert tests.lines()[ran].startswith("PASS")


def test_only_what_read_an_edited_file_runs_again(tests: _Tests) -> None:
    tests.edit_file("product/one.py", "return 1", "return 2 - 1")
    assert tests.lines() == _expected(_A)
    tests.edit_file("product/two.py", "return 2", "return 1 + 1")  # what a process read that got no environment
    assert tests.lines() == _expected(_B)
    tests.edit_file(_C, "def test_more", "def test_others")
    assert tests.lines() == _expected(_C)
    tests.edit_file("product/one.py", "return 2 - 1", "return 1")  # the store has it
    assert tests.lines() == _expected()
    tests.write("README.md", "of nobody\n")
    tests.write("tests/other.txt", "of nobody\n")
    first = tests.lines()
    assert tests.lines() == _expected(), first


def test_a_file_that_fails_is_never_cached(tests: _Tests) -> None:
    tests.write("tests/data.txt", "4\n")
    run = tests.quiet("test")
    assert (run.status, _told(run)) == (2, _expected(_C, word="FAIL"))
    assert "1 failed, 1 skipped (not here)" in run.output
    assert run.output.index("E       AssertionError: assert '4") > run.output.index(f"[test] PASS      {_A}")
    assert re.search(r"\n=== 1 failed, 2 passed \(2 cached\) in ", run.output)
    assert tests.lines() == _expected(_C, word="FAIL")
    assert tests.lines("test", "FAILED=1") == {_C: "FAIL"}
    tests.write("tests/data.txt", "3\n")
    assert tests.lines("test", "FAILED=1") in ({_C: "PASS"}, {_C: "PASS cached"})
    assert tests.quiet("test", "FAILED=1").output.startswith("[test] no test failed when it last ran")
    assert tests.lines() == _expected()


def test_what_appears_and_what_goes(tests: _Tests) -> None:
    tests.write("conftest.py", "import sys\n")
    assert tests.lines() == _expected(_A, _B, _C)
    assert tests.lines() == _expected()
    (tests.root / "tests" / "data.txt").unlink()
    run = tests.quiet("test")
    assert (run.status, _told(run)[_C]) == (2, "FAIL")
    assert "FileNotFoundError: [Errno 2] No such file or directory: 'tests/data.txt'" in run.output


def test_the_environment_is_part_of_the_key(tests: _Tests) -> None:
    assert tests.lines(env={"UNRELATED": "1", "TERM": "dumb"}) == _expected()
    tests.write("SConstruct", _SCRIPT.format(more=", variables=['CHOSEN']"))
    assert tests.lines() == _expected()  # it is not set
    tests.edit_file(_A, "assert one() == 1", "import os\n    assert os.environ.get('CHOSEN', '1') == '1'")
    assert tests.lines() == _expected(_A)
    run = tests.quiet("test", env={"CHOSEN": "2"})
    assert (run.status, _told(run)) == (2, {_A: "FAIL", _B: "PASS", _C: "PASS"})
    assert tests.lines(env={"CHOSEN": "1"}) == {_A: "PASS", _B: "PASS", _C: "PASS"}
    assert tests.lines() == _expected()


def test_a_project_whose_warnings_are_errors(tests: _Tests) -> None:
    """A rule's tests are shown, and none of ours."""
    (tests.root / _C).write_text("import warnings\n\ndef test_it():\n    warnings.warn('x', UserWarning)\n")
    (tests.root / _B).unlink()
    assert tests.lines() == {_A: "PASS", _C: "PASS"}
    tests.write("pytest.ini", "[pytest]\nfilterwarnings = error\n")
    run = tests.quiet("test")
    assert _told(run) == {_A: "PASS", _C: "FAIL"}, run.output
    assert "UserWarning: x" in run.output and "test_files" not in run.output


def test_files_by_name_options_suites_and_reports(tests: _Tests) -> None:
    tests.write("SConstruct", _SCRIPT.format(more=", args=['-k', 'one or data'], tags=['fast']"))
    tests.edit_file("SConstruct", "env = ", "tags = ['fast']\nenv = ")
    run = tests.quiet("test", "TAGS=fast", "JUNIT=junit.xml")
    assert _told(run) == {_A: "PASS", _B: "SKIPPED", _C: "PASS"}
    assert f"{_B}" in run.output and "no tests" in run.output
    suite = ElementTree.parse(tests.root / "junit.xml").getroot()[0]
    assert {key: suite.get(key) for key in ("tests", "failures", "errors", "skipped")} == {
        "tests": "3", "failures": "0", "errors": "0", "skipped": "1",
    }  # fmt: skip
    cases = [(case.get("classname"), case.get("name")) for case in suite]
    expected = [("pypto-build", _B), ("tests.test_a", "test_one"), ("tests.test_c", "test_data")]
    assert sorted(cases) == expected
    assert set(tests.lines(_A, _C)) == {_A, _C}
    assert set(tests.lines("unit")) == {_A, _B, _C}
    assert tests.quiet("query", "kind(test, deps(unit))").output.split() == [_A, _B, _C]


def test_without_cache_files_run_always(tests: _Tests) -> None:
    tests.write("SConstruct", _SCRIPT.format(more=", cache=False"))
    for _ in range(2):
        assert tests.lines() == {_A: "PASS", _B: "PASS", _C: "PASS"}


def test_what_is_not_watched_runs_each_time(tests: _Tests) -> None:
    tests.write(
        _A,
        "import os\n\ndef test_one():\n    pid = os.posix_spawn('tests/still', ['still'], {})\n"
        "    assert os.waitpid(pid, 0)[1] == 0\n",
    )
    tests.write("still.c", "int main(void) { return 0; }\n")
    subprocess.run(["gcc", "-static", "-o", "tests/still", "still.c"], cwd=tests.root, check=True)
    tests.lines()
    for _ in range(2):
        run = tests.quiet("test")
        assert _told(run) == _expected(_A)
        assert re.search(rf"{_A} .* 1 passed; runs each time: \S*tests/still cannot be watched\n", run.output)


def test_killed_in_the_middle_and_two_at_once(tests: _Tests) -> None:
    begun = tests.root / "begun"
    os.mkfifo(begun)
    tests.write(_A, "def test_one():\n    open('begun', 'w').close()\n    import time\n    time.sleep(60)\n")
    process = tests.start("SCons", "-Q", "test", "-j1")
    begun.read_bytes()
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    tests.write(_A, "def test_one():\n    pass\n")
    both = [tests.start("SCons", "-Q", "test") for _ in range(2)]
    ended = [process.communicate()[0] for process in both]
    assert [process.returncode for process in both] == [0, 0], ended
    assert tests.lines() == _expected()


def test_what_is_wrong_is_said_in_a_line(tests: _Tests) -> None:
    tests.write("SConstruct", _SCRIPT.format(more="").replace("Glob('tests/test_*.py')", "[]"))
    assert (
        "scons: *** PyTest: unit has no test files; name some, such as files=Glob('tests/test_*.py')"
        in tests.quiet("test").output
    )
    tests.write("SConstruct", _SCRIPT.format(more=""))
    code = (
        "import importlib.util as u; f = u.find_spec; u.find_spec = lambda n, *a: None if n == 'pytest' else f(n, *a)\n"
    )
    tests.write("SConstruct", code + _SCRIPT.format(more=""))
    run = tests.quiet("test")
    assert run.output.startswith("scons: *** PyTest: unit: pytest is not installed; run pip install pytest\n")
    assert run.status == 2
    tests.write("SConstruct", _SCRIPT.format(more=""))
    tests.write(_A, "import nothing_of_this_name\n")
    run = tests.quiet("test")
    assert _told(run)[_A] == "FAIL"
    assert "ModuleNotFoundError: No module named 'nothing_of_this_name'" in run.output


def test_sockets_have_room_in_temporary_directories(tmp_path: Path) -> None:
    """The path of a socket has 107 bytes at most, and tests are written where it is shorter than under a rule."""
    project = _Tests(tmp_path / "here")
    most = len(tempfile.gettempdir()) + 40
    project.write(_C, f"def test_it(tmp_path):\n    assert len(str(tmp_path)) <= {most}\n")
    assert project.lines(_C) == {_C: "PASS"}


def test_directories_that_other_rules_make_are_there_before(tmp_path: Path) -> None:
    """A file that lists the top is not run again when a program and a builder have made their directories there."""
    project = Project(tmp_path / "here")
    project.artifact.parent.rename(tmp_path / "gone")
    rules = (
        "program = env.PtoProgram(name='p', source='p.py')\n"
        "made = env.Command('made/x.txt', 'p.py', Copy('$TARGET', '$SOURCE'))\n"
        "env.Alias('all', [program, made])\n"
    )
    project.write("SConstruct", _SCRIPT.format(more="") + rules)
    project.write("p.py", PROGRAM)
    project.write(_A, "import os\n\ndef test_one():\n    assert os.listdir('.')\n")
    assert _told(project.quiet("unit")) == {_A: "PASS"}
    assert project.scons("all").status == 0
    assert (project.root / "made/x.txt").exists() and (project.root / "build_output/_jit_p").is_dir()
    assert _told(project.quiet("unit")) == {_A: "PASS cached"}
    project.write("new.txt", "")
    run = project.scons("unit")
    assert _told(run) == {_A: "PASS"} and f"[pytest] run {_A}  (files in . changed)\n" in run.output, run.output
