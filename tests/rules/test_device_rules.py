"""Rules of the device in the loop of an edit: what a replay says of kernels that break them, and when it runs again."""

from __future__ import annotations

import json
import os
from pathlib import Path
from xml.etree import ElementTree

import pytest

from pypto_build.rules.device_rules import _leave, _read, _Record
from tests.rules.project import Project, Saved

KERNEL = "kernels/aiv/gate_rows.cpp"
WAIT = "  wait_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);\n"
APART, SHARED = "TASSIGN(v24, v29);", "TASSIGN(v24, v18);"
AT_RUN_TIME = "TASSIGN(v24, v18 * (v29 / v29));"  # the address of SHARED, which the text does not tell


@pytest.fixture(scope="module")
def replayed(tmp_path_factory: pytest.TempPathFactory) -> Saved:
    """A workspace whose artifact keeps all rules, replayed once."""
    project = Project(tmp_path_factory.mktemp("device_rules") / "here")
    project.use_example("_jit_row_blocks")
    run = project.replay()
    assert run.status == 0, run.output
    assert "device rule" not in run.output
    assert "[rules]" not in run.output
    return Saved(project)


@pytest.fixture
def built(replayed: Saved) -> Project:
    return replayed.repeated()


def rules(output: str) -> list[str]:
    """The lines on rules, without what the words say besides."""
    return [line.partition(" breaks")[0] for line in output.splitlines() if line.startswith("[rules]")]


def told(project: Project) -> list[dict[str, object]]:
    """The rules in verdict.json."""
    rules = project.verdict()["rules"]
    assert isinstance(rules, list)
    return rules


def test_a_broken_rule_is_shown_and_the_run_passes(built: Project) -> None:
    built.edit(KERNEL, APART, SHARED)
    run = built.replay()
    assert run.status == 0, run.output
    assert "[RUN] PASS, 1 device rule broken" in run.output
    assert rules(run.output) == [f"[rules] {KERNEL}:80: TRECIP(v24, v22)"]
    (rule,) = told(built)
    assert {key: rule[key] for key in ("path", "line", "rule")} == {"path": KERNEL, "line": 80, "rule": "overlap"}
    repeated = built.replay()
    assert repeated.actions == []
    assert "[RUN] PASS, 1 device rule broken (cached)" in repeated.output
    assert rules(repeated.output) == rules(run.output)


def test_the_numbers_of_the_device_fail(built: Project) -> None:
    """The reciprocal is 1 everywhere where its result lies on its operand."""
    assert built.replay("NUMERICS=device").status == 0
    built.edit(KERNEL, APART, SHARED)
    assert built.replay().status == 0
    run = built.cli("replay", "build_output/_jit_row_blocks", "NUMERICS=device")
    assert run.status == 1, run.output
    assert "'out' FAIL" in run.output
    assert rules(run.output) == [f"[rules] {KERNEL}:80: TRECIP(v24, v22)"]


def test_a_run_of_checked_kernels_tells_what_the_text_does_not(built: Project) -> None:
    built.edit(KERNEL, APART, AT_RUN_TIME)
    run = built.replay()
    assert run.status == 0, run.output
    assert rules(run.output) == []
    run = built.replay("CHECK=1")
    assert run.status == 0, run.output
    assert "[RUN] PASS, 1 device rule broken" in run.output
    assert rules(run.output) == [f"[rules] {KERNEL}:80: TRECIP(v24, v22)"]
    (rule,) = told(built)
    assert {key: rule[key] for key in ("path", "line", "rule")} == {"path": KERNEL, "line": 80, "rule": "overlap"}
    repeated = built.replay("CHECK=1")
    assert repeated.actions == []
    assert rules(repeated.output) == rules(run.output)
    run = built.cli("replay", "build_output/_jit_row_blocks", "CHECK=1", "RULES=error")
    assert run.status == 8, run.output
    assert rules(built.replay("CHECK=1", "RULES=off").output) == []
    built.edit(KERNEL, AT_RUN_TIME, SHARED)
    assert rules(built.replay("CHECK=1").output) == [f"[rules] {KERNEL}:80: TRECIP(v24, v22)"], "not twice"


