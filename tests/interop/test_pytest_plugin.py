"""The pytest plugin, as a user's pytest sees it: entry points beside the package, any directory, `-p` for platforms."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pypto_build.artifact.pt import write_pt
from pypto_build.facts.platforms import PLATFORMS
from pypto_build.interop import pytest_platforms
from pypto_build.interop.pytest_items import Replay, device_of, parse_devices
from tests.interop.rig import Rig, floats, make_rig
from tests.interop.standins import STANDIN, environment
from tests.rules.project import Project

_ROOT = Path(__file__).resolve().parents[2]


def run_pytest(
    tmp_path: Path, *words: str, directory: Path | None = None, **more: str
) -> subprocess.CompletedProcess[str]:
    """Run pytest in an empty directory, or in `directory`, with our entry points as an installation has them."""
    site = tmp_path / "site" / "pypto_plugin-0.dist-info"
    site.mkdir(parents=True, exist_ok=True)
    section = (
        (_ROOT / "pyproject.toml").read_text().partition("[project.entry-points.pytest11]")[2].partition("\n\n")[0]
    )
    (site / "entry_points.txt").write_text("[pytest11]\n" + re.sub('"', "", section))
    (site / "METADATA").write_text("Metadata-Version: 2.1\nName: pypto-plugin\nVersion: 0\n")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir(exist_ok=True)
    variables = environment()
    variables |= {"PYTHONPATH": f"{site.parent}:{variables['PYTHONPATH']}", "SIMPLER_ROOT": str(STANDIN), **more}
    variables.pop("ASCEND_HOME_PATH", None)
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-rs", "-v", *words]
    where = directory or elsewhere
    return subprocess.run(command, cwd=where, env=variables, capture_output=True, text=True, check=False)


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    from pypto_build.interop.scene_test import write_scene_test

    rig = make_rig(tmp_path)
    write_scene_test(rig.root, rig.out)
    return rig


def test_every_platform_is_a_name_that_p_takes() -> None:
    table = (_ROOT / "pyproject.toml").read_text().partition("[project.entry-points.pytest11]")[2].partition("\n\n")[0]
    named = dict(re.findall(r'^(\w+) = "pypto_build.interop.pytest_platforms:(\w+)"$', table, re.MULTILINE))
    assert {name: getattr(pytest_platforms, class_name).__name__ for name, class_name in named.items()} == {
        name: name for name in PLATFORMS
    }


def test_a_scene_test_that_simpler_runs(tmp_path: Path, rig: Rig) -> None:
    report = tmp_path / "report.xml"
    path = str(rig.out / "kernel_config_scene_test.py")
    run = run_pytest(tmp_path, path, "--runtime", "tensormap_and_ringbuffer", f"--junitxml={report}", "-n", "2")
    assert run.returncode == 0, run.stdout + run.stderr
    assert 'TestScaledMm" name="snapshot[a2a3sim]"' in report.read_text()


def test_a_generated_scene_test_runs_without_simpler(tmp_path: Path) -> None:
    """Run it under its own name, and under another."""
    project = Project(tmp_path / "workspace")
    assert project.scons("scene_test", "JIT=_jit_chain").status == 0
    path = project.out / "kernel_config_scene_test.py"
    path_without = f"{tmp_path / 'site'}:{_ROOT}"
    run = run_pytest(tmp_path, str(path), SIMPLER_ROOT="", PYTHONPATH=path_without)
    assert (run.returncode, "TestChain::snapshot[a2a3sim] PASSED" in run.stdout) == (0, True), run.stdout
    project.write_tensor("out/y", [0.0] * 16)
    run = run_pytest(tmp_path, str(path), SIMPLER_ROOT="", PYTHONPATH=path_without)
    assert (run.returncode, "1 failed" in run.stdout) == (1, True), run.stdout


def test_a_platform_named_with_p_and_a_missing_toolkit(tmp_path: Path, rig: Rig) -> None:
    for path in (rig.out / "kernel_config_scene_test.py", rig.root / "kernel_config.py"):
        run = run_pytest(tmp_path, str(path), "-p", "a2a3")
        assert run.returncode == 0, run.stdout + run.stderr
        skipped = "PLATFORM=a2a3: the variable ASCEND_HOME_PATH is not set; set it to the toolkit's directory"
        assert skipped in run.stdout and "1 skipped" in run.stdout


def test_a_manifest_that_fails_says_why(tmp_path: Path, rig: Rig) -> None:
    run = run_pytest(tmp_path, str(rig.root / "kernel_config.py"), "-p", "a2a3sim", "--golden-data", "/nowhere")
    assert run.returncode == 1
    assert "DATA=/nowhere: no such directory; give a directory that contains in/ and out/" in run.stdout
    assert "Traceback" not in run.stdout


def test_a_replay_that_fails_leaves_its_pack(tmp_path: Path) -> None:
    artifact = tmp_path / "_jit_accumulate"
    shutil.copytree(Path(__file__).parents[2] / "examples/artifacts/_jit_accumulate", artifact)
    kernel = artifact / "kernels" / "aiv" / "axpy_acc.cpp"
    kernel.write_text(kernel.read_text().replace("TADD(v20, v15, v19);", "TSUB(v20, v15, v19);"))
    run = run_pytest(tmp_path, str(artifact / "kernel_config.py"), "--pack", "onfail")
    assert run.returncode == 1, run.stdout
    (pack,) = (tmp_path / "elsewhere").glob("build/a2a3sim/_jit_accumulate/*.tar.zst")
    assert f"{pack.name}: elsewhere, pypto-build replay {pack.name}" in run.stdout


def test_a_replay_without_a_golden_says_so(tmp_path: Path) -> None:
    artifact = tmp_path / "_jit_accumulate"
    shutil.copytree(Path(__file__).parents[2] / "examples/artifacts/_jit_accumulate", artifact)
    shutil.rmtree(artifact / "data" / "out")
    run = run_pytest(tmp_path, str(artifact / "kernel_config.py"))
    assert run.returncode == 1, run.stdout
    assert "no golden to compare with" in run.stdout


def test_an_artifact_is_not_written_to_and_its_signed_manifest_is_collected(tmp_path: Path) -> None:
    """Run pytest also in the artifact's own directory, where users call it."""
    project = Project(tmp_path / "workspace")
    before = sorted(project.artifact.rglob("*"))
    run = run_pytest(tmp_path, "kernel_config.py", directory=project.artifact)
    assert (run.returncode, "kernel_config.py::snapshot[a2a3sim] PASSED" in run.stdout) == (0, True), run.stdout
    assert sorted(project.artifact.rglob("*")) == before
    assert project.scons("build", "JIT=_jit_chain").status == 0
    run = run_pytest(tmp_path, str(project.out / "kernel_config.py"))
    assert (run.returncode, "kernel_config.py::snapshot[a2a3sim] PASSED" in run.stdout) == (0, True), run.stdout


