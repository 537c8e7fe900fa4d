from __future__ import annotations

from pathlib import Path

import pytest

from tests.rules.project import Project


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A fresh workspace."""
    return Project(tmp_path)
