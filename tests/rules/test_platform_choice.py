"""PLATFORM=a2a3 where there is neither toolkit nor device: the same semantics on the CPU, and it says so."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pypto_build.toolchain.devices import sign_of_hardware
from tests.rules.project import Project

FIRST = "[RUN] PLATFORM=a2a3: no toolkit and no device here; on the CPU, as a2a3sim"

pytestmark = pytest.mark.skipif(bool(sign_of_hardware()), reason="this machine has signs of hardware")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A project that was replayed with PLATFORM=a2a3."""
    project = Project(tmp_path_factory.mktemp("platform"))
    run = project.replay("PLATFORM=a2a3")
    assert run.status == 0, run.output
    assert run.output.splitlines()[0] == FIRST
    assert "\n[RUN] PASS on the CPU, as a2a3sim (" in run.output
    return project


def told(project: Project) -> tuple[object, object]:
    """The platforms that the verdict names."""
    verdict = project.verdict()
    return verdict["platform"], verdict["requested"]


def test_results_are_those_of_the_simulated_platform(built: Project) -> None:
    run = built.replay("PLATFORM=a2a3")
    assert (run.status, run.actions, told(built)) == (0, [], ("a2a3sim", "a2a3"))
    assert "\n[RUN] PASS on the CPU, as a2a3sim (cached)  _jit_chain a2a3sim: 'y'" in run.output
    run = built.replay("PLATFORM=a2a3sim")
    assert (run.status, run.actions, told(built)) == (0, [], ("a2a3sim", "a2a3sim"))
    assert "\n[RUN] PASS (cached)  _jit_chain a2a3sim: 'y'" in run.output
    assert not (built.root / "build" / "a2a3").exists()


def test_a_clone_takes_it_from_the_store(built: Project, tmp_path: Path) -> None:
    """A verdict in the store tells which platform was asked for then, not now."""
    clone = Project(tmp_path)
    run = clone.scons("replay", "JIT=_jit_chain", env={"PYPTO_BUILD_STORE": built.store})
    assert run.status == 0, run.output
    assert "[RUN] PASS (cached)" in run.output
    assert told(clone) == ("a2a3sim", "a2a3sim")


@pytest.mark.parametrize(
    "words, environment",
    [
        (("DEVICE=0",), {}),
        (("HARDWARE=1",), {}),
        ((), {"ASCEND_RT_VISIBLE_DEVICES": "0"}),
    ],
)
def test_who_means_hardware_gets_no_cpu(built: Project, words: tuple[str, ...], environment: dict[str, str]) -> None:
    run = built.scons("replay", "JIT=_jit_chain", "PLATFORM=a2a3", *words, env=environment)
    assert run.status == 2
    assert "scons: *** PLATFORM=a2a3: ASCEND_HOME_PATH is not set; set it to the toolkit's directory" in run.output
    assert "PASS" not in run.output


def test_a_broken_toolkit_is_a_sign(built: Project, tmp_path: Path) -> None:
    run = built.scons("replay", "JIT=_jit_chain", "PLATFORM=a2a3", env={"ASCEND_HOME_PATH": str(tmp_path)})
    assert run.status == 2
    assert f"{tmp_path}/bin/ccec does not exist" in run.output


def test_hardware_of_a_simulated_platform(built: Project) -> None:
    run = built.replay("HARDWARE=1")
    assert (run.status, run.output) == (
        2,
        "scons: *** HARDWARE=1: PLATFORM=a2a3sim is simulated; name PLATFORM=a2a3 or a5, or leave it out\n",
    )


@pytest.mark.parametrize("verb", ["lint", "scene_test", "hazards", "replay -n DEVICE=0"])
def test_who_needs_no_toolkit_asks_for_none(built: Project, verb: str) -> None:
    environment = {"ASCEND_RT_VISIBLE_DEVICES": "0"}
    run = built.scons(*verb.split(), "JIT=_jit_chain", "PLATFORM=a2a3", env=environment)
    assert run.status == (2 if verb == "hazards" else 0), run.output  # what it finds in plain C++
    assert "ASCEND_HOME_PATH" not in run.output


def test_a_failing_run_says_where_it_ran(built: Project) -> None:
    run = built.replay("PLATFORM=a2a3", "RTOL=0", "ATOL=0", "DATA=wrong")
    assert run.status == 2  # there is no such directory, and the verdict says what was asked for
    assert run.output.splitlines()[0] == FIRST


@pytest.mark.parametrize("node", ["davinci0", "davinci_manager", "devmm_svm", "hisi_hdc"])
def test_signs_of_a_device(tmp_path: Path, node: str) -> None:
    assert sign_of_hardware({}, tmp_path) == ""
    (tmp_path / node).touch()
    assert sign_of_hardware({}, tmp_path) == str(tmp_path / node)


def test_a_variable_that_is_empty_is_a_sign(tmp_path: Path) -> None:
    assert sign_of_hardware({"ASCEND_HOME_PATH": ""}, tmp_path) == "ASCEND_HOME_PATH"
    assert "ASCEND_HOME_PATH" not in os.environ or sign_of_hardware() == "ASCEND_HOME_PATH"
