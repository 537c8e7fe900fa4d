"""Compilers that are too old, missing or no compilers are refused in one line, which says what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from pypto_build.toolchain import ToolchainError
from pypto_build.toolchain.host import find_compiler

_NEEDED = "or newer is needed, name one with CXX="
_GCC = "g++-{} (Debian {}.2.0-1) {}.2.0"
_CLANG = "Debian clang version {}.0.6"


def _compiler(directory: Path, line: str) -> Path:
    path = directory / "cxx"
    path.write_text(f'#!/bin/sh\necho "{line}"\n', encoding="utf-8")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize(
    ("line", "answer"),
    [
        (_GCC.format(9, 9, 9), f"calls itself '{_GCC.format(9, 9, 9)}'; g++ 10 {_NEEDED}"),
        (_CLANG.format(14), f"calls itself '{_CLANG.format(14)}'; clang++ 15 {_NEEDED}"),
        ("true (GNU coreutils) 9.1", f"calls itself 'true (GNU coreutils) 9.1'; g++ 10 {_NEEDED}"),
        ("a program", "--version: the output is not that of a C++ compiler; name a compiler with CXX="),
    ],
)
def test_it_is_too_old(tmp_path: Path, line: str, answer: str) -> None:
    path = _compiler(tmp_path, line)
    with pytest.raises(ToolchainError) as caught:
        find_compiler(str(path))
    assert str(caught.value) == f"{path} {answer}"


@pytest.mark.parametrize(
    ("line", "family", "major"), [(_GCC.format(10, 10, 10), "g++", 10), (_CLANG.format(15), "clang++", 15)]
)
def test_it_is_old_enough(tmp_path: Path, line: str, family: str, major: int) -> None:
    compiler = find_compiler(str(_compiler(tmp_path, line)))
    assert (compiler.family, compiler.major) == (family, major)


def test_there_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ToolchainError) as caught:
        find_compiler()
    what = "no C++ compiler on PATH (looked for g++ and clang++); install g++ 10 or newer, or name one with CXX="
    assert str(caught.value) == what
