"""The pytest plugin, as a user's pytest sees it: entry points beside the package, any directory, `-p` for platforms."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from pypto_build.interop.pytest_plugin import parse_devices
from tests.interop.rig import Rig, make_rig
from tests.interop.standins import STANDIN, environment

_ROOT = Path(__file__).resolve().parents[2]


def run_pytest(tmp_path: Path, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
    """pytest in an empty directory, with our entry points as an installation has them."""
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
    return subprocess.run(command, cwd=elsewhere, env=variables, capture_output=True, text=True, check=False)


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    from pypto_build.interop.scene_test import write_scene_test

    made = make_rig(tmp_path)
    write_scene_test(made.root, made.out)
    return made


def test_a_scene_test(tmp_path: Path, rig: Rig) -> None:
    report = tmp_path / "report.xml"
    path = str(rig.out / "kernel_config_scene_test.py")
    run = run_pytest(tmp_path, path, "--platform", "a2a3sim", f"--junitxml={report}", "-n", "2")
    assert run.returncode == 0, run.stdout + run.stderr
    assert 'TestScaledMm" name="snapshot[a2a3sim]"' in report.read_text()


def test_a_platform_named_with_p_and_a_missing_toolkit(tmp_path: Path, rig: Rig) -> None:
    for path in (rig.out / "kernel_config_scene_test.py", rig.root / "kernel_config.py"):
        run = run_pytest(tmp_path, str(path), "-p", "a2a3")
        assert run.returncode == 0, run.stdout + run.stderr
        skipped = "PLATFORM=a2a3: ASCEND_HOME_PATH is not set; set it to the toolkit's directory"
        assert skipped in run.stdout and "1 skipped" in run.stdout


def test_a_manifest_that_fails_says_why(tmp_path: Path, rig: Rig) -> None:
    run = run_pytest(tmp_path, str(rig.root / "kernel_config.py"), "-p", "a2a3sim", "--golden-data", "/nowhere")
    assert run.returncode == 1
    assert "DATA=/nowhere: no such directory; give a directory with in/ and out/" in run.stdout
    assert "Traceback" not in run.stdout


def test_what_does_not_exist(tmp_path: Path, rig: Rig) -> None:
    path = rig.out / "kernel_config_scene_test.py"
    run = run_pytest(tmp_path, str(path), "--case", "other")
    assert f"--case other: no such case in {path}; it has snapshot" in run.stdout + run.stderr
    run = run_pytest(tmp_path, str(path), "--platform", "a7")
    assert "--platform a7: unknown platform; one of a2a3, a5, a2a3sim, a5sim" in run.stdout + run.stderr


def test_devices() -> None:
    assert [parse_devices(text) for text in ("0", "4-7", "0,2,5")] == [[0], [4, 5, 6, 7], [0, 2, 5]]
    with pytest.raises(pytest.UsageError, match="is no list of devices"):
        parse_devices("a")
