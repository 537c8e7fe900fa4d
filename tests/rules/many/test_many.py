"""One command on many artifacts: what runs, what is told, how it ends."""

from __future__ import annotations

import json
import os
import re
import signal
import time
from xml.etree import ElementTree

import pytest

from pypto_build.replay.history import NAME, History
from tests.rules.many.conftest import Add
from tests.rules.project import Project

_SHAPE = "write an artifact, then NAME=value words, such as: _jit_x TAGS=fast RTOL=1e-3"
_TIME = re.compile(r"\d+\.\d+ s")


def table(output: str) -> list[str]:
    """The lines of what was printed, without times, typographic quotes and the blanks that line them up."""
    lines = [re.sub("[\u2018\u2019]", "_", _TIME.sub("T", line)) for line in output.splitlines()]
    return [re.sub(" {2,}", "  ", line).strip() for line in lines if line.strip()]


@pytest.fixture
def three(project: Project, add: Add) -> Project:
    """The artifact that passes, one that does not build, one that is wrong."""
    add("_jit_broken", "in[i] * nothing")
    add("_jit_wrong", "3.0f * in[i]")
    return project


def test_the_worst_first_and_its_status(three: Project) -> None:
    run = three.cli("replay", "_jit_*")
    assert run.status == 3
    assert table(run.output) == [
        "status  artifact  time  since  what is wrong",
        "build_error  _jit_broken a2a3sim  T  first listed  kernels/aiv/twice.cpp:11:66: error:"
        " _nothing_ was not declared in this scope",
        "mismatch  _jit_wrong a2a3sim  T  first listed  1 of 1 outputs differ",
        "pass  _jit_chain a2a3sim  T  first listed",
        "_jit_broken a2a3sim: see build/logs/_jit_broken_a2a3sim.replay.log",
        "_jit_wrong a2a3sim: pypto-build triage build_output/_jit_wrong",
        "=== 2 failed, 1 passed in T ===",
    ]
    log = (three.root / "build/logs/_jit_broken_a2a3sim.replay.log").read_text(encoding="utf-8")
    assert "was not declared in this scope" in log
    verdict = json.loads((three.root / "build/a2a3sim/_jit_broken/verdict.json").read_bytes())
    assert verdict["status"] == "build_error"


def test_what_is_unchanged_runs_nothing(three: Project) -> None:
    three.quiet("replay", "JIT=_jit_*")
    verdict = three.out / "verdict.json"
    before = (three.out / "replays/default/actual").stat().st_mtime_ns
    run = three.quiet("replay", "JIT=_jit_*")
    assert "pass  _jit_chain a2a3sim  cached  2 runs" in table(run.output)
    assert table(run.output)[-1] == "=== 2 failed, 1 passed (1 cached) in T ==="
    assert (three.out / "replays/default/actual").stat().st_mtime_ns == before
    assert json.loads(verdict.read_bytes())["cached"] is True


def test_an_edit_is_seen(three: Project) -> None:
    three.quiet("replay", "JIT=_jit_*")
    three.edit("kernels/aiv/twice.cpp", "2.0f", "2.5f")
    three.edit_file("build_output/_jit_wrong/kernels/aiv/twice.cpp", "3.0f", "2.0f")
    run = three.quiet("replay", "JIT=_jit_*")
    rows = table(run.output)
    assert "mismatch  _jit_chain a2a3sim  T  was pass  1 of 1 outputs differ" in rows
    assert "pass  _jit_wrong a2a3sim  T  was mismatch" in rows


def test_a_lost_binary_is_not_taken_for_unchanged(project: Project, add: Add) -> None:
    add("_jit_other")
    project.quiet("replay", "JIT=_jit_*")
    (project.out / "kernels/aiv/twice.so").unlink()
    run = project.quiet("replay", "JIT=_jit_*")
    assert run.status == 0
    assert (project.out / "kernels/aiv/twice.so").is_file()


