from __future__ import annotations

import shutil
from collections.abc import Callable

import pytest

from tests.rules.project import Project

#: Adds an artifact beside the first one, with another expression in its first kernel.
Add = Callable[..., None]


@pytest.fixture
def project(stocked: Project) -> Project:
    """Return a project whose binaries are built; the tests here concern later steps."""
    return stocked


@pytest.fixture
def add(project: Project) -> Add:
    """A way to add artifacts like the project's own."""

    def _add(name: str, expression: str = "2.0f * in[i]") -> None:
        root = project.artifact.parent / name
        shutil.copytree(project.artifact, root)
        path = root / "kernels/aiv/twice.cpp"
        text = path.read_text(encoding="utf-8")
        assert "2.0f * in[i]" in text
        path.write_text(text.replace("2.0f * in[i]", expression), encoding="utf-8")

    return _add
