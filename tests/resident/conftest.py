"""Workspaces with a resident process; it ends with the test."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.resident.desk import Desk, words_of


@pytest.fixture
def desk(tmp_path: Path, runtime: Path) -> Iterator[Desk]:
    desk = Desk(tmp_path)
    yield desk
    for _ in range(40):  # one may be just starting, which nobody can end by its note yet
        desk.run("shutdown")
        if not any(str(desk.sockets) in words_of(int(path.name)) for path in Path("/proc").glob("[0-9]*")):
            return
        time.sleep(0.25)
    raise AssertionError("a resident process stays")


@pytest.fixture
def resident(desk: Desk) -> Desk:
    """With a resident process, and everything built."""
    assert desk.run("replay", "build_output/_jit_chain")[0] == 0
    assert desk.server
    return desk


@pytest.fixture
def again(resident: Desk) -> Desk:
    """With a process that stands for replays of the artifact."""
    assert resident.run("replay", str(resident.project.artifact))[0] == 0
    for _ in range(200):
        if resident.stands:
            return resident
        time.sleep(0.05)
    raise AssertionError("nobody stands for it")
