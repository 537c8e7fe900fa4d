"""A directory that all workers share, with the runtime built once; and workspaces for one test each."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.trust.space import Space, write_chain, write_module
from tests.trust.tested import Tested


@pytest.fixture(scope="session")
def tested(tmp_path_factory: pytest.TempPathFactory) -> Tested:
    """The environment that is tested: the one that TRUST_PYTHON names, else this one."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    return Tested.prepare(shared / "trust")


@pytest.fixture
def chain(tested: Tested, tmp_path: Path) -> Space:
    """A workspace with the artifact of plain C++, and a cache of its own, which knows all but its first kernel."""
    return write_chain(Space(tmp_path / "w", tested, tested.new_cache(tmp_path / "cache", is_kept=True)))


@pytest.fixture
def module(tested: Tested, tmp_path: Path) -> Space:
    """A workspace with the artifact that has a .pto module, and a cache of its own."""
    return write_module(Space(tmp_path / "w", tested, tested.new_cache(tmp_path / "cache")))
