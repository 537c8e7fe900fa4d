"""Distributed artifacts from an edit to a verdict: every chip program's files are nodes, and the driver runs late."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.rules.project import Project

_EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "distributed"
_KERNEL = "next_levels/publish/kernels/aiv/scale_rows.cpp"


def _use(project: Project, name: str) -> Project:
    """A workspace with a copy of an example."""
    project.artifact = project.root / "build_output" / name
    project.out = project.root / "build" / "a2a3sim" / name
    shutil.copytree(_EXAMPLES / name, project.artifact)
    return project


@pytest.fixture(scope="module")
def binaries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store that has those of the example, and no verdict."""
    project = _use(Project(tmp_path_factory.mktemp("binaries") / "here"), "_jit_dist_allreduce")
    run = project.scons("build", f"JIT={project.artifact.name}")
    assert run.status == 0, run.output
    return Path(project.store)


@pytest.fixture
def allreduce(project: Project, binaries: Path) -> Project:
    shutil.copytree(binaries, project.store)
    return _use(project, "_jit_dist_allreduce")


def test_one_edit_is_one_compile(allreduce: Project) -> None:
    run = allreduce.replay()
    assert run.status == 0, run.output
    verdict = allreduce.verdict()
    assert (verdict["status"], verdict["tasks"], verdict["cached"]) == ("pass", 4, False)
    assert allreduce.replay().actions == []
    assert allreduce.verdict()["cached"] is True
    allreduce.edit(_KERNEL, "TMULS(v9, v8, v3);", "TMULS(v9, v8, 2.0f * v3);")
    run = allreduce.replay()
    assert (run.status, run.actions) == (
        2,
        [f"compile {_KERNEL}", "link kernels/aiv/scale_rows.so", "run _jit_dist_allreduce"],
    )
    assert allreduce.verdict()["status"] == "mismatch"
    allreduce.edit(_KERNEL, "TMULS(v9, v8, 2.0f * v3);", "TMULS(v9, v8, v3);")
    assert allreduce.replay().status == 0
    allreduce.edit(_KERNEL, "TMULS(v9, v8, v3);", "TMULT(v9, v8, v3);")
    assert allreduce.replay().status == 2
    verdict = allreduce.verdict()  # of the whole, not of the pass before
    assert verdict["status"] == "build_error"
    assert "TMULT" in str(verdict["error"])


def test_kernels_of_all_chips_are_held_to_the_rules_of_the_device(allreduce: Project, tmp_path: Path) -> None:
    """A wait that is deleted changes no object; it is told of the chip program's file, wherever verdicts go."""
    allreduce.edit(_KERNEL, "  wait_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);\n", "")
    message = f"{_KERNEL}:45: set_flag(PIPE_V, PIPE_MTE3, EVENT_ID0) without its wait_flag"
    junit, sarif = tmp_path / "junit.xml", tmp_path / "out.sarif"
    run = allreduce.replay(f"JUNIT={junit}", f"SARIF={sarif}")
    assert run.status == 0, run.output
    assert "[RUN] PASS, 1 device rule broken" in run.output
    assert f"[rules] {message}: nothing waits for the flag: what follows runs ahead" in run.output
    (rule,) = json.loads((allreduce.out / "verdict.json").read_text())["rules"]
    assert (rule["path"], rule["line"], rule["rule"]) == (_KERNEL, 45, "flag")
    (property_,) = [
        one.get("value", "") for one in ElementTree.parse(junit).iter("property") if one.get("name") == "rule"
    ]
    assert property_.startswith(message)
    (result,) = json.loads(sarif.read_text(encoding="utf-8"))["runs"][0]["results"]
    where = result["locations"][0]["physicalLocation"]
    assert (where["artifactLocation"]["uri"].endswith(_KERNEL), where["region"]["startLine"]) == (True, 45)
    assert allreduce.replay("RULES=error").status == 2
    assert allreduce.verdict()["status"] == "rule_broken"


def test_rules_that_only_a_run_decides_are_found_on_every_rank(allreduce: Project) -> None:
    """The result lies across its operand, at an address that the text does not tell."""
    allreduce.edit(_KERNEL, "TASSIGN(v9, v7);", "TASSIGN(v9, v6 + 64 * (v7 / v7));")
    run = allreduce.quiet("hazards", f"JIT={allreduce.artifact.name}", "WORLD=2")
    lines = [line for line in run.output.splitlines() if "breaks the rule 'same_or_apart(dst, src)'" in line]
    assert len(lines) == 1, run.output
    assert f"{_KERNEL}:44" in lines[0]
    assert "on ranks 0, 1" in run.output