def test_a_wait_that_is_deleted_runs_the_same_object_again(built: Project) -> None:
    built.edit(KERNEL, WAIT, "")
    run = built.replay()
    assert run.status == 0, run.output
    assert run.actions == [f"compile {KERNEL}", "run _jit_row_blocks"], run.output
    assert run.reasons["run _jit_row_blocks"] == "content of device_rules.json changed"
    assert "[RUN] PASS, 1 device rule broken" in run.output
    assert rules(run.output) == [
        f"[rules] {KERNEL}:88: set_flag(PIPE_V, PIPE_MTE3, EVENT_ID0) without its wait_flag: nothing waits for the "
        "flag: what follows runs ahead"
    ]


def test_an_edit_that_keeps_the_rules_stops_after_the_compile(built: Project) -> None:
    built.edit(KERNEL, WAIT, WAIT + "  // a comment\n")
    run = built.replay()
    assert run.actions == [f"compile {KERNEL}"], run.output
    assert "[RUN] PASS (cached)" in run.output


def test_error_and_off(built: Project) -> None:
    built.edit(KERNEL, APART, SHARED)
    run = built.cli("replay", "build_output/_jit_row_blocks", "RULES=error")
    assert run.status == 8, run.output
    assert "rule_broken: 1 device rule broken; RULES=show lets it be" in run.output
    assert rules(run.output) == [f"[rules] {KERNEL}:80: TRECIP(v24, v22)"]
    assert built.verdict()["status"] == "rule_broken"
    run = built.replay("RULES=off")
    assert run.status == 0, run.output
    assert "[rules]" not in run.output
    assert "rule broken" not in run.output
    assert built.verdict()["rules"] == []
    built.edit(KERNEL, SHARED, APART)
    assert built.replay("RULES=error").status == 0


def test_checks_fail_a_replay_test(built: Project) -> None:
    """Rules of the device fail the test itself; instruments are tests beside it, which its name stands for."""
    built.write(
        "SConstruct",
        "from pypto_build.rules import pypto\nenv = Environment(tools=[pypto])\n"
        "env.ReplayTest(name='t', artifact='build_output/_jit_row_blocks', checks=['rules', 'lint', 'hazards'])\n",
    )

    def words(*command: str) -> dict[str, str]:
        lines = [line.split() for line in built.quiet(*command).output.splitlines() if line.startswith("[test]")]
        return {name: word for _, word, name, *_ in lines}

    assert words("t") == {"t": "PASS", "t.lint": "PASS", "t.hazards": "PASS"}
    built.edit(KERNEL, APART, SHARED)
    assert words("test")["t"] == "ERROR"
    built.edit(KERNEL, SHARED, APART)
    built.edit("kernel_config.py", '"func_id": 0', '"func_id": 7')
    assert words("t.lint") == {"t.lint": "FAIL"}
    built.edit_file("SConstruct", "'lint'", "'lints'")
    message = "ReplayTest: checks: there is no check 'lints'; use some of rules, lint, hazards"
    run = built.quiet("t")
    assert run.status == 2 and message in run.output


def test_files_for_ci(built: Project, tmp_path: Path) -> None:
    built.edit(KERNEL, APART, SHARED)
    junit, sarif = tmp_path / "junit.xml", tmp_path / "out.sarif"
    run = built.replay(f"JUNIT={junit}", f"SARIF={sarif}")
    assert run.status == 0, run.output
    case = ElementTree.parse(junit).find(".//testcase")
    assert case is not None
    assert case.find("failure") is None
    (message,) = [one.get("value", "") for one in case.iter("property") if one.get("name") == "rule"]
    assert message.startswith(f"{KERNEL}:80: TRECIP(v24, v22) breaks the rule")
    (result,) = json.loads(sarif.read_text(encoding="utf-8"))["runs"][0]["results"]
    assert (result["ruleId"], result["level"]) == ("rules/overlap", "warning")
    location = result["locations"][0]["physicalLocation"]
    assert location["artifactLocation"]["uri"].endswith(KERNEL)
    assert location["region"]["startLine"] == 80


def test_what_is_remembered_may_be_damaged(built: Project) -> None:
    built.edit(KERNEL, APART, SHARED)
    built.replay()
    (record,) = built.root.rglob(".device_rules.json")
    text = record.read_bytes()
    for damaged in (b"", text[: len(text) // 2], text.replace(b"overlap", b"overlay")):
        record.write_bytes(damaged)
        run = built.replay()
        assert "[RUN] PASS, 1 device rule broken (cached)" in run.output, run.output
        assert [rule["rule"] for rule in told(built)] == ["overlap"]


def test_a_pipe_in_the_place_of_a_record_is_not_waited_for(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    assert _read(pipe) == _Record()
    _leave(pipe, [])
    assert json.loads(pipe.read_bytes()) == []
