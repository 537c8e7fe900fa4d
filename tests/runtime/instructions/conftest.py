"""Shared by the instruction tests: a directory in which all test processes of a run find each compiled library."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def build_directory(tmp_path_factory: pytest.TempPathFactory, worker_id: str = "master") -> Path:
    base = tmp_path_factory.getbasetemp()
    shared = (base.parent if "popen-" in base.name else base) / "instruction_cases"
    shared.mkdir(exist_ok=True)
    return shared
