from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(scope="session", autouse=True)
def _runtime_first(runtime: Path) -> None:
    """Build the runtime before the first test, so that no test includes its build."""
