"""Where an artifact's data lies, and which goldens are missing."""

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
    found = snapshot(artifact)
    assert found.root == data
    assert found.inputs == {"w": data / "in" / "w.pt", "x": data / "in" / "x.pt"}
    assert list(found.inputs) == ["w", "x"]
    assert found.outputs == {"y": data / "out" / "y.pt"}


def test_no_data(artifact: Artifact) -> None:
    found = snapshot(artifact)
    assert (found.inputs, found.outputs) == ({}, {})


@pytest.mark.parametrize("given", ["d", "d/in", "d/out", "other"])
def test_other_data(artifact: Artifact, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: str) -> None:
    data = fill(tmp_path / ("other/data" if given == "other" else "d"))
    monkeypatch.chdir(tmp_path)
    assert snapshot(artifact, given).root == data
    assert snapshot(artifact, tmp_path / given).outputs == {"y": data / "out" / "y.pt"}


def test_faulty_data(artifact: Artifact, tmp_path: Path) -> None:
    for given, message in (("gone", "no such directory"), ("", "holds neither in/ nor out/")):
        path = tmp_path / given if given else artifact.root
        with pytest.raises(ArtifactError) as caught:
            snapshot(artifact, path)
        assert str(caught.value) == f"DATA={path}: {message}; give a directory with in/ and out/"


def test_missing_goldens(artifact: Artifact) -> None:
    data = fill(artifact.root / "data")
    found = snapshot(artifact)
    require_goldens(found, ["y"])
    assert missing_goldens(found, ["y", "z", "v"]) == ("z", "v")
    with pytest.raises(ArtifactError) as caught:
        require_goldens(found, ["y", "z", "v"])
    assert caught.value.kind == "golden_error"
    assert str(caught.value) == (
        f"{data}/out/z.pt: golden missing for output z, v; "
        f"save it there, or take all of {data}/out away to run unchecked"
    )


def test_without_any_golden_none_is_missing(artifact: Artifact) -> None:
    write(artifact.root / "data" / "in" / "x.pt")
    assert missing_goldens(snapshot(artifact), ["y"]) == ()
