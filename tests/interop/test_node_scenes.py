"""Scene tests of several chips without simpler, as `pypto-build scene` and pytest run them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.interop.test_scenes import Workspace

FILE = "scenes/scene_exchange.py"


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory, runtime: Path) -> Workspace:
    return Workspace(tmp_path_factory.mktemp("scenes"))


def test_both_cases_by_pytest(workspace: Workspace) -> None:
    run = workspace.run(FILE, "-p", "no:cacheprovider", "-v", "--platform", "a2a3sim", tool="pytest")
    assert sorted(re.findall(r"::(\S+\[a2a3sim\]) (PASSED|FAILED)", run.stdout)) == [
        ("TestExchange::two[a2a3sim]", "PASSED"),
        ("TestExchange::wrong[a2a3sim]", "FAILED"),
    ]
    assert "TestExchange: Golden mismatch on 'y1': max_diff=1.0" in run.stdout
    assert "seen 1 tensors, 69.0" in run.stdout


def test_rounds_and_the_list(workspace: Workspace) -> None:
    run = workspace.run("scene", FILE, "-p", "a2a3sim", "--case", "two", "--rounds", "2")
    assert run.returncode == 0 and run.stdout.endswith("\n1 passed\n"), run.stdout
    listed = workspace.run("scene", "--list", FILE)
    assert "  TestExchange  level 3, tensormap_and_ringbuffer\n    two  a2a3sim, a5sim\n" in listed.stdout
    refused = workspace.run("replay", f"SCENE={FILE}::TestExchange::two")
    assert "several chips: pypto-build scene and pytest run it" in refused.stdout


def test_a_kernel_that_never_notifies(workspace: Workspace) -> None:
    workspace.edit("kernels/exchange.cpp", "comm::TNOTIFY", "if (peer) comm::TNOTIFY")
    run = workspace.run("scene", FILE, "-p", "a2a3sim", "--case", "two")
    workspace.edit("kernels/exchange.cpp", "if (peer) comm::TNOTIFY", "comm::TNOTIFY")
    assert run.returncode == 1 and "the ranks wait for each other: rank 0 d0 'trade' kernel" in run.stdout, run.stdout