def test_the_driver_is_an_input_and_runs_in_the_replay_alone(allreduce: Project) -> None:
    mark = allreduce.root / "driver ran"
    allreduce.edit(
        "orchestration/host_orch.py", "import torch\n", f"import torch\nopen({str(mark)!r}, 'a').write('x')\n"
    )
    assert allreduce.scons("build", f"JIT={allreduce.artifact.name}").status == 0
    assert allreduce.scons("graph", f"JIT={allreduce.artifact.name}").status == 0
    assert not mark.exists()
    assert allreduce.replay().status == 0
    assert mark.read_text() == "x"
    allreduce.edit("orchestration/host_orch.py", 'tensors["x"][r, 0:256]', 'tensors["x"][0, 0:256]')
    run = allreduce.replay()
    assert (run.status, run.actions) == (2, ["run _jit_dist_allreduce", "sign orchestration/host_orch.py"])
    assert allreduce.verdict()["status"] == "mismatch"


def test_faults_of_the_driver_name_its_line(allreduce: Project) -> None:
    allreduce.edit("orchestration/host_orch.py", 'callables["reduce"]', 'callables["reduse"]')
    text = (allreduce.artifact / "orchestration/host_orch.py").read_text().splitlines()
    line = next(number for number, line in enumerate(text, 1) if "reduse" in line)
    run = allreduce.replay()
    assert f"runtime_error: orchestration/host_orch.py:{line}: KeyError: there is no 'reduse'" in run.output
    assert "Traceback" not in run.output


def test_other_tools_say_what_to_name(allreduce: Project) -> None:
    run = allreduce.quiet("bisect", f"JIT={allreduce.artifact.name}", "AXIS=flags", "GOOD=-O0", "BAD=-O3")
    assert run.status == 2
    assert run.output.strip().splitlines()[-1] == (
        f"scons: *** {allreduce.artifact}: is a program for several chips, but 'scons bisect' works on the program of one chip; "
        "name one with JIT=, of _jit_dist_allreduce/next_levels/publish, _jit_dist_allreduce/next_levels/reduce"
    )


def test_the_instruments_look_at_all_ranks(allreduce: Project) -> None:
    """One replay for all of them, and the records of any rank by RANK=; a null run makes none."""
    jit = f"JIT={allreduce.artifact.name}"
    run = allreduce.quiet("deps", "dump", "report", "lint", "pack", jit, "WORLD=2")
    assert run.status == 0, run.output
    lines = run.output.splitlines()
    assert sum("[RUN] PASS" in line for line in lines) == 1
    assert any(line.startswith("2 ranks, 4 dispatches of 2 programs, domains: comm_d0") for line in lines)
    assert any(line.startswith("1/d1  0 (1:0)  sum_ranks") for line in lines)
    assert f"[lint] {allreduce.artifact.name}: nothing found" in lines
    assert (allreduce.out / "report.html").is_file()
    run = allreduce.quiet("dump", "deps", jit, "WORLD=2", "RANK=1/d1", "TASK=0")
    assert (run.status, "[RUN] PASS" in run.output) == (0, False)  # the same records as before
    assert "rank 1 d1 'reduce', submitted at orchestration/host_orch.py:50" in run.output
    pack = allreduce.out / f"{allreduce.artifact.name}.tar.zst"
    run = allreduce.cli("replay", str(pack))
    assert (run.status, "[RUN] PASS" in run.output) == (0, True), run.output


def test_a_replay_that_fails_leaves_its_pack(allreduce: Project) -> None:
    allreduce.edit(_KERNEL, "TMULS(v9, v8, v3);", "TMULS(v9, v8, 2.0f * v3);")
    run = allreduce.scons("replay", f"JIT={allreduce.artifact.name}", "PACK=onfail")
    pack = allreduce.out / f"{allreduce.artifact.name}.tar.zst"
    assert run.status == 2 and f"elsewhere, pypto-build replay {pack.name}" in run.output, run.output
    assert pack.is_file()


def test_what_one_chip_does_not_take(project: Project) -> None:
    for option in ("WORLD=2", "RANK=1"):
        run = project.quiet("dump", f"JIT={project.artifact.name}", option)
        assert (run.status, run.output.splitlines()[-1]) == (
            2,
            f"scons: *** {option}: {project.artifact.name} is a program for one chip; leave it out",
        )


