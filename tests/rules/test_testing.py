"""``scons test``: a line each, failures last, those again that failed, and files for CI."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from pypto_build.toolchain.devices import sign_of_hardware
from tests.rules.project import Project, Run, Saved

_TIME = re.compile(r" +\d+\.\d\d s")
_TESTS = """from pypto_build.rules import pypto
env = Environment(tools=[pypto])
base = 'build_output/_jit_chain'
env.ReplayTest(name='right', artifact=base, signature=['IN', 'OUT'])
env.ReplayTest(name='wrong', artifact=base, golden='golden')
env.ReplayTest(name='gone', artifact='build_output/_jit_gone')
env.ReplayTest(name='hardware', artifact=base, platform='a2a3')
"""
_VERDICT = "build/a2a3sim/_jit_chain/replays/golden=golden-"


def with_tests(chain: Saved) -> Project:
    """A project with four tests: one each that passes, fails, cannot be read, and cannot run here."""
    project = chain.repeated()
    project.write("SConstruct", _TESTS)
    project.write_tensor("../../../golden/y", [0.0] * 16)
    return project


def lines(run: Run) -> list[str]:
    """The line of every test, sorted, without times and columns."""
    return sorted(
        " ".join(_TIME.sub("", line).split()) for line in run.output.splitlines() if line.startswith("[test]")
    )


@pytest.mark.skipif(bool(sign_of_hardware()), reason="this machine has signs of hardware")
def test_every_test_has_its_line_and_failures_come_last(chain: Saved) -> None:
    project = with_tests(chain)
    run = project.quiet("test")
    there = f"{project.root}/build_output/_jit_gone: no such directory"
    assert run.status == 2
    test_lines = lines(run)
    assert test_lines[0].startswith(f"[test] ERROR gone {there[:30]}")
    assert test_lines[1:] == [
        "[test] FAIL wrong 1 of 1 outputs differ",
        "[test] PASS right cached",
        "[test] SKIPPED hardware a2a3: no toolkit and no device here",
    ]
    text = run.output
    assert text.index("Mismatched elements") > max(text.index(f"[test] {word}") for word in ("ERROR", "FAIL", "PASS"))
    assert f"{' wrong '.center(80, '_')}\n[RUN]   'y' FAIL  shape=(16,) dtype=torch.float32\n" in text
    assert f"\n    verdict  {_VERDICT}" in text
    assert "\n    why      scons triage TEST=wrong\n" in text
    assert re.search(r"\n=== 2 failed, 1 passed \(1 cached\), 1 skipped in \d+\.\d s ===\n", text)
    assert text.endswith("\nthose that failed, again: scons test FAILED=1\n")
    assert text.count("scons: ***") == 1

    repeated = project.quiet("test", "FAILED=1")
    assert (repeated.status, len(lines(repeated))) == (2, 2)
    project.write_tensor("../../../golden/y", [2.0 * i + 1.0 for i in range(16)])
    project.edit_file("SConstruct", "_jit_gone", "_jit_chain")
    repeated = project.quiet("test", "FAILED=1")
    assert (repeated.status, lines(repeated)) == (0, ["[test] PASS gone cached", "[test] PASS wrong"])
    repeated = project.quiet("test", "FAILED=1")
    assert (repeated.status, repeated.output) == (
        0,
        "[test] no test failed when it last ran; scons test runs all of them\n",
    )


def test_triage_looks_at_a_test_as_it_is_declared(chain: Saved) -> None:
    """With its own golden: that of the artifact matches."""
    project = with_tests(chain)
    project.edit_file("SConstruct", "golden='golden'", "golden='golden', rtol=0.25")
    run = project.quiet("triage", "TEST=wrong")
    assert run.status == 2
    assert "\n[triage] _jit_chain: 'y' differs, and no instrument finds a cause\n" in f"\n{run.output}"
    run = project.quiet("triage", "TEST=right")
    assert (run.status, run.output.count("[triage] _jit_chain: it passes")) == (0, 1)
    for words, message in {
        ("TEST=rong",): "scons: *** TEST=rong: no such test; did you mean wrong?",
        (
            "TEST=right",
            "JIT=_jit_chain",
        ): "scons: *** TEST=: names a test together with its artifact, so JIT= cannot be given too;",
        ("TEST=gone",): f"scons: *** {project.root}/build_output/_jit_gone: no such directory;",
    }.items():
        run = project.quiet("triage", *words)
        assert run.status == 2 and message in run.output


def test_a_test_by_its_name_decides_the_status(chain: Saved) -> None:
    project = with_tests(chain)
    assert project.quiet("right").status == 0
    run = project.quiet("wrong")
    assert (run.status, lines(run)) == (2, ["[test] FAIL wrong 1 of 1 outputs differ"])


def test_a_test_that_does_not_build(chain: Saved) -> None:
    project = with_tests(chain)
    project.edit("kernels/aiv/twice.cpp", "2.0f *", "2.0f * nothing *")
    run = project.quiet("test", "SARIF=out.sarif", "JUNIT=out.xml")
    assert run.status == 2
    assert "[test] ERROR right it does not build" in lines(run)
    assert run.output.index("error: ") > run.output.index("[test] ERROR     right")
    (sarif,) = json.loads((project.root / "out.sarif").read_bytes())["runs"]
    results = [
        (result["ruleId"], result["locations"][0]["physicalLocation"])
        for result in sarif["results"]
        if result.get("locations")
    ]
    location = results[0][1]
    assert results[0][0] == "build/error"
    assert location["artifactLocation"] == {
        "uri": "build_output/_jit_chain/kernels/aiv/twice.cpp",
        "uriBaseId": "ARTIFACT",
    }
    assert location["region"] == {"startLine": 11}
    assert sarif["originalUriBaseIds"]["ARTIFACT"]["uri"] == f"{project.root.as_uri()}/"


def test_the_names_are_left_for_completion(chain: Saved) -> None:
    """The file has the names that a loop makes too; `scons -c` removes it."""
    project = chain.repeated()
    head = _TESTS.partition("env.ReplayTest")[0]
    project.write("SConstruct", f"{head}for n in (1, 2):\n    env.ReplayTest(name=f'loop_{{n}}', artifact=base)\n")
    names = project.root / "build" / ".declared_tests"
    assert project.quiet("loop_2").status == 0
    assert names.read_text() == "loop_1\nloop_2\n"
    assert project.quiet("-c").status == 0
    assert not names.exists()


def test_files_for_ci(chain: Saved) -> None:
    project = with_tests(chain)
    environment = {**os.environ, "GITHUB_ACTIONS": "true"}
    run = project.quiet("test", "JUNIT=o/out.xml", "JSON=o/out.json", env=environment)
    suite = ElementTree.parse(project.root / "o" / "out.xml").getroot()[0]
    assert [suite.get(name) for name in ("tests", "failures", "errors", "skipped")] == ["4", "1", "1", "1"]
    cases = {case.get("name"): case for case in suite}
    failure = cases["wrong"].find("failure")
    assert failure is not None and failure.get("message") == "1 of 1 outputs differ"
    assert "Mismatched elements: 16/16" in (failure.text or "") and f"verdict: {_VERDICT}" in (failure.text or "")
    document = json.loads((project.root / "o" / "out.json").read_bytes())
    assert [document[name] for name in ("schema", "passed", "failed", "skipped")] == [1, 1, 2, 1]
    tests = {test["name"]: test for test in document["tests"]}
    assert (tests["wrong"]["word"], tests["wrong"]["result"]["outputs"][0]["mismatched"]) == ("FAIL", 16)
    assert (project.root / tests["wrong"]["verdict"]).is_file()
    annotation = "::error file=build_output/_jit_chain/orchestration/chain.cpp,line=33,title=replay/mismatch::wrong: "
    assert annotation in run.output
    assert "::error" not in project.quiet("test", "ANNOTATE=0", env=environment).output


def test_files_of_a_replay(chain: Saved) -> None:
    project = with_tests(chain)
    project.edit("kernels/aiv/plus_one.cpp", "1.0f", "3.0f")
    run = project.quiet("replay", "JIT=_jit_chain", "JUNIT=out.xml", "ANNOTATE=gitlab")
    assert run.status == 2
    (case,) = ElementTree.parse(project.root / "out.xml").getroot()[0]
    assert (case.get("name"), case[1].tag) == ("_jit_chain", "failure")
    assert "first 10 mismatches:" in (case[1].text or "")
    (issue,) = json.loads((project.root / "build" / "gl-code-quality-report.json").read_bytes())
    assert issue["location"]["path"] == "build_output/_jit_chain/orchestration/chain.cpp"
    assert issue["check_name"] == "replay/mismatch"


CONTRADICTIONS = {
    "signature=['IN']": "signature: has 1 tensor, the artifact 2; declare it as the artifact does: x: IN, y: OUT",
    "signature=['OUT', 'OUT']": (
        "signature: 'x' is OUT, and it is IN in the artifact; declare it as the artifact does: x: IN, y: OUT"
    ),
    "signature=['IN', 'BOTH']": "signature: 'BOTH' is not a direction; use one of IN, OUT, INOUT",
    "signature={'x': 'IN', 'z': 'OUT'}": "signature: 'z' is OUT, and the artifact has no such parameter",
    "golden='nowhere'": "golden: {root}/nowhere is not a directory; name a directory with a .pt file for each output",
    "golden='build_output/_jit_chain/data/in'": (
        "golden: {root}/build_output/_jit_chain/data/in/x.pt belongs to no output"
    ),
}


def test_what_a_test_says_of_its_artifact_is_held_to_it(chain: Saved) -> None:
    project = with_tests(chain)
    tests = [
        f"env.ReplayTest(name='t{number}', artifact=base, {words})\n" for number, words in enumerate(CONTRADICTIONS)
    ]
    project.write("SConstruct", _TESTS.partition("env.ReplayTest")[0] + "".join(tests))
    output = project.quiet("test").output
    for number, message in enumerate(CONTRADICTIONS.values()):
        assert f"\nt{number}: {message.format(root=project.root)}" in output


def test_one_gone_test_of_another_workspace(tmp_path: Path) -> None:
    """`scons -c` takes what FAILED=1 remembers along."""
    project = Project(tmp_path)
    project.write("SConstruct", _TESTS.replace("_jit_chain", "_jit_gone"))
    assert project.quiet("test").status == 2
    assert (project.root / "build" / ".failed_tests.json").is_file()
    assert project.quiet("-c").status == 0
    assert not (project.root / "build").exists()


def test_failures_leave_their_packs(chain: Saved) -> None:
    """PACK=onfail: of what fails and nothing else, named where people and CI look; gone when it passes again."""
    project = with_tests(chain)
    run = project.quiet("test", "PACK=onfail", "JUNIT=r.xml", "JSON=r.json")
    (pack,) = project.root.glob("build/a2a3sim/_jit_chain/*.tar.zst")
    assert pack.name.startswith("_jit_chain.golden=golden-")
    short = str(pack.relative_to(project.root))
    assert f"\n    pack     {short}\n" in run.output
    packs = {test["name"]: test["pack"] for test in json.loads((project.root / "r.json").read_text())["tests"]}
    assert {name: value for name, value in packs.items() if value} == {"wrong": short}
    properties = ElementTree.parse(project.root / "r.xml").iter("property")
    assert [one.get("value") for one in properties if one.get("name") == "pack"] == [short]
    words = [sys.executable, "-m", "pypto_build.cli", "replay", str(pack)]
    elsewhere = subprocess.run(words, cwd=project.root, capture_output=True, text=True, check=False)
    assert elsewhere.returncode == 1 and "does not match golden: ['y']" in elsewhere.stdout
    assert project.quiet("test", "FAILED=1").output.count(short) == 0  # only when it is asked for
    project.write_tensor("../../../golden/y", [2.0 * i + 1.0 for i in range(16)])
    project.quiet("test", "PACK=onfail")
    assert not pack.exists()


def test_a_failing_replay_leaves_its_pack(chain: Saved) -> None:
    project = chain.repeated()
    project.write_tensor("out/y", [0.0] * 16)
    run = project.quiet("replay", f"JIT={project.artifact.name}", "PACK=onfail")
    assert "[pack] build/a2a3sim/_jit_chain/_jit_chain.tar.zst: elsewhere, pypto-build replay" in run.output
    assert (project.root / "build/a2a3sim/_jit_chain/_jit_chain.tar.zst").is_file()
    project.quiet("-c")
    assert not (project.root / "build/a2a3sim/_jit_chain").exists()
