"""A workspace whose artifact is built with simpler's interface; the stand-in covers the needed part of it."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.interop.standins import STANDIN
from tests.rules.project import Project
from tests.toolchain.test_pins import git

PROGRAM = "def run(tensors, scalars):\n    tensors[1][:] = 2 * tensors[0] + 1\n"


@pytest.fixture(scope="session", autouse=True)
def _runtime_first(runtime: Path) -> None:
    """Build the runtime before the first test, so that no test includes its build."""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """Return the artifact of `Project`, in a workspace that calls compilers as simpler does."""
    workspace = Project(tmp_path / "workspace")
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "g++-15").write_text('#!/bin/sh\nexec g++ "$@"\n')
    (programs / "g++-15").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    monkeypatch.setenv("PYPTO_STANDIN_PROGRAM", str(workspace.write("program.py", PROGRAM)))
    monkeypatch.delenv("SIMPLER_ROOT", raising=False)
    return workspace


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """Return a checkout of the stand-in at a commit, without changes, with its stand-in for pto-isa."""
    checkout_dir = tmp_path / "simpler"
    shutil.copytree(STANDIN, checkout_dir, ignore=shutil.ignore_patterns("__pycache__"))
    (checkout_dir / ".gitignore").write_text("build\n__pycache__\n")
    for checkout in (checkout_dir, checkout_dir / "build" / "pto-isa"):
        git(checkout, "init", "-q")
        git(checkout, "add", "-A")
        git(checkout, "commit", "-q", "-m", "a revision")
    return checkout_dir
