"""Directories of an artifact's data, and missing goldens."""

from __future__ import annotations

from pathlib import Path

import pytest

from pypto_build.artifact import Artifact, ArtifactError, load_artifact, missing_goldens, require_goldens, snapshot

from .artifacts import make_artifact, write


@pytest.fixture
def artifact(tmp_path: Path) -> Artifact:
    return load_artifact(make_artifact(tmp_path / "_jit_x"))


def fill(data: Path) -> Path:
    for name in ("in/x.pt", "in/w.pt", "in/notes.txt", "out/y.pt"):
        write(data / name)
    return data


def test_own_data(artifact: Artifact) -> None:
    data = fill(artifact.root / "data")
    data_found = snapshot(artifact)
    assert data_found.root == data
    assert data_found.inputs == {"w": data / "in" / "w.pt", "x": data / "in" / "x.pt"}
    assert list(data_found.inputs) == ["w", "x"]
    assert data_found.outputs == {"y": data / "out" / "y.pt"}


def test_no_data(artifact: Artifact) -> None:
    data_found = snapshot(artifact)
    assert (data_found.inputs, data_found.outputs) == ({}, {})


@pytest.mark.parametrize("option", ["d", "d/in", "d/out", "other"])
def test_other_data(artifact: Artifact, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, option: str) -> None:
    data = fill(tmp_path / ("other/data" if option == "other" else "d"))
    monkeypatch.chdir(tmp_path)
    assert snapshot(artifact, option).root == data
    assert snapshot(artifact, tmp_path / option).outputs == {"y": data / "out" / "y.pt"}


def test_faulty_data(artifact: Artifact, tmp_path: Path) -> None:
    for option, message in (("gone", "no such directory"), ("", "holds neither in/ nor out/")):
        path = tmp_path / option if option else artifact.root
        with pytest.raises(ArtifactError) as caught:
            snapshot(artifact, path)
        assert str(caught.value) == f"DATA={path}: {message}; give a directory that contains in/ and out/"


def test_missing_goldens(artifact: Artifact) -> None:
    data = fill(artifact.root / "data")
    data_found = snapshot(artifact)
    require_goldens(data_found, ["y"])
    assert missing_goldens(data_found, ["y", "z", "v"]) == ("z", "v")
    with pytest.raises(ArtifactError) as caught:
        require_goldens(data_found, ["y", "z", "v"])
    assert caught.value.kind == "golden_error"
    assert str(caught.value) == (
        f"{data}/out/z.pt: the golden is missing for output z, v; "
        f"save the golden there, or remove the directory {data}/out to run without comparison"
    )


def test_without_any_golden_none_is_missing(artifact: Artifact) -> None:
    write(artifact.root / "data" / "in" / "x.pt")
    assert missing_goldens(snapshot(artifact), ["y"]) == ()
