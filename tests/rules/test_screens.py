"""Output for people: few lines in the usual case, one screen of help, and more only on request."""

from __future__ import annotations

import os
import re

import pytest

from pypto_build.rules.machinery import help
from tests.rules.project import Project, Saved

_TIME = re.compile(r"\(\d+\.\d\ds\)")


def shown(project: Project, *words: str) -> list[str]:
    """The lines of a replay as people type it, without times."""
    return _TIME.sub("(T)", project.quiet("replay", f"JIT={project.artifact.name}", *words).output).splitlines()


OUTPUT = "[RUN]   'y' PASS  shape=(16,) dtype=torch.float32"


def test_a_passing_replay_is_three_lines(chain: Saved) -> None:
    project = chain.repeated()
    project.edit("kernels/aiv/twice.cpp", "2.0f * in[i]", "in[i] * 2.0f + 0.0f")
    detected = "[cpp->.so] cpp edits or missing binaries detected"
    assert shown(project) == [
        f"{detected} (1 file(s)): kernels/aiv/twice.cpp; rebuilding  (content changed)",
        OUTPUT,
        "[RUN] PASS (T)",
    ]
    assert shown(project) == [
        "[cpp->.so] no cpp edits since last build; reusing cached binaries",
        "[RUN] PASS (cached)  _jit_chain a2a3sim: 'y', 2 tasks; FORCE=1 runs it again",
    ]
    project.edit("kernels/aiv/twice.cpp", "in[i] * 2.0f + 0.0f", "2.0f * in[i]")
    assert shown(project) == [
        f"{detected} (1 file(s)): kernels/aiv/twice.cpp; restored as they were made before",
        "[RUN] PASS (cached)  _jit_chain a2a3sim: 'y', 2 tasks; FORCE=1 runs it again",
    ]
    assert shown(project, "FORCE=1") == [
        "[cpp->.so] no cpp edits since last build; reusing cached binaries  (FORCE=1)",
        OUTPUT,
        "[RUN] PASS (T)",
    ]


def test_the_rest_is_there_for_who_asks(chain: Saved) -> None:
    project = chain.repeated()
    project.edit("kernels/aiv/twice.cpp", "2.0f", "2.00f")
    run = project.replay("FORCE=1", "VERBOSE=1")
    for line in ("[RUN] generate inputs ...", "[RUN] validate ...", f"[RUN]   cache hit: {project.artifact}/data/in"):
        assert f"{line}\n" in run.output
    assert run.actions == ["compile kernels/aiv/twice.cpp", "run _jit_chain"]
    assert run.output.count("[cpp->.so] cpp edits or missing binaries detected") == 1


def test_a_failing_replay_ends_with_what_to_type_next(chain: Saved) -> None:
    project = chain.repeated()
    project.edit("kernels/aiv/plus_one.cpp", "1.0f", "3.0f")
    lines = shown(project, "RTOL=0.001", "PLATFORM=a2a3sim")
    assert sum("'y' FAIL" in line for line in lines) == 1
    assert lines[-1] == "[RUN] why: scons triage JIT=_jit_chain RTOL=0.001"
    assert "[RUN] FAIL (T): Output(s) does not match golden: ['y']" in lines
    run = project.cli("replay", "_jit_chain")
    assert (run.status, run.output.splitlines()[-1]) == (1, "[RUN] why: pypto-build triage _jit_chain")


def test_what_scons_and_a_replay_say_is_coloured_when_it_is_asked_for(chain: Saved) -> None:
    """Through a pipe too; SCons's own lines as well."""
    project = chain.repeated()
    project.edit("kernels/aiv/plus_one.cpp", "1.0f", "3.0f")
    output = project.quiet("replay", "JIT=_jit_chain", env={"CLICOLOR_FORCE": "1", "NO_COLOR": ""}).output
    bad = "\x1b[1m\x1b[31m"
    assert f"[RUN] {bad}FAIL\x1b[0m (" in output
    assert f"\n{bad}scons: ***\x1b[0m [build/a2a3sim/_jit_chain/replays/default/verdict.json] Error 1\n" in output
    output = project.quiet("replay", "JIT=_jit_chain", env={"CLICOLOR_FORCE": "1", "NO_COLOR": "1"}).output
    assert "\x1b" not in output and "scons: *** [build/" in output


def test_an_error_of_the_compiler_comes_with_its_file_and_reason(chain: Saved) -> None:
    project = chain.repeated()
    project.edit("kernels/aiv/twice.cpp", "2.0f *", "2.0f * nothing *")
    lines = shown(project)
    assert lines[0] == "[cpp->.so] compile kernels/aiv/twice.cpp  (content of kernels/aiv/twice.cpp changed)"
    assert sum("error:" in line for line in lines) == 1
    environment = {**os.environ, "CLICOLOR_FORCE": "1"}
    environment.pop("NO_COLOR", None)
    output = project.quiet("replay", "JIT=_jit_chain", env=environment).output
    assert "\x1b[2m(it was missing or had failed)\x1b[0m" in output
    assert re.search(r"\x1b\[[0-9;]*m\x1b\[Kerror: ", output), "g++ has its own colours"
    error = project.verdict()["error"]
    assert isinstance(error, dict)
    assert "\x1b" not in str(error["message"])
    assert str(error["message"]).endswith("was not declared in this scope")


def test_help_is_one_screen(project: Project) -> None:
    """The screen has 24 lines, of which SCons's own first line and the prompt take two, whatever artifacts there
    are.
    """
    for number in range(12):
        project.write(f"build_output/_jit_{'long' * 4}_{number:02}/kernel_config.py", "KERNELS = []\n")
    project.write(
        "SConstruct",
        "from pypto_build.rules import pypto\n"
        "env = Environment(tools=[pypto])\n"
        "for number in range(40):\n"
        "    env.ReplayTest(name=f'test_{number:02}', artifact='build_output/_jit_gone')\n",
    )
    for words in ((), ("help",)):
        run = project.quiet(*words)
        lines = run.output.splitlines()
        assert run.status == 0
        assert (len(lines) <= 22, max(map(len, lines)) <= 80) == (True, True), run.output
        assert lines[-2:] == [
            "Artifacts: _jit_chain, _jit_longlonglonglong_00, and 11 more",
            "Tests: test_00, test_01, test_02, test_03, test_04, test_05, and 34 more",
        ]
    assert not (project.root / "build").exists()


def test_help_on_a_narrow_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """The description of a name stands below it, and no word is cut."""
    monkeypatch.setattr(os, "get_terminal_size", lambda stream: os.terminal_size((40, 24)))
    lines = help._verb("step")
    assert max(map(len, lines)) <= 40
    at = lines.index("  TASK=")
    assert lines[at + 1].startswith("      a task: its number, ring:count or")


def test_help_on_a_verb_and_an_option(project: Project) -> None:
    run = project.quiet("help", "replay")
    assert run.output.splitlines()[0] == "Usage: scons replay JIT=x [NAME=value ...]"
    assert "\n  RUNTIME=embedded       the runtime that executes the replay\n" in run.output
    assert max(map(len, run.output.splitlines())) <= 80
    run = project.quiet("help", "dump", "AXIS")
    assert "\nUsage: scons VERB AXIS=value\n" in run.output
    assert "\n  default  none\n  taken by bisect\n  flags    --axis\n" in run.output
    run = project.quiet("help", "relay")
    assert (run.status, run.output.splitlines()[0]) == (
        2,
        "scons: *** help relay: no such verb or option; did you mean replay?",
    )
