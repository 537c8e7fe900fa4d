"""A compiler that is a script takes the runtime's module that was linked before: compiling it takes up to a minute."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from pypto_build.runtime import build
from tests.trust import recompile


def _digests(directory: Path) -> list[str]:
    """Return the digests of the runtime's units, which are compiled from a directory."""
    digests = []
    for unit in build.units():
        (directory / unit).mkdir(parents=True)
        text = build.write_unit(unit, directory / unit)
        digests.append(recompile._digest(build.compile_command(unit, text, directory / f"{unit}.o")))
    return digests


def test_directories_of_a_build_do_not_count(tmp_path: Path) -> None:
    assert _digests(tmp_path / "one") == _digests(tmp_path / "deeper" / "other")


@pytest.mark.parametrize("path", ["src/new.cpp", "src/new/new.h", "include/tensor.h", "include/pypto/new.h"])
def test_what_is_compiled_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    runtime = tmp_path / "runtime"
    shutil.copytree(build.RUNTIME_DIR, runtime, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(build, "SOURCE_DIR", runtime / "src")
    monkeypatch.setattr(build, "INCLUDE_DIR", runtime / "include")
    before = _digests(tmp_path / "before")
    (runtime / path).parent.mkdir(exist_ok=True)
    (runtime / path).write_text("// another\n")
    after = _digests(tmp_path / "after")
    assert not set(before) & set(after)