def test_a_directory(tmp_path: Path, rig: Rig) -> None:
    run = run_pytest(tmp_path, str(rig.out.parent), "--collect-only", "--platform", "a5sim", "--platform", "a2a3")
    items = [line.strip() for line in run.stdout.splitlines() if "::" in line]
    assert items == ["<SceneCase TestScaledMm::snapshot[a2a3]>"]


def test_what_does_not_exist(tmp_path: Path, rig: Rig) -> None:
    path = rig.out / "kernel_config_scene_test.py"
    run = run_pytest(tmp_path, str(path), "--case", "other")
    assert f"--case other: no such case in {path}; its cases are TestScaledMm::snapshot" in run.stdout + run.stderr
    run = run_pytest(tmp_path, str(path), "--platform", "a7")
    assert "--platform a7: unknown platform; one of a2a3, a5, a2a3sim, a5sim" in run.stdout + run.stderr


FLAGS = ("--dump-args", "2", "--enable-chip-swimlane", "--enable-pmu", "4", "--enable-dep-gen", "--rounds", "3")


def test_flags_reach_a_scene_test_by_the_names_that_this_simpler_has(tmp_path: Path, rig: Rig) -> None:
    old = tmp_path / "june"
    shutil.copytree(STANDIN, old, ignore=shutil.ignore_patterns("__pycache__"))
    setup = old / "simpler_setup" / "__init__.py"
    setup.write_text(setup.read_text().replace("--dump-args", "--dump-tensor").replace("-chip-swim", "-l2-swim"))
    data = tmp_path / "other"
    shutil.copytree(rig.root / "data", data)
    write_pt(data / "out" / "y.pt", "float32", (2,), floats(1, 2))
    path = str(rig.out / "kernel_config_scene_test.py")
    words = (path, *FLAGS, "--golden-data", str(data), "--runtime", "tensormap_and_ringbuffer", "-rA")
    run = run_pytest(tmp_path, *words, SIMPLER_ROOT=str(old))
    assert run.returncode == 0, run.stdout + run.stderr
    printed = next(line for line in run.stdout.splitlines() if line.startswith("given"))
    assert printed == (
        "given -p a2a3sim --device 0 --case TestScaledMm::snapshot --rounds 3 --runtime tensormap_and_ringbuffer "
        "--dump-tensor 2 --enable-l2-swimlane 4 --enable-pmu 4 --enable-dep-gen"
    )
    assert "PASSED y=3" in run.stdout  # the golden of the other directory


