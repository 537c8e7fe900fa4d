"""Chip programs that cases of a scene test have in common, and those that they do not."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from pypto_build.artifact.files import write_bytes
from pypto_build.rules.scenes import open_node

META = {"schema": 2, "params": [], "distributed_config": {"device_ids": [0, 1], "num_sub_workers": 0}}


def write_case(root: Path, **programs: str) -> Path:
    """Write the files that a process writes for a case."""
    write_bytes(root / "orchestration" / "host_orch.py", b"")
    write_bytes(root / "distributed_meta.json", msgspec.json.encode(META))
    for file in (root / "programs").glob("*"):
        file.unlink()
    for name, text in programs.items():
        write_bytes(root / "programs" / f"{name}.py", text.encode())
    return root


@pytest.fixture
def run() -> Any:
    """Return a stand-in for a run's workspace."""
    return SimpleNamespace(extras={})


def test_cases_share_what_they_call_alike(tmp_path: Path, run: Any) -> None:
    shared = tmp_path / "file.TestX"
    first = open_node(run, write_case(tmp_path / "file.TestX.a", trade="one", sums="one"), shared)
    second = open_node(run, write_case(tmp_path / "file.TestX.b", trade="other", sums="one"), shared)
    assert first.chips == {name: shared / "next_levels" / name for name in ("sums", "trade")}
    assert second.chips == {"sums": first.chips["sums"], "trade": second.root / "next_levels" / "trade"}
    assert (second.chips["trade"] / "kernel_config.py").read_text() == "other"
    assert (first.chips["trade"] / "kernel_config.py").read_text() == "one"


def test_a_case_that_changes(tmp_path: Path, run: Any) -> None:
    """Links and directories of an earlier run make place; what stays the same is not written again."""
    shared, root = tmp_path / "file.TestX", tmp_path / "file.TestX.b"
    open_node(run, write_case(tmp_path / "file.TestX.a", trade="one"), shared)
    open_node(run, write_case(root, trade="other", gone="one"), shared)
    kept = shared / "next_levels" / "trade" / "kernel_config.py"
    before = kept.stat().st_ino
    later = open_node(SimpleNamespace(extras={}), write_case(root, trade="one"), shared)  # type: ignore[arg-type]
    assert later.chips == {"trade": shared / "next_levels" / "trade"} and kept.stat().st_ino == before
    assert [path.name for path in (root / "next_levels").iterdir()] == ["trade"]
    repeated = open_node(run, write_case(root, trade="other"), shared)
    assert repeated.chips == {"trade": root / "next_levels" / "trade"} and kept.read_text() == "one"
