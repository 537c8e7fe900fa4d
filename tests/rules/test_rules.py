"""The public rules: what they check, what they build, and their use from a repository of kernels."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from SCons.Environment import Environment

from pypto_build.rules.machinery.attributes import Attribute, Rule, RuleError
from tests.rules.project import Project

REPOSITORY = Path(__file__).resolve().parents[2]


@pytest.fixture
def project(stocked: Project) -> Project:
    """Return a project whose binaries are built; most tests here concern later steps."""
    return stocked


RULE = Rule(
    "Example",
    "An example.",
    (
        Attribute("name", (str,), "a name", required=True),
        Attribute("rtol", (int, float), "a tolerance", default=1e-5),
        Attribute("core_type", (str,), "a core", choices=("aic", "aiv")),
    ),
)


@pytest.mark.parametrize(
    "values, message",
    [
        ({}, "Example: attribute 'name' is missing; it is a name"),
        ({"name": 3}, "Example: name=3 is not a string; the attribute is a name"),
        (
            {"name": "x", "rtol": True},
            "Example: rtol=True is not an integer or number, or a list; the attribute is a tolerance",
        ),
        ({"name": "x", "rtoll": 1}, "Example: no attribute 'rtoll'; did you mean 'rtol'?"),
        ({"name": "x", "colour": 1}, "Example: no attribute 'colour'; it takes name, rtol, core_type"),
        ({"name": "x", "core_type": "gpu"}, "Example: core_type='gpu' is not one of aic, aiv"),
    ],
)
def test_attributes_are_checked(values: dict[str, object], message: str) -> None:
    with pytest.raises(RuleError) as error:
        RULE.check(values, Environment(tools=[]))
    assert str(error.value) == message


def test_attributes_have_defaults() -> None:
    assert RULE.check({"name": "x"}, Environment(tools=[])) == {"name": "x", "rtol": 1e-5, "core_type": None}


def test_a_mistake_in_an_sconstruct_is_one_line(project: Project) -> None:
    project.write("SConstruct", "from pypto_build.rules import pypto\nEnvironment(tools=[pypto]).ReplayTest(nme='x')\n")
    run = project.scons("test")
    assert (run.status, run.output) == (2, "scons: *** ReplayTest: no attribute 'nme'; did you mean 'name'?\n")


def test_single_rules(tmp_path: Path) -> None:
    project = Project(tmp_path)
    project.write(
        "SConstruct",
        "from pypto_build.rules import pypto\n"
        "env = Environment(tools=[pypto])\n"
        "base = 'build_output/_jit_chain'\n"
        "kernel = env.PtoKernel(name='twice', source=base + '/kernels/aiv/twice.cpp', core_type='aiv')\n"
        "orchestration = env.PtoOrchestration(source=base + '/orchestration/chain.cpp')\n"
        "config = env.KernelConfig(artifact=base)\n"
        "env.Alias('parts', [kernel, orchestration, config])\n",
    )
    run = project.scons("parts")
    assert run.status == 0, run.output
    assert run.actions == [
        "compile build_output/_jit_chain/orchestration/chain.cpp",
        "compile kernels/aiv/twice.cpp",
        "link kernels/aiv/twice.so",
        "link orchestration/chain.so",
        "sign kernel_config.py",
    ] or sorted(action.replace("build_output/_jit_chain/", "") for action in run.actions) == [
        "compile kernels/aiv/twice.cpp",
        "compile orchestration/chain.cpp",
        "link kernels/aiv/twice.so",
        "link orchestration/chain.so",
        "sign kernel_config.py",
    ]
    assert project.scons("parts").actions == []


def test_a_file_name_is_a_target(tmp_path: Path) -> None:
    project = Project(tmp_path)
    run = project.scons("build/a2a3sim/_jit_chain/kernels/aiv/twice.so", "JIT=_jit_chain")
    assert run.status == 0, run.output
    assert run.actions == ["compile kernels/aiv/twice.cpp", "link kernels/aiv/twice.so"]


def test_compile_commands_for_editors(project: Project) -> None:
    assert project.scons("build", "JIT=_jit_chain").status == 0
    entries = json.loads((project.root / "build/compile_commands.json").read_bytes())
    assert [Path(entry["file"]).name for entry in entries] == ["plus_one.cpp", "twice.cpp", "chain.cpp"]
    for entry in entries:
        assert entry["arguments"][-4:] == ["-c", entry["file"], "-o", entry["output"]]
        command = [*entry["arguments"][:-2], "-fsyntax-only"]
        assert subprocess.run(command, cwd=entry["directory"], check=False).returncode == 0


def test_verbose_prints_whole_commands(tmp_path: Path) -> None:
    project = Project(tmp_path)
    run = project.scons("build", "JIT=_jit_chain", "VERBOSE=1")
    assert f"-c {project.artifact}/kernels/aiv/twice.cpp -o " in run.output or "kernels/aiv/twice.cpp -o " in run.output


def test_replay_test_rule_and_tags(project: Project) -> None:
    project.write(
        "SConstruct",
        "from pypto_build.rules import pypto\n"
        "env = Environment(tools=[pypto])\n"
        "base = 'build_output/_jit_chain'\n"
        "env.ReplayTest(name='strict', artifact=base, rtol=0, atol=0, tags=['quick'])\n"
        "env.ReplayTest(name='a5', artifact=base, platform='a5sim', comparators={'y': 'ratio_allclose(atol=1e-3)'})\n",
    )
    run = project.scons("test", "TAGS=quick")
    assert run.status == 0, run.output
    assert (project.root / "build/a2a3sim/_jit_chain/verdict.json").exists()
    assert not (project.root / "build/a5sim/_jit_chain/verdict.json").exists()
    run = project.scons("test")
    assert run.status == 0, run.output
    assert (project.root / "build/a5sim/_jit_chain/verdict.json").exists()
    assert project.scons("test").actions == []
    project.edit("kernels/aiv/twice.cpp", "2.0f", "twofold")
    assert project.scons("-k", "test").status == 2
    for platform in ("a2a3sim", "a5sim"):  # an earlier pass is about other files
        verdict = json.loads((project.root / f"build/{platform}/_jit_chain/verdict.json").read_bytes())
        assert (verdict["status"], verdict["platform"]) == ("build_error", platform)


def test_data_sets_of_one_artifact_are_tests_of_one_run(project: Project) -> None:
    project.write(
        "SConstruct",
        "from pypto_build.rules import pypto\n"
        "env = Environment(tools=[pypto])\n"
        "base = 'build_output/_jit_chain'\n"
        "env.ReplayTest(name='own', artifact=base)\n"
        "env.ReplayTest(name='other', artifact=base, data='more/other')\n"
        "env.ReplayTest(name='wrong', artifact=base, data='more/wrong')\n"
        "env.ReplayTest(name='again', artifact=base)\n",
    )
    for name, shift in (("other", 0.0), ("wrong", 1.0)):
        for side, values in (("in", range(16, 32)), ("out", [2.0 * i + 1.0 + shift for i in range(16, 32)])):
            project.write_tensor(
                f"../../../more/{name}/{side}/{'x' if side == 'in' else 'y'}", list(map(float, values))
            )
    run = project.scons("-k", "test")
    assert (run.status, [action for action in run.actions if action.startswith("run")]) == (
        2,
        ["run _jit_chain", "run _jit_chain DATA=more/other", "run _jit_chain DATA=more/wrong"],
    )
    results = sorted((project.out / "replays").glob("*/verdict.json"))
    statuses = {path.parent.name.partition("-")[0]: json.loads(path.read_bytes())["status"] for path in results}
    assert statuses.pop("latest") in ("pass", "mismatch")
    assert statuses == {"default": "pass", "DATA=more_other": "pass", "DATA=more_wrong": "mismatch"}
    run = project.scons("own", "other", "again")
    assert (run.status, run.actions, run.output.count("(cached)")) == (0, [], 3)
    assert (
        "[RUN] PASS (cached)  _jit_chain a2a3sim DATA=more/other: 'y', 2 tasks; FORCE=1 runs it again\n" in run.output
    )
    project.write_tensor("../../../more/other/in/x", [0.0] * 16)
    run = project.scons("own", "other")
    assert (run.status, run.actions) == (2, ["run _jit_chain DATA=more/other"])
    assert run.reasons == {"run _jit_chain DATA=more/other": "content of more/other/in/x.pt changed"}
    assert project.scons("-c").status == 0
    assert not (project.root / "build").exists()


def test_declared_tests_leave_other_targets_alone(project: Project) -> None:
    """A test is read where it is asked for: not its artifact, lock or verdict for a replay of another one."""
    project.write(
        "SConstruct",
        "from pypto_build.rules import pypto\n"
        "env = Environment(tools=[pypto])\n"
        "env.ReplayTest(name='chain', artifact='build_output/_jit_chain', rtol=1, atol=100)\n"
        "env.ReplayTest(name='gone', artifact='build_output/_jit_gone', tags=['slow'])\n"
        "env.ReplayTest(name='twin', artifact='build_output/_jit_chain', tags=['twice'])\n"
        "env.TestSuite(name='none', tags=['quick'])\n"
        "Default('chain')\n",
    )
    run = project.replay("RTOL=0", "ATOL=0")
    assert run.status == 0, run.output
    assert (project.verdict()["rtol"], run.output.count("[cpp->.so] cpp edits")) == (0.0, 1)
    assert project.scons("replay", "JIT=_jit_chain", "RTOL=0", "ATOL=0").output.count("(cached)") == 1
    run = project.scons("chain")
    assert (run.status, run.actions, project.verdict()["rtol"]) == (0, ["run _jit_chain RTOL=1.0 ATOL=100.0"], 1.0)
    gone = f"gone: {project.root}/build_output/_jit_gone: no such directory; give the directory the compiler wrote\n"
    run = project.scons("-k", "test")
    assert (run.status, run.actions) == (2, ["run _jit_chain"])
    assert gone in run.output
    cached = "[RUN] PASS (cached)  _jit_chain a2a3sim RTOL=1.0 ATOL=100.0: 'y', 2 tasks; FORCE=1 runs it again\n"
    assert cached in run.output
    run = project.scons("test", "TAGS=quick")
    assert (run.status, run.actions) == (2, [])
    assert "scons: *** TAGS=quick: no test has one of these; there are: slow, twice\n" in run.output
    run = project.scons("none")
    assert (run.status, run.actions) == (2, [])
    assert "*** TestSuite: none: no test has one of the suite's tags (quick); there are: slow, twice\n" in run.output
    project.write("chain.py", "")
    run = project.scons("compile", "PROGRAM=chain.py")
    assert "chain.py: defines no program; decorate the orchestration function with @pl.jit" in run.output
    assert project.scons("chian").output.endswith("scons: there is no target chian; did you mean chain?\n")
    run = project.scons("test", "JIT=_jit_chain")
    message = "JIT=_jit_chain: 'scons test' does not work on an artifact; leave the option out, or use 'scons replay'"
    assert (run.status, run.output) == (2, f"scons: *** {message}\n")
    run = project.scons()
    assert (run.status, run.actions, run.output) == (
        0,
        [],
        "[cpp->.so] no cpp edits since last build; reusing cached binaries\n"
        f"{cached}[test] PASS      chain    cached\n",
    )


def test_a_mistyped_target(project: Project) -> None:
    run = project.scons("replai", "JIT=_jit_chain")
    assert (run.status, run.actions) == (2, [])
    assert run.output.endswith("scons: there is no target replai; did you mean replay?\n")
    assert project.scons("qqq").output.endswith("scons: there is no target qqq; 'scons' alone lists them\n")


def test_a_repository_of_kernels_uses_the_installed_package(project: Project, tmp_path: Path) -> None:
    site = tmp_path / "site"
    source = tmp_path / "source"
    files = subprocess.run(["git", "ls-files", "-z"], cwd=REPOSITORY, capture_output=True, text=True, check=True).stdout
    for name in filter(None, files.split("\0")):
        if name.startswith("pypto_build/") or name in ("pyproject.toml", "README.md"):
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            (source / name).write_bytes((REPOSITORY / name).read_bytes())
    install = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run([*install, "--target", str(site), str(source)], check=True)
    project.write(
        "SConstruct",
        "from pypto_build.rules import pypto\n"
        "env = Environment(tools=[pypto])\n"
        "env.ReplayTest(name='chain', artifact='build_output/_jit_chain', platform='a2a3sim')\n",
    )
    environment = {**os.environ, "PYTHONPATH": str(site)}
    command = [sys.executable, "-m", "SCons", "-Q", "test"]
    run = subprocess.run(command, cwd=project.root, env=environment, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    assert project.verdict()["status"] == "pass"
