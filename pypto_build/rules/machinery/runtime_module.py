"""Path of the embedded runtime's Python module."""

from __future__ import annotations

import hashlib
import sys
from functools import cache
from pathlib import Path

from pypto_build.runtime import build as runtime_build
from pypto_build.toolchain.cache import cache_dir
from pypto_build.toolchain.host import HostCompiler


def module_path(compiler: HostCompiler) -> Path:
    """Return the path of the runtime's Python module, which exists once the module is built.

    The directory is named after a digest of its sources, the compiler and the Python version. So several versions of
    this package can be used by turns. The module itself is proven like any other result.
    """
    digest = hashlib.sha256(f"{compiler.identity}\0{sys.version}".encode())
    digest.update(_sources_digest())
    return cache_dir() / "runtime" / digest.hexdigest()[:32] / runtime_build.module_filename()


@cache
def _sources_digest() -> bytes:
    """Return the digest of the module's sources.

    It is computed once: a process does not build sources that change while it runs.
    """
    digest = hashlib.sha256()
    for path in (*runtime_build.sources(), *runtime_build.headers(), Path(runtime_build.__file__)):
        digest.update(f"{path.name}\0".encode() + path.read_bytes())
    return digest.digest()


def preload() -> list[Path]:
    """Read the sources in advance, for processes that are forked; return the files and directories that were read."""
    _sources_digest()
    files = [*runtime_build.sources(), *runtime_build.headers()]
    return sorted({*files, *(path.parent for path in files)})
