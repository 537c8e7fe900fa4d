"""PLATFORM=a2a3 where there is neither toolkit nor device: the same semantics on the CPU, and it says so."""

from __future__ import annotations

from pathlib import Path

import pytest

from pypto_build.rules.options import OptionError, parse_options
from pypto_build.rules.platform_choice import choose_platform
from pypto_build.toolchain.devices import sign_of_hardware
from tests.rules.project import Project, Saved

FIRST = "[RUN] PLATFORM=a2a3: no toolkit and no device here; on the CPU, as a2a3sim"

pytestmark = pytest.mark.skipif(bool(sign_of_hardware()), reason="this machine has signs of hardware")


def told(project: Project) -> tuple[object, object]:
    """The platforms that the verdict names."""
    verdict = project.verdict()
    return verdict["platform"], verdict["requested"]


def test_it_is_the_simulated_platform_and_says_so(chain: Saved, tmp_path: Path) -> None:
    project = chain.repeated()
    run = project.replay("PLATFORM=a2a3", "FORCE=1")
    assert (run.status, run.output.splitlines()[0], told(project)) == (0, FIRST, ("a2a3sim", "a2a3"))
    assert "\n[RUN] PASS on the CPU, as a2a3sim (" in run.output
    run = project.replay("PLATFORM=a2a3")
    assert (run.status, run.actions, told(project)) == (0, [], ("a2a3sim", "a2a3"))
    assert "\n[RUN] PASS on the CPU, as a2a3sim (cached)  _jit_chain a2a3sim: 'y'" in run.output
    clone = Project(tmp_path)  # takes it from the store, where the verdict tells what was asked for then
    run = clone.scons("replay", "JIT=_jit_chain", env={"PYPTO_BUILD_STORE": project.store})
    assert (run.status, told(clone)) == (0, ("a2a3sim", "a2a3sim")), run.output
    assert "[RUN] PASS (cached)  _jit_chain a2a3sim: 'y'" in run.output
    assert not (project.root / "build" / "a2a3").exists()


def test_who_means_hardware_gets_no_cpu(chain: Saved, tmp_path: Path) -> None:
    project = chain.repeated()
    run = project.replay("PLATFORM=a2a3", "DEVICE=0")
    assert run.status == 2 and "PASS" not in run.output
    assert (
        "scons: *** PLATFORM=a2a3: the variable ASCEND_HOME_PATH is not set; set it to the toolkit's directory"
    ) in run.output
    words = ("replay", "JIT=_jit_chain", "PLATFORM=a2a3")
    run = project.scons(*words, env={"ASCEND_HOME_PATH": str(tmp_path)})
    assert run.status == 2 and f"{tmp_path}/bin/ccec does not exist" in run.output
    run = project.scons("scene_test", *words[1:], env={"ASCEND_RT_VISIBLE_DEVICES": "0"})
    assert run.status == 0, run.output  # it runs nothing, and is for hardware


def meant(target: str, *, sign: str = "", dry: bool = False, **variables: str) -> str:
    """Return the platform that PLATFORM=a2a3 becomes, and the platform that was requested."""
    variables = {"PLATFORM": "a2a3", **variables}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pypto_build.rules.platform_choice.sign_of_hardware", lambda: sign)
        options = choose_platform(parse_options(variables), variables, [target], dry)
    return f"{options['PLATFORM']} {options.requested}".strip()


@pytest.mark.parametrize("target", ["replay", "build", "test", "report", "dump", "triage", "splice", "own-alias"])
def test_what_runs(target: str) -> None:
    assert meant(target) == "a2a3sim a2a3"
    for variables in ({"HARDWARE": "1"}, {"DEVICE": "0"}):
        assert meant(target, **variables) == "a2a3"  # type: ignore[arg-type]
    assert meant(target, sign="/dev/davinci0") == "a2a3"
    assert meant(target, sign="/dev/davinci0", dry=True, DEVICE="3") == "a2a3sim a2a3"
    assert meant(target, sign="/dev/davinci0", RUNTIME="torch") == "a2a3sim a2a3"


@pytest.mark.parametrize("target", ["hazards", "diverge", "flaky", "torch"])
def test_what_runs_here_in_any_case(target: str) -> None:
    assert meant(target, sign="ASCEND_HOME_PATH") == "a2a3sim a2a3"


@pytest.mark.parametrize("target", ["lint", "scene_test", "compile", "passes", "install", "hang"])
def test_what_runs_nothing(target: str) -> None:
    assert meant(target) == "a2a3"


def test_hardware_of_a_simulated_platform() -> None:
    with pytest.raises(
        OptionError, match=("HARDWARE=1: PLATFORM=a2a3sim is a simulated platform; use PLATFORM=a2a3 or a5")
    ):
        meant("replay", PLATFORM="a2a3sim", HARDWARE="1")


@pytest.mark.parametrize("node", ["davinci0", "davinci_manager", "devmm_svm", "hisi_hdc"])
def test_signs_of_a_device(tmp_path: Path, node: str) -> None:
    assert sign_of_hardware({}, tmp_path) == ""
    (tmp_path / node).touch()
    assert sign_of_hardware({}, tmp_path) == str(tmp_path / node)
    assert sign_of_hardware({"ASCEND_HOME_PATH": ""}, tmp_path) == "ASCEND_HOME_PATH"