def test_platforms_and_build(project: Project) -> None:
    run = project.quiet("build", "JIT=_jit_chain", "PLATFORM=a2a3sim,a5sim")
    assert run.status == 0
    assert [row.split("  ")[:2] for row in table(run.output)[1:-1]] == [
        ["pass", "_jit_chain a2a3sim"],
        ["pass", "_jit_chain a5sim"],
    ]
    assert (project.root / "build/a5sim/_jit_chain/kernels/aiv/twice.so").is_file()
    repeated = project.quiet("build", "JIT=_jit_chain", "PLATFORM=a2a3sim,a5sim")
    assert table(repeated.output)[-1] == "=== 2 passed (2 cached) in T ==="


def test_one_match_is_one_artifact(project: Project) -> None:
    run = project.quiet("replay", "JIT=_jit_ch*")
    assert run.status == 0
    assert "[RUN] PASS" in run.output
    assert not (project.root / "build" / NAME).exists()


def test_a_tool_on_many(three: Project) -> None:
    run = three.quiet("lint", "JIT=_jit_chain,_jit_wrong")
    assert run.status == 0
    assert [row.split("  ")[:2] for row in table(run.output)[1:-1]] == [
        ["pass", "_jit_chain a2a3sim"],
        ["pass", "_jit_wrong a2a3sim"],
    ]


def test_what_ends_before_its_targets_is_no_pass(three: Project) -> None:
    """An SConstruct that raises behind the tool: nothing was done, whatever nobody has reported."""
    sconstruct = three.root / "SConstruct"
    sconstruct.write_text(sconstruct.read_text(encoding="utf-8") + '\nraise ValueError("mine")\n', encoding="utf-8")
    for target in ("lint", "replay"):
        run = three.quiet(target, "JIT=_jit_chain,_jit_wrong")
        assert run.status != 0
        assert [row.split("  ")[:2] for row in table(run.output)[1:-1] if row.startswith("usage_error")] == [
            ["usage_error", "_jit_chain a2a3sim"],
            ["usage_error", "_jit_wrong a2a3sim"],
        ]
        assert "ValueError: mine" in run.output and "2 failed in" in run.output


def test_a_list_with_options_and_tags(three: Project) -> None:
    text = "# nightly\n_jit_chain TAGS=fast,good\n_jit_wrong TAGS=fast RTOL=9 PLATFORM=a2a3sim,a5sim\n_jit_broken\n"
    three.write("list.txt", text)
    run = three.quiet("replay", "JIT=@list.txt", "TAGS=fast")
    assert run.status == 0
    assert [row.split("  ")[:2] for row in table(run.output)[1:-1]] == [
        ["pass", "_jit_chain a2a3sim"],
        ["pass", "_jit_wrong a2a3sim RTOL=9"],
        ["pass", "_jit_wrong a5sim RTOL=9"],
    ]


