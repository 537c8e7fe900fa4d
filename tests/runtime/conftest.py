"""The embedded runtime, built once and shared with every other user of the same sources."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest

from pypto_build.replay.child import load_embedded
from pypto_build.rules.embedded_runtime import module_path
from pypto_build.runtime.build import build
from pypto_build.toolchain.host import find_compiler
from tests.runtime.rig import Rig


@pytest.fixture(scope="session")
def embedded() -> ModuleType:
    """The extension module."""
    compiler = find_compiler()
    path = module_path(compiler)
    if not path.exists():
        build(path.parent, compiler.path)
    return load_embedded(path)


@pytest.fixture(scope="session")
def rig(embedded: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Rig:
    """Compiles and runs kernels; binaries are shared between the workers of a session."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if base.name.startswith("popen-") else base
    binaries: Path = shared / "runtime-binaries"
    binaries.mkdir(exist_ok=True)
    return Rig(embedded, binaries)