def test_flags_reach_a_replay() -> None:
    values = {"pypto_dump_args": "2", "pypto_enable_dep_gen": True, "pypto_rounds": "3", "pypto_golden_data": "d"}
    values |= {"pypto_runtime": "simpler", "pypto_enable_pmu": "4", "pypto_enable_chip_swimlane": "1"}
    values |= {"pypto_pack": "onfail"}
    item: Any = SimpleNamespace(
        config=SimpleNamespace(getoption=lambda name, default=None: values.get(name, default)),
        root=Path("artifact"),
        data=None,
        platform=PLATFORMS["a5"],
        rounds=lambda: Replay.rounds(item),
        passed_on=lambda: Replay.passed_on(item),
    )
    words = Replay.command(item, 6)
    assert words[3:] == [
        *("replay", "artifact", "-p", "a5", "--force", "--golden-data", "d", "--runtime", "simpler", "--device", "6"),
        *("PACK=onfail", "--rounds", "3", "--dump-args", "2", "--enable-chip-swimlane", "1", "--enable-pmu", "4"),
        "--enable-dep-gen",
    ]


def test_a_users_other_runs_go_on_as_they_were(tmp_path: Path) -> None:
    """Run with flags that the user's conftest declares too, and without the plugin."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "conftest.py").write_text(
        "def pytest_addoption(parser):\n"
        "    parser.addoption('--platform', default='linux')\n"
        "    parser.addoption('--rounds', type=int, default=5)\n"
    )
    (elsewhere / "test_mine.py").write_text(
        "def test_mine(request):\n"
        "    assert request.config.getoption('--platform') in ('linux', 'mac')\n"
        "    assert request.config.getoption('rounds') == 5\n"
    )
    for words in ((), ("--platform", "mac"), ("-p", "no:pypto")):
        run = run_pytest(tmp_path, "-q", *words)
        assert run.returncode == 0, run.stdout + run.stderr


def test_the_plugin_loads_nothing_until_there_is_something_to_collect() -> None:
    code = (
        "import sys, pytest; before = set(sys.modules); import pypto_build.interop.pytest_plugin; "
        "print(sorted(name for name in set(sys.modules) - before))"
    )
    run = subprocess.run([sys.executable, "-c", code], cwd=_ROOT, capture_output=True, text=True, check=True)
    loaded = ["pypto_build", "pypto_build.interop", "pypto_build.interop.pytest_plugin", "pypto_build.lazy"]
    assert run.stdout.strip() == str(loaded)


def test_no_two_have_the_same_device(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    config: Any = SimpleNamespace(getoption=lambda name, default=None: {"pypto_device": "4-5"}.get(name, default))
    seen = []
    for worker in ("gw0", "gw1", "gw0"):
        monkeypatch.setenv("PYTEST_XDIST_WORKER", worker)
        held = device_of(config, PLATFORMS["a2a3"])
        with held as first:
            seen.append(first)
            with device_of(config, PLATFORMS["a2a3"]) as second:
                seen.append(second)
    assert seen == [4, 5, 5, 4, 4, 5]


def test_devices() -> None:
    assert [parse_devices(text) for text in ("0", "4-7", "0,2,5")] == [[0], [4, 5, 6, 7], [0, 2, 5]]
    with pytest.raises(pytest.UsageError, match="is not a list of devices"):
        parse_devices("a")


def test_a_long_expression_is_no_file(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "test_one.py").write_text("def test_it():\n    pass\n")
    run = run_pytest(tmp_path, "-k", " or ".join(["test_it"] * 100))
    assert run.returncode == 0 and "1 passed" in run.stdout, run.stdout + run.stderr