@pytest.mark.parametrize(
    ("words", "line", "message"),
    [
        (["JIT=@none.txt"], "", "JIT=@none.txt: the list cannot be read: No such file or directory; name a file of"),
        (["JIT=@list.txt"], "_jit_chain fast", (
            f"list.txt:1: is not a valid line of the list: _jit_chain "
            f"fast; {_SHAPE}"
        )),
        (["JIT=@list.txt"], "'_jit_chain", (
            f"list.txt:1: is not a valid line of the list: No closing "
            f"quotation; {_SHAPE}"
        )),
        (["JIT=@list.txt"], "_jit_chain RTOL=x", "list.txt:1: RTOL=x: is not a finite number of 0 or more"),
        (["JIT=@list.txt"], "_jit_chain SHARD=1/2", (
            "list.txt:1: SHARD= applies to the whole command, not to one line of the list; pass it on the "
            "command line of scons"
        )),
        (["JIT=_jit_*", "SHARD=3/2"], "", (
            "SHARD=3/2: is not a valid share; write SHARD=2/8 for the "
            "second of eight parts"
        )),
        (["JIT=_jit_*", "TAGS=fast"], "", (
            "TAGS=fast: no artifact has one of these tags; lines of a list "
            "have tags, as in"
        )),
        (["JIT=_jit_*", "PLATFORM=a2a3sim,a9"], "", "PLATFORM=a9: is not a platform; use some of a2a3, a5"),
        (["JIT=_jit_*", "WATCH=1"], "", (
            "WATCH=1: works on one artifact only; leave it out, or name one "
            "artifact with JIT="
        )),
        (["JIT=_jit_*", "RTOLL=1"], "", "RTOLL=1: no such option; did you mean RTOL=?"),
        (["JIT=_jit_z*,_jit_chain"], "", "JIT=_jit_z*: no such artifact in build_output or examples/artifacts; there "),
        (["JIT=../other/_jit_chain,_jit_chain"], "", "_jit_chain: has the same name as"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_selection(project: Project, add: Add, words: list[str], line: str, message: str) -> None:
    add("_jit_other")
    if words[0].startswith("JIT=.."):
        (project.root.parent / "other").mkdir(exist_ok=True)
        os.symlink(project.artifact, project.root.parent / "other/_jit_chain")
    if line:
        project.write("list.txt", line + "\n")
    run = project.quiet("replay", *words)
    assert run.status == 2
    assert run.output.startswith("scons: *** ")
    assert run.output.count("\n") == 1
    assert message in run.output
    assert not list(project.root.glob("build/**/*.so"))


def test_shares_are_disjoint_and_complete(project: Project, add: Add) -> None:
    for number in range(4):
        add(f"_jit_{number}")
    seen: list[str] = []
    for share in ("1/2", "2/2"):
        run = project.quiet("lint", "JIT=_jit_*", f"SHARD={share}")
        seen += re.findall(r"(_jit_\w+) a2a3sim", run.output)
    assert sorted(seen) == ["_jit_0", "_jit_1", "_jit_2", "_jit_3", "_jit_chain"]


def test_files_for_ci(three: Project) -> None:
    three.quiet("replay", "JIT=_jit_*", "JUNIT=j.xml", "JSON=o.json", "HTML=runs.html")
    suite = ElementTree.parse(three.root / "j.xml").getroot()
    suite = suite if suite.tag == "testsuite" else suite[0]
    assert {name: suite.get(name) for name in ("tests", "failures", "errors")} == {
        "tests": "3", "failures": "1", "errors": "1",
    }  # fmt: skip
    assert "was not declared" in (three.root / "j.xml").read_text(encoding="utf-8")
    assert len(json.loads((three.root / "o.json").read_bytes())) > 0
    page = (three.root / "runs.html").read_text(encoding="utf-8")
    assert "2 of 3 fail" in page
    assert page.index("replay _jit_broken a2a3sim") < page.index("replay _jit_chain a2a3sim")


def test_history_remembers_every_run(three: Project) -> None:
    three.quiet("replay", "JIT=_jit_*")
    three.edit_file("build_output/_jit_wrong/kernels/aiv/twice.cpp", "3.0f", "2.0f")
    three.quiet("replay", "JIT=_jit_*")
    history = History(three.root / "build" / NAME)
    assert [run.verbs for run in history.runs()] == ["replay", "replay"]
    results = history.results()
    assert [result.status for result in results["replay _jit_wrong a2a3sim"].values()] == ["mismatch", "pass"]
    assert [result.cached for result in results["replay _jit_chain a2a3sim"].values()] == [False, True]
    past = history.past(["replay _jit_chain a2a3sim"])["replay _jit_chain a2a3sim"]
    assert (past.status, past.runs) == ("pass", 2)
    assert past.seconds > 0
    assert past.memory > 1 << 20


def test_a_damaged_history_costs_a_line(three: Project) -> None:
    (three.root / "build").mkdir()
    (three.root / "build" / NAME).write_bytes(b"SQLite format 3\0" + b"x" * 5000)
    run = three.quiet("lint", "JIT=_jit_*")
    assert run.status == 0
    assert run.output.count("is not a valid history of runs") == 1
    assert table(run.output)[-1] == "=== 3 passed in T ==="
    assert len(History(three.root / "build" / NAME).runs()) == 1


def test_ctrl_c_ends_at_once_with_what_is_known(project: Project, add: Add) -> None:
    project.quiet("replay", "JIT=_jit_chain")
    add("_jit_hang", "([] { for (volatile int i = 0;; ) { i = i; } return 0.0f; }())")
    process = project.start("SCons", "-Q", "replay", "JIT=_jit_*", "TIMEOUT=100")
    out = project.root / "build/a2a3sim/_jit_hang"
    deadline = time.monotonic() + 60
    while not (out / "kernels/aiv/twice.so").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(2.0)
    begun = time.monotonic()
    os.killpg(process.pid, signal.SIGINT)
    output, _ = process.communicate(timeout=30)
    assert time.monotonic() - begun < 25  # of a hundred
    assert process.returncode == 130
    rows = table(output)
    assert rows[1:2] == ["pass  _jit_chain a2a3sim  cached  first listed"]
    assert rows[-1] == "=== 1 passed (1 cached), 1 not done in T (interrupted) ==="
    assert not _of_hang()
    assert not (out / "verdict.json").exists()


@pytest.mark.parametrize("name", ["_jit_[a]", "_jit_*", "_jit_a,b"])
def test_a_directory_of_exactly_that_name_comes_before_a_glob(project: Project, add: Add, name: str) -> None:
    add("_jit_a", "3.0f * in[i]")
    add(name)
    run = project.quiet("replay", f"JIT={name}")
    assert run.status == 0, run.output
    assert (project.root / "build/a2a3sim" / name / "verdict.json").is_file()
    assert not (project.root / "build/a2a3sim/_jit_a").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["JIT=@list.txt"], "JIT=@list.txt: the list names no artifact; write an artifact, then NAME=value words"),
        (["JIT=,,,"], "JIT=,,,: contains no name; separate names by commas"),
        (["JIT=_jit_chain", "PLATFORM=,"], "PLATFORM=,: contains no name; separate names by commas"),
        (["JIT=_jit_*", "TAGS=,,"], "TAGS=,,: contains no name; separate names by commas"),
        (["SCENE=,"], "SCENE=,: contains no name; separate names by commas"),
        (["JIT=_jit_chain", "DUMP_ARGS=,,"], "DUMP_ARGS=,,: contains no name; separate names by commas"),
    ],
)
@pytest.mark.parametrize("text", ["", "# _jit_chain\n\n   # nothing\n"])
def test_a_selection_of_nothing_is_a_usage_error(project: Project, words: list[str], message: str, text: str) -> None:
    project.write("list.txt", text)
    run = project.quiet("replay", *words)
    assert run.status == 2, run.output
    assert message in run.output
    assert not project.out.exists()
    assert "Traceback" not in run.output
    names = [word.removeprefix("JIT=") for word in words]
    assert project.cli("replay", *names).status == 2


def _of_hang() -> list[str]:
    """Processes that still work for the artifact that hangs."""
    commands = []
    for process in os.listdir("/proc"):
        try:
            with open(f"/proc/{process}/cmdline", "rb") as file:
                line = file.read().decode(errors="replace")
        except OSError:
            continue
        commands += [line] if "pypto_build.replay" in line and "_jit_hang" in line else []
    return commands


def test_a_process_that_is_killed_is_one_failed_job(project: Project, add: Add) -> None:
    add("_jit_other")
    text = (project.root / "SConstruct").read_text(encoding="utf-8")
    more = "import os, signal\nif 'other' in ARGUMENTS.get('JIT', ''): os.kill(os.getpid(), signal.SIGKILL)\n"
    project.write("SConstruct", text + more)
    run = project.quiet("build", "JIT=_jit_*")
    assert (
        "build_error  _jit_other a2a3sim  T  first listed  its process was ended by signal 9; the system may have"
        in ("\n".join(table(run.output)))
    )
    assert table(run.output)[-1] == "=== 1 failed, 1 passed in T ==="
