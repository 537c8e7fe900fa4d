"""Programs are told apart by what they answer to --version; one that cannot be asked is an error with a way out."""

from __future__ import annotations

from pathlib import Path

import pytest

from pypto_build.toolchain import ToolchainError
from pypto_build.toolchain.git import changed_files, revision_of
from pypto_build.toolchain.programs import find_program, identify, version_text


def program(path: Path, text: str, mode: int = 0o755) -> str:
    path.write_text(text)
    path.chmod(mode)
    return str(path)


def test_the_first_line_identifies(tmp_path: Path) -> None:
    path = program(tmp_path / "cc", "#!/bin/sh\necho 'cc 1.2'\necho more\n")
    assert identify(path) == f"{path} cc 1.2"


def test_an_answer_on_standard_error_counts(tmp_path: Path) -> None:
    path = program(tmp_path / "cc", "#!/bin/sh\necho 'cc 1.3' >&2\nexit 1\n")
    assert version_text(path, "") == "cc 1.3"


def test_what_cannot_be_run(tmp_path: Path) -> None:
    path = program(tmp_path / "cc", "", 0o644)
    with pytest.raises(ToolchainError, match=rf"^{path} --version failed \(.*Permission denied.*\); name another$"):
        version_text(path, "name another")


def test_what_is_not_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ToolchainError, match=r"^g\+\+-15: not found on PATH; it is for kernels$"):
        find_program("g++-15", "it is for kernels")
    for ask in (revision_of, changed_files):  # once a traceback
        with pytest.raises(ToolchainError, match=r"^git: not found on PATH; install it to use revisions$"):
            ask(tmp_path)
