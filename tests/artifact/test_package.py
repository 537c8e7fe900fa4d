"""Importing the package loads nothing heavy."""

from __future__ import annotations

import subprocess
import sys


def test_import_is_light() -> None:
    heavy = ["tree_sitter", "torch", "numpy", "rich", "zipfile", "pickle", "asyncio", "subprocess"]
    code = f"import sys, pypto_build.artifact; print([m for m in {heavy} if m in sys.modules])"
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert process.stdout == "[]\n"
