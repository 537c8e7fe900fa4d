"""Paths of the user's caches, which all workspaces share: the runtime's module, results, revisions of other
projects.
"""

from __future__ import annotations

import os
from pathlib import Path


def cache_dir() -> Path:
    """Return the cache directory: ``$PYPTO_BUILD_CACHE``, else ``pypto-build`` in the user's cache directory;
    absolute.
    """
    if chosen := os.environ.get("PYPTO_BUILD_CACHE"):
        return Path(chosen).absolute()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache").absolute() / "pypto-build"


#: Names the store that machines share, where STORE_REMOTE= does not.
REMOTE_VARIABLE = "PYPTO_BUILD_REMOTE"


#: A store of results that came with this installation: what every first replay needs.
SHIPPED = Path(__file__).resolve().parents[1] / "shipped"


def store_dir() -> Path:
    """Return the store of results: ``$PYPTO_BUILD_STORE``, else ``store`` in the cache; absolute."""
    chosen = os.environ.get("PYPTO_BUILD_STORE")
    return Path(chosen).absolute() if chosen else cache_dir() / "store"
