"""Values of JIT=, and the artifacts that they find."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pypto_build.artifact import ArtifactError, find_artifacts, resolve_jit

from .artifacts import make_artifact, write


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """`build_output/` with two compilations of `_jit_a` and one of `_jit_b`, `examples/` with three artifacts."""
    for age, name in enumerate(["_jit_a_20260818_235959", "_jit_a_20260819_000000", "_jit_b_20260101_000000_v2"]):
        root = make_artifact(tmp_path / "build_output" / name)
        os.utime(root / "kernel_config.py", (2_000_000_000 - age, 2_000_000_000 - age))
    for name in ("_jit_softmax", "_jit_matmul", "_jit_a"):
        make_artifact(tmp_path / "examples" / name)
    write(tmp_path / "build_output" / "notes.txt")
    (tmp_path / "build_output" / "_jit_empty").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def find(jit: str) -> str:
    return resolve_jit(jit, "build_output", "examples").relative_to(Path.cwd()).as_posix()


def complaint(jit: str, build_output: str = "build_output", examples: str | None = "examples") -> str:
    with pytest.raises(ArtifactError) as caught:
        resolve_jit(jit, build_output, examples)
    assert caught.value.kind == "usage_error"
    return str(caught.value)


@pytest.mark.parametrize(
    ("jit", "expected"),
    [
        ("latest", "build_output/_jit_a_20260819_000000"),
        ("_jit_a", "build_output/_jit_a_20260819_000000"),
        ("_jit_b", "build_output/_jit_b_20260101_000000_v2"),
        ("_jit_a_20260818_235959", "build_output/_jit_a_20260818_235959"),
        ("_jit_softmax", "examples/_jit_softmax"),
        ("_jit_b*", "build_output/_jit_b_20260101_000000_v2"),
        ("_jit_a_*59", "build_output/_jit_a_20260818_235959"),
        ("*softmax", "examples/_jit_softmax"),
        ("examples/_jit_a", "examples/_jit_a"),
        ("./examples/_jit_a/", "examples/_jit_a"),
        ("examples/_jit_a/kernel_config.py", "examples/_jit_a"),
        ("examples/*max", "examples/_jit_softmax"),
        ("_jit_empty", "build_output/_jit_empty"),
    ],
)
def test_finds(workspace: Path, jit: str, expected: str) -> None:
    assert find(jit) == expected
    assert find(str(workspace / expected)) == expected


def test_exact_name_beats_a_timestamp(workspace: Path) -> None:
    make_artifact(workspace / "build_output" / "_jit_a")
    assert find("_jit_a") == "build_output/_jit_a"


def test_directory_here(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(workspace / "examples")
    assert resolve_jit("_jit_a", None, None) == workspace / "examples" / "_jit_a"
    assert resolve_jit(".", None, None) == workspace / "examples"


def test_sub_build_below_a_place(workspace: Path) -> None:
    make_artifact(workspace / "build_output" / "_jit_two" / "next_levels" / "decode")
    assert find("_jit_two/next_levels/decode") == "build_output/_jit_two/next_levels/decode"


def test_latest_without_timestamps_goes_by_the_manifest(tmp_path: Path) -> None:
    for age, name in enumerate(("new", "old")):
        root = make_artifact(tmp_path / name)
        os.utime(root / "kernel_config.py", (1_700_000_000 - age, 1_700_000_000 - age))
    assert resolve_jit("latest", tmp_path).name == "new"


def test_latest_falls_back_to_the_examples(workspace: Path) -> None:
    assert resolve_jit("latest", workspace / "none", workspace / "examples").parent == workspace / "examples"


def test_lists_artifacts(workspace: Path) -> None:
    assert [path.name for path in find_artifacts("build_output", "examples")] == [
        "_jit_a_20260818_235959",
        "_jit_a_20260819_000000",
        "_jit_b_20260101_000000_v2",
        "_jit_a",
        "_jit_matmul",
        "_jit_softmax",
    ]
    assert find_artifacts(None, "nowhere") == ()


def test_no_such_artifact_lists_the_closest_first(workspace: Path) -> None:
    assert complaint("_jit_sofmax") == (
        "JIT=_jit_sofmax: no such artifact in build_output or examples; did you mean _jit_softmax? "
        "there are: _jit_softmax, _jit_a, _jit_matmul, "
        "_jit_a_20260818_235959, _jit_a_20260819_000000, _jit_b_20260101_000000_v2"
    )


def test_the_list_is_capped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(12):
        make_artifact(tmp_path / "out" / f"_jit_{number:02}")
    monkeypatch.chdir(tmp_path)
    assert complaint("_jit_05x", "out", None) == (
        "JIT=_jit_05x: no such artifact in out; did you mean _jit_05? "
        "there are: _jit_05, _jit_00, _jit_01, _jit_02, _jit_03, _jit_04, "
        "_jit_06, _jit_07, _jit_08, _jit_09 and 2 more"
    )
    assert complaint("*_1*", "out", None) == "JIT=*_1*: matches 2 artifacts; name one of _jit_10, _jit_11"


def test_nothing_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    hint = "there are none yet; `scons compile PROGRAM=...` makes one"
    assert complaint("x", "out", "ex") == f"JIT=x: no such artifact in out or ex; {hint}"
    assert complaint("latest", "out", None) == f"JIT=latest: no such artifact in out; {hint}"
    assert complaint("a*", "/elsewhere", None) == f"JIT=a*: no such artifact in /elsewhere; {hint}"
    assert complaint("../x/y", "out", None) == f"JIT=../x/y: no such artifact in out; {hint}"
    assert complaint(" ", "out", None) == f"JIT: names no artifact; {hint}"


def test_ambiguous_glob(workspace: Path) -> None:
    assert complaint("_jit_a*") == (
        "JIT=_jit_a*: matches 2 artifacts; name one of _jit_a_20260818_235959, _jit_a_20260819_000000"
    )
    assert complaint("*/_jit_a*") == (
        "JIT=*/_jit_a*: matches 3 artifacts; name one of build_output/_jit_a_20260818_235959, "
        "build_output/_jit_a_20260819_000000, examples/_jit_a"
    )


def test_a_directory_of_exactly_that_name_comes_before_a_glob(workspace: Path) -> None:
    named = make_artifact(workspace / "build_output" / "_jit_[ab]")
    assert resolve_jit("_jit_[ab]", "build_output", "examples") == named
    assert resolve_jit("build_output/_jit_[ab]", "build_output", "examples") == named
