"""Programs of our compiler on the real simpler's simulator: set SIMPLER_ROOT to an environment or a checkout of it.

PYPTO_ARTIFACTS may name a directory of artifacts that PyPTO wrote, of which some are run too.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from pypto_build.toolchain.simpler_home import SimplerHome, find_home
from tests.interop.test_pytest_plugin import run_pytest
from tests.rules.project import Project

pytestmark = pytest.mark.skipif(
    not os.environ.get("SIMPLER_ROOT"), reason="needs simpler: SIMPLER_ROOT names an environment or a checkout of it"
)
_EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
_PROGRAMS = ("vector_dag", "matmul", "softmax", "gemm_lanes")
_ARTIFACTS = Path(os.environ.get("PYPTO_ARTIFACTS", ""))
_OF_PYPTO = ("lib-softmax", "lib-matmul", "mixed_kernel-mixed_matmul_bias", "lib-topk")


@pytest.fixture(scope="module")
def home() -> SimplerHome:
    return find_home("", "")


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    yield Project(tmp_path_factory.mktemp("workspace"))


def run_scene_test(home: SimplerHome, path: Path) -> subprocess.CompletedProcess[str]:
    command = [home.python, str(path), "-p", "a2a3sim"]
    return subprocess.run(command, env=home.variables(), capture_output=True, text=True, check=False)


def check(project: Project, home: SimplerHome, *where: str) -> Path:
    """Check that the artifact passes through its scene test, with the same outputs by RUNTIME=simpler and embedded."""
    name = Path(where[0].partition("=")[2]).name
    out = project.root / "build" / "a2a3sim" / name
    outputs = []
    for runtime in ("embedded", "simpler"):
        ran = project.scons("replay", *where, f"RUNTIME={runtime}", "TIMEOUT=300")
        assert ran.status == 0, ran.output
        outputs.append({path.name: torch.load(path, weights_only=True) for path in (out / "actual").glob("*.pt")})
    for file, ours in outputs[0].items():
        torch.testing.assert_close(outputs[1][file], ours, rtol=1e-4, atol=1e-5, equal_nan=True)
    assert project.scons("scene_test", *where).status == 0
    path = out / "kernel_config_scene_test.py"
    ran_there = run_scene_test(home, path)
    assert ran_there.returncode == 0, ran_there.stdout + ran_there.stderr
    assert "::snapshot PASSED" in ran_there.stdout
    return path


@pytest.mark.parametrize("name", _PROGRAMS)
def test_a_program_of_ours(project: Project, home: SimplerHome, name: str, tmp_path: Path) -> None:
    assert project.scons("compile", f"PROGRAM={_EXAMPLES / name}.py").status == 0
    path = check(project, home, f"JIT=_jit_{name}")
    if name == _PROGRAMS[0]:
        run = run_pytest(tmp_path, str(path), "--platform", "a2a3sim", SIMPLER_ROOT=os.environ["SIMPLER_ROOT"])
        assert run.returncode == 0 and "1 passed" in run.stdout, run.stdout


@pytest.mark.skipif(not os.environ.get("PYPTO_ARTIFACTS"), reason="PYPTO_ARTIFACTS names no directory of artifacts")
@pytest.mark.parametrize("name", _OF_PYPTO)
def test_an_artifact_of_pypto(project: Project, home: SimplerHome, name: str) -> None:
    check(project, home, f"JIT={_ARTIFACTS / name}")


def test_the_records_of_a_run(project: Project, home: SimplerHome) -> None:
    options = ("DUMP=2", "DEP_GEN=1", "SWIMLANE=4", "SCOPE_STATS=1", "PMU=2")
    assert project.scons("compile", f"PROGRAM={_EXAMPLES / 'vector_dag.py'}").status == 0
    ran = project.scons("replay", "JIT=_jit_vector_dag", "RUNTIME=simpler", *options)
    assert ran.status == 0, ran.output
    records = project.root / "build" / "a2a3sim" / "_jit_vector_dag" / "dfx_outputs"
    assert sorted(str(path.relative_to(records)) for path in records.rglob("*") if path.is_file()) == [
        "args_dump/args.bin",
        "args_dump/args_dump.json",
        "chip_swimlane_records.json",
        "deps.json",
        "name_map.json",
        "pmu.csv",
        "scope_stats/scope_stats.jsonl",
    ]
