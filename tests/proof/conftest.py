"""The library that watches tools, built once."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pypto_build.proof.witness import library
from pypto_build.toolchain.host import find_compiler


@pytest.fixture(scope="session")
def watcher(tmp_path_factory: pytest.TempPathFactory) -> Path:
    watcher = library(find_compiler().path, tmp_path_factory.mktemp("witness"), os.environ)
    assert watcher is not None
    return watcher
