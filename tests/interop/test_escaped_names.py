"""Names that are typed, or found on disk, are escaped on the terminal by every command."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

_CLEAR = "no\x1b[2Jne"


@pytest.mark.parametrize(
    "words",
    [
        ["wrap", _CLEAR],
        ["wrap", "--", _CLEAR],
        ["wrap", "--runtime-dir", _CLEAR, "--", "true"],
        ["scene", _CLEAR],
        ["scene", f"{_CLEAR}.py"],
        ["scene", f"--{_CLEAR}"],
        ["compile", f"--{_CLEAR}"],
        ["replay", f"--{_CLEAR}"],
        [_CLEAR],
        ["replay", "--batch-manifest", _CLEAR],
    ],
    ids=lambda words: " ".join(words).replace(_CLEAR, "NAME"),
)
def test_a_name_clears_no_screen(tmp_path: Path, words: list[str]) -> None:
    (tmp_path / f"{_CLEAR}.py").write_text("raise ValueError('\\x1b[2J')\n")
    command = [sys.executable, "-m", "pypto_build.cli", *words]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env=dict(os.environ), check=False)
    assert run.returncode != 0
    printed = run.stdout + run.stderr
    assert "\x1b[2J" not in printed
    assert "\\x1b[2J" in printed
