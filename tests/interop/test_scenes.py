"""Scene tests without simpler, from the outside: `pypto-build scene`, pytest and `scons`, on copies of our scenes."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest
import torch

from pypto_build.artifact import ArtifactError
from pypto_build.interop.scene.data import reshaped_golden
from tests import forked

SCENES = Path(__file__).with_name("scenes")
ROOT = Path(__file__).resolve().parents[2]

SCONSTRUCT = """from pypto_build.rules import pypto

env = Environment(tools=[pypto])
env.SceneTest(name="chain", file="scenes/scene_chain.py", cases=["small", "TestOnChip::"])
"""


class Workspace:
    """A directory with the scene tests and their builds."""

    def __init__(self, root: Path) -> None:
        self.root = root
        shutil.copytree(SCENES, root / "scenes", ignore=shutil.ignore_patterns("__pycache__"))
        self.file = root / "scenes" / "scene_chain.py"
        (root / "SConstruct").write_text(SCONSTRUCT)
        self.variables = {**os.environ, "PYTHONPATH": str(ROOT), "PYPTO_BUILD_STORE": str(root / "store")}

    def run(self, *words: str, tool: str = "pypto_build.cli") -> subprocess.CompletedProcess[str]:
        """Run a tool in the workspace, without simpler."""
        return forked.run(tool, words, self.root, self.variables)

    def edit(self, name: str, old: str, new: str) -> None:
        """Change a file."""
        path = self.root / "scenes" / name
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new))


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory, runtime: Path) -> Workspace:
    return Workspace(tmp_path_factory.mktemp("scenes"))


def lines(output: str) -> list[str]:
    """Return the result lines that a runner prints for its cases."""
    return re.findall(r"^  (\w+::\w+ [A-Z].*)$", output, re.MULTILINE)


def test_every_form_in_one_run(workspace: Workspace) -> None:
    run = workspace.run("scene", "scenes/scene_chain.py", "-p", "a2a3sim", "--manual", "include")
    assert run.returncode == 1, run.stdout
    assert "=== Runtime: tensormap_and_ringbuffer  Level: 2 ===" in run.stdout
    assert lines(run.stdout) == [
        "TestChain::small PASSED",
        "TestChain::matrix FAILED: Golden mismatch on 'z' 1/40 max_diff=1",
        "TestChain::loose PASSED",
        "TestJudged::sum PASSED",
        "TestOnChip::any SKIPPED: needs hardware: a2a3",
    ]
    assert "3 passed, 1 failed, 1 skipped" in run.stdout and "Traceback" not in run.stdout


def test_an_edited_kernel_is_one_compile(workspace: Workspace) -> None:
    scene = ("replay", "SCENE=scenes/scene_chain.py::TestChain::small")
    workspace.run("-Q", *scene, tool="SCons")
    again = workspace.run("-Q", *scene, tool="SCons")
    assert again.returncode == 0 and "PASS (cached)" in again.stdout, again.stdout
    workspace.edit("kernels/twice.cpp", "2.0f * out[i]", "2.75f * out[i]")
    edited = workspace.run("-Q", *scene, "VERBOSE=1", tool="SCons")
    workspace.edit("kernels/twice.cpp", "2.75f * out[i]", "2.0f * out[i]")
    assert edited.returncode == 2 and "Output(s) does not match golden: ['y']" in edited.stdout, edited.stdout
    assert re.findall(
        r"^\[(?:cpp->.so|scene|manifest)\] (?:compile|link|data|sign).*", edited.stdout, re.MULTILINE
    ) == [
        "[cpp->.so] compile scenes/kernels/twice.cpp  (content of scenes/kernels/twice.cpp changed)",
        "[cpp->.so] link    kernels/aiv/twice.so  (content of kernels/aiv/twice.o changed)",
    ]


def test_kernels_of_a_scene_see_the_same_variables_whoever_runs_them(workspace: Workspace, tmp_path: Path) -> None:
    """Also where the class judges by itself, in a process that has all variables."""
    shows = "#include <cstdio>\nextern char **environ;"
    workspace.edit("kernels/twice.cpp", "#include <cstdint>", f"#include <cstdint>\n{shows}")
    loop = 'for (char **each = environ; *each; ++each)\n        printf("sees %s\\n", *each);\n    for (uint32_t'
    workspace.edit("kernels/twice.cpp", "for (uint32_t", loop)
    before, workspace.variables = workspace.variables, {**workspace.variables, "SCENE_X": "1", "PYPTO_X": "1"}
    try:
        words = ("replay", f"BUILD_DIR={tmp_path}", "-Q")
        scenes = ("TestChain::small", "TestJudged")
        runs = [workspace.run(*words, f"SCENE=scenes/scene_chain.py::{scene}", tool="SCons") for scene in scenes]
    finally:
        workspace.variables = before
        workspace.edit("kernels/twice.cpp", loop, "for (uint32_t")
        workspace.edit("kernels/twice.cpp", f"\n{shows}", "")
    for run in runs:
        assert run.returncode == 0, run.stdout
        assert set(re.findall(r"^\| sees (\w+)=", run.stdout, re.MULTILINE)) == {"PATH", "LC_ALL"}, run.stdout


def test_units_are_compiled_while_data_is_made(workspace: Workspace, tmp_path: Path) -> None:
    """Compile each unit once. A unit with an error is compiled twice, and reported once for each class that has it.

    The data is made when all units have been compiled, and a second processor is there for that.
    """
    compiled, head = tmp_path / "compiled", "    def generate_args(self, params):\n        n = params"
    waits = f"while not __import__('os').path.exists({str(compiled)!r}): __import__('time').sleep(0.01)"
    workspace.edit("scene_chain.py", head, head.replace("n = params", f"{waits}\n        n = params"))
    workspace.edit("kernels/twice.cpp", "2.0f * out[i]", "2.0f * nothing[i]")
    words = ("replay", "SCENE=scenes/scene_chain.py::TestChain::small,scenes/scene_chain.py::TestJudged", "VERBOSE=1")
    command = [sys.executable, "-m", "pypto_build.cli", *words, f"BUILD_DIR={tmp_path}", "STORE_SIZE=0", "-k", "-j2"]
    output, steps = "", list[str]()
    with subprocess.Popen(
        command, cwd=workspace.root, env=workspace.variables, stdout=-1, stderr=subprocess.STDOUT, text=True
    ) as run:
        for line in run.stdout or ():
            output += line
            steps += re.findall(r"^\[cpp->\.so\] compile +(\S+  \(.*\))$", line)
            if len(steps) == 6:
                compiled.touch()
    workspace.edit("kernels/twice.cpp", "2.0f * nothing[i]", "2.0f * out[i]")
    assert run.returncode == 3 and len(re.findall("error: .nothing. was not declared", output)) == 2, output
    first = "(not built before)"
    assert sorted(steps) == [
        *[f"scenes/kernels/chain.cpp  {first}"] * 2,
        *[f"scenes/kernels/scaled.cpp  {first}"] * 2,
        *[f"scenes/kernels/twice.cpp  {first}"] * 4,
    ]
    again = workspace.run(*words, f"BUILD_DIR={tmp_path}", "STORE_SIZE=0")
    workspace.edit("scene_chain.py", f"{waits}\n        ", "")
    assert again.returncode == 0 and re.findall(r"compile +(\S+)", again.stdout) == ["scenes/kernels/twice.cpp"] * 2


def test_a_file_whose_cases_are_computed_is_executed_once_for_that(workspace: Workspace, tmp_path: Path) -> None:
    """Execute it once more for the data of each case; a rerun executes nothing."""
    file, log = workspace.root / "scenes" / "scene_computed.py", tmp_path / "log"
    text = workspace.file.read_text().replace('{"n": 16}}', '{"n": int("16")}}')
    file.write_text(f"open({str(log)!r}, 'a').write('executed ')\n{text}")
    words = ("scene", str(file), "-p", "a2a3sim", f"BUILD_DIR={tmp_path}/build")
    runs = [workspace.run(*words) for _ in range(2)]
    file.unlink()
    passed = ["TestChain::small PASSED", "TestJudged::sum PASSED", "TestOnChip::any SKIPPED: needs hardware: a2a3"]
    assert [lines(run.stdout) for run in runs] == [passed, passed], runs[0].stdout + runs[1].stdout
    # what is described; two cases' data; the class that judges itself
    assert log.read_text() == "executed " * 4


def test_a_session_of_pytest_leaves_what_it_made(workspace: Workspace, tmp_path: Path) -> None:
    """End a session as soon as its last case is known: the next one executes the file only to collect it."""
    file, logs = workspace.root / "scenes" / "scene_logged.py", tmp_path / "logs"
    logs.mkdir()
    file.write_text(f"import tempfile\ntempfile.mkstemp(dir={str(logs)!r})\n{workspace.file.read_text()}")
    words = (str(file), "-q", "-p", "no:cacheprovider", "-p", "a2a3sim", "-k", "small or sum")
    counts = []
    for _ in range(2):
        run = workspace.run(*words, tool="pytest")
        assert run.returncode == 0, run.stdout
        counts.append(len(list(logs.iterdir())))
    file.unlink()
    assert counts[1] == counts[0] + 1 > 2, counts


def test_several_files_and_directories(workspace: Workspace) -> None:
    run = workspace.run("-Q", "replay", "SCENE=scenes", tool="SCons")
    assert run.returncode == 2 and "[scene] FAIL TestExchange::wrong\n" in run.stdout, run.stdout
    assert "[scene] SKIP TestPairs::pairs_1: level 4: it needs several machines, and simpler's workers" in run.stdout
    assert "[scene] 6 passed, 3 failed, 8 skipped\n" in run.stdout, run.stdout
    named = "scenes/scene_chain.py::TestChain::loose,scenes/scene_chain.py::TestChain::small,scenes/scene_pairs.py"
    some = workspace.run(
        "replay", f"SCENE={named}", "CASE=small,loose", "SKIP_GOLDEN=1", "TIMEOUT=70", "VERBOSE=1", "FORCE=1"
    )
    assert some.returncode == 0 and some.stdout.endswith("[scene] 2 passed\n"), some.stdout
    limits = sorted(re.findall(r"DATA=(small|loose)\S* .*--timeout (\S+)", some.stdout))
    assert limits == [("loose", "700.0"), ("small", "70.0")], some.stdout  # a manual case may take longer
    (workspace.root / "scenes" / "scene_wrong.py").write_text(
        "from simpler_setup import SceneTestCase, scene_test\n@scene_test(level=2, runtime='x')\nclass A(:\n"
    )
    wrong = workspace.run("replay", "SCENE=scenes")
    (workspace.root / "scenes" / "scene_wrong.py").unlink()
    assert wrong.returncode == 1 and "[scene] 6 passed, 4 failed, 8 skipped\n" in wrong.stdout, wrong.stdout
    assert "[scene] FAIL scene_wrong.py: " in wrong.stdout and "scene_wrong.py:3: syntax error" in wrong.stdout


def test_the_rule(workspace: Workspace) -> None:
    run = workspace.run("-Q", "chain", tool="SCons")
    assert run.returncode == 0, run.stdout
    assert "[scene] SKIP TestOnChip::any: needs hardware: a2a3" in run.stdout
    assert re.search(r"^\[test\] PASS +chain ", run.stdout, re.MULTILINE), run.stdout
    why = workspace.run("-Q", "triage", "TEST=chain", tool="SCons")
    assert "TEST=chain: is a scene test; name one of its cases: SCENE=FILE::CLASS::CASE\n" in why.stdout, why.stdout


def test_instruments_take_scenes(workspace: Workspace) -> None:
    """Use kernels that read and write by plain C++ and include no header of instructions."""
    hazards = ("-Q", "hazards", "SCENE=scenes/scene_chain.py::TestChain::small")
    workspace.edit("kernels/chain.cpp", "second.add_inout(y)", "second.add_no_dep(y)")
    unseen = workspace.run(*hazards, tool="SCons")
    seen = workspace.run(*hazards, "MEMORY=weak", tool="SCons")
    workspace.edit("kernels/chain.cpp", "second.add_no_dep(y)", "second.add_inout(y)")
    assert unseen.returncode == 0 and unseen.stdout.endswith(": nothing found\n"), unseen.stdout
    assert seen.returncode == 2, seen.stdout
    findings = re.findall(r"scenes/kernels/(\S+): (\w+): .*\[(\S+)\]$", seen.stdout, re.MULTILINE)
    assert findings == [
        ("chain.cpp:32", "error", "hazards/raw"),
        ("chain.cpp:32", "error", "hazards/waw"),
        ("scaled.cpp:15", "error", "memory/unclean-store"),
        ("scaled.cpp:16", "error", "memory/unclean-store"),
        ("twice.cpp:9", "error", "memory/shared-line"),
        ("twice.cpp:9", "error", "memory/unclean-store"),
    ], seen.stdout


def test_triage_of_a_case(workspace: Workspace) -> None:
    scene = "SCENE=scenes/scene_chain.py::TestChain::small"
    workspace.edit("kernels/chain.cpp", "second.add_inout(y)", "second.add_no_dep(y)")
    run = workspace.run("-Q", "triage", scene, tool="SCons")
    workspace.edit("kernels/chain.cpp", "second.add_no_dep(y)", "second.add_inout(y)")
    assert run.returncode and "[triage] scene_chain-6dd792.TestChain: " in run.stdout, run.stdout
    assert "scenes/kernels/chain.cpp:" in run.stdout and "not run: hazards" not in run.stdout, run.stdout
    workspace.edit("kernels/twice.cpp", "2.0f * out[i]", "3.0f * out[i]")
    wrong = workspace.run("-Q", "replay", scene, tool="SCons")
    workspace.edit("kernels/twice.cpp", "3.0f * out[i]", "2.0f * out[i]")
    assert f"[RUN] why: scons triage {scene}\n" in wrong.stdout, wrong.stdout


def test_pytest(workspace: Workspace) -> None:
    words = ["scenes/scene_chain.py", "-p", "no:cacheprovider", "-rs", "-v", "--platform", "a2a3sim"]
    run = workspace.run(*words, tool="pytest")
    assert run.returncode == 0, run.stdout
    items = re.findall(r"::(\S+\[a2a3sim\]|test_worker|\S+::test_worker) (\w+)", run.stdout)
    assert sorted(items) == [  # whatever shuffles them
        ("TestChain::small[a2a3sim]", "PASSED"),
        ("TestJudged::sum[a2a3sim]", "PASSED"),
        ("TestOnChip::any[a2a3sim]", "SKIPPED"),
        ("TestOnChip::test_worker", "SKIPPED"),
    ]


def test_tests_that_drive_a_worker_themselves(workspace: Workspace) -> None:
    words = ["scenes/check_worker.py", "-p", "no:cacheprovider", "-rs", "-v", "-p", "a2a3sim"]
    run = workspace.run(*words, tool="pytest")
    assert run.returncode == 0, run.stdout
    assert sorted(re.findall(r"::(test_\S+) (\w+)", run.stdout)) == [
        ("test_a_program[a2a3sim]", "PASSED"),
        ("test_manual[a2a3sim]", "SKIPPED"),
        ("test_on_a_chip[a2a3sim]", "SKIPPED"),
        ("test_the_code_of_a_fault[a2a3sim]", "PASSED"),
        *((f"test_what_a_kernel_leaves_to_wait_for[a2a3sim-{case}]", "PASSED") for case in ("0-101", "1-102", "2-0")),
        ("test_what_nothing_stands_in_for[a2a3sim]", "SKIPPED"),
    ]
    assert "it uses simpler.worker.Worker of level 4, which needs simpler" in run.stdout


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("import nothing_of_this_name as n\nn.x()", "it cannot be imported: No module named 'nothing_of_this_name'"),
        ("open('kernel_config.py')", "FileNotFoundError: [Errno 2] No such file or directory: 'kernel_config.py'"),
    ],
)
def test_a_file_that_cannot_be_imported_is_an_error(workspace: Workspace, line: str, message: str) -> None:
    """It is no skip: a file that was moved away from those that it reads would pass."""
    file = workspace.root / "moved" / "test_moved.py"
    file.parent.mkdir(exist_ok=True)
    file.write_text(f"{line}\n{workspace.file.read_text()}")
    run = workspace.run(str(file), "-p", "no:cacheprovider", "-p", "a2a3sim", tool="pytest")
    assert run.returncode == 2 and "ERROR collecting" in run.stdout, run.stdout
    assert f"{file}: {message}; correct it, or keep it beside the files that it reads" in run.stdout
    run = workspace.run("replay", str(file))
    assert run.returncode == 2 and message in run.stdout, run.stdout
    file.write_text(f"import pytest\npytest.skip('not here', allow_module_level=True)\n{workspace.file.read_text()}")
    run = workspace.run(str(file), "-p", "no:cacheprovider", "-p", "a2a3sim", tool="pytest")
    assert run.returncode == 0 and "1 skipped" in run.stdout, run.stdout


def test_a_test_whose_own_module_imports_simpler(workspace: Workspace) -> None:
    package = workspace.root / "beside"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "main.py").write_text("from simpler.worker import Worker\n\ndef run(level):\n    Worker(level=level)\n")
    (package / "test_beside.py").write_text(
        "from .main import run\n\ndef test_chip():\n    run(2)\n\ndef test_chips():\n    run(4)\n"
    )
    run = workspace.run("beside", "-p", "no:cacheprovider", "-rs", "-p", "a2a3sim", tool="pytest")
    assert run.returncode == 0 and "1 passed, 1 skipped" in run.stdout, run.stdout
    assert "it uses simpler.worker.Worker of level 4, which needs simpler" in run.stdout


def test_a_file_whose_cases_are_all_manual_does_not_pass(workspace: Workspace) -> None:
    run = workspace.run("scene", "scenes/scene_chain.py", "-p", "a2a3sim", "--case", "matrix")
    assert run.returncode == 2, run.stdout
    assert "no selected case can run on this platform; its cases are manual: --manual include runs them" in run.stdout


def test_a_replay_of_cases_that_are_all_skipped_does_not_pass(workspace: Workspace) -> None:
    run = workspace.run("replay", "scenes/scene_chain.py::TestOnChip")
    assert run.returncode == 2, run.stdout
    assert "[scene] SKIP TestOnChip::any: needs hardware: a2a3\n" in run.stdout
    assert "[scene] no case runs: 1 skipped, nothing passed\n" in run.stdout
    file = workspace.root / "scenes" / "scene_manual.py"
    text = (workspace.root / "scenes" / "scene_methods.py").read_text()
    text = text.replace('["a5sim"], "manual"', '["a2a3sim"], "manual"')
    file.write_text(text.replace('{"name": "any"', '{"name": "by", "manual": True'))
    run = workspace.run("replay", "scenes/scene_manual.py")
    file.unlink()
    assert run.returncode == 2, run.stdout
    assert "[scene] no case runs: 2 skipped, nothing passed\n" in run.stdout


def test_the_list(workspace: Workspace) -> None:
    run = workspace.run("scene", "--list", "scenes")
    assert run.returncode == 0
    assert "  TestChain  level 2, tensormap_and_ringbuffer\n" in run.stdout
    assert "    matrix  a2a3sim (manual), a5sim\n" in run.stdout
    assert "    chip  a2a3  does not run here: its platforms are a2a3\n" in run.stdout
    assert "    test_worker  does not run here: needs hardware: a2a3\n" in run.stdout
    assert "    test_slots  pytest runs it\n" in run.stdout
    reason = "does not run here: level 4: it needs several machines, and simpler's workers"
    assert f"    pairs_2  a2a3sim  {reason}\n" in run.stdout
    assert run.stdout.endswith("5 files; 12 cases can run here\n")


@pytest.mark.parametrize(
    "words, message",
    [
        (["scene", "scenes/scene_chain.py", "-p", "a9"], "invalid choice: 'a9'"),
        (["scene", "scenes/scene_chain.py"], "--platform: is missing"),
        (["scene", "nowhere", "-p", "a2a3sim"], "nowhere: no such file or directory"),
        (["scene", "scenes/kernels", "-p", "a2a3sim"], "scenes/kernels: contains no scene test"),
        (["scene", "scenes/scene_chain.py", "-p", "a2a3sim", "--case", "none"], "--case none: no such case"),
        (
            ["replay", "scenes/scene_chain.py::TestNone"],
            "TestNone: no such class; its classes are TestChain, TestJudged",
        ),
        (["replay", "scenes/scene_chain.py::TestChain::x"], "no such case; its cases are small, matrix, loose, chip"),
        (["replay", "scenes/none.py"], "SCENE=scenes/none.py: no such file"),
        (["replay", "SCENE=scenes/kernels"], "SCENE=scenes/kernels: contains no scene test"),
        (["replay", "SCENE=scenes", "CASE=none"], "CASE=none: no such case in scenes"),
    ],
)
def test_usage_errors(workspace: Workspace, words: list[str], message: str) -> None:
    run = workspace.run(*words)
    assert run.returncode == 2 and message in run.stdout and "Traceback" not in run.stdout


def test_what_a_class_says_against_a_run(workspace: Workspace) -> None:
    workspace.edit("scene_chain.py", "FACTOR = 1.5", "FACTOR = 2.5")
    run = workspace.run("scene", "scenes/scene_chain.py", "-p", "a2a3sim", "--case", "TestJudged::sum")
    workspace.edit("scene_chain.py", "FACTOR = 2.5", "FACTOR = 1.5")
    assert run.returncode == 1
    assert lines(run.stdout) == ["TestJudged::sum FAILED: TestJudged: factor is 1.5"]


def test_code_that_fails_says_where(workspace: Workspace) -> None:
    workspace.edit("scene_chain.py", 'n = params["n"]', 'n = params["size"]')
    run = workspace.run("replay", "scenes/scene_chain.py::TestChain::small")
    workspace.edit("scene_chain.py", 'n = params["size"]', 'n = params["n"]')
    line = next(
        number for number, text in enumerate(workspace.file.read_text().splitlines(), 1) if "n = params" in text
    )
    assert run.returncode == 4 and f"{workspace.file}:{line}: KeyError: 'size'" in run.stdout, run.stdout


def test_a_file_in_which_something_is_wrong_is_one_of_several(workspace: Workspace) -> None:
    wrong = workspace.root / "scenes" / "scene_wrong.py"
    wrong.write_text("from simpler_setup import scene_test\n@scene_test(level=2, runtime='x')\nclass A(:\n")
    message = "scene_wrong.py:3: syntax error: invalid syntax"
    run = workspace.run("scene", "scenes/scene_chain.py", "scenes/scene_wrong.py", "-p", "a2a3sim", "--case", "::small")
    listed = workspace.run("scene", "--list", "scenes")
    wrong.unlink()
    assert run.returncode == 1 and f"scene_wrong.py FAILED: scenes/{message}" in run.stdout, run.stdout
    assert run.stdout.endswith("\n1 passed, 1 failed\n"), run.stdout
    assert listed.returncode == 0 and f"does not run here: scenes/{message}" in listed.stdout, listed.stdout


def test_a_golden_that_is_not_like_its_argument() -> None:
    argument = torch.zeros(2, 3)
    assert reshaped_golden(argument, "y", torch.ones(3)).tolist() == [[1, 1, 1], [1, 1, 1]]
    for golden, kind in (
        (torch.ones(4, 3), "float32[4, 3]"),
        (torch.ones(2, 3, dtype=torch.float64), "float64[2, 3]"),
        (1.5, "a float"),
    ):
        with pytest.raises(ArtifactError) as caught:
            reshaped_golden(argument, "y", golden)
        assert (f"compute_golden: after compute_golden, 'y' is {kind}, but the argument is float32[2, 3]") in str(
            caught.value
        )


def test_each_of_both_runtimes_gets_the_options_that_it_takes(workspace: Workspace, tmp_path: Path) -> None:
    words = ["scene", "scenes/scene_chain.py", "-p", "a2a3sim", "--case", "TestChain::small", "RUNTIME=both"]
    run = workspace.run(*words, f"SIMPLER={tmp_path}")
    assert run.returncode == 1 and "TestChain::small FAILED: embedded: passed; simpler: failed" in run.stdout, (
        run.stdout
    )
    assert f"{tmp_path}" in run.stdout and "has no effect" not in run.stdout


def test_a_signal_ends_all_that_was_started(workspace: Workspace) -> None:
    workspace.edit("scene_chain.py", 'n = params["n"]', "import time; time.sleep(600)")
    command = [sys.executable, "-m", "pypto_build.cli", "scene", "scenes/scene_chain.py", "-p", "a2a3sim"]
    marked = {**workspace.variables, "STARTED_FOR": str(workspace.root)}
    with subprocess.Popen(
        command,
        cwd=workspace.root,
        env=marked,
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN),  # as shells do for what is in the background
    ) as run:
        assert run.stdout is not None
        while "small ..." not in (line := run.stdout.readline()):
            assert line, "it ended"
        while len(before := _marked(workspace.root)) < 4:  # two of the command, its build, what makes data
            time.sleep(0.02)
        run.terminate()
        assert run.wait() == 128 + signal.SIGTERM
    workspace.edit("scene_chain.py", "import time; time.sleep(600)", 'n = params["n"]')
    assert run.pid in before and not _marked(workspace.root)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_pytest_that_is_ended_leaves_nothing_running(workspace: Workspace, number: signal.Signals) -> None:
    workspace.edit("scene_chain.py", 'n = params["n"]', "import time; time.sleep(600)")
    words = ["scenes/scene_chain.py", "-p", "no:cacheprovider", "-p", "a2a3sim"]
    with subprocess.Popen(
        [sys.executable, "-m", "pytest", *words],
        cwd=workspace.root,
        env=workspace.variables,
        stdout=subprocess.DEVNULL,
    ) as run:
        limit, family = time.monotonic() + 120, list[int]()
        while not any("interop.scene.data" in _command(process) for process in family):
            assert run.poll() is None and time.monotonic() < limit, family
            time.sleep(0.02)
            family = _family(run.pid)
        run.send_signal(number)
        assert run.wait() == -number
    workspace.edit("scene_chain.py", "import time; time.sleep(600)", 'n = params["n"]')
    while any(map(_command, family)) and time.monotonic() < limit:
        time.sleep(0.02)
    assert len(family) > 3 and not any(map(_command, family))


def _command(process: int) -> str:
    """Return the command line of a process; empty if it has ended."""
    with suppress(OSError):
        return Path(f"/proc/{process}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    return ""


def _family(process: int) -> list[int]:
    """Return the descendants of a process."""
    parents = dict[int, int]()
    for process_dir in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            parents[int(process_dir.name)] = int((process_dir / "stat").read_text().rpartition(")")[2].split()[1])
    processes = [process]
    for one in processes:
        processes += [child for child, parent in parents.items() if parent == one]
    return processes[1:]


def _marked(root: Path) -> list[int]:
    """Return the processes that were started for a workspace."""
    processes = list[int]()
    for process_dir in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if f"STARTED_FOR={root}\0".encode() in (process_dir / "environ").read_bytes():
                processes.append(int(process_dir.name))
    return processes


def test_clean_leaves_nothing(tmp_path: Path, workspace: Workspace) -> None:
    run = workspace.run("-Q", "-c", tool="SCons")
    assert run.returncode == 0 and not (workspace.root / "build").exists(), run.stdout
    assert workspace.file.exists()
