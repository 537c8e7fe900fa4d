from __future__ import annotations

from pathlib import Path

import pytest

from tests.rules.project import Project, Saved


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A fresh workspace."""
    return Project(tmp_path)


@pytest.fixture(scope="session")
def chain(tmp_path_factory: pytest.TempPathFactory, runtime: Path) -> Saved:
    """A project that was replayed, to go back to."""
    project = Project(tmp_path_factory.mktemp("chain") / "here")
    run = project.replay()
    assert run.status == 0, run.output
    return Saved(project)


@pytest.fixture(scope="session", autouse=True)
def _runtime_first(runtime: Path) -> None:
    """No test here is the one that builds the runtime."""
