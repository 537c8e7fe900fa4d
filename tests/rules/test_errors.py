"""Bad input on the command line: one line, the right status, nothing harmed."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal

import pytest

from tests.rules.project import Project


@pytest.fixture
def project(stocked: Project) -> Project:
    """Return a project whose binaries are built; the tests here concern later steps."""
    return stocked


CASES = {
    "no such artifact": (
        ["JIT=_jit_chan"],
        "JIT=_jit_chan: no such artifact in build_output, examples/artifacts or examples/distributed; "
        "did you mean _jit_chain? there are: _jit_chain",
    ),
    "no artifact": ([], "JIT=: 'scons replay' needs an artifact; name one with JIT=, of _jit_chain"),
    "unknown option": (["JIT=_jit_chain", "PLATFROM=a5sim"], "PLATFROM=a5sim: no such option; did you mean PLATFORM=?"),
    "option of another target": (
        ["JIT=_jit_chain", "TASK=3"],
        "TASK=3: 'scons replay' does not take this option; leave it out, or use 'scons dump', 'scons "
        "deps', 'scons step', "
        "'scons debug' or 'scons extract'",
    ),
    "unknown platform": (
        ["JIT=_jit_chain", "PLATFORM=a3"],
        "PLATFORM=a3: is not one of a2a3, a5, a2a3sim, a5sim; "
        "PLATFORM: a2a3sim, a5sim; a2a3, a5 run on hardware, or on the CPU where there is none",
    ),
    "bad number": (
        ["JIT=_jit_chain", "RTOL=small"],
        "RTOL=small: is not a finite number of 0 or more; "
        "RTOL: the relative tolerance (default: the artifact's, else 1e-5)",
    ),
    "a line of its own": (
        ["JIT=_jit_chain", "RTOL=1\n[RUN] PASS (0.05s)"],
        "RTOL=1\\n[RUN] PASS (0.05s): is not a finite number of 0 or more; "
        "RTOL: the relative tolerance (default: the artifact's, else 1e-5)",
    ),
    "negative tolerance": (
        ["JIT=_jit_chain", "ATOL=-1"],
        "ATOL=-1: is not a finite number of 0 or more; "
        "ATOL: the absolute tolerance (default: the artifact's, else 1e-5)",
    ),
    "nan tolerance": (
        ["JIT=_jit_chain", "ATOL=nan"],
        "ATOL=nan: is not a finite number of 0 or more; "
        "ATOL: the absolute tolerance (default: the artifact's, else 1e-5)",
    ),
    "hardware without a toolchain": (
        ["JIT=_jit_chain", "PLATFORM=a2a3", "HARDWARE=1"],
        "PLATFORM=a2a3: the variable ASCEND_HOME_PATH is not set; "
        "set it to the toolkit's directory, or replay with PLATFORM=a2a3sim",
    ),
    "no compiler": (
        ["JIT=_jit_chain", "CXX=no-such-compiler"],
        "CXX=no-such-compiler: not found on PATH; install g++ 10 or newer, or name one with CXX=",
    ),
    "no launcher": (
        ["JIT=_jit_chain", "LAUNCHER=fastcc"],
        "LAUNCHER=fastcc: is not one of ccache, sccache, distcc, icecc; "
        "LAUNCHER: the program that runs compilations: ccache, sccache, distcc, icecc",
    ),
}


@pytest.mark.parametrize("words, message", CASES.values(), ids=CASES)
def test_one_line_and_nothing_built(project: Project, words: list[str], message: str) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "ASCEND_HOME_PATH"}
    run = project.scons("replay", *words, env=environment)
    assert run.status == 2
    assert run.output == f"scons: *** {message}\n"
    assert list(project.root.glob("build/**/*.o")) == []


@pytest.mark.parametrize("value", ["float('inf')", "1e999", "float('nan')", "-1"])
def test_a_tolerance_that_nothing_exceeds_is_none(project: Project, value: str) -> None:
    """In a rule as in an option; the run after it is as before."""
    script = (project.root / "SConstruct").read_text()
    test = f"env.ReplayTest(name='t', artifact='build_output/_jit_chain', rtol={value})\n"
    project.write("SConstruct", f"from pypto_build.rules import pypto\nenv = Environment(tools=[pypto])\n{test}")
    shown = {"1e999": "inf"}.get(value, value.removeprefix("float('").removesuffix("')"))
    run = project.scons("t")
    line = f"scons: *** ReplayTest: rtol={shown} is not a tolerance; write a finite number of 0 or more"
    assert (run.status, run.output.splitlines()[0], run.actions) == (2, line, [])
    assert "Traceback" not in run.output
    project.write("SConstruct", script)
    run = project.scons("replay", "JIT=_jit_chain", "RTOL=1e999")
    assert (run.status, run.actions) == (2, []), run.output
    run = project.scons("replay", "JIT=_jit_chain")
    assert run.status == 0 and "[RUN] PASS" in run.output, run.output


@pytest.mark.parametrize("name", ["../x", "a/../../x", "/x", "x/", "a\nb", "\x1b[2J", "\u2028", ""])
@pytest.mark.parametrize(
    "rule", ["PtoProgram", "GoldenData", "LintTest", "HazardTest", "ReplayTest", "TestSuite", "PtoModule"]
)
def test_a_name_that_leads_elsewhere_is_none(project: Project, rule: str, name: str) -> None:
    """Names become those of files and targets, and stand in messages."""
    script = f"from pypto_build.rules import pypto\nenv = Environment(tools=[pypto])\nenv.{rule}(name={name!r})\n"
    project.write("SConstruct", script)
    run = project.scons("test")
    way_out = "write no control characters, no '..', and no '/' at an end"
    line = f"scons: *** {rule}: name={name!r} cannot be part of a file name; {way_out}"
    assert (run.status, run.output.splitlines()[0]) == (2, line), run.output


def test_usage_error_has_a_verdict(project: Project) -> None:
    project.edit("orchestration/chain.cpp", "ChipTaskArgs", "SomeTaskArgs")
    project.edit("orchestration/chain.cpp", "ChipTensor", "SomeTensor")
    project.edit("orchestration/chain.cpp", "CoreTaskArgs", "OtherTaskArgs")
    run = project.replay()
    assert run.status == 2
    assert run.output.count("\n") == 1
    assert "orchestration/chain.cpp" in run.output
    assert project.verdict()["status"] == "usage_error"


def test_what_shows_one_artifact_takes_no_glob_of_several(project: Project) -> None:
    (project.artifact.parent / "_jit_chair").mkdir()
    (project.artifact.parent / "_jit_chair" / "kernel_config.py").write_text("", encoding="utf-8")
    run = project.scons("graph", "JIT=_jit_cha*")
    message = "JIT=_jit_cha*: means 2 artifacts, and 'scons graph' works on one; pick one of _jit_chain, _jit_chair"
    assert (run.status, run.output) == (2, f"scons: *** {message}\n")


@pytest.mark.parametrize(
    ("word", "hint"), [("replya", "did you mean replay?"), ("redis://127.0.0.1/0", "name one artifact")]
)
def test_a_word_that_is_no_verb_beside_a_glob_is_not_told_to_work_on_one_artifact(
    project: Project, word: str, hint: str
) -> None:
    (project.artifact.parent / "_jit_chair").mkdir()
    (project.artifact.parent / "_jit_chair" / "kernel_config.py").write_text("", encoding="utf-8")
    run = project.scons(word, "JIT=_jit_cha*")
    assert (run.status, run.output) == (2, f"scons: *** scons {word}: takes only one artifact; {hint}\n")


def test_submit_of_a_func_id_that_no_kernel_has(project: Project) -> None:
    project.edit("orchestration/chain.cpp", "rt_submit_aiv_task(1, params_t1)", "rt_submit_aiv_task(7, params_t1)")
    run = project.replay()
    assert run.status == 2
    assert "orchestration/chain.cpp:34: " in run.output
    verdict = project.verdict()
    assert verdict["status"] == "usage_error"
    error = verdict["error"]
    assert isinstance(error, dict)
    assert error["message"].endswith(
        "chain.cpp:34: submits func_id 7, but no kernel in the manifest has this func_id; use one of "
        "the manifest's func_ids: 0, 1"
    )


def test_missing_golden_of_an_output(project: Project) -> None:
    (project.artifact / "data/out/y.pt").unlink()
    (project.artifact / "data/out/z.pt").write_bytes(b"")
    run = project.replay()
    assert run.status == 2
    assert project.verdict()["status"] == "golden_error"


@pytest.mark.parametrize(
    "words, status",
    [(["replay", "_jit_chain"], 0), (["replay", "_jit_nothing"], 2), (["replay"], 2), (["fly", "_jit_chain"], 2)],
)
def test_exit_status_of_the_command(project: Project, words: list[str], status: int) -> None:
    assert project.cli(*words).status == status


def test_exit_status_says_what_happened(project: Project) -> None:
    project.write_tensor("out/y", [0.0] * 16)
    assert project.cli("replay", "_jit_chain", "-p", "a2a3sim").status == 1
    project.edit("kernels/aiv/twice.cpp", "2.0f", "oops")
    assert project.cli("replay", "_jit_chain").status == 3


def test_an_interrupted_build_leaves_no_verdict(project: Project) -> None:
    """The verdict of an earlier run may hold for other files; the next run shows it again if it still holds."""
    assert project.replay().status == 0
    started = project.root / "started"
    os.mkfifo(started)
    waits = f"echo > {started}; exec tail -f /dev/null"
    compiler = project.write("waits", f'#!/bin/sh\ncase "$*" in *twice.cpp*) {waits};; esac\nexec g++ "$@"\n')
    compiler.chmod(0o755)
    with project.start("pypto_build.cli", "replay", "_jit_chain", "--cxx", str(compiler)) as running:
        assert running.stdout is not None
        started.read_text(encoding="utf-8")
        os.killpg(running.pid, signal.SIGINT)
        output = running.stdout.read()
    assert (running.returncode, "Traceback" in output) == (130, False), output  # not even of Python that just starts
    assert not (project.out / "verdict.json").exists()
    assert (project.replay().actions, project.verdict()["cached"]) == ([], True)


def test_a_place_where_nothing_can_be_built(project: Project) -> None:
    run = project.replay("BUILD_DIR=SConstruct")
    assert (run.status, run.actions) == (2, [])
    assert run.output == (
        f"scons: *** {project.root}/SConstruct/a2a3sim/_jit_chain: nothing can be built there: Not a directory; "
        "name another directory with BUILD_DIR=\n"
    )


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (
            '#ifndef A\n#define A\n#include __FILE__\n#include "none.h"\n#endif\n',
            "4:10: fatal error: none.h: No such file",
        ),
        ("#ifndef A\n#define A\n#include __FILE__\n#error here\n#endif\n", "4:2: error: #error here"),
        ("#include __FILE__\n", "1:10: fatal error: "),
    ],
)
def test_errors_of_a_kernel_that_includes_itself(project: Project, text: str, error: str) -> None:
    kernel = project.artifact / "kernels/aiv/twice.cpp"
    kernel.write_text(text + kernel.read_text())
    run = project.replay()
    assert run.status == 2 and f"/kernels/aiv/twice.cpp:{error}" in run.output, run.output[:3000]
    assert run.output.count("\n") < 20, run.output[:3000]


def test_the_root_directory_is_no_place_for_what_is_built(project: Project) -> None:
    before = sorted(os.listdir("/"))
    run = project.replay("BUILD_DIR=/")
    reason = "is the root of the file system, and no directory for what is built; name another directory"
    assert (run.status, run.output) == (2, f"scons: *** BUILD_DIR=/: {reason}\n")
    assert sorted(os.listdir("/")) == before


@pytest.mark.parametrize(
    ("option", "problem"),
    [
        ("KERNEL_FLAGS=-DX='", "is not flags with quotation marks in pairs; KERNEL_FLAGS: more flags for the compiler"),
        (f"SEED={1 << 63}", f"is not a whole number from 0 to {(1 << 63) - 1}; SEED: the seed of random inputs"),
        (f"SEED=1{'0' * 400}", f"is not a whole number from 0 to {(1 << 63) - 1}; SEED: the seed of random inputs"),
    ],
)
def test_values_that_are_found_wrong_where_they_are_used(project: Project, option: str, problem: str) -> None:
    run = project.replay(option)
    assert run.status == 2 and run.output.startswith(f"scons: *** {option}: {problem}"), run.output
    assert run.output.count("\n") == 1


def test_a_full_disk_loses_the_record_and_not_the_run(project: Project) -> None:
    """There is nowhere to put the record; the next run looks at the store."""
    assert project.scons("build", "JIT=_jit_chain").status == 0
    (project.out / ".results").unlink()
    (project.out / ".results").mkdir()
    project.edit("kernels/aiv/twice.cpp", "2.0f * in[i]", "3.0f * in[i]")
    run = project.scons("build", "JIT=_jit_chain")
    others = ["restored kernels/aiv/plus_one.so", "restored orchestration/chain.so"]
    assert (run.status, run.actions) == (0, ["compile kernels/aiv/twice.cpp", "link kernels/aiv/twice.so", *others])
    assert run.output.endswith(
        f"scons: {project.out}/.results: Is a directory; what was built in this run will be looked at again\n"
    )


@pytest.mark.parametrize(
    "name", ["kernels/aiv/twice.o", "kernels/aiv/twice.so", ".device_rules.json", "device_rules.json"]
)
def test_a_directory_in_the_place_of_an_output(project: Project, name: str) -> None:
    """It may be somebody's: no build removes it."""
    project.replay()
    (project.out / name).unlink()
    (project.out / name / "somebody's").mkdir(parents=True)
    project.write_kernel("twice", "3.0f * in[i]")
    run = project.replay()
    assert run.status == 2
    assert (
        f"scons: {project.out / name}: this is a directory, but the build has to write a file with this "
        f"name; remove it\n"
    ) in run.output
    verdict = json.loads((project.out / "verdict.json").read_text())
    assert name.startswith("kernels") or verdict["status"] == "usage_error"
    shutil.rmtree(project.out / name)
    assert "'y' FAIL" in project.replay().output


def test_a_source_that_the_compiler_takes_for_no_cpp(project: Project) -> None:
    """The compiler succeeds and writes nothing, each time."""
    project.write("k.txt", "int x;\n")
    project.write(
        "SConstruct",
        "from pypto_build.rules import pypto\nenv = Environment(tools=[pypto])\n"
        'env.PtoKernel(name="k", source="k.txt", core_type="aiv")\n',
    )
    for _ in range(2):
        run = project.quiet("k")
        assert run.status == 2
        assert re.search(r"^error: \S*g\+\+\S* wrote no k\.o of k\.txt$", run.output, re.MULTILINE), run.output


def test_python_that_shows_all_warnings(stocked: Project) -> None:
    """Files of the build are closed before Python would warn of them."""
    run = stocked.scons("replay", "JIT=_jit_chain", env={"PYTHONWARNINGS": "error"})
    assert run.status == 0
    assert "Warning" not in run.output
