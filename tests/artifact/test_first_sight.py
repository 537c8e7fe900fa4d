"""Edits since an artifact's first build are listed line by line; a new compilation begins anew."""

from __future__ import annotations

import gzip
import os
import shutil
from pathlib import Path

import pytest

from pypto_build.artifact import load_artifact
from pypto_build.artifact.first_sight import FIRST_SIGHT, Change, changes, first_text, remember

_DAG = Path(__file__).parents[2] / "examples" / "artifacts" / "_jit_vector_dag"
_ORCH, _MUL = "orchestration/vector_dag.cpp", "kernels/aiv/kernel_mul.cpp"


@pytest.fixture
def artifact(tmp_path: Path) -> Path:
    shutil.copytree(_DAG, tmp_path / "x")
    (tmp_path / "out").mkdir()
    remember(tmp_path / "out", load_artifact(tmp_path / "x"))
    return tmp_path / "x"


def _edit(path: Path, old: str, new: str) -> int:
    text = path.read_text()
    assert text.count(old) == 1
    path.write_text(text.replace(old, new))
    return text[: text.index(old)].count("\n") + 1


def test_edits_are_told_orchestration_first(artifact: Path) -> None:
    out = artifact.parent / "out"
    assert changes(out, load_artifact(artifact)) == []
    before = (artifact / _ORCH).read_text()
    line = _edit(artifact / _MUL, "TMUL(v17, v7, v13);", "TADD(v17, v7, v13);")
    other = _edit(artifact / _ORCH, "params_t4.add_input(c);", "params_t4.add_input(d);")
    (artifact / "data" / "out" / "f.pt").write_bytes(b"another golden")
    edits = changes(out, load_artifact(artifact))
    assert edits == [
        Change(_ORCH, other, "params_t4.add_input(c);", "params_t4.add_input(d);"),
        Change(_MUL, line, "TMUL(v17, v7, v13);", "TADD(v17, v7, v13);"),
        Change("data/out/f.pt", 0),
    ]
    assert edits[0].words == f"{_ORCH}:{other}: params_t4.add_input(c);  ->  params_t4.add_input(d);"
    assert edits[2].words == "data/out/f.pt holds something else"
    assert first_text(out, _ORCH) == before


def test_later_builds_keep_the_first_sight(artifact: Path) -> None:
    _edit(artifact / _MUL, "TMUL(v17, v7, v13);", "")
    remember(artifact.parent / "out", load_artifact(artifact))
    assert [change.old for change in changes(artifact.parent / "out", load_artifact(artifact))] == [
        "TMUL(v17, v7, v13);"
    ]


def test_a_new_manifest_begins_anew(artifact: Path) -> None:
    """The compiler writes one with every artifact."""
    _edit(artifact / _MUL, "TMUL(v17, v7, v13);", "TADD(v17, v7, v13);")
    os.utime(artifact / "kernel_config.py", ns=(1, 1))
    remember(artifact.parent / "out", load_artifact(artifact))
    assert changes(artifact.parent / "out", load_artifact(artifact)) == []


@pytest.mark.parametrize(
    "damage", [b"", b"{}", gzip.compress(b"{", mtime=0), gzip.compress(b'{"texts": 3, "data": {}}', mtime=0)]
)
def test_a_damaged_record_tells_nothing(artifact: Path, damage: bytes) -> None:
    out = artifact.parent / "out"
    (out / FIRST_SIGHT).write_bytes(damage)
    assert changes(out, load_artifact(artifact)) == []
    assert first_text(out, _ORCH) is None


def test_where_nothing_can_be_written_nothing_is_kept(artifact: Path, tmp_path: Path) -> None:
    remember(tmp_path / "absent", load_artifact(artifact))
    assert changes(tmp_path / "absent", load_artifact(artifact)) == []
