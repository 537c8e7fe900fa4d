"""Attributes given as results of builders and rules: tests/rules/attributes.py has the rows."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.rules.attributes import live
from tests.rules.project import Project

pytest.importorskip("torch")


@pytest.mark.parametrize("kind", ["builder", "rule"])
def test_the_life_of_a_workspace(kind: str, tmp_path: Path) -> None:
    live(Project(tmp_path / "here"), kind)
