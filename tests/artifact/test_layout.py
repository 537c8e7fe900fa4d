"""Every kind of directory the compiler writes is recognised, and what cannot be replayed says why."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pypto_build.artifact import ArtifactError, find_children, is_artifact, load_artifact, load_artifacts

from .artifacts import make_artifact, write
from .test_meta import DOCUMENT


def complaint(root: Path) -> str:
    with pytest.raises(ArtifactError) as caught:
        load_artifact(root)
    assert caught.value.kind == "usage_error"
    return str(caught.value)


def test_loads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = make_artifact(tmp_path / "_jit_x")
    write(root / "compiled_meta.json", json.dumps(DOCUMENT))
    monkeypatch.chdir(tmp_path)
    artifact = load_artifact("_jit_x")
    assert (artifact.root, artifact.name, artifact.children) == (root, "_jit_x", ())
    assert artifact.manifest_path == root / "kernel_config.py"
    assert artifact.meta is not None
    assert artifact.runtime == "tensormap_and_ringbuffer"
    assert load_artifact("_jit_x/kernel_config.py") == artifact
    assert load_artifacts("_jit_x") == (artifact,)
    assert is_artifact(root)


def test_several_orchestrations(tmp_path: Path) -> None:
    root = tmp_path / "_jit_two"
    prefill = make_artifact(root / "next_levels" / "prefill")
    decode = make_artifact(root / "next_levels" / "decode")
    write(root / "next_levels" / "unfinished" / "ptoas" / "k.pto")
    assert find_children(root) == (decode, prefill)
    assert [artifact.name for artifact in load_artifacts(root)] == ["_jit_two.decode", "_jit_two.prefill"]
    assert load_artifact(prefill).root == prefill
    assert is_artifact(root)
    assert complaint(root) == (
        f"{root}: holds several orchestrations and none of its own; pick one of next_levels/decode, next_levels/prefill"
    )


def test_distributed(tmp_path: Path) -> None:
    write(tmp_path / "orchestration" / "host_orch.py")
    assert complaint(tmp_path) == (
        f"{tmp_path}: distributed: several chips, driven by orchestration/host_orch.py, and this looks at one"
    )
    make_artifact(tmp_path / "next_levels" / "chip")
    assert complaint(tmp_path) == (
        f"{tmp_path}: distributed: several chips, driven by orchestration/host_orch.py, and this looks at one; "
        "name one of the chip programs in it: next_levels/chip"
    )
    with pytest.raises(ArtifactError, match="distributed: several chips"):
        load_artifacts(tmp_path)


@pytest.mark.parametrize("pto", ["kernels/aiv/k.pto", "kernels/group.pto"])
def test_compiled_without_ptoas(tmp_path: Path, pto: str) -> None:
    write(tmp_path / pto)
    assert complaint(tmp_path) == (
        f"{tmp_path}: compiled without ptoas (skip_ptoas): kernels/ holds .pto files and there is no kernel_config.py; "
        "'scons build' completes it below build/, 'scons splice WRITE=1' in place"
    )


def test_compilation_that_failed(tmp_path: Path) -> None:
    report = write(tmp_path / "report" / "codegen_errors.txt", "k: no such op")
    assert complaint(tmp_path) == f"{tmp_path}: its compilation failed: there is no kernel_config.py; see {report}"


def test_no_artifact(tmp_path: Path) -> None:
    way_out = "give the directory the compiler wrote"
    assert complaint(tmp_path) == f"{tmp_path}: not an artifact: there is no kernel_config.py; {way_out}"
    assert complaint(tmp_path / "gone") == f"{tmp_path}/gone: no such directory; {way_out}"
    assert complaint(write(tmp_path / "file")) == f"{tmp_path}/file: not a directory; {way_out}"
    assert not is_artifact(tmp_path)