def test_replay_tests_have_ranks(allreduce: Project) -> None:
    """Two tests of one artifact share its binaries; one of a program on one chip has no ranks."""
    allreduce.write(
        "SConstruct",
        "from pypto_build.rules import pypto\nenv = Environment(tools=[pypto])\n"
        f"dist = 'build_output/{allreduce.artifact.name}'\n"
        "env.ReplayTest(name='two', artifact=dist, world=2, signature=['IN', 'OUT'], tags=['ranks'])\n"
        "env.ReplayTest(name='three', artifact=dist, world=3, tags=['ranks'])\n"
        "env.ReplayTest(name='wrong', artifact=dist, signature=['IN'], tags=['ranks'])\n"
        "env.ReplayTest(name='one', artifact='build_output/_jit_chain', world=2, tags=['ranks'])\n",
    )
    run = allreduce.quiet("test", "TAGS=ranks")
    output = run.output
    words = [line.split() for line in output.splitlines() if line.startswith("[test] ")]
    assert {(line[2], line[1]) for line in words} == {
        ("two", "PASS"),
        ("three", "ERROR"),
        ("wrong", "ERROR"),
        ("one", "ERROR"),
    }
    assert "one: world=2: _jit_chain is a program for one chip; leave out world=" in output
    assert (
        "wrong: signature: has 1 tensor, the artifact 2; declare it as the artifact does: x: IN, total: OUT" in output
    )
    assert "orchestration/host_orch.py:25: IndexError: index 2 is out of bounds" in output  # data of two ranks


def test_triage_finds_what_is_unordered(allreduce: Project) -> None:
    allreduce.edit(_SUM, _WAIT, "(void)v12;")
    run = allreduce.quiet("triage", f"JIT={allreduce.artifact.name}")
    assert run.status != 0
    assert f"[triage] {allreduce.artifact.name}: " in run.output
    assert "no notify and wait order these two accesses [hazards/unordered-ranks]" in run.output


_SUM = "next_levels/reduce/kernels/aiv/sum_ranks.cpp"
_WAIT = "comm::TWAIT(v12, static_cast<int32_t>(1), comm::WaitCmp::GE);"


def _findings(project: Project) -> list[str]:
    """Return the findings of `scons hazards`, without numbers of lines and ranks that a schedule chooses."""
    run = project.quiet("hazards", f"JIT={project.artifact.name}")
    return [line for line in run.output.splitlines() if "[hazards/" in line]


def test_hazards_between_ranks(allreduce: Project) -> None:
    assert _findings(allreduce) == []
    # A read that no wait orders after the other rank's write.
    allreduce.edit(_SUM, _WAIT, "(void)v12;")
    text = (allreduce.artifact / _SUM).read_text().splitlines()
    own, others = (
        next(n for n, line in enumerate(text, 1) if f"TLOAD({tile})" in line) for tile in ("v13, v17", "v14, v18")
    )
    assert _findings(allreduce) == [
        f"{_SUM}:{line}: error: rank {reader} d1 'reduce' kernel 'sum_ranks' TLOAD reads comm_d0.partial_buf+0..1023 of "
        f"rank {writer}, and rank {writer} d0 'publish' kernel 'scale_rows' TSTORE writes the same bytes: no notify "
        "and wait order these two accesses [hazards/unordered-ranks]"
        for line, reader, writer in ((own, 1, 0), (others, 0, 1))
    ]
    allreduce.edit(_SUM, "(void)v12;", _WAIT)
    # All ranks set one cell: what one notified is lost.
    allreduce.edit(
        _SUM, "comm::Signal v12(peer_address(v4, v2 + v10, v11));", "comm::Signal v12(peer_address(v4, v2, v11));"
    )
    allreduce.edit(
        _SUM,
        "comm::TNOTIFY(v12, static_cast<int32_t>(1), comm::NotifyOp::AtomicAdd);",
        "comm::TNOTIFY(v12, static_cast<int32_t>(1), comm::NotifyOp::Set);",
    )
    allreduce.edit(_SUM, "comm::Signal v12(v2 + v11);\n    comm::TWAIT", "comm::Signal v12(v2);\n    comm::TWAIT")
    assert any(
        "setting a signal overwrites the notifications of other ranks [hazards/signal-set-by-several]" in line
        for line in _findings(allreduce)
    )


def test_a_window_that_is_written_again_too_early(allreduce: Project) -> None:
    """The next round's publish does not wait until the peers have read."""
    driver = allreduce.artifact / "orchestration/host_orch.py"
    text = driver.read_text()
    start = text.index("        for r in range(0, world_size, 1):")
    end = text.index("\n\n\ndist_allreduce._pypto")
    driver.write_text(text[:end] + "\n" + text[start:end] + text[end:])
    kernel = "next_levels/publish/kernels/aiv/scale_rows.cpp"
    lines = (allreduce.artifact / kernel).read_text().splitlines()
    line = next(number for number, line in enumerate(lines, 1) if "TSTORE" in line)
    assert _findings(allreduce) == [
        f"{kernel}:{line}: error: rank {writer} d2 'publish' kernel 'scale_rows' TSTORE writes comm_d0.partial_buf+0..1023 "
        f"of rank {writer}, and rank {reader} d1 'reduce' kernel 'sum_ranks' TLOAD reads the same bytes: no notify "
        "and wait order these two accesses [hazards/window-reused-early]"
        for writer, reader in ((0, 1), (1, 0))
    ]


