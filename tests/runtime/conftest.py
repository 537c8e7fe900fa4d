"""The embedded runtime, built once and shared with every other user of the same sources."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest

from tests.runtime.rig import Rig


@pytest.fixture(scope="session")
def rig(embedded: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Rig:
    """Compiles and runs kernels; binaries are shared between the workers of a session."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if base.name.startswith("popen-") else base
    binaries: Path = shared / "runtime-binaries"
    binaries.mkdir(exist_ok=True)
    return Rig(embedded, binaries)
