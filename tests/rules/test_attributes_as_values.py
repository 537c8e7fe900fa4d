"""Attributes given as text, paths and nodes of SCons: tests/rules/attributes.py has the rows."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.rules.attributes import live
from tests.rules.project import Project

pytest.importorskip("torch")


def test_the_life_of_a_workspace(tmp_path: Path) -> None:
    live(Project(tmp_path / "here"), "plain")
