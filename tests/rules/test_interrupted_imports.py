"""Ctrl-C while modules are loaded: one line, and the status of what Ctrl-C ended."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pypto_build.toolchain.python import own_tool
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
    environment = {**stocked.environment(), **_interrupting(tmp_path, module), "PYPTO_BUILD_SERVER": "0"}
    run = subprocess.run(
        [sys.executable, "-m", *words], cwd=stocked.root, env=environment, capture_output=True, text=True, check=False
    )
    assert (run.returncode, run.stderr) == (130, "pypto-build: interrupted\n"), run


def test_ctrl_c_while_a_tool_begins(tmp_path: Path) -> None:
    environment = {**os.environ, **_interrupting(tmp_path, "runpy")}
    run = subprocess.run(own_tool("SCons"), env=environment, capture_output=True, text=True, check=False)
    assert (run.returncode, run.stderr) == (130, "pypto-build: interrupted\n"), run


def _interrupting(directory: Path, module: str) -> dict[str, str]:
    """Return the variables of processes in which Ctrl-C comes when ``module`` is imported."""
    finder = f"""
import sys
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            sys.meta_path.remove(self)
            raise KeyboardInterrupt
sys.meta_path.insert(0, Finder())
"""
    (directory / "first").mkdir()
    (directory / "first" / "sitecustomize.py").write_text(finder)
    package = Path(sys.modules["pypto_build"].__path__[0])
    return {"PYTHONPATH": os.pathsep.join([str(directory / "first"), str(package.parent)])}
