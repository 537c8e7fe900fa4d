"""Artifacts of every vintage are replayed as they are."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.artifact.artifacts import VINTAGE_NAMES
from tests.replay.builder import build_artifact, replay
from tests.replay.vintages import write_artifact

GRAPHS = {
    "host_build_graph, first API": "2026-04",
    "host_build_graph, methods": "2026-03-22",
    "host_build_graph, second API": "2026-08",
}
SHARED = [*(name for name in VINTAGE_NAMES if name < "2026-03-28"), "host_build_graph, methods"]


@pytest.mark.parametrize("vintage", [*VINTAGE_NAMES, *GRAPHS])
def test_replay(tmp_path: Path, vintage: str) -> None:
    artifact = write_artifact(tmp_path / "_jit_scaled_mm", vintage)
    build_artifact(artifact, tmp_path / "out")
    interface = json.loads((tmp_path / "out" / "interface.json").read_text())
    assert interface["parameter_order"] == ("ttst" if vintage in SHARED else "")
    run = replay(artifact, tmp_path / "out")
    assert (run.status, run.verdict.status) == (0, "pass"), run.stdout
    assert run.verdict.tasks == (5 if vintage >= "2026-04" and vintage not in GRAPHS else 2)
    assert run.verdict.vintage == GRAPHS.get(vintage, vintage)
