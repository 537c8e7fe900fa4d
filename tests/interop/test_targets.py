"""The targets of this package, through scons."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.interop.standins import environment
from tests.loaded_python import interpreter
from tests.rules.project import Project


def test_scene_test(tmp_path: Path) -> None:
    project = Project(tmp_path)
    ran = project.scons("scene_test", "JIT=_jit_chain", "RTOL=0.5")
    assert ran.status == 0, ran.output
    path = project.out / "kernel_config_scene_test.py"
    assert f"[scene_test] wrote {path.relative_to(project.root)}" in ran.output
    assert ran.actions == ["sign kernel_config.py"]
    assert "[cpp->.so]" not in ran.output  # nothing is built, and nothing is said of it
    command = [interpreter(), str(path), "-p", "a2a3sim"]
    test = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False)
    assert (test.returncode, test.stdout) == (0, "  TestChain::snapshot PASSED y=256\n"), test.stderr
    path.write_text(path.read_text() + "# mine\n")
    ran = project.scons("scene_test", "JIT=_jit_chain", "RTOL=0.5")
    assert f"{path}: was edited after 'scons scene_test' wrote it; overwrite it with FORCE=1 (--force)" in ran.output
    assert ran.status == 2
    assert project.scons("scene_test", "JIT=_jit_chain", "FORCE=1").status == 0
    assert "# mine" not in path.read_text()