_ONE = "next_levels/stage_one/kernels/aiv/scale_and_send.cpp"
_TWO = "next_levels/stage_two/kernels/aiv/receive_and_shift.cpp"
_PUT = "next_levels/exchange/kernels/aiv/put_parts.cpp"

#: Example, file, what is changed into what, and what is said: by `scons hazards` or, of a deadlock, by the replay.
_BUGS = [
    (
        "pipeline", _ONE, "if (v5 >= 2)", "if (v5 >= 20)",
        "rank 0 d0 'stage_one' kernel 'scale_and_send' TSTORE writes comm_d0.slots_buf+0..1023 of rank 1, and rank 1 d0 "
        "'stage_two' kernel 'receive_and_shift' TLOAD reads the same bytes: "
        "no notify and wait order these two accesses [hazards/window-reused-early]",
    ),
    (
        "pipeline", _TWO, "TWAIT(v6, static_cast<int32_t>(v5 + 1)", "TWAIT(v6, static_cast<int32_t>(0)",
        "rank 1 d0 'stage_two' kernel 'receive_and_shift' TLOAD reads comm_d0.slots_buf+0..1023 of rank 1, and rank 0 d0 "
        "'stage_one' kernel 'scale_and_send' TSTORE writes the same bytes: "
        "no notify and wait order these two accesses [hazards/unordered-ranks]",
    ),
    (
        "pipeline", _TWO, "TWAIT(v6, static_cast<int32_t>(v5 + 1)", "TWAIT(v6, static_cast<int32_t>(v5 + 2)",
        "the ranks wait for each other: rank 1 d0 'stage_two' kernel 'receive_and_shift' (task 0) waits for "
        "comm_d0.full_buf+0 >= 5, it is 4 (notified 4 times by rank 0 'scale_and_send'",
    ),
    (
        "all_to_all", _PUT, "arrived + v5, v6", "arrived + v5 + 1, v6",
        "the ranks wait for each other: rank 0 d0 'exchange' kernel 'put_parts' (task 0) waits for "
        "comm_d0.arrived_buf+0 >= 1, it is 0 (no rank has notified it); rank 1 d0 ",
    ),
    (
        "all_to_all", _PUT, "inbox + v5 * 64, v6", "inbox, v6",
        "TPUT writes comm_d0.inbox_buf+0..255 of rank 0, and rank 0 d0 'exchange' kernel 'put_parts' TPUT writes the same bytes: "
        "no notify and wait order these two accesses [hazards/unordered-ranks]",
    ),
    (
        "all_to_all", _PUT, "inbox + v5 * 64, v6", "inbox + v5 * 64 + 4096, v6",
        "d0 'exchange': kernel 'put_parts' crashed at build_output/_jit_dist_all_to_all/next_levels/exchange/kernels/aiv/put_parts.cpp:51: SIGSEGV",
    ),
]  # fmt: skip


@pytest.mark.parametrize("bug", _BUGS, ids=[f"{bug[0]}-{number}" for number, bug in enumerate(_BUGS)])
def test_planted_bugs(project: Project, bug: tuple[str, str, str, str, str]) -> None:
    name, path, old, new, message = bug
    _use(project, f"_jit_dist_{name}").edit(path, old, new)
    target = "hazards" if "[hazards/" in message else "replay"
    run = project.quiet(target, f"JIT={project.artifact.name}", "TIMEOUT=40")
    assert run.status != 0
    assert message in run.output, run.output


def test_instruments_as_tests(allreduce: Project) -> None:
    """The test is of the whole: ranks together, every chip program built checked, and an edit of one counts."""
    artifact = "artifact='build_output/_jit_dist_allreduce'"
    rules = f"env.LintTest(name='lint_d', {artifact})\nenv.HazardTest(name='hazards_d', {artifact})\n"
    allreduce.write("SConstruct", f"from pypto_build.rules import pypto\nenv = Environment(tools=[pypto])\n{rules}")
    run = allreduce.scons("test")
    assert run.status == 0 and "2 passed" in run.output, run.output
    assert {"run hazards_d", "run lint_d", "compile next_levels/publish/kernels/aiv/scale_rows.cpp"} <= set(run.actions)
    run = allreduce.scons("test")
    # In a rank's sandbox, the program that looks up lines is not seen: no result is kept, and the line says why.
    assert (run.status, run.actions) == (0, ["run hazards_d"]), run.output
    assert "lint_d       cached" in run.output and "addr2line cannot be watched" in run.output
    allreduce.edit("next_levels/reduce/kernels/aiv/sum_ranks.cpp", "comm::TWAIT(", "(void)(")
    run = allreduce.quiet("hazards_d")
    assert run.status == 2 and "FAIL      hazards_d" in run.output and "hazards/" in run.output, run.output
