"""Ctrl-C while modules are loaded: one line, and the status of what Ctrl-C ended."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.rules.project import Project

_CLIENT = ["pypto_build.resident.client", "replay", "_jit_chain"]
_SCONS = ["SCons", "-Q", "replay", "JIT=_jit_chain"]


@pytest.mark.parametrize(
    ("words", "module"),
    [
        (_CLIENT, "pypto_build.client.protocol"),
        (_CLIENT, "msgspec"),
        ([*_CLIENT, "--no-server"], "pypto_build.cli"),
        ([*_CLIENT, "--no-server"], "msgspec"),
        (_SCONS, "pypto_build.client.protocol"),
        (_SCONS, "msgspec"),
    ],
)
def test_ctrl_c_while_a_module_is_loaded(stocked: Project, tmp_path: Path, words: list[str], module: str) -> None:
    package = Path(sys.modules["pypto_build"].__path__[0])
    (tmp_path / "first").mkdir()
    finder = f"""
import sys
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            sys.meta_path.remove(self)
            raise KeyboardInterrupt
sys.meta_path.insert(0, Finder())
"""
    (tmp_path / "first" / "sitecustomize.py").write_text(finder)
    path = os.pathsep.join([str(tmp_path / "first"), str(package.parent)])
    environment = {**stocked.environment(), "PYTHONPATH": path, "PYPTO_BUILD_SERVER": "0"}
    run = subprocess.run(
        [sys.executable, "-m", *words], cwd=stocked.root, env=environment, capture_output=True, text=True, check=False
    )
    assert (run.returncode, run.stderr) == (130, "pypto-build: interrupted\n"), run
