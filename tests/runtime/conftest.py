"""The embedded runtime, built once and shared with every other user of the same sources."""

from __future__ import annotations

from types import ModuleType

import pytest

from tests.runtime.rig import Rig


@pytest.fixture(scope="session")
def rig(embedded: ModuleType) -> Rig:
    """Compiles and runs kernels."""
    return Rig(embedded)
