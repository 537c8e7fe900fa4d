"""An output directory says of which artifact it is, and so where the sources are that its binaries name."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pypto_build.artifact.outputs import artifact_of, local_source, mark_output


@pytest.fixture
def output(tmp_path: Path) -> Path:
    mark_output(tmp_path / "build" / "x", tmp_path / "artifacts" / "x")
    return tmp_path / "build" / "x"


@pytest.mark.parametrize("variant", ["", "check/"])
def test_a_name_of_ours_leads_to_the_file(
    output: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variant: str
) -> None:
    monkeypatch.chdir(tmp_path)
    binary = output / f"{variant}kernels" / "k.so"
    for line, path in (
        ("/pypto-build/artifact/kernels/aiv/k.cpp:7", f"{tmp_path}/artifacts/x/kernels/aiv/k.cpp:7"),
        ("/pypto-build/output/spliced/k.cpp:7", f"{output}/spliced/k.cpp:7"),
        ("/pypto-build/workspace/k.h", f"{tmp_path}/k.h"),
        ("/pypto-build/include/pto/x.hpp:1", "/pypto-build/include/pto/x.hpp:1"),
        ("/pypto-build/artifacts/k.cpp", "/pypto-build/artifacts/k.cpp"),
        ("/usr/include/math.h:1", "/usr/include/math.h:1"),
        ("", ""),
    ):
        assert local_source(line, binary) == path


def test_nobody_knows_of_which_artifact(tmp_path: Path, output: Path) -> None:
    name = "/pypto-build/artifact/k.cpp:7"
    assert local_source(name, tmp_path / "k.so") == name
    (output / ".pypto-build").write_text("Built by pypto-build; scons -c removes it.\n")
    assert artifact_of(output) is None
    assert local_source(name, output / "k.so") == name


def test_a_pipe_in_the_place_of_the_marker_is_replaced(tmp_path: Path, output: Path) -> None:
    (output / ".pypto-build").unlink()
    os.mkfifo(output / ".pypto-build")
    mark_output(output, tmp_path / "artifacts" / "x")
    assert artifact_of(output) == tmp_path / "artifacts" / "x"
