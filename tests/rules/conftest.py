from __future__ import annotations

from pathlib import Path

import pytest

from tests.rules.project import Project


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A fresh workspace."""
    return Project(tmp_path)


@pytest.fixture(scope="session", autouse=True)
def _runtime_first(runtime: Path) -> None:
    """No test here is the one that builds the runtime."""
