"""What holds for every test process."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import pytest

# Workers share the machine's cores, and a child forked from a process with OpenMP threads can hang in them.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# Where tests keep what they compile (tests/replay/builder.py); workers inherit the one of the process that starts them.
_OWN = "PYPTO_BUILD_TEST_LIBRARIES" not in os.environ
if _OWN:
    os.environ["PYPTO_BUILD_TEST_LIBRARIES"] = tempfile.mkdtemp(prefix="pypto-build-tests-")


@pytest.fixture(scope="session")
def runtime() -> Path:
    """The embedded runtime, built where it was not: the rooms whose tests count what a build does ask for it first."""
    from tests.replay.builder import embedded_module

    return embedded_module()


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish() -> None:
    if _OWN:
        shutil.rmtree(os.environ["PYPTO_BUILD_TEST_LIBRARIES"], ignore_errors=True)
