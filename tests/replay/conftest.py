from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(scope="session", autouse=True)
def _runtime_first(runtime: Path) -> None:
    """No test here is the one that builds the runtime."""
