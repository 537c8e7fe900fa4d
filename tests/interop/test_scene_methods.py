"""Test methods of a scene test's class that belong to no case, run by pytest without simpler."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.interop.test_scenes import Workspace

FILE = "scenes/scene_methods.py"


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory, runtime: Path) -> Workspace:
    return Workspace(tmp_path_factory.mktemp("scenes"))


def found(workspace: Workspace, *words: str) -> tuple[list[tuple[str, str]], str]:
    """Return names and outcomes of a session's items, and its output."""
    run = workspace.run(FILE, "-p", "no:cacheprovider", "-rs", "-v", *words, tool="pytest")
    return sorted(re.findall(r"::(TestMethods::\S+) (\w+)", run.stdout)), run.stdout


def test_they_run_on_the_platforms_of_the_cases(workspace: Workspace) -> None:
    items, printed = found(workspace, "--platform", "a2a3sim", "--platform", "a5sim")
    assert items == [
        ("TestMethods::any[a2a3sim]", "PASSED"),
        ("TestMethods::test_a_wrong_golden[a2a3sim]", "PASSED"),
        ("TestMethods::test_slots[a2a3sim]", "PASSED"),
        ("TestMethods::test_what_only_simpler_counts[a2a3sim]", "SKIPPED"),
    ], printed
    assert "it uses simpler.worker.Worker.aicpu_dlopen_count, which needs simpler" in printed


def test_where_no_case_runs_none_of_them_does(workspace: Workspace) -> None:
    assert found(workspace, "--platform", "a2a3")[0] == []
